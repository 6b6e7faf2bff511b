"""A node as a program, against a scheduler that drops, repeats, delays, cancels and closes as it likes."""

import asyncio
import signal
from contextlib import asynccontextmanager

import pytest

from client.scripted import ScriptedServer, due_within, timers
from lingua_scheduler.clock import VirtualClock
from lingua_scheduler.errors import NodeRefused
from lingua_scheduler.node import About, JobFailed, LinkOptions, Node, NodeGaveUp, Translation
from lingua_scheduler.node.protocol import LinkState
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.codec import decode_node
from lingua_scheduler.wire.common import ErrorMessage
from lingua_scheduler.wire.node import (
    AsrPartial,
    JobAck,
    JobCancel,
    JobResult,
    JobStarted,
    NodeControl,
    NodeHeartbeat,
    NodeRegister,
    NodeRegisterAck,
)
from node.jobs import IDLE, assign
from support import wait_until

OPTIONS = LinkOptions(reconnect_min_s=1, reconnect_max_s=64, handle_signals=False)
GIVE_UP = [code for code in CloseCode if not code.reconnect]
COME_BACK = [code for code in CloseCode if code.reconnect]


class Desk:
    """A handler whose jobs wait until the test lets them end."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.cancelled: list[str] = []
        self._ends: dict[str, asyncio.Future] = {}

    async def handle(self, job) -> Translation:
        """Work until told how it ends."""
        name = f"{job.id}/{job.assign.attempt_id}"
        self.begun.append(name)
        self._ends[name] = asyncio.get_running_loop().create_future()
        try:
            return await self._ends[name]
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise

    async def end(self, name: str, outcome: Translation | Exception) -> None:
        """Let a job end, as soon as it has begun."""
        await wait_until(lambda: name in self._ends, description=f"{name} has begun")
        if isinstance(outcome, Exception):
            self._ends[name].set_exception(outcome)
        else:
            self._ends[name].set_result(outcome)


DONE = Translation(text_asr="hello", text_translated="olá")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def scheduler():
    async with ScriptedServer("/ws/node", decode_node) as made:
        yield made


@pytest.fixture
async def node(scheduler, desk, clock):
    """Give a node that runs; it is stopped after the test, whatever became of it."""
    made = Node(
        handler=desk.handle,
        languages=("en", "pt"),
        capacity=2,
        url=scheduler.url,
        about=About(usage=lambda: IDLE),
        options=OPTIONS,
        clock=clock,
    )
    made.running = asyncio.create_task(made.run())
    yield made
    made.stop()
    await asyncio.wait((made.running,), timeout=5)
    assert made.running.done()
    assert not made.running_jobs


async def accepted(scheduler, node_id: str = "node-1"):
    """Accept the next connection and its registration."""
    peer = await scheduler.peer()
    peer.register = await peer.hear(NodeRegister)
    await peer.say(NodeRegisterAck(node_id=node_id, message="registered"))
    await peer.hear(NodeHeartbeat)
    return peer


async def pausing(node, clock) -> float:
    """Wait until the node pauses between connections; give for how long."""
    await wait_until(
        lambda: node._protocol.state is LinkState.CLOSED and timers(clock), description="the node pauses"
    )
    return min(timers(clock))


async def come_back(scheduler, node, clock):
    """Let the pause between connections pass, and accept the node again."""
    await pausing(node, clock)
    clock.advance(64)
    return await accepted(scheduler)


async def test_it_registers_and_beats(scheduler, node, clock) -> None:
    peer = await accepted(scheduler)
    assert node.node_id == "node-1"
    assert node.registered.is_set()
    await due_within(clock, 15)
    clock.advance(15)
    assert (await peer.hear(NodeHeartbeat)).resource_usage.mem_percent == 20.0


async def test_a_job_goes_all_the_way(scheduler, node, desk) -> None:
    peer = await accepted(scheduler)
    await peer.say(assign())
    await peer.hear(JobAck, job_id="job-1", attempt_id=1)
    await peer.hear(JobStarted, job_id="job-1")
    await desk.end("job-1/1", DONE)
    result = await peer.hear(JobResult)
    assert (result.success, result.text_translated) == (True, "olá")
    assert node.running_jobs == 0


async def test_partials_are_told(scheduler, clock) -> None:
    async def handle(job) -> Translation:
        await job.partial("hel")
        await job.partial("hello", final=True)
        return DONE

    async with serving(scheduler, handle, clock) as node:
        peer = await accepted(scheduler)
        await peer.say(assign())
        assert (await peer.hear(AsrPartial)).text == "hel"
        assert (await peer.hear(AsrPartial, is_final=True)).text == "hello"
        await peer.hear(JobResult)
        assert node.running_jobs == 0


@asynccontextmanager
async def serving(scheduler, handler, clock, **settings):
    """Run a node with a handler of the test's own."""
    options = settings.pop("options", OPTIONS)
    made = Node(
        handler=handler, languages=("en",), url=scheduler.url, options=options, clock=clock, **settings
    )
    running = made.running = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        made.stop()
        await asyncio.wait((running,), timeout=5)
        if not running.cancelled():
            running.exception()


