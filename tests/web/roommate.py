"""A person at the room page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self

from support import wait_until
from web.talker import PATIENCE_S, House, Talker, window

# Remembers every connection to another person, and every volume control with a meter behind it, in the page.
TAP = """
globalThis.calls = [];
globalThis.RTCPeerConnection = class extends RTCPeerConnection {
  constructor(...rest) {
    super(...rest);
    calls.push(this);
  }
};
globalThis.gains = [];
globalThis.GainNode = class extends GainNode {
  constructor(...rest) {
    super(...rest);
    this.meter = new AnalyserNode(this.context);
    this.connect(this.meter);
    gains.push(this);
  }
};
"""
# The peak of what is heard of the others now.
PEAK = """() => Math.max(0, ...gains.flatMap(({ meter }) => {
  const samples = new Float32Array(meter.fftSize);
  meter.getFloatTimeDomainData(samples);
  return [...samples.map(Math.abs)];
}))"""
# How many packets of sound have come from each of the others.
HEARD = """async () => {
  const reports = await Promise.all(calls.map((call) => call.getStats()));
  const facts = reports.flatMap((report) => [...report.values()]);
  const voices = facts.filter(({ type }) => type === "inbound-rtp");
  return voices.map(({ packetsReceived }) => packetsReceived);
}"""


class Roommate(Talker):
    """Somebody who uses the room page."""

    async def visit(self, url: str) -> Self:
        """Open the page and wait until it is of use."""
        await self.page.goto(url)
        await self.sees("#create:enabled")
        return self

    async def choose(self, *, name: str = "", lang: str = "en", take: str = "voice") -> Self:
        """Fill in the form."""
        await self.page.fill("#name", name)
        await self.page.select_option("#mine", lang)
        await self.page.click(f'#lobby [data-take="{take}"]')
        return self

    async def create(self) -> str:
        """Open a room; give its code."""
        await self.page.click("#create")
        await self.inside()
        return self.page.url.partition("#")[2]

    async def join(self, code: str) -> Self:
        """Join a room by typing its code."""
        await self.page.fill("#code", code)
        await self.page.click("#join")
        await self.inside()
        return self

    async def inside(self) -> None:
        """Wait until the room has been entered and the microphone is there."""
        await self.sees("#room:not([hidden])")
        await self.sees('#talk[data-state="ready"]')

    async def heard(self) -> list[list[str]]:
        """Give the captions: who, in the person's language, and as it was said."""
        return await self.page.evaluate(
            "() => [...document.querySelectorAll('#lines .heard')].map((line) =>"
            " [...line.children].map((part) => part.textContent))"
        )

    async def reads_line(self, *line: str) -> None:
        """Wait until this line is among the captions."""

        async def found() -> bool:
            return list(line) in await self.heard()

        await wait_until(found, description=f"the line {line}", timeout_s=PATIENCE_S)

    async def members(self) -> list[str]:
        """Give the names of those who are in the room."""
        return await self.page.locator("#members .name").all_inner_texts()

    async def meets(self, *names: str) -> None:
        """Wait until exactly these are in the room."""

        async def found() -> bool:
            return await self.members() == list(names)

        await wait_until(found, description=f"{names} in the room", timeout_s=PATIENCE_S)

    async def connected(self, others: int) -> None:
        """Wait until the own voices of so many others can be heard."""
        states = "() => calls.filter((call) => call.connectionState === 'connected').length"

        async def found() -> bool:
            return await self.page.evaluate(states) == others

        await wait_until(found, description=f"{others} calls", timeout_s=PATIENCE_S)

    async def peak(self) -> float:
        """Give the peak of what is heard of the others' own voices now."""
        return await self.page.evaluate(PEAK)

    async def voices(self) -> list[int]:
        """Give how many packets came from each other member."""
        return await self.page.evaluate(HEARD)

    async def loudness(self) -> list[float]:
        """Give how loud the own voices of the others are played."""
        return await self.page.evaluate("() => gains.map(({ gain }) => Math.round(gain.value * 100) / 100)")


@asynccontextmanager
async def roommate(browser: Any, **context: Any) -> AsyncIterator[Roommate]:
    """Let somebody come to a fresh browser window; the page must not complain about anything."""
    async with window(browser, Roommate, TAP, **context) as made:
        yield made


@asynccontextmanager
async def gathering(browser: Any, home: House, *people: dict[str, Any]) -> AsyncIterator[list[Roommate]]:
    """Let people meet in a room; each is described by the words of `choose`, the first opens it."""
    async with AsyncExitStack() as stack:
        made = [await stack.enter_async_context(roommate(browser)) for _ in people]
        code = ""
        for person, about in zip(made, people, strict=True):
            await (await person.visit(f"{home.url}/room")).choose(**about)
            if code:
                await person.join(code)
            else:
                code = await person.create()
        for person in made:
            await person.sees("#members .member", count=len(people))
        yield made
