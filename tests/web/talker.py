"""A person at the talk page and the house behind it: real browser, real instance, real Redis, real time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar

from lingua_scheduler.app import Instance, running
from lingua_scheduler.edge.server import SESSION_PATH
from lingua_scheduler.node.scripted import Script, ScriptedNode
from lingua_scheduler.store.connection import StoreOptions
from lingua_scheduler.wire.audio import parse_frame
from lingua_scheduler.wire.speech import AudioChunk
from support import wait_until
from web.browser import Watch
from world import configured

PATIENCE_S = 60.0

P = TypeVar("P", bound="Talker")

# Remembers every sound that is played, in the page.
EAR = """
globalThis.played = [];
const start = AudioBufferSourceNode.prototype.start;
AudioBufferSourceNode.prototype.start = function (...rest) {
  const samples = this.buffer.getChannelData(0);
  const loudness = Math.sqrt(samples.reduce((sum, value) => sum + value * value, 0) / samples.length);
  played.push({ seconds: this.buffer.duration, loudness, atS: rest[1] ?? 0, beganMs: performance.now() });
  return start.apply(this, rest);
};
"""


class Wire:
    """One WebSocket of the page, as the browser sees it."""

    def __init__(self, socket: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        self.received: list[dict[str, Any]] = []
        self.audio: dict[int, bytes] = {}  # by seq
        self.finals: list[int] = []
        socket.on("framesent", self._sent)
        socket.on("framereceived", lambda data: self.received.append(json.loads(data)))

    def _sent(self, data: str | bytes) -> None:
        if isinstance(data, str):
            self.sent.append({**json.loads(data), "frames before": len(self.audio)})
            return
        self._chunk(parse_frame(data, 0))

    def _chunk(self, chunk: AudioChunk) -> None:
        self.audio[chunk.seq] = chunk.audio
        if chunk.is_final:
            self.finals.append(chunk.seq)

    def said(self, message_type: str) -> list[dict[str, Any]]:
        """Give what was sent of a type."""
        return [message for message in self.sent if message["type"] == message_type]


class Talker:
    """Somebody who uses the page."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.watch = Watch(page)
        self.wires: list[Wire] = []
        page.on("websocket", lambda socket: self.wires.append(Wire(socket)))

    async def visit(self, url: str) -> Self:
        """Open the page and wait until it is of use."""
        await self.page.goto(url)
        await self.sees("#talk:enabled")
        return self

    async def start(self) -> Self:
        """Press Start and wait for the connection."""
        await self.page.click("#talk")
        await self.sees('#state[data-state="open"]')
        return self

    async def sees(self, selector: str, *, count: int = 1) -> None:
        """Wait until so many of these are in sight, or are in the page without being seen."""
        locator = self.page.locator(selector)

        async def found() -> bool:
            return await locator.count() >= count

        await wait_until(found, description=f"{count} x {selector}", timeout_s=PATIENCE_S)

    async def reads(self, selector: str, text: str) -> None:
        """Wait until an element has this text in it."""

        async def found() -> bool:
            return text in (await self.page.locator(selector).first.inner_text())

        await wait_until(found, description=f"{text!r} in {selector}", timeout_s=PATIENCE_S)

    async def press(self) -> None:
        """Put the mouse on the talk button and hold it down."""
        await self.page.hover("#talk")
        await self.page.mouse.down()

    async def release(self) -> None:
        """Let the mouse go."""
        await self.page.mouse.up()

    async def spoke(self, frames: int) -> None:
        """Wait until so many more frames of speech have left the page."""
        before = self.frames
        await wait_until(
            lambda: self.frames >= before + frames, description=f"{frames} frames", timeout_s=PATIENCE_S
        )

    async def say(self, frames: int = 8) -> None:
        """Hold the button for so many frames of 100 ms; with fewer it would be a tap, which latches."""
        before = self.finals
        await self.press()
        await self.spoke(frames)
        await self.release()
        await wait_until(lambda: self.finals > before, description="a final", timeout_s=PATIENCE_S)

    async def lines(self) -> list[list[str]]:
        """Give the captions: state and both texts of each line."""
        return await self.page.evaluate(
            "() => [...document.querySelectorAll('#lines .line')].map((line) =>"
            " [line.dataset.state, ...[...line.children].map((cell) => cell.textContent)])"
        )

    async def played(self) -> list[dict[str, float]]:
        """Give every sound that was begun."""
        return await self.page.evaluate("() => played")

    def spoken(self) -> bytes:
        """Give all audio that left the page, once each, in the order of its numbers."""
        frames = {seq: audio for wire in self.wires for seq, audio in wire.audio.items()}
        return b"".join(frames[seq] for seq in sorted(frames))

    @property
    def frames(self) -> int:
        """How many frames of audio were sent, over all connections."""
        return sum(len(wire.audio) for wire in self.wires)

    @property
    def finals(self) -> int:
        """How many utterances were ended, over all connections."""
        return sum(len(wire.finals) for wire in self.wires)

    @property
    def wire(self) -> Wire:
        """The newest connection."""
        return self.wires[-1]

    def said(self, message_type: str) -> list[dict[str, Any]]:
        """Give what was sent of a type, over all connections."""
        return [message for wire in self.wires for message in wire.said(message_type)]


@asynccontextmanager
async def window(browser: Any, person: type[P], script: str = "", **context: Any) -> AsyncIterator[P]:
    """Let somebody come to a fresh browser window; the page must not complain about anything."""
    options = {"viewport": {"width": 1280, "height": 800}, "locale": "en-US", **context}
    fresh = await browser.new_context(**options)
    try:
        page = await fresh.new_page()
        await page.add_init_script(EAR + script)
        made = person(page)
        yield made
        assert made.watch.left() == []
    finally:
        await fresh.close()


@asynccontextmanager
async def talker(browser: Any, **context: Any) -> AsyncIterator[Talker]:
    """Let somebody come to the talk page."""
    async with window(browser, Talker, **context) as made:
        yield made


class House:
    """One instance under test."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.url = instance.url

    def session_pumps(self) -> list[Any]:
        """Give the server's side of every client's socket."""
        return [pump for pump in self.instance.edge._pumps if pump._lane.path == SESSION_PATH]

    def cut(self) -> None:
        """Cut every client's connection without a word."""
        for pump in self.session_pumps():
            pump.cut()

    def close(self, code: int) -> None:
        """Close every client's connection with a code."""
        for pump in self.session_pumps():
            pump.sink.close(code, "told by the test")

    @asynccontextmanager
    async def node(self, **script: Any) -> AsyncIterator[ScriptedNode]:
        """Run a node under full control that the instance knows to be ready."""
        async with ScriptedNode(self.url, Script(**script)) as node:
            known = self.instance.snapshot
            await wait_until(
                lambda: any(f.node_id == node.node_id and f.closed is None for f in known.nodes()),
                description="the node is ready",
            )
            yield node


@asynccontextmanager
async def house(store: StoreOptions, **tables: Any) -> AsyncIterator[House]:
    """Run an instance in real time."""
    async with running(configured(store, **tables)) as instance:
        yield House(instance)