async def test_a_handler_hears_the_speech_as_samples(scheduler, clock) -> None:
    heard = []

    async def handle(job) -> Translation:
        heard.append((len(job.pcm16()), job.src_lang, job.tgt_lang))
        return DONE

    async with serving(scheduler, handle, clock):
        peer = await accepted(scheduler)
        await peer.say(assign(audio=bytes(640)))
        await peer.hear(JobResult)
    assert heard == [(640, "en", "pt")]


SECRET = "what she said"


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (ValueError(SECRET), "PROCESSING_ERROR"),
        (JobFailed("MODEL_NOT_AVAILABLE", "no model"), "MODEL_NOT_AVAILABLE"),
        ("not a translation", "PROCESSING_ERROR"),
    ],
)
async def test_a_handler_that_fails_fails_its_job_only(scheduler, node, desk, capfd, outcome, code) -> None:
    """Neither the scheduler nor the log learns what the error said, only that it was one."""
    peer = await accepted(scheduler)
    await peer.say(assign("job-1"), assign("job-2"))
    await desk.end("job-1/1", outcome)
    result = await peer.hear(JobResult)
    assert (result.job_id, result.success, result.error.code) == ("job-1", False, code)
    assert "Traceback" not in result.error.message
    await desk.end("job-2/1", DONE)
    assert (await peer.hear(JobResult)).success
    assert SECRET not in result.error.message + capfd.readouterr().err


async def test_a_repeated_assignment_runs_once(scheduler, node, desk) -> None:
    peer = await accepted(scheduler)
    await peer.say(assign(), assign())
    await peer.hear(JobAck)
    await peer.hear(JobAck)
    await desk.end("job-1/1", DONE)
    await peer.hear(JobResult)
    await peer.say(assign())
    await peer.hear(JobResult)
    assert desk.begun == ["job-1/1"]


async def test_above_its_capacity_it_refuses(scheduler, node, desk) -> None:
    peer = await accepted(scheduler)
    await peer.say(assign("job-1"), assign("job-2"), assign("job-3"))
    refusal = await peer.hear(JobResult)
    assert (refusal.job_id, refusal.error.code) == ("job-3", "NODE_OVERLOADED")


async def test_a_cancelled_handler_is_cancelled(scheduler, node, desk) -> None:
    peer = await accepted(scheduler)
    await peer.say(assign())
    await peer.hear(JobStarted)
    await peer.say(JobCancel(job_id="job-1", attempt_id=1))
    await wait_until(lambda: desk.cancelled == ["job-1/1"], description="the handler was cancelled")
    await wait_until(lambda: node.running_jobs == 0, description="its slot is free")
    assert not peer.unheard(JobResult)


async def test_a_job_cancelled_before_it_began_frees_its_slot(scheduler, node, desk) -> None:
    peer = await accepted(scheduler)
    await peer.say(assign(), JobCancel(job_id="job-1"))
    await peer.hear(JobAck)
    await wait_until(lambda: node.running_jobs == 0, description="its slot is free")


async def test_a_cancel_of_an_older_attempt_leaves_the_newer_alone(scheduler, node, desk) -> None:
    peer = await accepted(scheduler)
    await peer.say(assign(attempt_id=1), assign(attempt_id=2), JobCancel(job_id="job-1", attempt_id=1))
    await desk.end("job-1/2", DONE)
    assert (await peer.hear(JobResult)).attempt_id == 2


async def test_a_handler_that_will_not_stop_is_not_listened_to(scheduler, clock) -> None:
    may_end = asyncio.Event()

    async def stubborn(_job) -> Translation:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await may_end.wait()
        return DONE

    async with serving(scheduler, stubborn, clock) as node:
        peer = await accepted(scheduler)
        await peer.say(assign())
        await peer.hear(JobStarted)
        await peer.say(JobCancel(job_id="job-1"))
        assert node.running_jobs == 1
        may_end.set()
        await wait_until(lambda: node.running_jobs == 0, description="it has ended")
        assert not peer.unheard(JobResult)


