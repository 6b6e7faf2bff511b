"""A node that lacks a model: its job moves at once, and nothing that needs the model comes to it for a while.

AC-66 to AC-69.
"""

from __future__ import annotations

from typing import Any

import pytest

from lingua_scheduler.errors import DependencyDown
from support import wait_until
from world import FAST, KINDS, SERVICES, FakeNode, Speaker, World, world

CODE = "MODEL_NOT_AVAILABLE"
NMT = {"service_id": "nmt-m2m100"}
WITHOUT_NMT = {"pipeline": {"use_asr": True, "use_nmt": False, "use_tts": True}}
NO_JOB = {"job_id": "job-x", "attempt_id": 1, "session_id": "s-x", "utterance_index": 0, "trace_id": "t"}


async def report(node: FakeNode, times: int = 1, **details: Any) -> None:
    """Let a node report a missing service, for a job that nobody knows."""
    for _ in range(times):
        await node.fail(NO_JOB, CODE, **details)


async def marked(house: World, node: FakeNode, **details: Any) -> None:
    """Let a node report a missing service, and wait until that is written."""
    await report(node, **(details or NMT))
    await house.written(node)


def offered(house: World, node: FakeNode) -> set[str]:
    """Tell which types of service an instance believes a node to have."""
    return set(house.instance.snapshot.node(node.id).types)


async def refused(house: World, **wish: Any) -> Speaker:
    """Say something that no node can take for want of a model."""
    before = house.counted("no_available_node_total", reason="model_not_available")
    speaker = await house.session(**wish)
    await speaker.say()
    await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
    assert house.counted("no_available_node_total", reason="model_not_available") == before + 1
    return speaker


async def served(house: World, node: FakeNode, **wish: Any) -> None:
    """Say something that this node must get, and let it answer."""
    speaker = await house.session(**wish)
    await speaker.say()
    await node.answer(await node.job(session_id=speaker.id))
    await speaker.expect("translation_result")


# The job


async def test_ac66_the_job_goes_to_another_node_at_once(store_options):
    async with world(store_options) as house:
        nodes, speaker = [await house.node(), await house.node()], await house.session()
        await speaker.say()
        first, job = await house.taken(*nodes)
        before = house.clock.now()
        await first.fail(job, CODE, **NMT, reason="model not found")
        second = next(node for node in nodes if node is not first)
        again = await second.job(job_id=job["job_id"], attempt_id=2)
        assert house.clock.now() == before, "no time passes"
        await second.answer(again)
        await speaker.expect("translation_result")
        assert house.counted("failover_total", why="model_not_available") == 1


async def test_the_older_message_is_understood_too(store_options):
    async with world(store_options) as house:
        nodes, speaker = [await house.node(), await house.node()], await house.session()
        await speaker.say()
        first, job = await house.taken(*nodes)
        missing = {"model_id": "nmt-m2m100", "version": "1.0", "reason": "no such file"}
        await first.send(CODE, node_id=first.id, job_id=job["job_id"], **missing)
        second = next(node for node in nodes if node is not first)
        await second.answer(await second.job(job_id=job["job_id"], attempt_id=2))
        await speaker.expect("translation_result")
        await house.written(first)
        assert offered(house, first) == {*KINDS} - {"nmt"}
        assert house.counted("model_na_by_reason_total", reason="not_found") == 1


async def test_the_older_message_about_somebody_elses_job_moves_nothing(store_options):
    async with world(store_options) as house:
        nodes, speaker = [await house.node(), await house.node()], await house.session()
        await speaker.say()
        node, job = await house.taken(*nodes)
        other = next(each for each in nodes if each is not node)
        for job_id in (job["job_id"], "job-unknown"):
            await other.send(CODE, node_id=other.id, job_id=job_id, model_id="nmt-m2m100")
        await house.settled(other, speaker)
        assert not other.seen("job_assign")
        await node.answer(job)
        await speaker.expect("translation_result")


async def test_without_a_named_service_only_the_job_moves(store_options):
    async with world(store_options) as house:
        nodes, speaker = [await house.node(), await house.node()], await house.session()
        await speaker.say()
        first, job = await house.taken(*nodes)
        await first.fail(job, CODE)
        second = next(node for node in nodes if node is not first)
        await second.job(attempt_id=2)
        await house.written(first)
        assert offered(house, first) == {*KINDS}
        assert house.counted("model_na_received_total") == 0


# The mark


