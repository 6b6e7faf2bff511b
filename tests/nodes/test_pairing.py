"""Pairing codes: from a node by a person to a session, once; private nodes (AC-29, AC-77, B53, case 9)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest

from lingua_scheduler.errors import DependencyDown
from lingua_scheduler.flow import pairing
from support import wait_until
from world import FAST, FakeNode, Speaker, World, world

WRONG = {"code": "INVALID_PAIRING_CODE"}
INIT = {"client_version": "1", "platform": "test", "src_lang": "zh", "tgt_lang": "en"}
MANY = {"pairing": {"guesses_per_minute": 1000}}


async def code_of(node: FakeNode) -> str:
    """Let a node ask for a code."""
    await node.send("pairing_code_request", node_id=node.id)
    return (await node.expect("pairing_code"))["code"]


async def paired(house: World, node: FakeNode, **wish: Any) -> Speaker:
    """Open a session with a code of the node."""
    speaker = await house.session(pairing_code=await code_of(node), **wish)
    assert speaker.ack["assigned_node_id"] == node.id
    return speaker


async def guess(speaker: Speaker, code: str = "nonsense") -> dict[str, Any]:
    """Try a code that must be refused; gives the whole reply but its trace."""
    await speaker.init(pairing_code=code)
    assert "assigned_node_id" not in speaker.ack
    reply = await speaker.expect("error", **WRONG)
    return {name: value for name, value in reply.items() if name != "trace_id"}


async def say(house: World, speaker: Speaker, *nodes: FakeNode) -> tuple[FakeNode, dict[str, Any]]:
    """Let the speaker say something; give the node that gets it, and the job."""
    await speaker.say()
    return await house.taken(*nodes, session_id=speaker.id)


async def wrong_code(house: World) -> str:
    """Find a code that leads nowhere."""
    codes = (f"{number:06}" for number in range(10**6))
    for code in codes:
        if not await house.redis("EXISTS", house.keys.pairing(code)):
            return code
    raise AssertionError("every code is taken")


def hold(house: World) -> tuple[asyncio.Event, asyncio.Event]:
    """Hold look-ups of codes back; gives what tells that one came, and what lets all go."""
    ledger = house.instance.stores.pairing
    real, came, go = ledger.redeem, asyncio.Event(), asyncio.Event()

    async def held(code: str) -> Any:
        came.set()
        await go.wait()
        return await real(code)

    ledger.redeem = held
    return came, go


def away(house: World, name: str) -> None:
    async def fail(*_args: Any, **_values: Any) -> Any:
        raise DependencyDown("Redis is away")

    setattr(house.instance.stores.pairing, name, fail)


# A code


async def test_ac77_a_node_gets_a_code_of_six_digits_that_lives_five_minutes(store_options):
    async with world(store_options) as house:
        node = await house.node()
        await node.send("pairing_code_request", node_id=node.id)
        given = await node.expect("pairing_code")
        assert len(given["code"]) == 6
        assert given["code"].isdecimal()
        assert given["expires_at_ms"] == house.clock.wall_ms() + 300_000
        assert 0 < await house.redis("TTL", house.keys.pairing(given["code"])) <= 300


async def test_codes_differ(store_options):
    async with world(store_options) as house:
        node = await house.node()
        assert len({await code_of(node) for _ in range(10)}) == 10


async def test_a_code_that_is_taken_is_not_given_again(store_options, monkeypatch):
    async with world(store_options) as house:
        first, second = await house.node(), await house.node()
        codes = chain(["111111", "111111", "111111", "222222"])
        monkeypatch.setattr(pairing, "new_code", lambda: next(codes))
        assert await code_of(first) == "111111"
        assert await code_of(second) == "222222"
        assert (await house.session(pairing_code="111111")).ack["assigned_node_id"] == first.id


async def test_without_a_free_code_the_node_is_told_to_ask_again(store_options, monkeypatch):
    async with world(store_options) as house:
        node = await house.node()
        monkeypatch.setattr(pairing, "new_code", lambda: "111111")
        await code_of(node)
        await node.send("pairing_code_request", node_id=node.id)
        await node.expect("error", code="INTERNAL_ERROR")


async def test_a_node_may_ask_for_ten_codes_a_minute(store_options):
    async with world(store_options) as house:
        node, other = await house.node(), await house.node()
        for _ in range(10):
            await code_of(node)
        await node.send("pairing_code_request", node_id=node.id)
        await node.expect("error", code="RATE_LIMITED")
        await code_of(other)
        await house.live(60, node, other)
        await code_of(node)


async def test_only_a_registered_node_gets_a_code(store_options):
    async with world(store_options) as house:
        stranger, node = await house.stranger(), await house.node()
        await stranger.send("pairing_code_request", node_id=node.id)
        await stranger.expect("error", code="NODE_UNAVAILABLE")
        await node.send("pairing_code_request", node_id="somebody-else")
        await node.expect("error", code="INVALID_MESSAGE")
        assert not node.seen("pairing_code")


async def test_a_node_is_told_when_redis_is_away(store_options):
    async with world(store_options) as house:
        node = await house.node()
        away(house, "offer")
        await node.send("pairing_code_request", node_id=node.id)
        await node.expect("error", code="SCHEDULER_DEPENDENCY_DOWN")


# A session that brings one


async def test_ac77_a_code_works_once(store_options):
    async with world(store_options) as house:
        node = await house.node()
        code = await code_of(node)
        assert (await house.session(pairing_code=f" {code} ")).ack["assigned_node_id"] == node.id
        await guess(await house.speaker(), code)


async def test_ac77_a_code_works_on_another_instance(store_options):
    async with world(store_options) as one, world(store_options) as other:
        node = await one.node()
        code = await code_of(node)
        assert (await other.session(pairing_code=code)).ack["assigned_node_id"] == node.id
        await guess(await one.speaker(), code)


async def test_ac77_a_code_that_has_expired_is_wrong(store_options):
    async with world(store_options) as house:
        code = await code_of(await house.node())
        await house.redis("PEXPIRE", house.keys.pairing(code), 1)

        async def over() -> bool:
            return not await house.redis("EXISTS", house.keys.pairing(code))

        await wait_until(over, description="the code has expired")
        await guess(await house.speaker(), code)


async def test_case_9_a_wrong_code_opens_an_unpaired_session(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.speaker()
        await speaker.send("session_init", **INIT, trace_id="t-9", pairing_code=await wrong_code(house))
        await wait_until(lambda: len(speaker.inbox) == 2, description="two messages")
        assert [message["type"] for message in speaker.inbox] == ["session_init_ack", "error"]
        ack, error = speaker.inbox
        assert "assigned_node_id" not in ack
        assert (error["code"], error["trace_id"]) == ("INVALID_PAIRING_CODE", "t-9")
        assert error["hint"] == "The pairing code is wrong or has expired."
        speaker.id = ack["session_id"]
        await node.answer((await say(house, speaker, node))[1])
        await speaker.expect("translation_result")


async def test_the_hint_is_in_the_language_of_the_session(store_options):
    async with world(store_options) as house:
        speaker = await house.session(pairing_code="x", hint_lang="zh")
        assert (await speaker.expect("error", **WRONG))["hint"] == "配对码错误或已过期。"


@pytest.mark.parametrize("code", [None, "", "  "])
async def test_no_code_is_no_guess(store_options, code):
    async with world(store_options) as house:
        for _ in range(10):
            speaker = await house.session(pairing_code=code)
            await speaker.sync()
            assert not speaker.seen("error")


async def test_a_session_that_cannot_be_opened_does_not_use_the_code_up(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.speaker()
        code = await code_of(node)
        await speaker.send("session_init", **INIT, pairing_code=code, audio_format="mp3")
        await speaker.expect("error", code="UNSUPPORTED_FEATURE")
        assert (await speaker.init(pairing_code=code)).ack["assigned_node_id"] == node.id


async def test_while_a_code_is_checked_there_is_no_session(store_options):
    async with world(store_options) as house:
        node = await house.node()
        code, first = await code_of(node), await house.session()
        came, go = hold(house)
        await first.send("session_init", **INIT, pairing_code=code)
        await came.wait()
        await first.chunk(600)
        await first.expect("error", code="INVALID_SESSION")
        assert not first.seen("session_init_ack")
        go.set()
        ack = await first.expect("session_init_ack", assigned_node_id=node.id)
        assert ack["session_id"] != first.id
        first.id = ack["session_id"]
        await say(house, first, node)


async def test_sessions_that_follow_each_other_open_in_their_order(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.speaker()
        code = await code_of(node)
        came, go = hold(house)
        await speaker.send("session_init", **INIT, trace_id="t-1", pairing_code=code)
        await came.wait()
        await speaker.send("session_init", **INIT, trace_id="t-2", pairing_code=code)
        await speaker.send("session_init", **INIT, trace_id="t-3")
        go.set()
        acks = [await speaker.expect("session_init_ack", trace_id=f"t-{number}") for number in (1, 2, 3)]
        assert [ack.get("assigned_node_id") for ack in acks] == [node.id, None, None]
        await speaker.expect("error", **WRONG)
        speaker.id = acks[2]["session_id"]
        await speaker.sync()
        await wait_until(lambda: len(house.instance.sessions) == 1, description="the earlier ones are closed")


async def test_a_client_that_leaves_while_its_code_is_checked_leaves_nothing(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.speaker()
        code = await code_of(node)
        came, go = hold(house)
        await speaker.send("session_init", **INIT, pairing_code=code)
        await speaker.send("session_init", **INIT)
        await came.wait()
        speaker.reset()
        await wait_until(lambda: house.instance.edge.connections == 1, description="only the node is there")
        go.set()
        other = await house.session()
        await other.hang_up()
        await house.forget(other, nodes=(node,))
        await wait_until(lambda: len(house.instance.sessions) == 0, description="no session")


async def test_when_redis_is_away_the_session_opens_unpaired_and_is_told_the_truth(store_options):
    async with world(store_options) as house:
        speaker = await house.speaker()
        away(house, "redeem")
        for _ in range(7):
            reply = await guess(speaker, "123456")
            assert "could not be checked" in reply["message"]
            assert reply["hint"] == "The service is temporarily unavailable. Please try again later."
        await speaker.sync()


# Guessing


async def test_b53_five_wrong_codes_close_the_connection(store_options):
    async with world(store_options) as house:
        speaker = await house.speaker()
        for _ in range(4):
            await guess(speaker)
        await speaker.send("session_init", **INIT, pairing_code="nonsense")
        await speaker.expect("error", **WRONG)
        assert await speaker.closed() == 4529
        await wait_until(lambda: len(house.instance.sessions) == 0, description="no session is left")


async def test_b53_wrong_codes_on_one_connection_are_counted_for_ever(store_options):
    async with world(store_options, **MANY) as house:
        speaker = await house.speaker()
        for _ in range(4):
            await guess(speaker)
            await house.pass_time(61, speaker)
        await speaker.send("session_init", **INIT, pairing_code="nonsense")
        assert await speaker.closed() == 4529


async def test_b53_guesses_that_come_at_once_are_counted(store_options):
    async with world(store_options, **MANY) as house:
        speaker = await house.speaker()
        for number in range(50):
            await speaker.send("session_init", **INIT, pairing_code=f"{number:06}")
        assert await speaker.closed() == 4529
        assert len(speaker.seen("error", **WRONG)) == 5


async def test_b53_an_address_has_five_guesses_a_minute_and_every_refusal_is_the_same(store_options):
    async with world(store_options) as house:
        node = await house.node()
        replies = [await guess(await house.speaker(), await wrong_code(house)) for _ in range(4)]
        replies.append(await guess(await house.speaker(), "letters"))
        code = await code_of(node)
        replies.append(await guess(await house.speaker(), code))
        assert all(reply == replies[0] for reply in replies), "nothing tells a right code from a wrong one"
        await house.live(60, node)
        assert (await house.session(pairing_code=code)).ack["assigned_node_id"] == node.id


async def test_b53_guesses_of_one_address_at_once_do_not_slip_through(store_options):
    async with world(store_options) as house:
        asked: list[str] = []
        ledger = house.instance.stores.pairing
        real = ledger.redeem

        async def seen(code: str) -> Any:
            asked.append(code)
            return await real(code)

        ledger.redeem = seen
        speakers = [await house.speaker() for _ in range(20)]
        for number, speaker in enumerate(speakers):
            await speaker.send("session_init", **INIT, pairing_code=f"{number:06}")
        for speaker in speakers:
            await speaker.expect("error", **WRONG)
        assert len(asked) == 5


async def test_right_codes_are_no_guesses(store_options):
    async with world(store_options) as house:
        node = await house.node()
        for _ in range(10):
            await paired(house, node)


# Jobs of a paired session


async def test_ac77_jobs_go_to_the_paired_node_though_another_is_idler(store_options):
    async with world(store_options) as house:
        nodes = mine, idle = await house.node(), await house.node()
        speaker = await paired(house, mine)
        await mine.beat(usage={"running_jobs": 1})
        await house.written(mine)
        for _ in range(3):
            assert (await say(house, speaker, *nodes))[0] is mine
        assert not idle.seen("job_assign")


async def test_ac77_a_full_paired_node_is_stood_in_for_until_it_has_room(store_options):
    async with world(store_options) as house:
        nodes = mine, other = await house.node(max_concurrent_jobs=1), await house.node()
        speaker = await paired(house, mine)
        first, job = await say(house, speaker, *nodes)
        assert first is mine
        assert (await say(house, speaker, *nodes))[0] is other
        await mine.answer(job)
        await speaker.expect("translation_result")
        await house.settled(speaker)
        assert (await say(house, speaker, *nodes))[0] is mine


async def hang_up(_house: World, node: FakeNode) -> None:
    await node.hang_up()


async def unhealthy(house: World, node: FakeNode) -> None:
    await node.beat(usage={"cpu_percent": 99})
    await house.written(node)


async def other_languages(house: World, node: FakeNode) -> None:
    await node.beat(language_capabilities={"asr_languages": ["de"], "semantic_languages": ["fr"]})
    await house.written(node)


async def no_voice(house: World, node: FakeNode) -> None:
    await node.beat(capability_by_type=[{"type": kind, "ready": True} for kind in ("asr", "nmt")])
    await house.written(node)


@pytest.mark.parametrize("unfit", [hang_up, unhealthy, other_languages, no_voice])
async def test_ac77_a_paired_node_that_cannot_be_chosen_is_stood_in_for(store_options, unfit: Callable):
    async with world(store_options) as house:
        mine, other = await house.node(), await house.node()
        speaker = await paired(house, mine)
        await unfit(house, mine)
        node, job = await say(house, speaker, other)
        await node.answer(job)
        await speaker.expect("translation_result")


async def test_a_job_that_its_paired_node_failed_goes_to_another(store_options):
    async with world(store_options) as house:
        mine, other = await house.node(), await house.node()
        speaker = await paired(house, mine)
        node, job = await say(house, speaker, mine, other)
        assert node is mine
        await mine.fail(job, "MODEL_NOT_AVAILABLE")
        await other.job(attempt_id=2)


async def test_the_paired_node_is_found_in_any_pool(store_options):
    async with world(store_options, pools={"pool_count": 4, "fallback_scan_all_pools": False}) as house:
        nodes = [await house.node(node_id=f"n{number}") for number in range(6)]
        assert len({facts.pool for facts in house.instance.snapshot.nodes()}) > 1
        for node in nodes:
            speaker = await paired(house, node)
            assert (await say(house, speaker, *nodes))[0] is node


async def test_a_tenant_that_must_stay_in_its_pool_stays_there(store_options):
    """AC-75: strict eligibility stands over pairing."""
    tenant = {"tenant_id": "tenant-A", "pool_id": 1}
    strict = {"pool_count": 2, "strict_eligibility": True, "tenant_overrides": [tenant]}
    async with world(store_options, pools=strict) as house:
        nodes = [await house.node(node_id=f"n{number}") for number in range(6)]
        pools = {node.id: house.instance.snapshot.node(node.id).pool for node in nodes}
        assert set(pools.values()) == {0, 1}
        outside = next(node for node in nodes if pools[node.id] == 0)
        speaker = await paired(house, outside, tenant_id="tenant-A")
        assert pools[(await say(house, speaker, *nodes))[0].id] == 1


async def test_the_session_in_redis_knows_its_node(store_options):
    async with world(store_options) as house:
        node = await house.node()
        speaker = await paired(house, node)

        async def written() -> Any:
            return await house.redis("HGET", house.keys.session(speaker.id), "paired_node_id")

        assert await wait_until(written, description="the session is written") == node.id.encode()


# Private nodes


async def test_ac29_a_private_node_serves_the_session_it_is_paired_with_and_no_other(store_options):
    async with world(store_options) as house:
        mine, yours = [await house.node(accept_public_jobs=False) for _ in range(2)]
        speaker, stranger = await paired(house, mine), await house.session()
        await stranger.say()
        await stranger.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        for _ in range(3):
            assert (await say(house, speaker, mine, yours))[0] is mine
        assert not yours.seen("job_assign")
        assert not mine.seen("job_assign", session_id=stranger.id)


async def test_ac29_a_paired_session_falls_back_to_public_nodes_only(store_options):
    async with world(store_options) as house:
        mine = await house.node(accept_public_jobs=False, max_concurrent_jobs=1)
        yours = await house.node(accept_public_jobs=False)
        speaker = await paired(house, mine)
        await say(house, speaker, mine)
        await speaker.say()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        assert house.counted("no_available_node_total", reason="not_in_public_pool") == 1
        public = await house.node()
        await public.job(session_id=speaker.id, utterance_index=1)
        assert not yours.seen("job_assign")


async def test_a_slot_of_a_private_node_wakes_its_own_session_past_earlier_strangers(store_options):
    async with world(store_options) as house:
        mine = await house.node(accept_public_jobs=False, max_concurrent_jobs=1)
        strangers = [await house.session() for _ in range(3)]
        speaker = await paired(house, mine)
        _, job = await say(house, speaker, mine)
        for waiting in (*strangers, speaker):
            await waiting.say()
            await waiting.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        await mine.answer(job)
        await mine.job(session_id=speaker.id, utterance_index=1)


async def test_a_private_node_keeps_the_turns_of_its_session(store_options):
    async with world(store_options, **FAST) as house:
        mine, public = await house.node(accept_public_jobs=False, max_concurrent_jobs=1), await house.node()
        speaker = await paired(house, mine)
        await speaker.chunk(60 * 60)  # 1.2 s: beyond the longest piece
        piece = await mine.job(session_id=speaker.id, utterance_index=0)
        await speaker.final()
        await house.settled(speaker)
        assert not public.seen("job_assign"), "the turn waits for its node"
        await mine.answer(piece)
        await mine.job(session_id=speaker.id, utterance_index=1)


async def test_a_node_may_become_public_again(store_options):
    async with world(store_options) as house:
        node = await house.node(node_id="n1", accept_public_jobs=False)
        stranger = await house.session()
        await stranger.say()
        await stranger.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        await node.register(node_id="n1", accept_public_jobs=True)
        await node.beat()
        await node.job(session_id=stranger.id)