@pytest.mark.parametrize("code", COME_BACK)
async def test_it_comes_back_after_every_code_that_asks_for_it(scheduler, node, clock, code) -> None:
    peer = await accepted(scheduler)
    await peer.close(code)
    again = await come_back(scheduler, node, clock)
    assert again.register.node_id == "node-1"


@pytest.mark.parametrize("code", GIVE_UP)
async def test_it_gives_up_after_every_code_that_asks_for_it(scheduler, node, clock, code) -> None:
    peer = await accepted(scheduler)
    await peer.close(code)
    with pytest.raises(NodeGaveUp, match=str(int(code))):
        await asyncio.wait_for(node.running, 5)


async def test_a_cut_connection_is_made_again(scheduler, node, clock) -> None:
    peer = await accepted(scheduler)
    peer.cut()
    await come_back(scheduler, node, clock)


async def test_pauses_grow_while_nothing_is_achieved_and_differ(scheduler, node, clock) -> None:
    pauses = []
    for _ in range(8):
        peer = await scheduler.peer()
        await peer.hear(NodeRegister)
        await peer.close(CloseCode.TRY_AGAIN_LATER)
        pauses.append(await pausing(node, clock))
        clock.advance(pauses[-1] + 0.001)
    for pause, most in zip(pauses, (1, 2, 4, 8, 16, 32, 64, 64), strict=True):
        assert most / 2 <= pause <= most
    assert len(set(pauses)) == len(pauses)
    await accepted(scheduler)
    await scheduler.peers[-1].close(CloseCode.SERVICE_RESTART)
    assert await pausing(node, clock) <= 1, "a registration makes them short again"


async def test_a_node_that_was_replaced_waits_long_before_it_takes_its_place_back(
    scheduler, node, clock
) -> None:
    peer = await accepted(scheduler)
    await peer.close(CloseCode.REPLACED)
    assert await pausing(node, clock) >= 32


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_a_server_in_trouble_is_tried_again(scheduler, node, clock, status) -> None:
    peer = await accepted(scheduler)
    scheduler.status = status
    peer.cut()
    for _ in range(2):
        await pausing(node, clock)
        clock.advance(64)
    await pausing(node, clock)
    scheduler.status = None
    await come_back(scheduler, node, clock)


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_server_that_is_no_scheduler_is_given_up(scheduler, desk, clock, status) -> None:
    scheduler.status = status
    async with serving(scheduler, desk.handle, clock) as node:
        with pytest.raises(NodeGaveUp, match=str(status)):
            await asyncio.wait_for(node.running, 5)


async def test_a_job_outlives_the_connection(scheduler, node, desk, clock) -> None:
    peer = await accepted(scheduler)
    await peer.say(assign())
    await peer.hear(JobStarted)
    peer.cut()
    again = await come_back(scheduler, node, clock)
    assert [held.job_id for held in again.register.held_jobs] == ["job-1"]
    await desk.end("job-1/1", DONE)
    assert (await again.hear(JobResult)).text_asr == "hello"


async def test_a_result_without_a_connection_is_delivered_later(scheduler, node, desk, clock) -> None:
    peer = await accepted(scheduler)
    await peer.say(assign())
    await peer.hear(JobStarted)
    await peer.close(CloseCode.SERVICE_RESTART)
    await pausing(node, clock)
    await desk.end("job-1/1", DONE)
    await wait_until(lambda: node.running_jobs == 0, description="the job is done")
    clock.advance(1)
    again = await accepted(scheduler)
    assert [held.job_id for held in again.register.held_jobs] == ["job-1"]
    assert (await again.hear(JobResult)).job_id == "job-1"


async def test_an_error_that_asks_to_register_again_is_obeyed(scheduler, node, clock) -> None:
    peer = await accepted(scheduler)
    await peer.say(ErrorMessage(code="NODE_UNAVAILABLE", message="not registered"))
    await due_within(clock, 1)
    clock.advance(1)
    assert (await peer.hear(NodeRegister)).node_id == "node-1"


async def test_a_scheduler_that_never_acknowledges_is_left_and_tried_again(scheduler, node, clock) -> None:
    peer = await scheduler.peer()
    await peer.hear(NodeRegister)
    clock.advance(10)
    await asyncio.wait_for(peer.ended.wait(), 5)
    await come_back(scheduler, node, clock)


async def test_a_refused_registration_ends_the_node(scheduler, node) -> None:
    peer = await scheduler.peer()
    await peer.hear(NodeRegister)
    await peer.say(ErrorMessage(code="NO_GPU_AVAILABLE", message="a GPU is needed"))
    with pytest.raises(NodeRefused, match="a GPU is needed"):
        await asyncio.wait_for(node.running, 5)


