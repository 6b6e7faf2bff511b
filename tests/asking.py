"""Asks an instance over HTTP, so that every test of the API asks alike."""

from __future__ import annotations

from typing import Any

import aiohttp

from lingua_scheduler.app import Instance
from support import wait_until


async def ask(instance: Instance, method: str, path: str, **request: Any) -> tuple[int, Any, dict[str, str]]:
    """Send one request; give status, JSON and headers."""
    async with (
        aiohttp.ClientSession() as http,
        http.request(method, f"{instance.url}{path}", **request) as said,
    ):
        body = await said.json(content_type=None) if said.status != 304 else None
        return said.status, body, dict(said.headers)


async def look(instance: Instance, path: str) -> Any:
    """Look at the newest picture, once what nodes have said is written."""
    links = instance.routing._links
    await wait_until(
        lambda: all(link._writing is None for link in links.values()), description="nodes are written"
    )
    await instance.desk.refresh()
    status, said, _ = await ask(instance, "GET", f"/api/v1/{path}")
    assert status == 200, said
    return said
