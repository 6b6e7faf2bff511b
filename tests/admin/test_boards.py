"""What the pages for operators are made of: what is wrong and where, the last minutes, pairs and machines."""

from __future__ import annotations

from typing import Any

import pytest

from asking import ask, look
from lingua_scheduler.admin.trends import quantile_s
from world import KINDS, SERVICES, FakeNode, World, world

INFINITE = float("inf")


async def troubles(house: World) -> dict[str, dict[str, Any]]:
    """Give what is wrong now, by kind."""
    said = await look(house.instance, "troubles")
    return {trouble["kind"]: trouble for trouble in said["troubles"]}


async def lived(house: World, seconds: int, node: FakeNode) -> None:
    """Let time pass, looked at from time to time."""
    for _ in range(0, seconds, 10):
        await house.instance.desk.refresh()
        await house.live(10, node)


async def test_nothing_is_wrong_with_a_ready_node_and_somebody_who_talks_to_it(store_options):
    async with world(store_options) as house:
        await house.node()
        await house.session()
        assert await look(house.instance, "troubles") == {"bad": 0, "warn": 0, "troubles": []}


async def test_before_the_first_look_nothing_is_known_to_be_wrong(store_options):
    async with world(store_options, admin={"refresh_ms": 10_000}) as house:
        assert (await ask(house.instance, "GET", "/api/v1/troubles"))[1]["troubles"] == []


async def test_sessions_that_nobody_can_serve_come_first(store_options):
    async with world(store_options) as house:
        await house.node("zh", "en", accept_public_jobs=False)
        await house.session(src_lang="zh", tgt_lang="en")
        said = await look(house.instance, "troubles")
        assert [(each["kind"], each["level"]) for each in said["troubles"]][:2] == [
            ("no_ready_node", "bad"),
            ("pair_unserved", "bad"),
        ]
        assert said["troubles"][1]["where"] == "zh:en"
        assert said["bad"] == 2


async def test_a_service_that_a_node_has_and_cannot_do_is_a_gap_of_its_pool(store_options):
    async with world(store_options) as house:
        await house.node(node_id="good")
        broken = await house.node(node_id="broken")
        lacking = [{"type": kind, "ready": kind != "tts", "reason": "out of memory"} for kind in KINDS]
        await broken.beat(capability_by_type=lacking)
        await house.written(broken)
        await house.instance.snapshot.refresh(house.instance.stores.nodes)
        house.clock.advance(3)
        gap = (await troubles(house))["service_gap"]
        assert (gap["where"], gap["why"], gap["names"]) == ("0/tts", "out of memory", ["broken"])
        assert (gap["count"], gap["of"]) == (1, 2)
        (pool,) = (await look(house.instance, "phase3/pools"))["pools"]
        assert (pool["core_services_installed"]["tts"], pool["core_services_ready"]["tts"]) == (2, 1)


async def test_nodes_that_are_not_chosen_are_named_with_the_reason(store_options):
    async with world(store_options) as house:
        await house.node(node_id="good")
        busy = await house.node(node_id="busy")
        await busy.beat(usage={"cpu_percent": 99.0})
        await house.written(busy)
        out = (await troubles(house))["nodes_excluded"]
        assert (out["why"], out["names"], out["count"], out["of"]) == (
            "resource_threshold_exceeded",
            ["busy"],
            1,
            2,
        )


async def test_dead_letters_an_empty_pool_and_a_drain_are_named(store_options):
    pools = {"by_capability": [{"pool_id": 7, "name": "seven", "required_services": ["nobody-has-it"]}]}
    async with world(store_options, instance={"id": "me"}, pools=pools) as house:
        inbox = house.instance.stores.inbox
        await house.instance.watch.stop()
        await inbox.send(house.instance.id, b"{}")
        (letter,) = await inbox.take(block_s=0.1)
        await inbox.bury(letter, "nobody knows what it means")
        house.instance.drain.start(60)
        found = await troubles(house)
        assert (found["dead_letters"]["count"], found["dead_letters"]["where"]) == (1, "me")
        assert found["dead_letters"]["why"] == "nobody knows what it means"
        assert found["pool_empty"]["where"] == "7 seven"
        assert found["instance_not_ready"]["where"] == "me"
        house.instance.drain.cancel()


