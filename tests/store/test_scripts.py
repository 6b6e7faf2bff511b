from __future__ import annotations

import asyncio
import hashlib
from importlib.resources import files
from pathlib import Path

import pytest

from lingua_scheduler.errors import CorruptValue, StoreError
from lingua_scheduler.store.scripts import Scripts, read_source

LUA = Path(__file__).parent / "lua"
PRODUCT_LUA = files("lingua_scheduler.store") / "lua"


@pytest.fixture
def load(connection):
    """Load scripts of this test's own directory."""
    return Scripts(connection, LUA).load


@pytest.fixture
def write(tmp_path):
    """Write files of a script directory and return the directory."""
    (tmp_path / "include").mkdir()

    def write(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name.replace('include_', 'include/')}.lua").write_text(text)
        return tmp_path

    return write


async def test_the_names_of_the_header_are_keyword_arguments(load, prefix):
    answer = await load("names")(
        first=f"{prefix}:{{t}}:1",
        second=f"{prefix}:{{t}}:2",
        text="é",
        number=7,
        fraction=0.5,
        raw=b"\xff\x00",
    )
    assert answer == [
        *(f"{prefix}:{{t}}:{n}".encode() for n in (1, 2)),
        "é".encode(),
        b"7",
        b"0.5",
        b"\xff\x00",
    ]


async def test_a_last_argument_with_dots_takes_a_list(load, prefix):
    counter = f"{prefix}:c"
    assert await load("sum")(counter=counter, who="me", amounts=[1, 2, 3]) == [b"me", 6, 3]
    assert await load("sum")(counter=counter, who="me", amounts=[]) == [b"me", 0, 0]
    assert await load("sum")(counter=counter, who="me", amounts=range(9000)) == [b"me", 40495500, 9000]


async def test_a_last_key_with_dots_takes_a_list(load, connection, prefix):
    await connection.call("SET", f"{prefix}:{{t}}:0", "v", "EX", 60)
    targets = [f"{prefix}:{{t}}:{n}" for n in range(1, 4)]
    assert await load("copy")(source=f"{prefix}:{{t}}:0", targets=targets, ttl_s=60) == 3
    assert await connection.call("MGET", *targets) == [b"v"] * 3


async def test_missing_and_unknown_names_are_refused_before_anything_is_sent(load, connection, prefix):
    with pytest.raises(TypeError, match="script append: missing mark; unknown marks"):
        await load("append")(runs=f"{prefix}:r", marks="x")
    with pytest.raises(TypeError, match="script append: missing runs, mark"):
        await load("append")()
    assert await connection.call("EXISTS", f"{prefix}:r") == 0


@pytest.mark.parametrize("value", [None, True, [1], {}])
async def test_a_value_that_is_neither_text_nor_number_is_refused_by_name(load, prefix, value):
    with pytest.raises(TypeError, match="script append: mark is"):
        await load("append")(runs=f"{prefix}:r", mark=value)


async def test_keys_of_two_tags_are_refused(load, prefix):
    with pytest.raises(ValueError, match=r"script copy: keys of two hash tags, .*\{a\}.*\{b\}"):
        await load("copy")(source=f"{prefix}:{{a}}", targets=[f"{prefix}:{{b}}"], ttl_s=1)


async def test_an_unknown_script_is_run_once_and_remembered(load, connection, prefix):
    append = load("append")
    for runs in (1, 2):
        await connection.call("SCRIPT", "FLUSH")
        assert await append(runs=f"{prefix}:r", mark="x") == runs
        assert await connection.call("SCRIPT", "EXISTS", append.source.sha) == [1]


async def test_scripts_flushed_under_load_still_run_exactly_once_each(load, connection, prefix):
    append = load("append")
    calls = [append(runs=f"{prefix}:r", mark=n) for n in range(300)]
    flushes = [connection.call("SCRIPT", "FLUSH") for _ in range(5)]
    await asyncio.gather(
        *(call for pair in zip(calls[::60], flushes, strict=True) for call in pair),
        *[call for n, call in enumerate(calls) if n % 60],
    )
    marks = await connection.call("LRANGE", f"{prefix}:r", 0, -1)
    assert sorted(map(int, marks)) == list(range(300))


def test_the_name_redis_gives_a_script_is_known_here():
    source = read_source(LUA, "sum")
    assert source.sha == hashlib.sha1(source.text.encode()).hexdigest()


def test_the_same_name_gives_the_same_script(load):
    assert load("sum") is load("sum")


def test_includes_come_once_and_after_what_they_need():
    text = read_source(LUA, "copy").text
    assert text.count("local function number(") == text.count("local function total(") == 1
    assert text.index("local function number(") < text.index("local function total(")


def test_includes_cannot_see_the_names_of_the_script():
    text = read_source(LUA, "copy").text
    assert text.index("local function total(") < text.index("local source = KEYS[1]")


