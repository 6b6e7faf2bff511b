"""The signals for autoscalers: what jobs, waits and nodes become, on one instance and over several."""

from __future__ import annotations

from asking import ask, look
from lingua_scheduler.admin.autoscale import pair_label
from lingua_scheduler.admin.census import percentile
from lingua_scheduler.core.model import Pair
from neighbours import two
from support import wait_until
from world import world

FLAT = (
    "desired_nodes",
    "ready_nodes",
    "free_slots",
    "waiting_jobs",
    "wait_p95_ms",
    "refusals_per_min",
    "load_slots",
)


async def test_without_load_nothing_is_asked_for_and_every_number_is_there(store_options):
    async with world(store_options) as house:
        said = await look(house.instance, "autoscale")
        assert [said[name] for name in FLAT] == [0] * len(FLAT)
        assert await look(house.instance, "autoscale?pool=7&pair=zh:en")


async def test_a_job_without_a_node_asks_for_one_and_is_seen_to_wait(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        await speaker.say()
        await speaker.expect("ui_event", event="ERROR", error_code="NO_AVAILABLE_NODE")
        house.clock.advance(3)
        said = await look(house.instance, "autoscale?pair=zh:en")
        assert (said["desired_nodes"], said["ready_nodes"], said["waiting_jobs"]) == (1, 0, 1)
        assert said["wait_p95_ms"] == 3000
        assert said["refusals_per_min"] > 0
        total = {(row["pool"], row["pair"]): row["desired_nodes"] for row in said["groups"]}
        assert total == {(None, "all"): 1, (None, "zh:en"): 1, (0, "all"): 1, (0, "zh:en"): 1}
        metric = {"pool": "all", "pair": "zh:en"}
        assert house.counted("autoscale_desired_nodes", **metric) == 1
        assert house.counted("autoscale_waiting_jobs", **metric) == 1


async def test_arrivals_and_service_times_are_measured(store_options):
    async with world(store_options, autoscale={"window_s": 10, "scale_down_after_s": 20}) as house:
        node = await house.node(max_concurrent_jobs=2)
        speaker = await house.session()
        for _ in range(5):
            await speaker.say()
            job = await node.job()
            house.clock.advance(2)
            await node.answer(job)
            await speaker.expect("translation_result")
        await house.settled(speaker)
        said = await look(house.instance, "autoscale?pool=0&pair=zh:en")
        assert (said["arrivals_per_s"], said["service_s"]) == (0.5, 2.0)
        assert said["load_slots"] == 1.0
        assert (said["desired_nodes"], said["ready_nodes"], said["total_slots"]) == (1, 1, 2)
        house.clock.advance(15)
        said = await look(house.instance, "autoscale?pool=0&pair=zh:en")
        assert (said["load_slots"], said["desired_nodes"]) == (0, 1)  # not at once
        house.clock.advance(20.5)
        said = await look(house.instance, "autoscale?pool=0&pair=zh:en")
        assert said["desired_nodes"] == 0
        assert said["groups"] == [
            row for row in said["groups"] if row["pair"] == "all" and row["pool"] is None
        ]


async def test_the_load_of_other_instances_counts_whoever_is_asked(store_options):
    async with two(store_options) as (a, b):
        speaker = await a.session()
        for _ in range(3):
            await speaker.say()
        await speaker.sync()
        await wait_until(lambda: len(a.instance.roster) == 3, description="three jobs wait")
        at_a = await look(a.instance, "autoscale?pair=zh:en")
        await a.instance.company.beat()
        await b.instance.company.look()
        at_b = await look(b.instance, "autoscale?pair=zh:en")
        assert at_b["desired_nodes"] == at_a["desired_nodes"] > 0
        total = await look(b.instance, "autoscale")
        assert total["waiting_jobs"] == 3


async def test_a_pool_that_is_no_number_is_refused(store_options):
    async with world(store_options) as house:
        assert (await ask(house.instance, "GET", "/api/v1/autoscale?pool=x"))[0] == 400


async def test_nothing_is_kept_of_a_session_that_ended(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        await speaker.say()
        await speaker.sync()
        await speaker.hang_up()
        await house.forget(speaker)
        house.clock.advance(house.instance.config.autoscale.window_s + 1)
        await look(house.instance, "autoscale")
        census = house.instance.census
        assert not census._kinds
        assert not census._of_session
        assert not census._placed
        assert not census._refused


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile([], 0.95) == 0
    assert percentile([7], 0.95) == 7
    assert percentile(range(1, 101), 0.95) == 95
    assert percentile(range(1, 101), 0.5) == 50


def test_what_a_job_needs_has_a_name() -> None:
    assert pair_label((Pair("zh", "en"),)) == "zh:en"
    assert pair_label((Pair("zh", "en"), Pair("en", "zh"))) == "zh:en+en:zh"
    assert pair_label(()) == "other"
