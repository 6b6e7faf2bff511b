"""The log never shows speech or secrets, and never makes anybody wait."""

import enum
import fcntl
import io
import json
import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from lingua_scheduler import log
from lingua_scheduler.errors import StoreError
from lingua_scheduler.log import LineWriter, LogOptions, configure, dropped_lines, flush, get_logger

Lines = Callable[[], list[str]]


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    yield reader, writer
    for fd in (reader, writer):
        try:
            os.close(fd)
        except OSError:
            continue


@pytest.fixture
def lines(pipe: tuple[int, int]) -> Lines:
    """Read what was logged since the last call."""
    configure(LogOptions(format="json"), fd=pipe[1])

    def read() -> list[str]:
        assert flush()
        try:
            return os.read(pipe[0], 1 << 20).decode().splitlines()
        except BlockingIOError:
            return []

    return read


def facts(lines: Lines) -> dict[str, object]:
    (line,) = lines()
    return json.loads(line)


def test_a_line_is_an_event_with_its_facts_level_module_and_time(lines: Lines) -> None:
    get_logger("lingua_scheduler.edge.server").info("listening", port=5010)
    line = facts(lines)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "listening", "level": "info", "logger": "edge.server", "port": 5010}


def test_bytes_are_shown_as_their_length_wherever_they_stand(lines: Lines) -> None:
    get_logger("m").info("e", a=b"12345", b=bytearray(3), c=[memoryview(b"xy")], d={"e": b""})
    line = facts(lines)
    assert (line["a"], line["b"]) == ("<5 bytes>", "<3 bytes>")
    assert (line["c"], line["d"]) == (["<2 bytes>"], {"e": "<0 bytes>"})


PRIVATE_NAMES = [
    "audio",
    "tts_audio",
    "payload",
    "text",
    "text_asr",
    "texts",
    "asr_text",
    "transcript",
    "token",
    "resume_token",
    "secret",
    "password",
    "key",
    "api_key",
    "keys",
    "Authorization",
    "cookie",
]


@pytest.mark.parametrize("name", PRIVATE_NAMES)
def test_a_private_name_hides_its_value(lines: Lines, name: str) -> None:
    get_logger("m").info("e", **{name: "something nobody may read", "nested": {name: ["read me"]}})
    (line,) = lines()
    assert "read" not in line
    assert json.loads(line)[name] == "***"


def test_numbers_pass_under_any_name_because_they_cannot_hold_speech(lines: Lines) -> None:
    get_logger("m").info("e", audio_bytes=320, text_chars=7, payload=None, key=True)
    line = facts(lines)
    assert (line["audio_bytes"], line["text_chars"], line["payload"], line["key"]) == (320, 7, None, True)


def test_a_record_is_shown_as_its_type_only(lines: Lines) -> None:
    """A record may hold audio or text in any field, so none of them is printed."""

    @dataclass
    class Utterance:
        words: str = "hello"

    get_logger("m").info("e", one=Utterance(), many=[Utterance()])
    line = facts(lines)
    assert (line["one"], line["many"]) == ("<Utterance>", ["<Utterance>"])


def test_values_that_people_and_machines_can_read_stay_plain(lines: Lines) -> None:
    class Reason(enum.StrEnum):
        GAP = "gap"

    class Code(enum.Enum):
        LATE = "late"

    get_logger("m").info("e", a=Reason.GAP, b=Code.LATE, c=("x", 1), d=ValueError("bad"), e=1 << 80)
    line = facts(lines)
    assert [line[name] for name in "abcde"] == [
        "gap",
        "late",
        ["x", 1],
        "ValueError (its message is not logged)",
        1 << 80,
    ]


def test_the_password_inside_a_url_is_hidden(lines: Lines) -> None:
    get_logger("m").info(
        "e", url="redis://user:hunter2@host:6379/0", error=StoreError("redis://:hunter2@host down")
    )
    line = facts(lines)
    assert line["url"] == "redis://user:***@host:6379/0"
    assert line["error"] == "StoreError: redis://:***@host down"


def test_long_values_and_long_collections_are_cut(lines: Lines) -> None:
    get_logger("m").info("e", long="x" * 1000, many=list(range(100)), deep=[[[[["bottom"]]]]])
    line = facts(lines)
    assert line["long"] == "x" * 400 + "... (600 more)"
    assert line["many"] == list(range(20))
    assert "bottom" not in str(line["deep"])


@pytest.mark.parametrize("form", ["console", "json"])
def test_control_characters_cannot_forge_a_line_or_move_a_cursor(pipe, lines: Lines, form) -> None:
    configure(LogOptions(format=form), fd=pipe[1])
    nasty = "a\nforged line\r\x1b[2J\x00\x9b\u202e\ud800"
    get_logger("m").info("e", peer=nasty, table={nasty: 1})
    (line,) = lines()
    assert line.isprintable()


def test_an_exception_keeps_its_traceback_but_not_its_power_over_the_terminal(pipe, lines: Lines) -> None:
    configure(LogOptions(format="console"), fd=pipe[1])
    try:
        raise ValueError("redis://:hunter2@host\n00:00:00 [info] forged \x1b[2J")  # noqa: TRY301
    except ValueError:
        get_logger("m").exception("broken")
    first, *rest = lines()
    assert "broken" in first
    assert rest
    assert all(line.startswith("    ") and line.isprintable() for line in rest)
    assert not any("hunter2" in line for line in rest)


