"""Sessions served by nodes of the first generation only: every sentence is translated, in order."""

from __future__ import annotations

from typing import Any

import pytest

from first_generation import FirstGenerationNode, spoken
from support import wait_until
from world import FakeNode, Speaker, World, world

PAUSE_S = 0.5
OPTIONS = {
    "segmentation": {"pause_ms": 300, "max_duration_ms": 1000},
    "server": {"nodes": {"errors_per_10s": 100_000}},
}


async def results(speaker: Speaker, count: int) -> list[dict[str, Any]]:
    """Wait for so many results and give them in the order of arrival."""
    await wait_until(lambda: len(speaker.seen("translation_result")) >= count, description=f"{count} results")
    return speaker.seen("translation_result")


def translations(speaker: Speaker) -> list[str]:
    return [result["text_translated"] for result in speaker.seen("translation_result")]


async def say(speaker: Speaker, text: str) -> None:
    await speaker.chunk(spoken(text))
    await speaker.final()


async def pause_after(house: World, speaker: Speaker, text: str) -> None:
    await speaker.chunk(spoken(text))
    await house.pass_time(PAUSE_S, speaker)


async def speak_long(speaker: Speaker, text: str, pieces: int) -> None:
    """Speak without a pause for longer than one utterance may be."""
    size = len(text) // pieces
    for piece in range(pieces):
        await speaker.chunk(spoken(text[piece * size : (piece + 1) * size], ms=1000))


async def test_a_whole_conversation_is_translated_in_order(store_options):
    async with world(store_options, **OPTIONS) as house:
        nodes = [await FirstGenerationNode.join(house), await FirstGenerationNode.join(house)]
        speaker = await house.session()
        said = []
        for number in range(30):
            text = f"sentence number {number:02}"
            said.append(text)
            if number % 3 == 0:
                await pause_after(house, speaker, text)
            elif number % 3 == 1:
                await say(speaker, text)
            else:
                await speak_long(speaker, text, 3)
                await speaker.final()
            if number % 4 == 0:
                await house.settled(speaker)
        heard = lambda: "".join(translations(speaker)).replace("[", "").replace("]", "")  # noqa: E731
        await wait_until(lambda: len(heard()) >= len("".join(said)), description="all is translated")

        assert heard() == "".join(said)
        indexes = [result["utterance_index"] for result in speaker.seen("translation_result")]
        assert indexes == sorted(indexes)
        assert not speaker.seen("missing_result")
        assert not speaker.seen("ui_event", event="ERROR")
        assert [node.memory.out_of_order for node in nodes] == [[], []]
        await house.settled(*nodes, speaker)
        assert await house.reserved() == []


async def test_a_short_sentence_that_ended_by_silence_is_translated(store_options):
    async with world(store_options, **OPTIONS) as house:
        node, speaker = await FirstGenerationNode.join(house), await house.session()
        await pause_after(house, speaker, "good morning")

        (result,) = await results(speaker, 1)

        assert result["text_translated"] == "[good morning]"
        assert node.flags == [(True, True, False)]


async def test_no_piece_of_a_long_speech_waits_for_its_end(store_options):
    """Such a node keeps an unflagged piece, or throws a part of it away: each piece ends by a flag."""
    async with world(store_options, **OPTIONS) as house:
        node, speaker = await FirstGenerationNode.join(house), await house.session()
        await speak_long(speaker, "a long speech without a pause", 2)

        (first, *_) = await results(speaker, 1)
        await speaker.final()
        await wait_until(lambda: len(node.flags) == 3, description="the tail arrives")

        assert first["text_translated"].startswith("[a long")
        assert node.flags == [(True, False, True), (True, False, True), (True, False, False)]


async def test_a_node_with_exact_flags_is_told_exactly_why_an_utterance_ended(store_options):
    async with world(store_options, **OPTIONS) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.chunk(spoken("piece", ms=1000))
        piece = await node.job(utterance_index=0)
        await house.pass_time(PAUSE_S, speaker)
        tail = await node.job(utterance_index=1)

        assert "is_manual_cut" not in piece
        assert "is_manual_cut" not in tail
        assert tail["is_timeout_triggered"]


async def test_utterances_reach_one_node_without_gaps_while_it_works(store_options):
    async with world(store_options, **OPTIONS) as house:
        nodes = [await FirstGenerationNode.join(house), await FirstGenerationNode.join(house)]
        for node in nodes:
            node.pace.clear()
        speaker = await house.session()
        for number in range(8):
            await say(speaker, f"sentence number {number}")
        await house.settled(speaker)
        for node in nodes:
            node.pace.set()
        await results(speaker, 8)

        assert translations(speaker) == [f"[sentence number {number}]" for number in range(8)]
        assert [node.memory.out_of_order for node in nodes] == [[], []]


async def test_a_silent_utterance_is_not_told(store_options):
    async with world(store_options, **OPTIONS) as house:
        await FirstGenerationNode.join(house)
        speaker = await house.session()
        await say(speaker, "hm")
        await say(speaker, "good morning")

        (result,) = await results(speaker, 1)

        assert result["utterance_index"] == 1
        assert not speaker.seen("missing_result")


