"""An operator at the dashboards and a deployment worth looking at."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from lingua_scheduler.core.model import InstanceId, NodeId, PoolId
from lingua_scheduler.core.placement import NodeFacts
from support import wait_until
from web.browser import Watch

PAGES = ("dashboard", "cluster", "compute-power", "models", "languages")
PATIENCE_S = 30.0
MARKUP = "<img src=x onerror=\"globalThis.hacked='yes'\"><b>&amp;"
SHOWN = "main:not([aria-busy]) h1"


class Operator:
    """Somebody who looks at the pages."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.watch = Watch(page)
        self.answers: list[tuple[str, int]] = []  # paths and statuses of what the API said
        self._questions = 0
        page.on("request", self._count)
        page.on("response", self._note)

    @property
    def waits(self) -> bool:
        """The API was asked something and has not answered."""
        return self._questions > len(self.answers)

    def _count(self, request: Any) -> None:
        self._questions += "/api/" in request.url

    def _note(self, response: Any) -> None:
        path = "/" + response.url.split("/", 3)[3]
        if path.startswith("/api/"):
            self.answers.append((path, response.status))

    async def visit(self, url: str) -> Operator:
        """Open a page and wait until it shows something."""
        await self.page.goto(url)
        await self.page.wait_for_selector(SHOWN, timeout=PATIENCE_S * 1000, state="attached")
        return self

    async def reads(self, text: str, selector: str = "body") -> None:
        """Wait until an element has this text in it."""

        async def found() -> bool:
            return text in (await self.page.locator(selector).first.inner_text())

        await wait_until(found, description=f"{text!r} in {selector}", timeout_s=PATIENCE_S)

    async def rows(self, selector: str) -> list[str]:
        """Give the names of the rows of a table."""
        return await self.page.evaluate(
            "(at) => [...document.querySelectorAll(`${at} tbody th`)].map((th) => th.firstChild.textContent)",
            selector,
        )

    async def tile(self, key: str) -> str:
        """Give the number of a tile."""
        return " ".join((await self.page.inner_text(f'[data-tile="{key}"] b')).split())


@asynccontextmanager
async def operator(browser: Any, **context: Any) -> AsyncIterator[Operator]:
    """Let somebody come to a fresh browser window; the page must not complain about anything."""
    options = {"viewport": {"width": 1280, "height": 900}, "locale": "en-US", **context}
    fresh = await browser.new_context(**options)
    try:
        made = Operator(await fresh.new_page())
        yield made
        assert made.watch.left() == []
    finally:
        await fresh.close()


def odd_node(instance_id: str) -> NodeFacts:
    """Make a node whose id is markup; over the wire such an id would be refused."""
    every = frozenset({"asr", "nmt", "tts"})
    return NodeFacts(
        node_id=NodeId(MARKUP),
        pool=PoolId(0),
        owner=InstanceId(instance_id),
        asr=frozenset({"en"}),
        semantic=frozenset({"zh"}),
        types=every,
        max_jobs=1,
    )
