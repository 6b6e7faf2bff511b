"""The story of an instance on its way out: what was said is answered, and who can go elsewhere does."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from lingua_scheduler.core.model import NodeId
from lingua_scheduler.flow.drain import DrainState
from support import wait_until
from world import FakeNode, Speaker, World, world

QUICK = {"drain": {"deadline_s": 20, "spread_ms": 2000}}


@asynccontextmanager
async def two(store_options, **tables):
    """Run an instance and a neighbour that each knows of."""
    async with world(store_options, **QUICK, **tables) as house, world(store_options, **tables) as neighbour:
        await wait_until(house.instance._refuge, description="the neighbour is seen")
        await wait_until(neighbour.instance._refuge, description="and sees us")
        yield house, neighbour


async def moments(house: World, seconds: float) -> None:
    """Let time pass in the steps of a drain, with the event loop running in between."""
    for _ in range(round(seconds / 0.1)):
        house.clock.advance(0.1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def drained(house: World) -> None:
    """Let time pass until the drain is over."""

    def over() -> bool:
        house.clock.advance(0.02)
        return house.instance.drain.state is DrainState.DRAINED

    await wait_until(over, description="the instance is empty")


async def come_back(house: World, speaker: Speaker) -> Speaker:
    """Resume a session on another instance."""
    again = await house.session(supports_resume=True, resume_token=speaker.ack["resume_token"])
    assert (again.ack["resumed"], again.id) == (True, speaker.id)
    return again


async def test_a_client_that_can_resume_is_told_and_goes_on_elsewhere(store_options):
    async with two(store_options) as (house, neighbour):
        node = await house.node(node_id="one")
        await wait_until(lambda: neighbour.instance.snapshot.node(NodeId("one")), description="it is known")
        speaker = await house.session(supports_resume=True)
        await speaker.say()
        job = await node.job()
        house.instance.drain.start()
        told = await speaker.expect("going_away")
        assert 0 <= told["retry_after_ms"] <= 2000
        await moments(house, 2.2)
        assert await speaker.closed() == 1012
        again = await come_back(neighbour, speaker)
        assert not node.seen("node_control")
        await node.answer(job, translated="moved")
        result = await again.expect("translation_result", utterance_index=0)
        assert result["text_translated"] == "moved"
        await drained(house)
        assert await node.closed() == 1012
        assert house.instance.drain.cut_off == 0


async def test_clients_leave_spread_over_time(store_options):
    async with two(store_options) as (house, _):
        speakers = [await house.session(supports_resume=True) for _ in range(20)]
        house.instance.drain.start()
        waits = [(await speaker.expect("going_away"))["retry_after_ms"] for speaker in speakers]
        assert len(set(waits)) > 10
        await moments(house, 1)
        await wait_until(
            lambda: sum(speaker.socket.closed for speaker in speakers) >= sum(wait < 900 for wait in waits),
            description="the first have left",
        )
        assert len(house.instance.sessions.attached()) >= sum(wait > 1000 for wait in waits)
        await drained(house)


async def test_a_first_generation_client_keeps_its_connection_until_it_has_its_answer(store_options):
    async with two(store_options) as (house, neighbour):
        far = await neighbour.node(node_id="far")
        await neighbour.written(far)
        speaker = await house.session()
        await speaker.say()
        job = await far.job()
        house.instance.drain.start()
        await moments(house, 5)
        await speaker.sync()
        assert not speaker.seen("going_away")
        await far.answer(job)
        await speaker.expect("translation_result", utterance_index=0)
        await drained(house)
        assert await speaker.closed() == 1012
        assert house.instance.drain.cut_off == 0


async def test_nodes_leave_when_they_have_nothing_to_do_and_work_on_elsewhere(store_options):
    async with two(store_options) as (house, neighbour):
        idle, busy = (
            await house.node("zh", "en", node_id="idle"),
            await house.node("fr", "de", node_id="busy"),
        )
        speaker = await neighbour.session(src_lang="fr", tgt_lang="de")
        await speaker.say()
        job = await busy.job()
        house.instance.drain.start()
        assert await idle.closed() == 1012
        await moments(house, 3)
        await busy.sync()
        assert not busy.seen("node_control")
        again = FakeNode(await neighbour.node_socket())
        await again.register(node_id="idle")
        await busy.answer(job)
        await speaker.expect("translation_result", utterance_index=0)
        await drained(house)
        assert await busy.closed() == 1012
        assert (house.instance.drain.cut_off, len(house.instance.node_door.links())) == (0, 0)


async def test_without_a_neighbour_nodes_stay_until_everything_that_was_said_is_answered(store_options):
    async with world(store_options, **QUICK) as house:
        node = await house.node()
        speakers = [await house.session(supports_resume=supports) for supports in (True, False)]
        for speaker in speakers:
            await speaker.chunk(600)
            await speaker.sync()
        house.instance.drain.start()
        await moments(house, 1)
        for speaker in speakers:
            await speaker.final()
            await node.answer(await node.job(session_id=speaker.id))
            await speaker.expect("translation_result", utterance_index=0)
        await drained(house)
        assert [await speaker.closed() for speaker in speakers] == [1012, 1012]
        assert await node.closed() == 1012
        assert house.instance.drain.cut_off == 0


async def test_before_the_deadline_open_speech_is_ended_so_that_its_answer_still_comes(store_options):
    async with world(store_options, **QUICK, segmentation={"pause_ms": 0}) as house:
        node = await house.node()
        speaker = await house.session()
        await speaker.chunk(600)
        await speaker.sync()
        house.instance.drain.start()
        await moments(house, 16)
        assert not node.seen("job_assign")
        await moments(house, 1.2)
        await node.answer(await node.job())
        await speaker.expect("translation_result", utterance_index=0)
        await drained(house)
        assert house.instance.drain.cut_off == 0


async def test_the_deadline_ends_what_is_left_and_says_how_much(store_options):
    async with two(store_options) as (house, neighbour):
        node = await house.node(node_id="slow")
        far = await neighbour.session(supports_resume=True)
        await far.say()
        await node.job(session_id=far.id)
        speaker = await house.session()
        await speaker.say()
        await node.job(session_id=speaker.id)
        house.instance.drain.start(2)
        await moments(house, 1.5)
        assert house.instance.drain.state is DrainState.DRAINING
        await drained(house)
        assert await speaker.closed() == 1012
        assert await node.closed() == 1012
        assert house.instance.drain.cut_off == 2
        rescue = await neighbour.node(node_id="rescue")
        await rescue.answer(await rescue.job(session_id=far.id))
        await far.expect("translation_result", utterance_index=0)


async def test_a_session_opened_on_an_old_connection_is_sent_away_too(store_options):
    async with two(store_options) as (house, _):
        early, late = await house.speaker(), await house.session(supports_resume=True)
        house.instance.drain.start()
        await late.expect("going_away")
        await early.init(supports_resume=True)
        await moments(house, 0.2)
        await early.expect("going_away")
        await drained(house)
        assert await early.closed() == 1012


async def test_a_drain_taken_back_in_time_loses_nobody(store_options):
    async with two(store_options) as (house, _):
        node = await house.node()
        speaker = await house.session()
        await speaker.say()
        job = await node.job()
        house.instance.drain.start()
        await node.expect("node_status", status="draining")
        house.instance.drain.cancel()
        await node.expect("node_status", status="ready")
        await node.answer(job)
        await speaker.expect("translation_result", utterance_index=0)
        await moments(house, 25)
        await speaker.say()
        await node.answer(await node.job())
        await speaker.expect("translation_result", utterance_index=1)


async def test_neighbours_see_that_an_instance_drains(store_options):
    async with two(store_options) as (house, neighbour):
        node = await house.node()
        speaker = await house.session()
        await speaker.say()
        await node.job()
        house.instance.drain.start()
        await wait_until(lambda: not neighbour.instance._refuge(), description="there is no refuge")
        house.instance.drain.cancel()
        await wait_until(neighbour.instance._refuge, description="there is one again")


async def test_a_drained_instance_has_no_connections_left(store_options):
    async with world(store_options) as house:
        silent = await house.speaker()
        house.instance.drain.start()
        assert house.instance.drain.state is DrainState.DRAINED
        assert await silent.closed() == 1012
        house.instance.drain.start()
        assert await house.instance.drain.over()
