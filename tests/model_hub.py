"""A model hub for tests: a real server that answers as it is told, and can be gone and come back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def service(service_id: str, version: str = "1.0.0", platform: str = "linux-x64") -> dict[str, Any]:
    """Give an entry as a hub has it."""
    path = f"/storage/services/{service_id}/{version}/{platform}/service.zip"
    artifact = {"type": "zip", "url": path, "sha256": "ab" * 32, "size_bytes": 7, "etag": '"abab"'}
    variant = {"version": version, "platform": platform, "artifact": artifact}
    return {"service_id": service_id, "name": service_id, "latest_version": version, "variants": [variant]}


class ModelHub:
    """Answers `/api/services` with `services`, or as `handler` does."""

    def __init__(self) -> None:
        self.services: list[Any] = []
        self.handler: Handler | None = None
        self.asked: list[web.Request] = []
        self._port = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where it is, or was."""
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Listen; at the same address as before."""
        app = web.Application()
        app.router.add_route("*", "/{anything:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Be gone."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        if self.handler is not None:
            return await self.handler(request)
        if request.path != "/api/services":
            raise web.HTTPNotFound
        body = msgspec.json.encode({"services": self.services})
        return web.Response(body=body, content_type="application/json")


@asynccontextmanager
async def model_hub(*services: Any) -> AsyncIterator[ModelHub]:
    """Run a hub for as long as the block lasts."""
    hub = ModelHub()
    hub.services = list(services)
    await hub.start()
    try:
        yield hub
    finally:
        await hub.stop()