async def test_a_sentence_said_twice_is_not_answered_and_holds_nothing_up_for_long(store_options):
    """The node answers the first one only; the gap ends by its deadline."""
    async with world(store_options, **OPTIONS) as house:
        node, speaker = await FirstGenerationNode.join(house), await house.session()
        for text in ("good morning", "good morning", "good night"):
            await say(speaker, text)
        await results(speaker, 1)
        await speaker.expect("ui_event", event="NMT_DONE", utterance_index=2)
        house.clock.advance(5)

        assert (await speaker.expect("missing_result"))["utterance_index"] == 1
        assert [result["text_asr"] for result in await results(speaker, 2)] == ["good morning", "good night"]
        assert node.memory.out_of_order == []


async def unnumbered(house: World) -> FakeNode:
    """A node that announces nothing and does what the test says."""
    return await house.node(features=None)


@pytest.mark.parametrize("acknowledged", [True, False])
async def test_pieces_that_were_merged_into_the_last_one_end_with_it(store_options, acknowledged):
    """The whole turn is answered under its last job; the others get nothing, or an empty word.

    In that word the attempt number and the trace are the last job's.
    """
    async with world(store_options, **OPTIONS) as house:
        nodes = [await unnumbered(house), await unnumbered(house)]
        speaker = await house.session()
        await say(speaker, "first sentence")
        node, job = await house.taken(*nodes)
        await node.fail(job, "NODE_OVERLOADED")
        _, job = await house.taken(*nodes)  # so that attempts differ
        await speak_long(speaker, "one turn of several pieces", 2)
        await speaker.final()
        pieces = [await house.taken(*nodes, utterance_index=index) for index in (1, 2, 3)]
        (last_node, last), *_ = reversed(pieces)
        if acknowledged:
            for other, piece in pieces[:-1]:
                borrowed = {
                    "attempt_id": 2,
                    "trace_id": last["trace_id"],
                    "extra": {"reason": "NO_TEXT_ASSIGNED"},
                }
                await other.answer(piece, "", "", **borrowed)
        await last_node.answer(last, "one turn of several pieces", "[all of it]")
        owner = next(n for n in nodes if n is not node)
        await owner.answer(job, "first sentence", "[first]")

        assert [result["text_translated"] for result in await results(speaker, 2)] == [
            "[first]",
            "[all of it]",
        ]
        await house.settled(*nodes, speaker)
        assert not speaker.seen("missing_result")
        assert await house.reserved() == []


async def test_a_result_that_is_ready_after_a_reconnect_is_used_when_nobody_else_can(store_options):
    async with world(store_options, **OPTIONS) as house:
        node, speaker = await FirstGenerationNode.join(house), await house.session()
        node.pace.clear()
        await say(speaker, "good morning")
        await wait_until(lambda: node.memory.translating[speaker.id], description="the node works")
        node.reset()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        back = await FirstGenerationNode.join(house, again=node)
        assert back.id == node.id
        node.pace.set()
        await house.settled(back, speaker)
        house.clock.advance(10)
        await results(speaker, 1)
        await say(speaker, "good night")
        await results(speaker, 2)

        assert translations(speaker) == ["[good morning]", "[good night]"]
        assert not speaker.seen("missing_result")


async def test_a_job_is_taken_to_another_node_and_never_to_one_that_had_its_index(store_options):
    async with world(store_options, **OPTIONS) as house:
        first = await FirstGenerationNode.join(house)
        first.pace.clear()
        speaker = await house.session()
        await say(speaker, "good morning")
        await wait_until(lambda: first.memory.translating[speaker.id], description="the node works")
        first.reset()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        second = await FirstGenerationNode.join(house)

        (result,) = await results(speaker, 1)

        assert result["text_translated"] == "[good morning]"
        assert len(second.memory.jobs) == 1


async def test_a_job_that_moves_passes_over_nodes_that_have_gone_on_without_it(store_options):
    """Such a node leaves an index untranslated when it has worked on a later one of the session."""
    async with world(store_options, **OPTIONS) as house:
        nodes = [await FirstGenerationNode.join(house), await FirstGenerationNode.join(house)]
        for node in nodes:
            node.pace.clear()
        speaker = await house.session()
        await say(speaker, "good morning")
        await wait_until(lambda: any(node.memory.jobs for node in nodes), description="somebody works")
        (first,) = [node for node in nodes if node.memory.jobs]
        (second,) = [node for node in nodes if node is not first]
        second.pace.set()
        await say(speaker, "good night")
        await speaker.expect("ui_event", event="NMT_DONE", utterance_index=1)
        assert second.memory.jobs
        first.reset()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE", utterance_index=0)

        third = await FirstGenerationNode.join(house)

        await results(speaker, 2)
        assert translations(speaker) == ["[good morning]", "[good night]"]
        assert len(third.memory.jobs) == 1
        assert second.memory.out_of_order == []
