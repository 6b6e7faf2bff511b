"""A node goes on with the trace of the scheduler: its job, and the steps inside it."""

import asyncio

import pytest

from collector import collecting
from lingua_scheduler.clock import VirtualClock
from lingua_scheduler.node import Job, JobFailed, LinkOptions, Node, Translation
from lingua_scheduler.node.trace import JobTrace
from lingua_scheduler.secret import SecretUrl
from lingua_scheduler.tracing.context import Context, read_traceparent
from lingua_scheduler.tracing.options import TracingOptions
from lingua_scheduler.tracing.spans import Tracer
from lingua_scheduler.tracing.tracing import opened
from node.jobs import assign
from support import wait_until
from world import world

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def handled(job: Job) -> Translation:
    with job.step("asr"):
        await asyncio.sleep(0)
    with job.step("nmt"):
        pass
    return Translation(text_asr="canary", text_translated="canary")


async def test_scheduler_and_node_tell_one_trace(store_options):
    async with collecting() as collector:
        own = {"enabled": True, "endpoint": SecretUrl(collector.url), "flush_ms": 10}
        tracing = opened(TracingOptions(**own, service_name="my-node"), "machine-1")
        async with world(store_options, tracing=own) as house:
            node = Node(
                handler=handled,
                languages=("zh", "en"),
                url=house.instance.url,
                options=LinkOptions(handle_signals=False),
            )
            node.tracer = tracing.tracer
            running = asyncio.create_task(node.run())
            await node.registered.wait()
            speaker = await house.session()
            await speaker.say()
            await speaker.expect("translation_result")
            await collector.one("utterance")
            out, job = await collector.one("node"), await collector.one("job")
            await wait_until(lambda: collector.named("nmt"), description="the steps")
            node.stop()
            await running
        await asyncio.to_thread(tracing.stop)
    assert {span.trace_id for span in collector.spans} == {speaker.ack["trace_id"]}
    assert job.parent_id == out.span_id
    assert (job.source["service.name"], job.source["service.instance.id"]) == ("my-node", "machine-1")
    assert (job.facts["node_id"], job.facts["attempt"]) == (node.node_id, 1)
    assert {span.parent_id for span in collector.named("asr") + collector.named("nmt")} == {job.span_id}
    assert not any(b"canary" in body for body in collector.bodies)


@pytest.fixture
def ended():
    return []


def begun(ended, **members):
    tracer = Tracer(ended.append)
    return JobTrace.of(tracer, assign(**members), "node-1", VirtualClock())


@pytest.mark.parametrize("traceparent", [None, "nonsense", PARENT[:-1] + "0"])
def test_what_the_scheduler_does_not_trace_is_not_traced(ended, traceparent):
    assert begun(ended, traceparent=traceparent) is None
    job = Job(assign(traceparent=traceparent), lambda *_: None)
    with job.step("asr"):
        pass
    assert ended == []


def test_a_node_without_a_tracer_traces_nothing():
    assert JobTrace.of(None, assign(traceparent=PARENT), "node-1", VirtualClock()) is None


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (JobFailed("TTS_TIMEOUT", "canary"), "TTS_TIMEOUT"),
        (JobFailed("canary words", "canary"), "OTHER"),
        (ValueError("canary"), "ValueError"),
        (asyncio.CancelledError("canary"), "CancelledError"),
    ],
)
def test_a_step_that_fails_tells_the_code_and_not_the_message(ended, error, code):
    trace = begun(ended, traceparent=PARENT)
    with pytest.raises(type(error)), Job(assign(), lambda *_: None, trace).step("tts"):
        raise error
    trace.end(error if isinstance(error, JobFailed) else None)
    step, job = ended
    assert step.error == code
    assert step.parent == job.context
    assert job.parent == read_traceparent(PARENT) == Context(PARENT[3:35], PARENT[36:52])
    assert "canary" not in str([step.facts, job.facts, step.error, job.error])
