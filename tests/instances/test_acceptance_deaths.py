"""Instances that die, come back under their id, or were only frozen (AC-62, AC-63, I9).

An instance that must leave letters unread is frozen before it is killed.
"""

from __future__ import annotations

import signal

import pytest

from fleet import RESUMES, Fleet, Ground, Member, arrives, fleet
from support import wait_until
from world import Speaker

pytestmark = pytest.mark.timeout(120)

PATIENT = {"LINGUA_PEERS__SETTLE_MS": "60000"}  # does not take over what others may come back for


async def unread(made: Fleet, member: Member, count: int = 1) -> None:
    """Wait until so many letters lie in the inbox of an instance that does not read."""
    await made.redis_until(lambda length: length == count, "XLEN", made.keys.inbox(member.id))


def told(speaker: Speaker) -> list[tuple[str, int]]:
    """List the ends of utterances that wait in a client's inbox."""
    ends = ("translation_result", "missing_result")
    return [(each["type"], each["utterance_index"]) for each in speaker.inbox if each["type"] in ends]


async def test_ac_62_a_survivor_handles_the_letters_of_a_killed_process(place: Ground):
    """One is a result for a session that has moved on, one a job for a node that died with the instance."""
    async with fleet(place) as made:
        a, b = await made.run("a", "b")
        near = await made.node(b, "zh", "en")
        far = await made.node(a, "de", "fr")
        await made.serves(a, "zh")
        await made.serves(b, "de")
        speaker = await made.session(a, **RESUMES)
        other = await made.session(b, src_lang="de", tgt_lang="fr")
        await speaker.say()
        job = await near.job()
        a.tell(signal.SIGSTOP)
        await near.answer(job)
        await unread(made, a)
        await other.say()
        await unread(made, a, 2)
        again = await made.resumed(b, speaker)
        a.tell(signal.SIGKILL)
        await arrives(again, "translation_result", utterance_index=0)
        await made.counts(b, "instances_adopted_total")
        assert not await made.redis("EXISTS", made.keys.inbox("a"))
        spare = await made.node(b, "de", "fr")
        moved = await arrives(spare, "job_assign", session_id=other.id)
        assert moved["attempt_id"] > 1
        await spare.answer(moved)
        await other.expect("translation_result", utterance_index=0)
        assert far.seen("job_assign") == []
        assert told(again) == told(other) == []
        assert await made.redis("HKEYS", made.keys.registry()) == [b"b"]
        assert await made.metric(b, "instances_lost_total") == 1


async def test_ac_63_a_restart_under_the_same_id_deals_with_its_letters_once(place: Ground):
    async with fleet(place) as made:
        a, b = await made.run("a", "b", **PATIENT)
        node = await made.node(b)
        await made.serves(a, "zh")
        speaker = await made.session(a, **RESUMES)
        for _ in range(3):
            await speaker.say()
        jobs = [await node.job(utterance_index=index) for index in range(3)]
        a.tell(signal.SIGSTOP)
        for job in jobs:
            await node.answer(job)
        await unread(made, a, 3)
        a.tell(signal.SIGKILL)
        [again] = await made.run("a", **PATIENT)
        client = await made.resumed(again, speaker)
        for index in range(3):
            await arrives(client, "translation_result", utterance_index=index)
        await unread(made, again, 0)
        await client.say()
        await node.answer(await node.job(utterance_index=3))
        await client.expect("translation_result", utterance_index=3)
        assert told(client) == []
        assert await made.metric(again, "letters_received_total", kind="peer_word", outcome="done") == 4
        assert await made.metric(again, "phase2_dlq_moved_total") == 0


async def test_an_instance_that_was_frozen_too_long_does_nothing_for_a_session_that_moved(place: Ground):
    """What its client had still sent is in its socket when it wakes up. What did not move goes on there."""
    async with fleet(place) as made:
        a, b = await made.run("a", "b")
        node = await made.node(b)
        lost = await made.node(a, "de", "fr")
        await made.serves(a, "zh")
        await made.serves(b, "de")
        speaker = await made.session(a, **RESUMES)
        await speaker.say()
        await node.answer(await node.job(utterance_index=0))
        await speaker.expect("translation_result", utterance_index=0)
        loyal = await made.session(a, **RESUMES)
        await made.redis_until(bool, "EXISTS", made.keys.session(loyal.id))
        reserved = await made.metric(a, "reserve_attempt_total")
        a.tell(signal.SIGSTOP)
        await speaker.say(120)
        await speaker.say(180)
        await made.counts(b, "instances_adopted_total")
        again = await made.resumed(b, speaker, received_through=0)
        await again.say(240)
        job = await node.job(utterance_index=1)
        assert len(job["audio"]) == 240
        before = await made.record(again)
        assert (before["owner"], before["epoch"]) == ("b", "2")

        a.tell(signal.SIGCONT)
        assert await speaker.closed() == 4409
        await made.acquainted(a, b)
        assert await made.metric(a, "sessions_open") == 1
        assert await made.metric(a, "reserve_attempt_total") == reserved
        await node.answer(job)
        await again.expect("translation_result", utterance_index=1)
        after = await made.record(again)
        assert (after["owner"], after["epoch"]) == ("b", "2")
        assert node.seen("job_assign") == []
        assert told(again) == []

        await loyal.say()
        await node.answer(await node.job(session_id=loyal.id))
        await loyal.expect("translation_result", utterance_index=0)
        client = await made.session(b, src_lang="de", tgt_lang="fr")
        await lost.beat()
        await client.say()
        await lost.answer(await arrives(lost, "job_assign"))
        await client.expect("translation_result", utterance_index=0)


async def test_a_process_whose_id_was_taken_while_it_was_frozen_ends(single_place: Ground):
    """It must not act under a name that another process has; its exit says why."""
    async with fleet(single_place) as made:
        a, b = await made.run("a", "b")
        speaker = await made.session(a, **RESUMES)
        await made.redis_until(bool, "EXISTS", made.keys.session(speaker.id))
        a.tell(signal.SIGSTOP)
        [heir] = await made.run("a")
        boot = await made.redis("HGET", made.keys.presence("a"), "boot")
        again = await made.resumed(heir, speaker)
        a.tell(signal.SIGCONT)
        assert await a.command.ended() == 1
        [said] = [line for line in a.command.lines if line.startswith("lingua: ")]
        assert said.startswith("lingua: the instance id a belongs to another process now")
        assert await made.redis("HGET", made.keys.presence("a"), "boot") == boot
        await again.sync()
        node = await made.node(b)
        await made.serves(heir, "zh")
        await again.say()
        await node.answer(await node.job())
        await again.expect("translation_result", utterance_index=0)


async def test_sessions_of_a_killed_process_go_on_elsewhere(single_place: Ground):
    """F26: every utterance that was accepted ends, once and in order."""
    async with fleet(single_place) as made:
        a, b = await made.run("a", "b")
        node = await made.node(b)
        await made.serves(a, "zh")
        speaker = await made.session(a, **RESUMES)
        for _ in range(4):
            await speaker.say()
        jobs = [await node.job(utterance_index=index) for index in range(4)]
        await node.answer(jobs[1])
        await node.answer(jobs[0])
        await speaker.expect("translation_result", utterance_index=1)
        a.tell(signal.SIGKILL)
        await speaker.closed()
        await node.answer(jobs[3])
        again = await made.resumed(b, speaker, received_through=1)
        await node.answer(jobs[2])
        await again.expect("translation_result", utterance_index=3)
        assert told(again) == [("translation_result", 2)]
        await wait_until(lambda: not node.seen("job_assign"), description="no job was given twice")
