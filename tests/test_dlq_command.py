"""`lingua dlq`: people see what letters are about, never what was said, and put them back or away."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from lingua_scheduler.cli import main
from lingua_scheduler.commands.dlq import outline
from store.letters import A, B, Life

SPEECH = "the quick brown fox"
BODY = json.dumps(
    {
        "type": "peer_word",
        "node_id": "node-1",
        "session_id": "s-1",
        "hops": 1,
        "word": {"type": "job_result", "job_id": "job-1", "text_asr": SPEECH, "tts_audio": "QUJD"},
    }
).encode()


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> None:
    """Run where no configuration file lies about and nothing is set by the environment."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("LINGUA_"):
            monkeypatch.delenv(name)


@pytest.fixture
def act(store_options):
    """Give a way to act as instances; each call is a process of its own."""

    def run(doing, *ids):
        async def acting():
            lives = [Life(store_options, each, boot="boot-1") for each in ids or (A,)]
            try:
                return await doing(*[await life.enter() for life in lives])
            finally:
                for life in lives:
                    await life.connection.close()

        return asyncio.run(acting())

    return run


@pytest.fixture
def dlq(store_options, monkeypatch, capsys):
    """Give the command, on the test's Redis; it returns the exit code, what it printed and its complaint."""
    monkeypatch.setenv("LINGUA_REDIS__KEY_PREFIX", store_options.key_prefix)

    def run(*arguments):
        code = main(["dlq", *arguments, "--redis-url", store_options.url])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def bury(act):
    """Give a way to make a dead letter."""

    def burying(body=BODY, reason="nobody wants it"):
        async def doing(a):
            await a.inbox.send(A, body)
            (letter,) = await a.take()
            await a.inbox.bury(letter, reason)
            return (await a.dead_letters.page())[0].id

        return act(doing)

    return burying


def test_an_empty_list_says_so(dlq) -> None:
    assert dlq("list") == (0, "no dead letters\n", "")
    assert dlq("list", "--json") == (0, "[]\n", "")


def test_the_list_tells_what_each_letter_is(dlq, bury) -> None:
    letter = bury()
    code, out, _ = dlq("list")
    head, row = out.splitlines()
    assert code == 0
    assert head.split() == ["LETTER", "BURIED", "TRIES", "FROM", "BYTES", "TYPE", "REASON"]
    cells = row.split(maxsplit=6)
    assert [cells[0], *cells[2:]] == [letter, "1", A, str(len(BODY)), "peer_word", "nobody wants it"]


def test_a_long_list_goes_on_where_it_ended(dlq, bury) -> None:
    letters = [bury(), bury()]
    _, out, _ = dlq("list", "--limit", "1")
    assert out.splitlines()[1].startswith(letters[1])
    assert out.splitlines()[2] == f"perhaps more: lingua dlq list --before {letters[1]}"
    _, out, _ = dlq("list", "--limit", "1", "--before", letters[1], "--json")
    assert [each["letter"] for each in json.loads(out)] == [letters[0]]


def test_what_was_said_is_not_shown(dlq, bury) -> None:
    letter = bury()
    for arguments in (("show", letter), ("show", letter, "--json"), ("list",), ("list", "--json")):
        code, out, _ = dlq(*arguments)
        assert code == 0
        assert SPEECH not in out
        assert "QUJD" not in out
    _, out, _ = dlq("show", letter, "--json")
    shown = json.loads(out)
    assert shown["body"]["word"] == {
        "type": "job_result",
        "job_id": "job-1",
        "text_asr": f"<{len(SPEECH)} characters>",
        "tts_audio": "<4 characters>",
    }
    assert (shown["source"], shown["reason"], shown["deliveries"]) == (A, "nobody wants it", 1)


def test_the_whole_body_is_shown_to_who_asks_for_it(dlq, bury) -> None:
    letter = bury()
    assert SPEECH in dlq("show", letter, "--body")[1]
    _, out, _ = dlq("show", letter, "--body", "--json")
    assert json.loads(out)["body"] == BODY.decode()