async def test_messages_of_another_protocol_are_survived(scheduler, node, desk) -> None:
    peer = await accepted(scheduler)
    for nonsense in (
        "not JSON",
        '{"type":"song"}',
        '{"type":"job_assign","job_id":5}',
        '{"type":"session_init"}',
    ):
        await peer.socket.send_str(nonsense)
    await peer.socket.send_bytes(b"\xff\x00")
    await peer.say(assign())
    await peer.hear(JobAck)


async def test_a_delayed_acknowledgement_is_waited_for(scheduler, node, clock) -> None:
    peer = await scheduler.peer()
    await peer.hear(NodeRegister)
    clock.advance(9)
    await peer.say(NodeRegisterAck(node_id="node-1", message="registered"))
    await peer.hear(NodeHeartbeat)


# Leaving


async def test_it_drains_and_leaves_in_order(scheduler, node, desk) -> None:
    peer = await accepted(scheduler)
    await peer.say(assign("job-1"))
    await peer.hear(JobStarted)
    draining = asyncio.create_task(node.drain())
    assert (await peer.hear(NodeHeartbeat)).resource_usage.gpu_queue_length == 1
    await peer.say(assign("job-2"))
    assert (await peer.hear(JobResult)).error.code == "NODE_OVERLOADED"
    assert not draining.done()
    await desk.end("job-1/1", DONE)
    assert (await peer.hear(JobResult)).success
    await asyncio.wait_for(draining, 5)
    await asyncio.wait_for(node.running, 5)
    assert peer.socket.close_code == CloseCode.GOING_AWAY


async def test_an_idle_node_leaves_at_once(scheduler, node) -> None:
    await accepted(scheduler)
    await asyncio.wait_for(node.drain(), 5)
    assert node.running.done() or await asyncio.wait_for(node.running, 5) is None


async def test_a_drain_that_takes_too_long_is_cut_short(scheduler, node, desk, clock) -> None:
    peer = await accepted(scheduler)
    await peer.say(assign())
    await peer.hear(JobStarted)
    draining = asyncio.create_task(node.drain())
    await peer.hear(NodeHeartbeat)
    clock.advance(30)
    await asyncio.wait_for(draining, 5)
    assert desk.cancelled == ["job-1/1"]


async def test_a_node_without_a_connection_can_leave(scheduler, node, clock) -> None:
    peer = await accepted(scheduler)
    peer.cut()
    await pausing(node, clock)
    await asyncio.wait_for(node.drain(), 5)


async def test_a_node_that_leaves_without_a_connection_delivers_first(scheduler, node, desk, clock) -> None:
    peer = await accepted(scheduler)
    await peer.say(assign())
    await peer.hear(JobStarted)
    peer.cut()
    await pausing(node, clock)
    draining = asyncio.create_task(node.drain())
    await desk.end("job-1/1", DONE)
    await wait_until(lambda: node.running_jobs == 0, description="the job is done")
    assert not draining.done()
    clock.advance(1)
    again = await accepted(scheduler)
    await again.hear(JobResult)
    await asyncio.wait_for(draining, 5)


async def test_an_operator_can_send_it_away(scheduler, node) -> None:
    peer = await accepted(scheduler)
    await peer.say(NodeControl(command="shutdown"))
    await asyncio.wait_for(node.running, 5)


async def test_the_first_signal_drains_and_the_second_stops(scheduler, desk, clock) -> None:
    options = LinkOptions(handle_signals=True)
    before = signal.getsignal(signal.SIGTERM)
    async with serving(scheduler, desk.handle, clock, options=options) as node:
        peer = await accepted(scheduler)
        await peer.say(assign())
        await peer.hear(JobStarted)
        signal.raise_signal(signal.SIGTERM)
        assert (await peer.hear(NodeHeartbeat)).resource_usage.gpu_queue_length == 1
        assert not node.running.done()
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(node.running, 5)
    assert desk.cancelled == ["job-1/1"]
    assert signal.getsignal(signal.SIGTERM) == before


async def test_the_fifteen_lines_of_the_manual_work(scheduler) -> None:
    async def translate(job) -> Translation:
        text = f"{len(job.pcm16())} bytes"
        await job.partial(text)
        return Translation(text_asr=text, text_translated=f"{text} in {job.tgt_lang}")

    node = Node(handler=translate, languages=("en", "pt"), capacity=4, url=scheduler.url)
    running = asyncio.create_task(node.run())
    peer = await accepted(scheduler)
    await peer.say(assign())
    assert (await peer.hear(JobResult)).text_translated == "3200 bytes in pt"
    await node.drain()
    await running
