"""A real Prometheus that scrapes what a test runs, by the rules of ops/prometheus with shorter times."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support import wait_until

RULES = Path(__file__).parent.parent / "ops/prometheus/alerts.yml"
PATIENCE_S = 40.0


def quick_rules() -> str:
    """Give the alert rules as they are, but for how long something has to last: seconds for minutes."""
    text = re.sub(r"^        for: \d+m$", "        for: 1s", RULES.read_text("utf-8"), flags=re.MULTILINE)
    return re.sub(r"\[\d+m\]", "[6s]", text)


def program() -> str:
    """Give the path of Prometheus; skip where there is none."""
    found = shutil.which("prometheus")
    if found is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("needs prometheus")
    return found


class Prometheus:
    """Asks a running Prometheus."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self._url = url
        self._http = http

    async def _ask(self, path: str, **query: str) -> Any:
        async with self._http.get(f"{self._url}{path}", params=query) as answer:
            return await answer.json()

    async def ready(self) -> bool:
        """Tell whether it serves."""
        try:
            async with self._http.get(f"{self._url}/-/ready") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Evaluate an expression now: labels and value of each series."""
        found = await self._ask("/api/v1/query", query=expression)
        return [(each["metric"], float(each["value"][1])) for each in found["data"]["result"]]

    async def firing(self) -> dict[str, list[dict[str, Any]]]:
        """Give what fires now: the labels and annotations of each alert by its name."""
        found: dict[str, list[dict[str, Any]]] = {}
        for alert in (await self._ask("/api/v1/alerts"))["data"]["alerts"]:
            if alert["state"] == "firing":
                found.setdefault(alert["labels"]["alertname"], []).append(
                    {**alert["labels"], **alert["annotations"]}
                )
        return found

    async def fires(self, alert: str, **labels: str) -> dict[str, Any]:
        """Wait until an alert fires with these labels; give it."""
        fitting: list[dict[str, Any]] = []

        async def fires() -> bool:
            fitting[:] = [
                each for each in (await self.firing()).get(alert, []) if labels.items() <= each.items()
            ]
            return bool(fitting)

        await wait_until(fires, description=f"{alert} {labels} fires", timeout_s=PATIENCE_S)
        return fitting[0]

    async def quiet(self, *alerts: str) -> None:
        """Wait until none of these fires."""

        async def quiet() -> bool:
            return not set(alerts) & set(await self.firing())

        await wait_until(quiet, description=f"{alerts} are quiet", timeout_s=PATIENCE_S)


@asynccontextmanager
async def prometheus(
    folder: Path, *jobs: dict[str, Any], rules: str = "groups: []\n"
) -> AsyncIterator[Prometheus]:
    """Run Prometheus with these scrape jobs and rules, twice a second."""
    path, port = program(), _free_port()
    (folder / "rules.yml").write_text(rules)
    often = {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"}
    config = {"global": often, "rule_files": ["rules.yml"], "scrape_configs": list(jobs)}
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML too
    process = await asyncio.create_subprocess_exec(
        path,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with aiohttp.ClientSession() as http:
            made = Prometheus(f"http://127.0.0.1:{port}", http)
            await wait_until(made.ready, description="Prometheus is ready", timeout_s=PATIENCE_S)
            yield made
    finally:
        process.kill()
        await process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