async def test_ac66_the_node_gets_no_job_that_needs_the_model_for_a_minute(store_options):
    async with world(store_options) as house:
        node = await house.node()
        await marked(house, node)
        await house.live(50, node)
        await (await refused(house)).hang_up()
        await served(house, node, **WITHOUT_NMT)
        house.clock.advance(9.9)
        await house.written(node)
        assert offered(house, node) == {*KINDS} - {"nmt"}
        house.clock.advance(0.1)
        await house.written(node)
        assert offered(house, node) == {*KINDS}
        await served(house, node)


async def test_a_job_that_waits_is_woken_when_the_mark_ends(store_options):
    async with world(store_options) as house:
        node = await house.node()
        await marked(house, node)
        await house.live(55, node)
        speaker = await refused(house)
        house.clock.advance(5)
        await node.answer(await node.job(session_id=speaker.id))
        await speaker.expect("translation_result")


async def test_a_report_during_the_mark_makes_it_last_longer(store_options):
    async with world(store_options) as house:
        node = await house.node()
        await marked(house, node)
        await house.live(40, node)
        await marked(house, node)
        await house.live(50, node)
        assert offered(house, node) == {*KINDS} - {"nmt"}
        await house.live(10, node)
        assert offered(house, node) == {*KINDS}


async def test_each_type_has_its_own_mark(store_options):
    async with world(store_options) as house:
        node = await house.node()
        await marked(house, node)
        await house.live(30, node)
        await marked(house, node, service_id="tts-voices")
        assert offered(house, node) == {"asr", "semantic"}
        await house.live(30, node)
        assert offered(house, node) == {"asr", "nmt", "semantic"}
        await house.live(30, node)
        assert offered(house, node) == {*KINDS}


async def test_other_nodes_are_not_marked(store_options):
    async with world(store_options) as house:
        one, other = await house.node(), await house.node()
        await marked(house, one)
        assert offered(house, other) == {*KINDS}
        for _ in range(3):
            await served(house, other)


@pytest.mark.parametrize(
    ("details", "gone"),
    [
        ({"service_id": "m2m"}, "nmt"),
        ({"model_id": "m2m-weights"}, "nmt"),
        ({"service_id": "asr-service"}, "asr"),
        ({"service_id": "tts"}, "tts"),
        ({"service_id": "nobody-knows"}, None),
        ({"service_id": "phonetic-x"}, None),
        ({"service_id": "}{:x\u202e"}, None),
    ],
)
async def test_the_type_is_what_the_node_listed_else_the_first_word(store_options, details, gone):
    m2m = {
        "service_id": "m2m",
        "model_id": "m2m-weights",
        "type": "nmt",
        "device": "gpu",
        "status": "running",
    }
    async with world(store_options) as house:
        node = await house.node(installed_services=[*SERVICES, m2m])
        await node.beat(installed_services=[*SERVICES, m2m])
        await house.written(node)
        await marked(house, node, **details)
        assert offered(house, node) == {*KINDS} - {gone}
        assert house.counted("model_na_received_total") == 1


async def test_a_report_does_not_change_what_is_known_of_the_load(store_options):
    """The node counted its job when it last reported; by now that job is over."""
    async with world(store_options) as house:
        node, speaker = await house.node(max_concurrent_jobs=1), await house.session()
        await speaker.say()
        job = await node.job()
        await node.beat(usage={"running_jobs": 1})
        await house.written(node)
        await node.answer(job)
        await speaker.expect("translation_result")
        await house.settled(speaker)
        await marked(house, node, service_id="semantic-x")
        await served(house, node)


async def test_who_waits_for_the_node_of_an_open_turn_waits_no_longer(store_options):
    async with world(store_options, **FAST) as house:
        node, speaker = await house.node(node_id="n1", max_concurrent_jobs=1), await house.session()
        await speaker.chunk(60 * 60)  # 1.2 s: beyond the longest piece
        await node.job(utterance_index=0)
        await speaker.final()
        await speaker.expect("ui_event", utterance_index=1, error_code="NO_AVAILABLE_NODE")
        other = await house.node()
        await house.settled(speaker)
        assert not other.seen("job_assign"), "the turn waits for its node"
        await marked(house, node)
        await other.job(utterance_index=1)


async def test_a_new_registration_says_anew_what_there_is(store_options):
    async with world(store_options) as house:
        node = await house.node(node_id="n1")
        await marked(house, node)
        await node.register(node_id="n1")
        await node.beat()
        await house.written(node)
        assert offered(house, node) == {*KINDS}
        await house.live(60, node)
        await served(house, node)


