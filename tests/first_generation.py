"""A node of the first generation, as it was observed in the field, quirks and all.

What it hears is what the audio spells: UTF-8 text between bytes that no text contains. It announces nothing,
acknowledges nothing, ignores cancels, takes no job and no index twice, needs a flag to end a turn, translates
in order of the indexes only, and answers under the job that triggered the work.
"""

from __future__ import annotations

import asyncio
import base64
from collections import defaultdict
from typing import Any

from world import KINDS, SERVICES, FakeNode, World

FILL = b"\xff"
SHORTEST_CHARS = 6  # recognised text shorter than this is thrown away
HELD_CHARS = 40  # a text up to this length that ended by a time-out only is not translated
ENOUGH_MS = 10_000  # audio of an open turn is recognised once there is so much of it
MS_PER_BYTE = 20 / 60


def spoken(text: str, *, ms: int = 400) -> bytes:
    """Make audio that says `text` and counts as so many milliseconds."""
    return text.encode().ljust(round(ms / MS_PER_BYTE), FILL)


class Memory:
    """What the node's process knows, over all its connections."""

    def __init__(self) -> None:
        self.jobs: set[str] = set()
        self.indexes: set[tuple[str, int]] = set()
        self.buffers: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.texts: dict[str, list[str]] = defaultdict(list)  # recognised parts of open turns
        self.last_text: dict[str, str] = {}
        self.executed: dict[str, int] = {}  # newest index that was translated, by session
        self.translating: dict[str, set[int]] = defaultdict(set)
        self.out_of_order: list[int] = []  # indexes that came too late or would have waited in vain


class FirstGenerationNode(FakeNode):
    """Works by itself; `pace` gates the translation step, so that a test can keep jobs under way."""

    def __init__(self, house: World, socket: Any, memory: Memory) -> None:
        super().__init__(socket)
        self.memory = memory
        self.pace = asyncio.Event()
        self.pace.set()
        self.acknowledges_merged = False  # answers pieces that own no text with NO_TEXT_ASSIGNED
        self.flags: list[tuple[bool, bool, bool]] = []
        self._house = house
        self._work: set[asyncio.Task[None]] = set()

    @classmethod
    async def join(
        cls, house: World, *, again: FirstGenerationNode | None = None, languages: tuple[str, ...] = ()
    ) -> FirstGenerationNode:
        """Connect, register and report; `again` returns with that node's memory and id."""
        memory = again.memory if again else Memory()
        node = cls(house, await house.node_socket(), memory)
        await node.register(
            *languages,
            node_id=again.id if again else None,
            features=None,
            features_supported={"emotion_detection": False},
            capability_by_type=[{"type": kind, "ready": True, "devices": ["gpu"]} for kind in KINDS],
            installed_services=SERVICES,
        )
        await node.beat()
        await node.expect("node_status", status="ready")
        node._start(node._listen())
        if again is not None:
            again.successor = node
        return node

    successor: FirstGenerationNode | None = None

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _listen(self) -> None:
        while not self.socket.closed:
            async with self._arrived:
                await self._arrived.wait_for(lambda: bool(self.seen("job_assign")) or self.socket.closed)
            if self.seen("job_assign"):
                self._start(self._handle(await self.job()))

    async def _handle(self, job: dict[str, Any]) -> None:
        memory, index = self.memory, (job["session_id"], job["utterance_index"])
        ends = ("is_manual_cut", "is_timeout_triggered", "is_max_duration_triggered")
        manual, timeout, _ = flags = tuple(job.get(name, False) for name in ends)
        self.flags.append(flags)
        if job["job_id"] in memory.jobs:
            await self._refuse(job, f"DUPLICATE_JOB_ID: {job['job_id']}")
            return
        memory.jobs.add(job["job_id"])
        if index in memory.indexes:
            await self._refuse(job, f"DUPLICATE_UTTERANCE_INDEX: {index}")
            return
        memory.indexes.add(index)
        turn = f"{job['turn_id']}|{job['tgt_lang']}" if "turn_id" in job else job["job_id"]
        buffer = memory.buffers[turn]
        buffer.append(job)
        buffered_ms = sum(len(piece["audio"]) for piece in buffer) * MS_PER_BYTE
        if manual or timeout:
            await self._end_turn(turn, job, manual=manual)
        elif buffered_ms >= ENOUGH_MS:
            text = self._recognise(turn)
            memory.texts[turn].append(text)
            await self._reply(job, text, "")

    def _recognise(self, turn: str) -> str:
        pieces = self.memory.buffers.pop(turn)
        return b"".join(piece["audio"].replace(FILL, b"") for piece in pieces).decode()

    async def _end_turn(self, turn: str, job: dict[str, Any], *, manual: bool) -> None:
        memory, session = self.memory, job["session_id"]
        merged = memory.buffers[turn][:-1]
        text = "".join([*memory.texts.pop(turn, []), self._recognise(turn)])
        if self.acknowledges_merged:
            for piece in merged:
                borrowed = {"attempt_id": job["attempt_id"], "trace_id": job["trace_id"]}
                await self._reply(piece, "", "", extra={"reason": "NO_TEXT_ASSIGNED"}, **borrowed)
        if len(text) < SHORTEST_CHARS:
            await self._reply(job, "", "", extra={"reason": "ASR_EMPTY"})
            return
        translated = await self._translate(job, text)
        if memory.last_text.get(session) == text:
            return
        memory.last_text[session] = text
        await self._reply(job, text, translated if manual or len(text) > HELD_CHARS else "")

    async def _translate(self, job: dict[str, Any], text: str) -> str:
        memory, session, index = self.memory, job["session_id"], job["utterance_index"]
        executed, underway = memory.executed.get(session, -1), memory.translating[session]
        if index <= executed or (underway and index != max(underway) + 1):
            memory.out_of_order.append(index)
            return ""
        underway.add(index)
        await self.pace.wait()
        underway.discard(index)
        memory.executed[session] = max(index, memory.executed.get(session, -1))
        return f"[{text}]"

    async def _reply(self, job: dict[str, Any], text: str, translated: str, **fields: Any) -> None:
        node: FirstGenerationNode = self
        while node.successor is not None:
            node = node.successor
        if not node.socket.closed:
            audio = base64.b64encode(b"\x02\x00ab").decode() if translated else ""
            await node.answer(job, text, translated, tts_audio=audio, tts_format="opus", **fields)

    async def _refuse(self, job: dict[str, Any], message: str) -> None:
        await self.fail(job, "PROCESSING_ERROR", message)
