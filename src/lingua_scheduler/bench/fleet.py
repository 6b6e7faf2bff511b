"""The simulated fleet: nodes that speak the real protocol and keep time instead of translating.

Run as a module, with the file of its settings as the one argument. All nodes share one process and one heap
of moments. What a node answers names the utterance and the audio it got, so that the speaker can check it.
"""

from __future__ import annotations

import random
import sys
import time

import msgspec

from lingua_scheduler.bench import plan, sound
from lingua_scheduler.bench.reactor import Connection, Reactor
from lingua_scheduler.bench.records import (
    DONE,
    FINISH,
    READY,
    START,
    Job,
    Presence,
    Settings,
    Worked,
    settings_of,
    write,
)
from lingua_scheduler.bench.reporting import Line
from lingua_scheduler.node.announcement import About, announcement
from lingua_scheduler.node.usage import Usage
from lingua_scheduler.node.wording import heartbeat_of
from lingua_scheduler.wire.address import NODE_PATH
from lingua_scheduler.wire.codec import encode
from lingua_scheduler.wire.common import Pipeline

_IDLE = Usage(cpu_percent=5.0, mem_percent=20.0, gpu_percent=5.0)
_ASSIGN, _CANCEL, _REGISTERED, _ERROR = (
    f'{{"type":"{word}"'.encode() for word in ("job_assign", "job_cancel", "node_register_ack", "error")
)
_RETRY_S = 0.5


class _Assign(msgspec.Struct):
    """What of `job_assign` matters here; the audio is only measured."""

    job_id: str
    attempt_id: int
    session_id: str
    utterance_index: int
    tgt_lang: str
    trace_id: str
    pipeline: Pipeline
    audio: msgspec.Raw
    text: str | None = None


class _Cancel(msgspec.Struct):
    job_id: str
    attempt_id: int | None = None


_read_assign = msgspec.json.Decoder(_Assign).decode
_read_cancel = msgspec.json.Decoder(_Cancel).decode


