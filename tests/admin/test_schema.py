"""Whatever the OpenAPI document allows to be asked is answered as it says, and nothing makes it fail."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation.modes import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from lingua_scheduler.app import running
from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.store.connection import StoreOptions
from world import configured

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """Run an instance in a thread of its own; give its address."""
    ready, over, address = threading.Event(), asyncio.Event(), []
    loop = asyncio.new_event_loop()

    async def serve(redis_url: str) -> None:
        async with running(configured(StoreOptions(url=redis_url))) as instance:
            address.append(instance.url)
            ready.set()
            await over.wait()

    with EmbeddedRedis() as redis:
        thread = threading.Thread(target=lambda: loop.run_until_complete(serve(redis.url)))
        thread.start()
        try:
            assert ready.wait(10)
            yield address[0]
        finally:
            loop.call_soon_threadsafe(over.set)
            thread.join()
            loop.close()


@pytest.fixture
def api(served: str):
    """Give the document that the instance serves."""
    document = requests.get(f"{served}/api/v1/openapi.json", timeout=5).json()
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=served)
    schema.config.generation.update(modes=list(GenerationMode))
    return schema


schema = schemathesis.pytest.from_fixture("api")


@schema.parametrize()
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_what_the_document_says_holds(case) -> None:
    case.call_and_validate(checks=CHECKS)
