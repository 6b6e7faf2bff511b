"""Acceptance cases 90 to 96: utterances that belong together share a group; nodes are told its context."""

from __future__ import annotations

from typing import Any

import pytest

from world import FakeNode, Speaker, world

WINDOW_S = 2.0


async def exchange(speaker: Speaker, node: FakeNode, *texts: str, **fields: Any) -> tuple[dict, dict]:
    """Speak one utterance and answer it; give the job and the result."""
    await speaker.say()
    job = await node.job()
    await node.answer(job, *texts, **fields)
    return job, await speaker.expect("translation_result", utterance_index=job["utterance_index"])


def place(result: dict[str, Any]) -> tuple[str, int]:
    return result["group_id"], result["part_index"]


async def played(speaker: Speaker, result: dict[str, Any], *, client_ms: int) -> None:
    """Report that a result was played to its end, by a clock of the client's own."""
    names = {"session_id": speaker.id, "trace_id": result["trace_id"], "group_id": result["group_id"]}
    await speaker.send("tts_started", **names, ts_start_ms=client_ms)
    await speaker.send("tts_play_ended", **names, ts_end_ms=client_ms + 1)
    await speaker.sync()


async def test_90_two_results_soon_after_each_other_share_a_group(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        _, first = await exchange(speaker, node)
        house.clock.advance(0.5)
        _, second = await exchange(speaker, node)

        assert first["part_index"] == 0
        assert place(second) == (first["group_id"], 1)


@pytest.mark.parametrize(("later_s", "same"), [(2.0, True), (2.001, False), (2.1, False)])
async def test_91_the_window_counts_from_the_first_result_when_nothing_is_played(
    store_options, later_s, same
):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        _, first = await exchange(speaker, node)
        house.clock.advance(later_s)
        _, second = await exchange(speaker, node)

        assert (second["group_id"] == first["group_id"]) is same
        assert second["part_index"] == (1 if same else 0)


@pytest.mark.parametrize("clock_off_ms", [-3_600_000, 0, 3_600_000])
@pytest.mark.parametrize(("later_s", "same"), [(1.9, True), (2.1, False)])
async def test_92_playback_moves_the_window_by_the_servers_clock(store_options, clock_off_ms, later_s, same):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        _, first = await exchange(speaker, node)
        house.clock.advance(5)
        await played(speaker, first, client_ms=house.clock.wall_ms() + clock_off_ms)
        house.clock.advance(later_s)
        _, second = await exchange(speaker, node)

        assert (second["group_id"] == first["group_id"]) is same


async def test_92_playback_of_an_unknown_group_moves_nothing(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        _, first = await exchange(speaker, node)
        house.clock.advance(1.5)
        await played(speaker, {**first, "group_id": "group_of_somebody"}, client_ms=1)
        house.clock.advance(1)
        _, second = await exchange(speaker, node)

        assert second["group_id"] != first["group_id"]


async def test_93_a_result_without_translation_is_a_part_too(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        _, first = await exchange(speaker, node, "你好", "")
        _, second = await exchange(speaker, node)

        assert (first["part_index"], second["part_index"]) == (0, 1)


async def test_93_what_was_understood_of_a_failed_utterance_is_a_part_too(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        job = await node.job()
        await node.answer(
            job, "你好", success=False, text_translated=None, error={"code": "X", "message": ""}
        )
        await speaker.expect("missing_result")
        job, result = await exchange(speaker, node)

        assert job["context_text"] == "User: 你好\n"
        assert result["part_index"] == 1


async def test_94_a_job_is_told_the_live_group_and_what_was_said(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        job, first = await exchange(speaker, node, " 你好 ", "hello\n")
        assert "group_id" not in job
        assert "context_text" not in job
        await exchange(speaker, node, "再见", "")

        job, third = await exchange(speaker, node)

        assert job["context_text"] == "User: 你好\nTarget: hello\nUser: 再见\n"
        assert (job["group_id"], job["part_index"]) == (first["group_id"], 2)
        assert place(third) == (first["group_id"], 2)


async def test_94_a_job_is_told_nothing_of_a_group_that_is_over_or_when_it_is_switched_off(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await exchange(speaker, node)
        house.clock.advance(WINDOW_S + 0.1)
        job, _ = await exchange(speaker, node)
        assert "context_text" not in job
    async with world(store_options, groups={"send_context": False}) as house:
        node, speaker = await house.node(), await house.session()
        await exchange(speaker, node)
        job, result = await exchange(speaker, node)
        assert "context_text" not in job
        assert result["part_index"] == 1


@pytest.mark.parametrize("length", [1, 60, 700, 5000])
async def test_95_the_context_is_of_the_newest_parts_and_bounded_in_characters(store_options, length):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        for number in range(10):
            await exchange(speaker, node, f"{number}" + "字" * length, f"{number}" + "𝄞" * length)

        job, _ = await exchange(speaker, node)

        context = job["context_text"]
        told = [line[len("User: ")] for line in context.splitlines() if line.startswith("User: ")]
        assert told == [str(number) for number in range(10 - len(told), 10)]
        assert len(told) == {1: 8, 60: 5, 700: 1, 5000: 1}[length]
        assert len(context) <= 800
        assert job["part_index"] == 10


async def test_96_no_group_is_carried_over_to_another_session(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        _, first = await exchange(speaker, node)
        await speaker.send("session_close", session_id=speaker.id, reason="done")
        await speaker.expect("session_close_ack")
        await speaker.init()

        job, second = await exchange(speaker, node)

        assert "context_text" not in job
        assert second["part_index"] == 0
        assert second["group_id"] != first["group_id"]
        assert speaker.id in second["group_id"]