class Fleet:
    """All nodes of a run."""

    def __init__(self, settings: Settings) -> None:
        self._profile = profile = settings.profile
        self.reactor = Reactor()
        self.settings = settings
        self.worked = Worked()
        self.service = plan.Draws.of_service(profile)
        self.voice = sound.Behind("tts_audio", bytes(profile.fleet.result_bytes * 3 // 4))
        self.mute = sound.Behind("tts_audio", b"")
        self._line = Line(self.reactor, {START: self._start, FINISH: self._finish})
        self._nodes = [Node(self, each) for each in plan.nodes(profile)]
        self._absent = {node.plan.number for node in self._nodes}

    def run(self) -> None:
        """Serve until told to finish."""
        now_s = time.monotonic()
        for number, node in enumerate(self._nodes):
            self.reactor.at(now_s + number / self._profile.fleet.connects_per_s, node.connect)
        if not self._nodes:
            self._line.say(READY)
        self.reactor.run()

    def present(self, number: int) -> None:
        """A node is registered."""
        if number in self._absent:
            self._absent.discard(number)
            if not self._absent:
                self._line.say(READY)

    def _start(self, moment: str) -> None:
        for crash in plan.crashes(self._profile):
            self.reactor.at(float(moment) + crash.at_s, self._nodes[crash.node].crash)

    def _finish(self, _: str) -> None:
        write(self.settings.observations, self.worked)
        self._line.say(DONE)
        self.reactor.stop()


class Node:
    """One node."""

    def __init__(self, fleet: Fleet, plan_: plan.NodePlan) -> None:
        profile = fleet.settings.profile
        self._fleet = fleet
        self.plan = plan_
        self._id = f"bench-{plan_.number}"
        self._heartbeat_s = profile.fleet.heartbeat_s
        self._register = announcement(
            plan_.languages,
            plan_.slots,
            About(node_id=self._id, version="bench", text_jobs=True),
            self._heartbeat_s,
        )
        self._connection: Connection | None = None
        self._registered = False
        self._life = 0  # counts registrations
        self._working: dict[tuple[str, int], Job] = {}

    def connect(self, _due_s: float) -> None:
        """Come, or come back."""
        address = self._fleet.settings.addresses[self.plan.instance]
        self._connection = Connection(self._fleet.reactor, address, NODE_PATH, self)

    def crash(self, due_s: float) -> None:
        """Vanish with everything that was being worked on, and come back after a while."""
        if self._connection is not None:
            self._connection.cut()
            self.ended(0)
            self._fleet.reactor.at(due_s + self._fleet.settings.profile.fleet.return_s, self.connect)

    # What the connection says

    def opened(self) -> None:
        """Register at once."""
        self._send(encode(self._register))

    def refused(self, _status: int, retry_after_s: float | None) -> None:
        """Try again."""
        self._connection = None
        self._fleet.reactor.at(time.monotonic() + (retry_after_s or _RETRY_S), self.connect)

    def ended(self, code: int) -> None:
        """Forget what was being worked on; a connection that the server ended is made anew."""
        self._connection = None
        if self._registered:
            self._registered = False
            self._fleet.worked.presences.append(Presence(self.plan.number, time.monotonic(), 0))
        self._working.clear()
        if code:
            self._fleet.worked.complaints.append(f"the connection of {self._id} was closed with {code}")
            self._fleet.reactor.at(time.monotonic() + _RETRY_S, self.connect)

    def heard(self, payload: bytes, now_s: float) -> None:
        """Take a message of the scheduler."""
        if payload.startswith(_ASSIGN):
            self._assigned(_read_assign(payload), now_s)
        elif payload.startswith(_CANCEL):
            self._cancelled(_read_cancel(payload), now_s)
        elif payload.startswith(_REGISTERED):
            self._came(now_s)
        elif payload.startswith(_ERROR):
            self._fleet.worked.complaints.append(f"{self._id} was told {payload[:200].decode()}")

    def _came(self, now_s: float) -> None:
        self._registered = True
        self._life += 1
        life = self._life
        self._fleet.worked.presences.append(Presence(self.plan.number, now_s, self.plan.slots))
        self._beat()

        def keep_beating(due_s: float) -> float | None:
            if not self._registered or life != self._life:
                return None
            self._beat()
            return due_s + self._heartbeat_s

        first_s = now_s + self._heartbeat_s * random.random()  # noqa: S311 spreads heartbeats
        self._fleet.reactor.at(first_s, keep_beating)
        self._fleet.present(self.plan.number)

    # Work

    def _assigned(self, assign: _Assign, now_s: float) -> None:
        client, _, index = assign.trace_id.removeprefix("bench-").partition("-")
        lasts_s = self._fleet.service.of(int(client), int(index or 0)) * self.plan.factor
        job = Job(
            session_id=assign.session_id,
            index=assign.utterance_index,
            lang=assign.tgt_lang,
            job_id=assign.job_id,
            attempt=assign.attempt_id,
            node=self.plan.number,
            assigned_s=now_s,
            due_s=now_s + lasts_s,
        )
        self._fleet.worked.jobs.append(job)
        self._working[job.job_id, job.attempt] = job
        ids = (
            f'"job_id":"{job.job_id}","attempt_id":{job.attempt},"node_id":"{self._id}",'
            f'"session_id":"{job.session_id}","trace_id":"{assign.trace_id}"'
        )
        self._send(f'{{"type":"job_ack",{ids}}}'.encode())
        self._send(f'{{"type":"job_started",{ids}}}'.encode())
        said = assign.text or f"{job.session_id} {job.index} {_decoded_bytes(assign.audio)}"
        head = (
            f'{{"type":"job_result",{ids},"utterance_index":{job.index},"success":true,'
            f'"text_asr":"{said}","text_translated":"{said}","tts_format":"pcm16",'
            f'"processing_time_ms":{round(lasts_s * 1000)},'
        ).encode()
        behind = self._fleet.voice if assign.pipeline.use_tts else self._fleet.mute
        if lasts_s:
            self._fleet.reactor.at(job.due_s, lambda _: self._answer(job, head, behind))
        else:
            self._answer(job, head, behind)

    def _answer(self, job: Job, head: bytes, behind: sound.Behind) -> None:
        if self._working.pop((job.job_id, job.attempt), None) is None or self._connection is None:
            return
        job.answered_s = time.monotonic()
        self._fleet.worked.lateness_s.append(job.answered_s - job.due_s)
        self._connection.send(behind.message(head))

    def _cancelled(self, cancel: _Cancel, now_s: float) -> None:
        for job_id, attempt in list(self._working):
            if job_id == cancel.job_id and cancel.attempt_id in (None, attempt):
                self._working.pop((job_id, attempt)).cancelled_s = now_s

    def _beat(self) -> None:
        now_ms = int(time.time() * 1000)
        beat = heartbeat_of(self._register, self._id, _IDLE, running_jobs=len(self._working), now_ms=now_ms)
        self._send(encode(beat))

    def _send(self, message: bytes) -> None:
        if self._connection is not None:
            self._connection.send(sound.text_message(message))


def _decoded_bytes(audio: msgspec.Raw) -> int:
    """Tell how many bytes a JSON string of base64 stands for."""
    text = bytes(memoryview(audio)[-3:-1])
    return (len(memoryview(audio)) - 2) * 3 // 4 - text.count(b"=")


if __name__ == "__main__":
    Fleet(settings_of(sys.argv)).run()