async def test_a_node_that_left_leaves_no_alarm(store_options):
    async with world(store_options) as house:
        stays, goes = await house.node(), await house.node()
        await marked(house, goes)
        await goes.hang_up()
        await house.live(120, stays)
        await wait_until(lambda: len(house.instance.snapshot.nodes()) == 1, description="one node is left")
        await served(house, stays)


# Limits


async def test_ac67_of_a_hundred_reports_thirty_count_and_later_ones_again(store_options):
    """The node speaks to one instance only, so what that one counts is the count of all."""
    async with world(store_options) as one, world(store_options) as other:
        node = await one.node()
        await report(node, 100, **NMT)
        await one.written(node)
        assert one.counted("model_na_received_total") == 100
        assert one.counted("model_na_marked_total") == 30
        assert one.counted("model_na_rate_limited_total") == 70
        assert other.counted("model_na_received_total") == 0
        await wait_until(
            lambda: other.instance.snapshot.node(node.id) and offered(other, node) == {*KINDS} - {"nmt"},
            description="the other instance knows of the mark",
        )
        await one.live(10, node)
        await report(node, **NMT)
        await one.written(node)
        assert one.counted("model_na_marked_total") == 31


async def test_ac67_a_node_over_its_limit_is_still_relieved_of_the_job(store_options):
    async with world(store_options, model_not_available={"node_ratelimit_max": 1}) as house:
        nodes, speaker = [await house.node(), await house.node()], await house.session()
        await speaker.say()
        first, job = await house.taken(*nodes)
        await report(first, service_id="nobody-knows")
        await first.fail(job, CODE, **NMT)
        await house.written(first)
        second = next(node for node in nodes if node is not first)
        await second.job(attempt_id=2)
        assert offered(house, first) == {*KINDS}
        assert house.counted("model_na_rate_limited_total") == 1


def notices(*houses: World) -> float:
    return sum(house.counted("model_na_notices_total") for house in houses)


async def test_ac68_many_nodes_that_lack_one_service_are_worth_one_notice(store_options):
    async with world(store_options) as one, world(store_options) as other:
        houses = (one, other)
        nodes = [(house, await house.node()) for house in houses for _ in range(3)]
        for house, node in nodes:
            await marked(house, node)
        await wait_until(lambda: notices(*houses) == 1, description="one notice")
        await marked(*nodes[0], service_id="tts-voices")
        await wait_until(lambda: notices(*houses) == 2, description="another service, another notice")
        await marked(*nodes[0], **NMT, service_version="2.0")
        await wait_until(lambda: notices(*houses) == 3, description="another version, another notice")
        assert sum(house.counted("model_na_marked_total") for house in houses) == 8


async def test_ac68_after_the_window_there_is_another_notice(store_options):
    async with world(store_options) as house:
        node = await house.node()
        await marked(house, node)
        await wait_until(lambda: notices(house) == 1, description="one notice")
        for key in await house.redis("KEYS", f"{house.keys.prefix}:*notice"):
            assert 0 < await house.redis("PTTL", key) <= 5000
            await house.redis("DEL", key)
        await marked(house, node)
        house.clock.advance(5)
        await marked(house, node)
        await wait_until(lambda: notices(house) == 2, description="another notice")


async def test_when_redis_is_away_the_notice_is_given_all_the_same(store_options):
    async def fail(*_args: Any, **_values: Any) -> bool:
        raise DependencyDown("Redis is away")

    async with world(store_options) as house:
        node = await house.node()
        house.instance.stores.notices.first = fail
        for _ in range(3):
            await marked(house, node)
        await wait_until(lambda: notices(house) == 1, description="one notice")


async def test_ac69_a_long_reason_in_chinese_is_cut_for_the_label(store_options):
    async with world(store_options) as house:
        node = await house.node()
        await marked(house, node, **NMT, reason="模" * 70)
        await marked(house, node, **NMT, reason="out of memory")
        assert house.counted("model_na_by_reason_total", reason="raw:" + "模" * 60) == 1
        assert house.counted("model_na_by_reason_total", reason="oom") == 1


async def test_ac69_reasons_cannot_make_the_number_of_series_grow(store_options):
    async with world(store_options, model_not_available={"node_ratelimit_max": 1000}) as house:
        node = await house.node()
        for number in range(300):
            await report(node, **NMT, reason=f"why {number}")
        await report(node, **NMT, reason="out of memory")
        await house.written(node)
        assert house.counted("model_na_by_reason_total", reason="other") == 300 - (64 - 6)
        assert house.counted("model_na_by_reason_total", reason="oom") == 1, "known reasons keep their place"
