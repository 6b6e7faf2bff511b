"""The modules of the pages, each for itself, in the browser that will run them."""

from __future__ import annotations

import mimetypes
import re
from pathlib import Path

import pytest
import pytest_asyncio

import lingua_scheduler

pytestmark = pytest.mark.asyncio(loop_scope="module")

HERE = Path(__file__).parent
PLACES = {"web": Path(lingua_scheduler.__file__).parent / "web", "unit": HERE / "unit"}
RUN = """async ([file, name]) => {
  try {
    await (await import(`/unit/${file}`))[name]();
  } catch (error) {
    return error.stack;
  }
}"""
CASES = [
    (file.name, name)
    for file in sorted((HERE / "unit").glob("*.test.js"))
    for name in re.findall(r"^export (?:async )?function (\w+)", file.read_text(), re.MULTILINE)
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(browser):
    """Give an empty page that can load the modules and their tests."""
    page = await browser.new_page()

    async def serve(route) -> None:
        _, place, *name = Path(route.request.url.partition("//")[2]).parts
        if not name:
            await route.fulfill(body="<!doctype html><title>bench</title>", content_type="text/html")
            return
        file = PLACES[place] / name[0]
        await route.fulfill(body=file.read_bytes(), content_type=mimetypes.guess_type(file.name)[0])

    await page.route("**/*", serve)
    await page.goto("http://localhost/bench")
    return page


@pytest.mark.parametrize(("file", "name"), CASES)
async def test_unit(bench, file, name):
    failure = await bench.evaluate(RUN, [file, name])
    assert failure is None, failure