@pytest.mark.parametrize("body", [b"\x1b[2J\xff", b"[" * 5000, b"", b'"' + SPEECH.encode() + b'"'])
def test_a_body_that_is_no_letter_is_shown_safely(dlq, bury, body) -> None:
    letter = bury(body, reason="\x1b[31mred\nline")
    for arguments in (("list",), ("show", letter), ("show", letter, "--body"), ("show", letter, "--json")):
        code, out, _ = dlq(*arguments)
        assert code == 0
        assert "\x1b" not in out
        assert "--body" in arguments or SPEECH not in out
    assert "\\x1b[31mred\\nline" in dlq("show", letter)[1]


def test_a_letter_is_replayed_into_its_own_inbox(dlq, bury, act) -> None:
    letter = bury()
    assert dlq("replay", letter) == (0, f"replayed into the inbox of {A}\n", "")
    assert [each.body for each in act(lambda a: a.take())] == [BODY]
    assert dlq("list")[1] == "no dead letters\n"


def test_a_letter_is_replayed_into_the_inbox_that_was_named(dlq, bury, act) -> None:
    letter = bury()
    code, _, complaint = dlq("replay", letter, "--into", B)
    assert (code, complaint) == (1, f"lingua: dlq replay: {B} does not live; the letter stays where it is\n")

    async def begin(b):
        assert await b.waiting() == 0

    act(begin, B)
    code, out, _ = dlq("replay", letter, "--into", B, "--json")
    assert (code, json.loads(out)) == (0, {"letter": letter, "into": B})


def test_a_letter_stays_while_no_instance_lives(dlq, bury, act) -> None:
    letter = bury()
    act(lambda a: a.die())
    code, out, complaint = dlq("replay", letter)
    assert (code, out) == (1, "")
    assert complaint == "lingua: dlq replay: no instance lives; the letter stays where it is\n"
    assert dlq("show", letter)[0] == 0


def test_letters_are_dropped_one_by_one_or_all(dlq, bury) -> None:
    letter = bury()
    bury()
    bury()
    assert dlq("drop", letter) == (0, "dropped 1\n", "")
    code, out, _ = dlq("drop", "--all", "--json")
    assert (code, json.loads(out)) == (0, {"dropped": 2})
    assert dlq("list")[1] == "no dead letters\n"


@pytest.mark.parametrize("what", ["show", "replay", "drop"])
def test_a_letter_that_is_not_there_is_exit_code_1(dlq, what) -> None:
    assert dlq(what, "instance-a/1-1") == (1, "", "lingua: no dead letter instance-a/1-1\n")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["show"], "dlq show: takes a letter, as `lingua dlq list` names it"),
        (["drop"], "dlq drop: takes a letter, as `lingua dlq list` names it"),
        (["drop", "a/1-1", "--all"], "dlq drop --all: takes no letter"),
        (["list", "a/1-1"], "dlq list: takes no letter"),
        (["list", "--limit", "0"], "dlq list: --limit: expected 1 to 1000"),
    ],
)
def test_what_makes_no_sense_is_refused(dlq, arguments, line) -> None:
    assert dlq(*arguments) == (2, "", f"lingua: {line}\n")


def test_without_an_address_there_is_nothing_to_look_at(capsys) -> None:
    assert main(["dlq", "list"]) == 2
    assert capsys.readouterr().err.startswith("lingua: redis.url: dead letters are in Redis; name it")


def test_redis_away_is_told_in_one_line(capsys) -> None:
    assert main(["dlq", "list", "--redis-url", "redis://127.0.0.1:1"]) == 1
    assert capsys.readouterr().err.startswith("lingua: Redis is not reachable")


def test_only_words_of_the_protocol_are_shown() -> None:
    """A sentence stays hidden wherever it stands, and so does everything of unknown meaning."""
    assert outline(
        {"type": "a sentence", "job_id": "job-1", "text": "hi", "n": 1.5, "ok": True, "x": None}
    ) == {
        "type": "<10 characters>",
        "job_id": "job-1",
        "text": "<2 characters>",
        "n": 1.5,
        "ok": True,
        "x": None,
    }
    assert outline({"langs": ["zh", "en"], "words": ["hi"]}) == {
        "langs": ["zh", "en"],
        "words": ["<2 characters>"],
    }
    assert outline(list(range(22)))[-2:] == [19, "<2 more>"]