async def test_an_error_points_at_the_line_of_the_file(load, connection, prefix):
    with pytest.raises(StoreError, match=r"include/number\.lua:3: not a number"):
        await load("sum")(counter=f"{prefix}:c", who="me", amounts=["x"])
    await connection.call("SET", f"{prefix}:{{t}}", "word", "EX", 60)
    with pytest.raises(StoreError, match=r"sum\.lua:6"):
        await load("sum")(counter=f"{prefix}:{{t}}", who="me", amounts=[1])


async def test_what_is_stored_in_a_foreign_form_is_a_corrupt_value(load, connection, prefix):
    with pytest.raises(CorruptValue, match="unknown version"):
        await load("refuse")(key=f"{prefix}:x")
    await connection.call("SET", f"{prefix}:r", "not a list", "EX", 60)
    with pytest.raises(CorruptValue):
        await load("append")(runs=f"{prefix}:r", mark="x")


@pytest.mark.parametrize(
    ("files_of_it", "complaint"),
    [
        ({"x": "return 1"}, "at least one key"),
        ({"x": "-- KEYS: all...\nreturn 1"}, "at least one key"),
        ({"x": "-- KEYS: a a\nreturn 1"}, "appears twice"),
        ({"x": "-- KEYS: a\n-- ARGV: a\nreturn 1"}, "appears twice"),
        ({"x": "-- KEYS: a\n-- ARGV: end\nreturn 1"}, "'end' cannot be a name"),
        ({"x": "-- KEYS: a\n-- ARGV: redis\nreturn 1"}, "'redis' cannot be a name"),
        ({"x": "-- KEYS: a\n-- ARGV: b... c\nreturn 1"}, r"'b\.\.\.' cannot be a name"),
        ({"x": "-- KEYS: a-b\nreturn 1"}, "'a-b' cannot be a name"),
        (
            {
                "x": "-- KEYS: a\n-- include: p\nreturn 1",
                "include_p": "-- include: q\nlocal function p() end",
                "include_q": "-- include: p\nlocal function q() end",
            },
            "cycle x > p > q > p",
        ),
        (
            {"x": "-- KEYS: a\n-- include: p\nreturn 1", "include_p": "local function other() end"},
            "does not define local function p",
        ),
    ],
)
def test_a_file_that_cannot_be_used_says_why(write, files_of_it, complaint):
    with pytest.raises(ValueError, match=complaint):
        read_source(write(**files_of_it), "x")


def test_a_header_ends_where_the_code_begins(write):
    source = read_source(write(x="-- KEYS: a\nlocal b = 1\n-- ARGV: c\nreturn b"), "x")
    assert list(source.args) == []


def test_a_script_is_durable_when_its_header_says_what_rests_on_it(write):
    directory = write(
        x="-- KEYS: a\n-- durable: promise 1\nreturn 1", y="-- KEYS: a\n-- durable:\nlocal b\n-- durable: no"
    )
    assert read_source(directory, "x").durable
    assert not read_source(directory, "y").durable


def test_what_the_promises_rest_on_is_durable():
    """Placed, accepted, ended, owned, sent: whatever somebody was told and nobody could tell again."""
    assert {name for name in product_scripts() if read_source(PRODUCT_LUA, name).durable} == {
        "auth_put",
        "auth_revoke",
        "inbox_bury",
        "inbox_send",
        "inbox_settle",
        "job_attempt",
        "job_create",
        "job_finish",
        "node_register",
        "node_reserve",
        "session_open",
        "session_take",
    }


def product_scripts():
    return sorted(
        path.name.removesuffix(".lua") for path in PRODUCT_LUA.iterdir() if path.name.endswith(".lua")
    )


@pytest.mark.parametrize("name", product_scripts())
async def test_every_script_of_the_product_is_accepted_by_the_server(connection, name):
    source = read_source(PRODUCT_LUA, name)
    assert (await connection.call("SCRIPT", "LOAD", source.text)).decode() == source.sha


def test_no_include_of_the_product_is_unused():
    used = "".join(read_source(PRODUCT_LUA, name).text for name in product_scripts())
    for path in (PRODUCT_LUA / "include").iterdir():
        assert f"local function {path.name.removesuffix('.lua')}(" in used


async def test_scripts_run_on_the_server_of_their_keys(cluster_connection, cluster_options):
    """Each server learns the script the first time one of its slots is asked."""
    append = Scripts(cluster_connection, LUA).load("append")
    tags = [f"{cluster_options.key_prefix}:{{{n}}}" for n in range(60)]
    assert await asyncio.gather(*(append(runs=tag, mark="x") for tag in tags)) == [1] * 60
    assert await asyncio.gather(*(append(runs=tag, mark="x") for tag in tags)) == [2] * 60