def test_a_bound_fact_is_on_every_line_and_is_masked_too(lines: Lines) -> None:
    logger = get_logger("m").bind(session="s-1", token="abc")
    logger.warning("e")
    line = facts(lines)
    assert (line["session"], line["token"]) == ("s-1", "***")


def test_levels_are_per_module_and_follow_a_later_configure(pipe, lines: Lines) -> None:
    store, script, edge = get_logger("store"), get_logger("store.scripts"), get_logger("edge")
    options = LogOptions(format="json", level="warning", levels={"store": "debug", "store.scripts": "error"})
    configure(options, fd=pipe[1])
    store.debug("seen")
    script.warning("hidden")
    edge.info("hidden")
    edge.warning("seen")
    get_logger("store.jobs").debug("seen")
    assert [json.loads(line)["event"] for line in lines()] == ["seen"] * 3


def test_a_filtered_call_renders_nothing(lines: Lines) -> None:
    class Unprintable:
        def __str__(self) -> str:
            raise AssertionError

    get_logger("m").debug("e", value=Unprintable())
    assert lines() == []


def test_the_form_follows_the_terminal_unless_it_is_set(pipe, lines: Lines) -> None:
    leader, terminal = os.openpty()
    configure(LogOptions(), fd=terminal)
    get_logger("m").info("ready")
    assert flush()
    assert "ready" in os.read(leader, 1000).decode()
    assert not log._logs.processors[-1].__class__.__name__.startswith("JSON")
    configure(LogOptions(), fd=pipe[1])
    get_logger("m").info("ready")
    assert facts(lines)["event"] == "ready"
    os.close(leader)
    os.close(terminal)


def test_what_libraries_log_comes_out_in_the_same_form(lines: Lines) -> None:
    library = logging.getLogger("aiohttp.server")
    library.info("opened %s", "redis://:hunter2@host")
    library.debug("not at this level")
    library.critical("ends as %s", "error")
    first, second = map(json.loads, lines())
    assert (first["event"], first["logger"], first["level"]) == (
        "opened redis://:***@host",
        "aiohttp.server",
        "info",
    )
    assert (second["event"], second["level"]) == ("ends as error", "error")


def test_without_configuration_warnings_are_readable_on_standard_error() -> None:
    """In a process of its own: whoever configured this one would be heard."""
    program = (
        "from lingua_scheduler.log import flush, get_logger\n"
        "log = get_logger('lingua_scheduler.flow.session')\n"
        "log.info('silent')\nlog.warning('spoken', n=1)\nassert flush()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "spoken" in done.stderr
    assert "silent" not in done.stderr


def test_a_blocked_pipe_costs_lines_but_no_time(pipe) -> None:
    """Nobody reads: the pipe fills, then the queue, and every further line is counted as dropped."""
    reader, write_end = pipe
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
    writer = LineWriter(write_end, limit_bytes=16_384)
    line = b"x" * 1023 + b"\n"
    for _ in range(100):
        writer.write(line)
    assert not writer.flush(0.0)
    assert 0 < writer.dropped < 100
    os.set_blocking(reader, True)
    with io.FileIO(reader, closefd=False) as source:
        kept = (100 - writer.dropped) * len(line)
        while kept > 0:
            kept -= len(source.read(4096))
    assert writer.flush(5.0)
    dropped = writer.dropped
    writer.write(line)
    assert writer.flush(5.0)
    assert writer.dropped == dropped


@pytest.mark.parametrize("breakage", ["reader gone", "disk full"])
def test_an_end_that_takes_nothing_is_counted_and_survived(pipe, breakage) -> None:
    if breakage == "reader gone":
        os.close(pipe[0])
        fd = os.dup(pipe[1])
    else:
        fd = os.open("/dev/full", os.O_WRONLY)
    writer = LineWriter(fd)
    writer.write(b"one\n")
    writer.write(b"two\n")
    assert writer.flush(5.0)
    assert writer.dropped == 2
    os.close(fd)


def test_a_terminal_that_somebody_made_non_blocking_loses_nothing(pipe) -> None:
    reader, write_end = pipe
    os.set_blocking(write_end, False)
    writer = LineWriter(write_end)
    size = 200_000
    writer.write(b"x" * size)
    os.set_blocking(reader, True)
    received = 0
    while received < size:
        received += len(os.read(reader, 65_536))
    assert writer.flush(5.0)
    assert writer.dropped == 0


def test_a_process_whose_log_nobody_reads_works_on_and_ends() -> None:
    program = """
        from lingua_scheduler.log import LogOptions, configure, dropped_lines, get_logger
        configure(LogOptions(format="json"))
        for number in range(30_000):
            get_logger("m").info("busy", number=number)
        print(dropped_lines() > 0)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.read() == b"True\n"
        assert process.wait(timeout=30) == 0


def test_dropped_lines_are_known_to_the_metrics(lines: Lines, pipe) -> None:
    before = dropped_lines()
    log._logs.writer.dropped += 3
    assert dropped_lines() == before + 3
