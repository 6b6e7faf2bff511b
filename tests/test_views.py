"""The commands that look: tables for people, JSON for programs, one line when an instance cannot be asked."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from functools import partial

import pytest

from lingua_scheduler.cli import main
from lingua_scheduler.commands.asking import Refused
from lingua_scheduler.commands.status import StatusRequest, status
from lingua_scheduler.commands.tables import cell, duration, table
from lingua_scheduler.secret import Secret
from world import world


@asynccontextmanager
async def busy(store_options):
    """Run an instance with a node and a session that waits for an answer."""
    async with world(store_options) as house:
        node = await house.node(node_id="n1")
        speaker = await house.session()
        await speaker.say()
        job = await node.job()
        await house.instance.desk.refresh()
        yield house, job, speaker


async def run(house, *arguments: str) -> int:
    return await asyncio.to_thread(main, [*arguments, "--url", house.instance.url])


async def test_status_is_plain_text_in_a_pipe(store_options, capsys):
    async with busy(store_options) as (house, _, _):
        assert await run(house, "status") == 0
        shown = capsys.readouterr().out
        assert "\x1b" not in shown
        lines = shown.splitlines()
        assert lines[0] == "ready"
        assert "instances 1/1   nodes 1 ready, 1 online   sessions 1   jobs 1   dead letters 0" in lines
        assert any(line.startswith("n1") and "1/4" in line for line in lines)
        assert any(line.startswith(house.instance.id) and "online" in line for line in lines)


async def test_status_as_json_is_what_the_api_says(store_options, capsys):
    async with busy(store_options) as (house, _, _):
        assert await run(house, "status", "--json") == 0
        said = json.loads(capsys.readouterr().out)
        assert said["cluster"]["total_sessions"] == 1
        assert said["autoscale"]["desired_nodes"] == 1


async def test_status_says_why_an_instance_is_not_ready(store_options, capsys):
    async with world(store_options) as house:
        house.instance.drain.start()
        assert await run(house, "status", "--once") == 0
        assert capsys.readouterr().out.startswith("NOT READY: drained\n")


async def test_on_a_terminal_status_is_drawn_again_until_somebody_has_seen_enough(
    store_options, capsys, monkeypatch
):
    looks = []

    def pause(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            raise KeyboardInterrupt

    async with busy(store_options) as (house, _, _):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        watching = partial(status, StatusRequest(house.instance.url, every_s=0.5), pause)
        assert await asyncio.to_thread(watching) == 0
    assert looks == [0.5, 0.5, 0.5]
    assert capsys.readouterr().out.count("\x1b[H") == 3


def test_on_a_terminal_an_instance_that_is_away_is_waited_for(capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)

    def pause(_seconds: float) -> None:
        raise KeyboardInterrupt

    assert status(StatusRequest("http://127.0.0.1:1"), pause) == 0
    assert "trying again" in capsys.readouterr().out


async def test_nodes_are_listed_and_shown_one_by_one(store_options, capsys):
    async with busy(store_options) as (house, _, _):
        assert await run(house, "nodes") == 0
        heads, row = capsys.readouterr().out.splitlines()
        assert heads.split()[0] == "NODE"
        assert row.split()[:4] == ["n1", "ready", "-", "1/4"]
        assert await run(house, "nodes", "n1") == 0
        assert "not chosen       it may be chosen" in capsys.readouterr().out
        assert await run(house, "nodes", "--json") == 0
        assert json.loads(capsys.readouterr().out)["nodes"][0]["node_id"] == "n1"
        assert await run(house, "nodes", "nobody") == 1
        assert "answers 404: no node with this id is known" in capsys.readouterr().err


async def test_long_lists_are_fetched_page_by_page_and_cut_where_asked(store_options, capsys, monkeypatch):
    monkeypatch.setattr("lingua_scheduler.commands.views._PAGE", 2)
    async with world(store_options) as house:
        for number in range(5):
            await house.node(node_id=f"n{number}")
        await house.instance.desk.refresh()
        assert await run(house, "nodes") == 0
        assert len(capsys.readouterr().out.splitlines()) == 6
        assert await run(house, "nodes", "--limit", "3") == 0
        assert capsys.readouterr().out.splitlines()[-1] == "2 more: ask with a higher --limit"


async def test_sessions_jobs_and_pools(store_options, capsys):
    async with busy(store_options) as (house, job, speaker):
        assert await run(house, "sessions") == 0
        assert capsys.readouterr().out.splitlines()[1].split()[:4] == [speaker.id, "attached", "zh", "en"]
        assert await run(house, "jobs", job["job_id"]) == 0
        shown = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
        assert shown["stage".ljust(16).strip()].strip() == "out"
        assert await run(house, "pools") == 0
        assert capsys.readouterr().out.splitlines()[1].split() == ["0", "-", "1", "1", "1", "-"]


async def test_simulate_says_who_would_get_a_job_or_why_nobody(store_options, capsys):
    async with busy(store_options) as (house, _, _):
        assert await run(house, "simulate") == 0
        assert capsys.readouterr().out == "node n1 of pool 0\n  pool 0: selected, 1 nodes\n"
        assert await run(house, "simulate", "--from", "fr", "--required", "asr") == 0
        shown = capsys.readouterr().out
        assert shown.startswith("no node would be chosen\n")
        assert "lang_pair_unsupported 1" in shown


async def test_a_token_is_read_from_a_file(store_options, capsys, tmp_path):
    token = tmp_path / "token"
    token.write_text("right\n")
    async with world(store_options, admin={"token": Secret("right")}) as house:
        assert await run(house, "nodes") == 1
        assert "answers 401" in capsys.readouterr().err
        assert await run(house, "nodes", "--token-file", str(token)) == 0
        assert "no nodes" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["status", "nodes", "sessions", "pools", "simulate"])
def test_an_instance_that_is_not_there_is_one_line_on_standard_error(command, capsys) -> None:
    assert main([command, "--url", "http://127.0.0.1:1"]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "lingua: http://127.0.0.1:1 cannot be reached: Connection refused\n")


@pytest.mark.parametrize(
    "arguments", [["nodes", "--limit", "0"], ["status", "--every", "0"], ["nodes", "--url", "ftp://x"]]
)
def test_what_cannot_be_meant_is_refused(arguments, capsys) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_tables_have_straight_columns_and_no_control_characters() -> None:
    assert table(("A", "LONGER"), [("one", None), ("\x1b[2J", 2.0)]) == [
        "A" + " " * (len(cell("\x1b[2J")) - 1) + "  LONGER",
        "one" + " " * (len(cell("\x1b[2J")) - 3) + "  -",
        cell("\x1b[2J") + "  2",
    ]
    assert "\x1b" not in cell("\x1b[2J")
    assert [cell(value) for value in (True, False, 1.25, [], ["a", "b"], "")] == [
        "yes",
        "no",
        "1.2",
        "-",
        "a,b",
        "-",
    ]


def test_times_are_as_people_say_them() -> None:
    assert [duration(seconds) for seconds in (0, 119, 120, 7300, 200_000)] == [
        "0 s",
        "119 s",
        "2 min",
        "2 h",
        "2 d",
    ]


def test_a_refusal_is_an_error_of_the_house() -> None:
    assert str(Refused("no")) == "no"
