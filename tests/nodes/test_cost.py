"""What placement costs Redis: one script per placement, five per utterance, none per frame."""

from __future__ import annotations

import pytest

from support import wait_until
from world import FakeNode, Speaker, World, world

STILL = {
    "placement": {"refresh_ms": 3_600_000, "sweep_ms": 3_600_000},
    "lives": {"session_lease_s": 3600},
    "resume": {"window_s": 1},
}


async def calls(house: World) -> dict[str, int]:
    """Count the commands Redis has run so far, without those that count."""
    stats = (await house.redis("INFO", "commandstats")).decode()
    found = {}
    for line in stats.splitlines():
        if line.startswith("cmdstat_"):
            name, _, numbers = line.removeprefix("cmdstat_").partition(":")
            found[name] = int(numbers.split(",")[0].removeprefix("calls="))
    found.pop("info", None)
    return found


def transcribed(house: World) -> int:
    """Count the lines written to transcripts so far."""
    return round(house.counted("store_call_total", script="transcript_keep", result="ok"))


async def scripts(house: World) -> int:
    """Count the scripts Redis has run so far."""
    found = await calls(house)
    return found.get("evalsha", 0) + found.get("eval", 0)


async def written(house: World, *peers: Speaker | FakeNode) -> None:
    """Return when all is written, what is written behind included."""
    await house.settled(*peers)
    steps = house.instance.endings.steps
    await wait_until(lambda: not len(steps), description="the steps of jobs are written")


@pytest.fixture
async def house(store_options):
    """Give an instance whose scripts Redis knows, and that does nothing by itself."""
    async with world(store_options, **STILL) as made:
        node, speaker = await made.node(node_id="n1"), await made.session()
        await speaker.say()
        await node.answer(await node.job())
        await speaker.expect("translation_result")
        await speaker.hang_up()
        await made.forget(speaker)
        await wait_until(lambda: not len(made.instance.sessions), description="the first one is over")
        await written(made)
        yield made


async def test_a_placement_is_one_script(house):
    speaker = await house.session()
    node = await house.node(node_id="n1")
    await written(house, speaker)
    before = await scripts(house)
    await speaker.say()
    await node.job()
    await written(house, speaker)
    assert await scripts(house) - before == 2, "reserve, and the writing of the job"


async def test_an_utterance_is_five_scripts_at_most_and_one_line_of_the_transcript(house):
    speaker = await house.session()
    node = await house.node(node_id="n1")
    await written(house, speaker)
    before, kept = await calls(house), transcribed(house)
    for index in range(10):
        await speaker.say()
        await node.answer(await node.job(utterance_index=index))
        await speaker.expect("translation_result", utterance_index=index)
    await written(house, speaker)
    after = await calls(house)
    assert transcribed(house) - kept == 10
    assert after["evalsha"] - before["evalsha"] - 10 <= 5 * 10
    assert after.get("eval", 0) == before.get("eval", 0)


async def test_a_frame_costs_nothing(house):
    speaker = await house.session()
    await written(house, speaker)
    before = await calls(house)
    for _ in range(100):
        await speaker.chunk(60)
    await speaker.sync()
    assert await calls(house) == before


async def test_who_waits_costs_nothing(house):
    speaker = await house.session(src_lang="de", tgt_lang="fr")
    await speaker.say()
    await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
    await written(house, speaker)
    before = await calls(house)
    house.clock.advance(9)
    await speaker.sync()
    assert await calls(house) == before


async def test_a_heartbeat_is_one_script(house):
    node = await house.node(node_id="n1")
    await house.written(node)
    before = await scripts(house)
    for _ in range(5):
        await node.beat()
        await house.written(node)
    assert await scripts(house) - before == 5
