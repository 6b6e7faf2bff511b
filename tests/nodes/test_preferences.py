"""Region and strength of nodes are preferences: asked first, never the only ones asked."""

from __future__ import annotations

import pytest

from world import world


@pytest.mark.parametrize(("option", "member"), [("prefer_region", "region"), ("prefer_gpu_tier", "gpu_tier")])
async def test_the_preferred_kind_is_used_up_before_any_other(store_options, option, member):
    async with world(store_options, placement={option: "here"}) as house:
        far = await house.node(node_id="a-far", max_concurrent_jobs=4, **{member: "there"})
        near = await house.node(node_id="z-near", max_concurrent_jobs=2, **{member: "here"})
        speaker = await house.session()
        for _ in range(3):
            await speaker.say()
        assert {(await near.job())["utterance_index"] for _ in range(2)} == {0, 1}
        assert (await far.job())["utterance_index"] == 2


async def test_without_a_preference_the_region_means_nothing(store_options):
    async with world(store_options) as house:
        nodes = [await house.node(node_id=f"n-{region}", region=region) for region in ("here", "there")]
        speaker = await house.session()
        for _ in range(2):
            await speaker.say()
        for node in nodes:
            await node.job()
