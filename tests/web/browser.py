"""A real Chromium without a window, whose microphone is a file."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from playwright.async_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FAKE_DEVICE = "--use-fake-device-for-media-stream"
PERMISSION = "--use-fake-ui-for-media-stream"  # asked for the microphone, people say yes
AWAY = ("WebSocket connection", "Failed to load resource")  # what Chromium says of a server that is away


def _absent(what: str) -> NoReturn:
    """Skip; where changes are checked nothing may be skipped."""
    reason = f"the pages are not tested: {what}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def find_chromium() -> str:
    """Give the path of the machine's Chromium."""
    named = os.environ.get("LINGUA_CHROMIUM")
    for candidate in [named] if named else NAMES:
        if found := shutil.which(candidate):
            return found
    return _absent("no Chromium was found (LINGUA_CHROMIUM may name one)")


@asynccontextmanager
async def chromium(microphone: Path | None, flags: Iterable[str] = (PERMISSION,)) -> AsyncIterator[Browser]:
    """Run a browser; its microphone hears this file over and over, or a beep when there is none."""
    path = find_chromium()
    try:
        from playwright.async_api import async_playwright  # noqa: PLC0415 may be absent
    except ImportError:
        _absent("the package playwright is not installed")
    file = [f"--use-file-for-fake-audio-capture={microphone}"] if microphone else []
    arguments = ["--no-sandbox", "--disable-gpu", FAKE_DEVICE, *file, *flags]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            await browser.close()


class Watch:
    """Writes down whatever a page complains about."""

    def __init__(self, page: Any) -> None:
        self.complaints: list[str] = []
        self.excused: list[str] = []  # parts of complaints that a test expects
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("console", self._note)

    def _note(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def left(self) -> list[str]:
        """Give the complaints that nobody expected."""
        return [text for text in self.complaints if not any(part in text for part in self.excused)]
