"""One browser per file of tests, and a clean page for each test that must not complain about anything."""

from __future__ import annotations

import pytest
import pytest_asyncio

from web.browser import chromium
from web.sound import speech


@pytest.fixture(scope="session")
def microphone(tmp_path_factory):
    """Make what the browser's microphone hears: somebody who speaks without end."""
    return speech(tmp_path_factory.mktemp("sound") / "talk.wav", 6.6, pause_s=0.0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(microphone):
    """Run a browser that may use its microphone."""
    async with chromium(microphone) as made:
        yield made
