"""Whatever the OpenAPI document allows to be asked is answered as it says, and nothing makes it fail."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
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

LONGEST_LINE = 8000
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


def test_what_the_document_says_holds(served: str) -> None:
    """Ask every operation for things that the document allows, and for things that it does not."""
    document = requests.get(f"{served}/api/v1/openapi.json", timeout=5).json()
    api = schemathesis.openapi.from_dict(document)
    api.config.update(base_url=served)
    operations = [result.ok() for result in api.get_all_operations()]
    assert len(operations) == sum(len(methods) for methods in document["paths"].values())
    for operation in operations:
        for mode in GenerationMode:
            _try(operation, mode)


def _try(operation, mode: GenerationMode) -> None:
    @settings(
        max_examples=5,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def holds(case) -> None:
        answer = case.call()
        if len(answer.request.url) < LONGEST_LINE:  # longer ones are refused before anybody reads them
            case.validate_response(answer, checks=CHECKS)

    with contextlib.suppress(Unsatisfiable):  # there is nothing wrong that could be said here
        holds()