async def test_an_old_picture_is_said_to_be_old(store_options):
    async with world(store_options, admin={"refresh_ms": 10_000}) as house:
        await house.instance.desk.refresh()
        house.clock.advance(11)
        _, said, _ = await ask(house.instance, "GET", "/api/v1/troubles")
        assert "stale" in {trouble["kind"] for trouble in said["troubles"]}


async def test_trends_tell_what_was_answered_and_where_the_time_went(store_options):
    async with world(store_options) as house:
        node = await house.node()
        speaker = await house.session()
        await look(house.instance, "trends")
        for seconds in (1, 3):
            await speaker.say()
            job = await node.job()
            await house.settled(speaker)
            house.clock.advance(seconds)
            await node.answer(job)
            await speaker.expect("translation_result")
        await house.settled(speaker, node)
        said = await look(house.instance, "trends")
        assert (said["answered_last_min"], said["missing_last_min"]) == (2, 0)
        stages = {row["stage"]: row for row in said["stages"]}
        assert list(stages)[-1] == "answer"
        assert stages["node"]["count"] == 2
        assert 500 < stages["node"]["p50_ms"] <= 1000 < stages["node"]["p95_ms"] <= 5000
        course = said["course"]
        assert {len(column) for column in course.values()} == {len(course["at_ms"])}
        assert (course["sessions"][-1], course["ready_nodes"][-1]) == (1, 1)
        assert course["at_ms"] == sorted(set(course["at_ms"]))

        await lived(house, 70, node)
        assert (await look(house.instance, "trends"))["answered_last_min"] == 0
        await lived(house, 240, node)
        late = {row["stage"]: row for row in (await look(house.instance, "trends"))["stages"]}
        assert late["node"] == {"stage": "node", "count": 0, "p50_ms": None, "p95_ms": None}


async def test_utterances_without_a_translation_are_a_trouble_with_their_main_reason(store_options):
    async with world(store_options, job_timeout={"pending_s": 1}) as house:
        speaker = await house.session()
        await house.instance.desk.refresh()
        await speaker.say()
        await speaker.sync()
        house.clock.advance(2)
        await speaker.expect("missing_result")
        missing = (await troubles(house))["missing"]
        assert (missing["count"], missing["of"], missing["level"]) == (1, 1, "bad")
        assert missing["why"]


@pytest.mark.parametrize(("part", "seconds"), [(0.5, 1.0), (0.25, 0.5), (0.75, 2.0), (0.95, 2.0), (1.0, 2.0)])
def test_quantiles_are_those_of_prometheus(part, seconds):
    buckets = ((1.0, 50.0), (2.0, 75.0), (INFINITE, 100.0))
    assert quantile_s(buckets, part) == seconds


def test_of_nothing_there_is_no_quantile():
    assert quantile_s(((1.0, 0.0), (INFINITE, 0.0)), 0.5) is None
    assert quantile_s((), 0.5) is None


async def test_pairs_show_slots_and_who_asks_for_them(store_options):
    async with world(store_options) as house:
        node = await house.node("zh", "en", node_id="n1", max_concurrent_jobs=3)
        await house.node("en", "de", node_id="n2", max_concurrent_jobs=2)
        await house.node("en", "it", node_id="own", accept_public_jobs=False)
        await house.session(src_lang="ko", tgt_lang="fr")
        speaker = await house.session()
        await speaker.say()
        await node.job()
        await house.settled(speaker)
        house.clock.advance(3)
        said = await look(house.instance, "pairs")
        cells = {(cell["src"], cell["tgt"]): cell for cell in said["cells"]}
        asked = cells["zh", "en"]
        assert (asked["free_slots"], asked["total_slots"], asked["sessions"]) == (2, 3, 1)
        assert (cells["de", "en"]["total_slots"], cells["de", "en"]["sessions"]) == (2, 0)
        assert (cells["ko", "fr"]["total_slots"], cells["ko", "fr"]["sessions"]) == (0, 1)
        assert ("zh", "zh") not in cells
        assert ("it", "en") not in cells
        assert said["total_languages"] == len(said["languages"]) == 5
        demands = {row["pair"]: row for row in said["demands"]}
        assert demands["ko:fr"]["ready_nodes"] == 0
        assert demands["zh:en"]["load_slots"] > 0


