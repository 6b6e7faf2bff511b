"""The process of one or several nodes of a chaos run: run as a module, with its settings as one argument.

Most nodes are built with the SDK. Odd ones speak the protocol by hand, so that they can break it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from lingua_scheduler.aio import Tasks
from lingua_scheduler.chaos.habits import IDLE, Conduct, Habit, NodeSettings, translation
from lingua_scheduler.chaos.history import Op, Recorder
from lingua_scheduler.log import LogOptions, configure
from lingua_scheduler.node import About, Job, JobFailed, LinkOptions, Node, Translation
from lingua_scheduler.node.job import OVERLOADED
from lingua_scheduler.node.scripted import Script, ScriptedNode
from lingua_scheduler.wire.common import ErrorMessage
from lingua_scheduler.wire.node import JobAssign, JobCancel

READY = "ready"
"""What the process prints once all its nodes are registered."""

LANGUAGES = ("en", "pt")
_HEARTBEAT_S = 1.0
_LOOK_S = 0.02
_RETURN_S = 0.3
_ACK_LEAVES_S = 0.1
_REGISTER_AGAIN = "NODE_UNAVAILABLE"

_LINK = LinkOptions(
    heartbeat_s=_HEARTBEAT_S,
    ping_s=2.0,
    connect_timeout_s=2.0,
    registration_timeout_s=3.0,
    reconnect_min_s=0.1,
    reconnect_max_s=1.0,
    drain_s=8.0,
    handle_signals=False,
)


class Member(Protocol):
    """One node of the process."""

    async def run(self, registered: Callable[[], None]) -> None:
        """Serve until told to leave."""
        ...

    def leave(self) -> None:
        """Finish what runs, then end `run`."""
        ...


class SdkMember:
    """A node as people build it."""

    def __init__(self, node_id: str, conduct: Conduct) -> None:
        self._id = node_id
        self._conduct = conduct
        self._tasks = Tasks()
        self._node = Node(
            handler=self._handle,
            languages=LANGUAGES,
            capacity=conduct.settings.capacity,
            url=conduct.settings.url,
            about=About(node_id=node_id, usage=lambda: IDLE),
            options=_LINK,
        )

    async def run(self, registered: Callable[[], None]) -> None:
        """Serve until told to leave."""
        self._tasks.start(self._watch(registered), name="watch")
        await self._node.run()
        await self._tasks.stop()

    def leave(self) -> None:
        """Finish what runs, then end `run`."""
        self._tasks.start(self._node.drain(), name="drain")

    async def _watch(self, registered: Callable[[], None]) -> None:
        while True:
            await self._node.registered.wait()
            self._conduct.note(Op.REGISTERED, self._id, count=self._conduct.settings.capacity)
            registered()
            while self._node.registered.is_set():  # noqa: ASYNC110 the SDK tells of its coming only
                await asyncio.sleep(_LOOK_S)
            self._conduct.note(Op.DISCONNECTED, self._id)

    async def _handle(self, job: Job) -> Translation:
        conduct = self._conduct
        conduct.note_job(Op.ASSIGNED, self._id, job.assign)
        if conduct.habit is Habit.CRASH:
            await asyncio.sleep(_ACK_LEAVES_S)
            os.kill(os.getpid(), signal.SIGKILL)
        if conduct.habit is Habit.FULL:
            conduct.note_job(Op.ANSWERED, self._id, job.assign, reason=OVERLOADED)
            raise JobFailed(OVERLOADED, "this node has no room")
        try:
            await asyncio.sleep(conduct.work_s)
        except asyncio.CancelledError:
            conduct.note_job(Op.CANCELLED, self._id, job.assign)
            raise
        conduct.note_job(Op.ANSWERED, self._id, job.assign)
        return translation(job.assign, self._id)


class OddMember:
    """A node that does whatever its habit says; it takes every job, however many it has."""

    def __init__(self, node_id: str, conduct: Conduct) -> None:
        self._id = node_id
        self._conduct = conduct
        self._tasks = Tasks()
        self._working: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._leaving = asyncio.Event()
        self._unknown = False  # the scheduler has forgotten this node
        script = Script(
            node_id=node_id,
            languages=LANGUAGES,
            capacity=conduct.settings.capacity,
            heartbeat_s=_HEARTBEAT_S,
            acks=False,
            rule=self._take,
        )
        self._node = ScriptedNode(conduct.settings.url, script)

    async def run(self, registered: Callable[[], None]) -> None:
        """Serve until told to leave, over any number of connections."""
        while not self._leaving.is_set():
            try:
                await self._node.connect()
                await self._node.register()
                await self._node.beat()
            except Exception:  # noqa: BLE001 whatever the network does, the node comes back
                await self._node.crash()
            else:
                self._conduct.note(Op.REGISTERED, self._id, count=self._conduct.settings.capacity)
                registered()
                await self._serve()
                self._conduct.note(Op.DISCONNECTED, self._id)
                await (self._node.leave() if self._leaving.is_set() else self._node.crash())
            await asyncio.sleep(_RETURN_S)
        await self._tasks.stop()

    def leave(self) -> None:
        """Finish what runs, then end `run`."""
        self._leaving.set()

    async def _serve(self) -> None:
        self._unknown = False
        while self._node.close_code is None and not self._unknown:
            if self._leaving.is_set() and not self._working:
                return
            await asyncio.sleep(_LOOK_S)
            self._hear_cancels()

    def _take(self, job: JobAssign) -> None:
        self._hear_cancels()
        self._conduct.note_job(Op.ASSIGNED, self._id, job)
        key = job.job_id, job.attempt_id
        task = self._tasks.start(self._work(job), name=f"job {job.job_id}")
        self._working[key] = task
        task.add_done_callback(lambda _: self._working.pop(key, None))

    def _hear_cancels(self) -> None:
        """Read what came before, so that a freed place is seen free when the next job comes."""
        while self._node.received:
            message = self._node.received.popleft()
            if isinstance(message, JobCancel):
                self._cancelled(message)
            elif isinstance(message, ErrorMessage) and message.code == _REGISTER_AGAIN:
                self._unknown = True

    def _cancelled(self, message: JobCancel) -> None:
        for (job_id, attempt), task in list(self._working.items()):
            if job_id == message.job_id and message.attempt_id in (None, attempt):
                self._conduct.note(Op.CANCELLED, self._id, job=job_id, attempt=attempt)
                if self._conduct.habit is not Habit.LATE:
                    task.cancel()

    async def _work(self, job: JobAssign) -> None:
        try:
            await self._work_as(self._conduct.habit, job)
        except Exception:  # noqa: BLE001 the connection is gone: nobody hears the answer
            self._conduct.note_job(Op.ANSWERED, self._id, job, reason="unheard")

    async def _work_as(self, habit: Habit, job: JobAssign) -> None:
        conduct = self._conduct
        if habit is Habit.MUTE:
            await asyncio.Event().wait()
        await self._node.ack(job)
        if habit is Habit.CRASH:
            await asyncio.sleep(_ACK_LEAVES_S)
            os.kill(os.getpid(), signal.SIGKILL)
        if habit is Habit.FULL:
            await self._node.answer(job, JobFailed(OVERLOADED, "this node has no room"))
            conduct.note_job(Op.ANSWERED, self._id, job, reason=OVERLOADED)
            return
        await asyncio.sleep(conduct.work_s)
        conduct.note_job(Op.ANSWERED, self._id, job)  # before it is sent: nobody may know it earlier
        for _ in range(2 if habit is Habit.TWICE else 1):
            await self._node.answer(job, translation(job, self._id))


class _Household:
    """All nodes of the process."""

    def __init__(self, settings: NodeSettings) -> None:
        self._conduct = Conduct(settings, Recorder(Path(settings.history), settings.ids[0]))
        kind: Callable[[str, Conduct], Member] = OddMember if settings.odd else SdkMember
        self._members = {name: kind(name, self._conduct) for name in settings.ids}
        self._absent = set(settings.ids)

    async def run(self) -> None:
        """Serve until every node has left."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._leave)
        obeying = loop.create_task(self._conduct.obey())
        runs = (member.run(partial(self._registered, name)) for name, member in self._members.items())
        await asyncio.gather(*runs)
        obeying.cancel()

    def _leave(self) -> None:
        for member in self._members.values():
            member.leave()

    def _registered(self, name: str) -> None:
        if self._absent:
            self._absent.discard(name)
            if not self._absent:
                print(READY, flush=True)  # noqa: T201 the driver waits for it


async def _main(settings: NodeSettings) -> None:
    configure(LogOptions(level="warning"))
    await _Household(settings).run()


if __name__ == "__main__":
    asyncio.run(_main(msgspec.json.decode(sys.argv[1], type=NodeSettings)))
