"""Tracing that is off costs nothing: none of its code runs. On, it runs per stage and never per frame."""

import subprocess
import sys
from collections import Counter
from contextlib import contextmanager

import pytest

from collector import collecting
from lingua_scheduler.errors import ConfigError
from lingua_scheduler.secret import SecretUrl
from lingua_scheduler.tracing.options import TracingOptions
from lingua_scheduler.tracing.tracing import opened
from world import world

PARTS = ("lingua_scheduler/tracing/", "lingua_scheduler/flow/trail.py")


@contextmanager
def watched():
    """Count the calls into the code of tracing, on the thread of the event loop."""
    calls: Counter[str] = Counter()

    def note(frame, event, _arg):
        name = frame.f_code.co_filename
        if event == "call" and any(part in name for part in PARTS):
            calls[frame.f_code.co_qualname] += 1

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


async def talk(house, node, speaker):
    await speaker.say()
    await node.answer(await node.job())
    await speaker.expect("translation_result")


async def test_no_code_of_tracing_runs_while_it_is_off(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        with watched() as calls:
            await talk(house, node, speaker)
        assert not calls


async def test_frames_cost_nothing_even_while_it_is_on(store_options):
    async with collecting() as collector:
        tables = {"tracing": {"enabled": True, "endpoint": SecretUrl(collector.url)}}
        async with world(store_options, **tables) as house:
            node, speaker = await house.node(), await house.session()
            with watched() as calls:
                for _ in range(20):
                    await speaker.chunk(60)
                await speaker.sync()
            assert not calls
            with watched() as calls:
                await talk(house, node, speaker)
            assert calls["Trail.placed"] == 1


async def test_what_is_sampled_out_costs_one_decision(store_options):
    async with collecting() as collector:
        tables = {"tracing": {"enabled": True, "endpoint": SecretUrl(collector.url), "sample_ratio": 0.0}}
        async with world(store_options, **tables) as house:
            node, speaker = await house.node(), await house.session()
            with watched() as calls:
                await talk(house, node, speaker)
    assert set(calls) == {"Trail.of", "_trace", "read_traceparent", "trace_of", "Tracer.samples"}


def test_without_tracing_the_exporter_is_not_even_loaded():
    """Parts of the SDK may be: the Redis client takes them in by itself when they are installed."""
    program = (
        "import sys, lingua_scheduler.app, lingua_scheduler.node\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry.exporter')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_tracing_without_the_extra_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    assert opened(TracingOptions(), "i") is None
    with pytest.raises(ConfigError, match=r"^tracing.enabled: .*pip install 'lingua-scheduler\[tracing\]'$"):
        opened(TracingOptions(enabled=True), "i")


def test_a_header_file_that_cannot_be_read_is_named(tmp_path):
    options = TracingOptions(enabled=True, authorization_file=str(tmp_path / "absent"))
    with pytest.raises(
        ConfigError, match=r"tracing.authorization_file: .*absent cannot be read: No such file"
    ):
        opened(options, "i")