async def test_of_many_languages_those_in_use_are_shown_and_the_one_that_is_asked_for(store_options):
    async with world(store_options) as house:
        tags = [f"x{number:02}" for number in range(50)]
        await house.node(*tags, node_id="many")
        await house.session(src_lang="x40", tgt_lang="x41")
        said = await look(house.instance, "pairs")
        assert (len(said["languages"]), said["total_languages"]) == (30, 50)
        assert said["languages"][:3] == ["x40", "x41", "x00"]
        assert len(said["cells"]) == 30 * 29
        assert (await look(house.instance, "pairs?lang=X49"))["languages"][0] == "x49"


async def test_a_session_that_speaks_two_languages_asks_for_both_at_once(store_options):
    async with world(store_options) as house:
        await house.node("zh", "en")
        await house.session(src_lang="auto", mode="two_way_auto", lang_a="zh", lang_b="en")
        (row,) = (await look(house.instance, "pairs"))["demands"]
        assert (row["pair"], row["sessions"], row["ready_nodes"]) == ("zh:en+en:zh", 1, 1)


async def test_machines_come_by_the_size_of_their_gpus_in_pages(store_options):
    async with world(store_options) as house:
        for name, gpus in (("small", [4]), ("large", [24, 24]), ("none", [])):
            hardware = {
                "cpu_cores": 8,
                "memory_gb": 32,
                "gpus": [{"name": "G", "memory_gb": size} for size in gpus],
            }
            node = await house.node(node_id=name, hardware=hardware)
            await node.beat(usage={"cpu_percent": 25.0})
            await house.written(node)
        said = await look(house.instance, "compute-power?limit=2")
        assert [row["node_id"] for row in said["nodes"]] == ["large", "small"]
        assert (said["nodes"][0]["gpu_gb"], said["nodes"][0]["gpus"]) == (48, ["G", "G"])
        assert (said["total"], said["total_gpu_gb"], said["total_cpu_cores"]) == (3, 52, 24)
        assert (said["nodes"][0]["cpu_power"], said["nodes"][0]["cpu_cores"]) == (2.0, 8)
        rest = await look(house.instance, f"compute-power?limit=2&cursor={said['next']}")
        assert ([row["node_id"] for row in rest["nodes"]], rest["next"]) == (["none"], None)
        assert (await ask(house.instance, "GET", "/api/v1/compute-power?cursor=x"))[0] == 400


async def test_nodes_are_found_by_what_they_are_called_and_how_they_stand(store_options):
    async with world(store_options) as house:
        whisper = [{**SERVICES[0], "service_id": "Whisper"}, *SERVICES[1:]]
        await house.node(node_id="alpha", platform="windows", installed_services=whisper)
        await house.node(node_id="beta")
        await house.node(node_id="gamma", accept_public_jobs=False)

        async def found(query: str) -> tuple[list[str], int, int]:
            said = await look(house.instance, f"nodes?{query}")
            return [row["node_id"] for row in said["nodes"]], said["matched"], said["total"]

        assert await found("find=ALPH") == (["alpha"], 1, 3)
        assert await found("find=windows") == (["alpha"], 1, 3)
        assert await found("find=nobody") == ([], 0, 3)
        assert await found("state=ready&limit=1") == (["alpha"], 2, 3)
        assert await found("state=ready&cursor=alpha") == (["beta"], 2, 3)
        assert await found("state=out") == (["gamma"], 1, 3)
        assert await found("state=not_in_public_pool") == (["gamma"], 1, 3)
        assert await found("state=offline") == ([], 0, 3)
        assert (await ask(house.instance, "GET", "/api/v1/nodes?state=odd"))[0] == 400
