"""A scripted node does exactly what it is told, against a scripted scheduler and against a real instance."""

import asyncio

import pytest

from client.scripted import ScriptedServer, due_within
from lingua_scheduler.app import running
from lingua_scheduler.client import SessionClient
from lingua_scheduler.clock import VirtualClock
from lingua_scheduler.node.job import JobFailed, Translation
from lingua_scheduler.node.scripted import Script, ScriptedNode
from lingua_scheduler.wire.codec import decode_node
from lingua_scheduler.wire.node import (
    AsrPartial,
    JobAck,
    JobAssign,
    JobCancel,
    JobResult,
    JobStarted,
    NodeHeartbeat,
    NodeRegister,
    NodeRegisterAck,
)
from lingua_scheduler.wire.session import MissingResult, TranslationResult
from node.jobs import assign
from support import wait_until
from world import configured

DONE = Translation(text_asr="hello", text_translated="olá")


@pytest.fixture
async def scheduler():
    async with ScriptedServer("/ws/node", decode_node) as made:
        yield made


async def entered(scheduler, script=None, clock=None):
    """Let a node in; give it and the scheduler's side of its connection."""
    node = ScriptedNode(scheduler.url, script, clock=clock)
    entering = asyncio.create_task(node.__aenter__())
    peer = await greeted(scheduler)
    await entering
    await peer.hear(NodeHeartbeat)
    return node, peer


async def greeted(scheduler):
    peer = await scheduler.peer()
    peer.register = await peer.hear(NodeRegister)
    await peer.say(NodeRegisterAck(node_id=peer.register.node_id or "node-7", message="registered"))
    return peer


async def test_it_holds_a_job_until_it_is_told_to_answer(scheduler) -> None:
    node, peer = await entered(scheduler)
    await peer.say(assign())
    job = await node.next_job()
    await peer.hear(JobAck)
    await node.started(job)
    await node.partial(job, "hel")
    assert not peer.unheard(JobResult)
    sent = await node.answer(job)
    assert await peer.hear(JobResult) == sent
    await peer.hear(JobStarted)
    await peer.hear(AsrPartial)
    assert list(node.received)[-1] == job
    await node.leave()


async def test_any_member_of_anything_can_be_wrong(scheduler) -> None:
    node, peer = await entered(scheduler, Script(acks=False))
    await peer.say(assign())
    job = await node.next_job()
    await node.ack(job, attempt_id=9)
    await node.started(job, node_id="node-other")
    await node.partial(job, "x", session_id="s-other")
    await node.answer(job, session_id="s-other", attempt_id=4)
    await node.answer(job, JobFailed("MODEL_NOT_AVAILABLE", "gone"))
    assert (await peer.hear(JobAck)).attempt_id == 9
    assert (await peer.hear(JobStarted)).node_id == "node-other"
    assert (await peer.hear(AsrPartial)).session_id == "s-other"
    wrong = await peer.hear(JobResult)
    assert (wrong.session_id, wrong.attempt_id, wrong.success) == ("s-other", 4, True)
    assert (await peer.hear(JobResult)).error.code == "MODEL_NOT_AVAILABLE"
    await node.leave()


async def test_a_rule_answers_every_job_as_often_and_as_late_as_told(scheduler) -> None:
    clock = VirtualClock()
    script = Script(rule=lambda _job: DONE, copies=2, answer_after_s=5, heartbeat_s=0)
    node, peer = await entered(scheduler, script, clock)
    await peer.say(assign())
    await peer.hear(JobAck)
    await due_within(clock, 5)
    assert not peer.unheard(JobResult)
    clock.advance(5)
    assert await peer.hear(JobResult) == await peer.hear(JobResult)
    await node.leave()


async def test_it_keeps_beating_until_told_otherwise(scheduler) -> None:
    clock = VirtualClock()
    node, peer = await entered(scheduler, clock=clock)
    await due_within(clock, 15)
    clock.advance(15)
    await peer.hear(NodeHeartbeat)
    await node.beat(cpu_percent=99, running_jobs=3)
    usage = (await peer.hear(NodeHeartbeat)).resource_usage
    assert (usage.cpu_percent, usage.running_jobs) == (99, 3)
    await node.leave()


async def test_it_vanishes_and_comes_back_under_its_id(scheduler) -> None:
    node, peer = await entered(scheduler)
    assert node.node_id == "node-7"
    flapping = asyncio.create_task(node.flap(2))
    for _ in range(2):
        await asyncio.wait_for(peer.ended.wait(), 5)
        peer = await greeted(scheduler)
        assert peer.register.node_id == "node-7"
    await flapping
    await node.leave()


async def test_the_first_generation_announces_and_acknowledges_nothing(scheduler) -> None:
    node, peer = await entered(scheduler, Script.first_generation())
    register = peer.register
    assert (register.features, register.max_concurrent_jobs, register.heartbeat_interval_seconds) == (
        None,
    ) * 3
    assert register.hardware.gpus
    await peer.say(assign(is_manual_cut=True, audio=bytes(32000)))
    assert (await peer.hear(JobResult)).success
    await peer.say(assign(is_manual_cut=True, attempt_id=2))
    again = await peer.hear(JobResult)
    assert (again.attempt_id, again.error.message) == (2, "DUPLICATE_JOB_ID: job-1")
    assert not peer.unheard(JobAck)
    await node.leave()


async def test_a_wait_in_vain_names_what_came_instead(scheduler) -> None:
    node, peer = await entered(scheduler)
    await peer.say(JobCancel(job_id="job-1"))
    await node.expect(JobCancel, job_id="job-1")
    await peer.say(assign())
    await wait_until(lambda: isinstance(node.received[-1], JobAssign), description="the job came")
    with pytest.raises(TimeoutError, match="JobAssign"):
        await node.expect(JobCancel, timeout_s=0.01)
    await node.leave()


@pytest.fixture
async def instance(store_options):
    async with running(configured(store_options)) as made:
        yield made


PCM = b"\x00\x10" * 8000


async def test_a_real_instance_delivers_what_it_answers(instance) -> None:
    wish = {"src_lang": "en", "tgt_lang": "pt", "audio_format": "pcm16", "supports_binary_frame": True}
    async with ScriptedNode(instance.url) as node, SessionClient.connect(instance.url, **wish) as client:
        await client.send_audio(PCM)
        await client.finish()
        job = await node.next_job()
        assert job.audio == PCM
        await node.answer(job, Translation(text_asr="a", text_translated="b", tts_audio=b"\x01\x02"))
        result = await client.expect(TranslationResult)
        assert (result.text_asr, result.text_translated, result.tts_audio) == ("a", "b", b"\x01\x02")
        assert await client.close()


async def test_a_real_instance_moves_the_job_of_a_node_that_crashed(instance) -> None:
    async with (
        ScriptedNode(instance.url, Script(node_id="a")) as first,
        SessionClient.connect(instance.url, src_lang="en", tgt_lang="pt", audio_format="pcm16") as client,
    ):
        await client.send_audio(PCM)
        await client.finish()
        lost = await first.next_job()
        async with ScriptedNode(instance.url, Script(node_id="b")) as second:
            await first.crash()
            job = await second.next_job()
            assert (job.job_id, job.attempt_id) == (lost.job_id, lost.attempt_id + 1)
            await second.answer(job)
            assert (await client.expect(TranslationResult)).utterance_index == 0
            assert not [message for message in client.unread() if isinstance(message, MissingResult)]
