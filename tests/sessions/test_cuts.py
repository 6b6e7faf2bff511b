"""Acceptance cases 18 to 43: frames and silence in, utterances out.

Bytes of noise do not parse as Opus framing, so 60 of them count as 20 ms.
"""

from __future__ import annotations

import pytest

from lingua_scheduler.core.audio import pack
from world import FAST, FakeNode, Speaker, World, world

FLAGS = ("is_manual_cut", "is_timeout_triggered", "is_max_duration_triggered")
LOUD = b"\x00\x40"  # one pcm16 sample
PAUSE_S, HANGOVER_S = 0.3, 0.15  # of FAST
SILENCE_CUT_S = PAUSE_S + HANGOVER_S


async def cast(house: World, **wish) -> tuple[FakeNode, Speaker]:
    return await house.node(max_concurrent_jobs=64), await house.session(**wish)


def flags(job: dict) -> set[str]:
    return {flag for flag in FLAGS if job.get(flag)}


async def no_job(house: World, node: FakeNode, speaker: Speaker) -> None:
    """Everything the speaker said has been handled, and no job came of it."""
    await house.settled(speaker, node)
    assert node.seen("job_assign") == []


async def test_18_a_final_chunk_becomes_one_complete_job(store_options):
    """The job's trace id is the session's with the index behind it, so that each utterance has its own."""
    async with world(store_options) as house:
        node, speaker = await cast(house, trace_id="t-1")
        await speaker.say(600)
        job = await node.job()
        assert job["audio"] == b"\xff" * 600
        assert job.pop("turn_id")
        expected = {
            "utterance_index": 0,
            "session_id": speaker.id,
            "audio_format": "opus",
            "sample_rate": 16000,
            "attempt_id": 1,
            "is_manual_cut": True,
            "padding_ms": 280,
            "src_lang": "zh",
            "tgt_lang": "en",
            "enable_streaming_asr": True,
            "partial_update_interval_ms": 1000,
            "trace_id": "t-1-0",
            "pipeline": {
                "use_asr": True,
                "use_nmt": True,
                "use_tts": True,
                "use_semantic": False,
                "use_tone": False,
            },
        }
        assert expected.items() <= job.items()
        assert flags(job) == {"is_manual_cut"}
        event = await speaker.expect("ui_event", event="DISPATCHED")
        assert (event["status"], event["utterance_index"], event["job_id"]) == ("ok", 0, job["job_id"])


async def test_19_chunks_are_joined_in_order(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        for fill, size in ((b"a", 100), (b"b", 200), (b"c", 300)):
            await speaker.chunk(fill * size)
        await speaker.final()
        assert (await node.job())["audio"] == b"a" * 100 + b"b" * 200 + b"c" * 300


async def test_20_an_empty_final_uses_no_index(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        await speaker.final()
        await no_job(house, node, speaker)
        await speaker.say(600)
        assert (await node.job())["utterance_index"] == 0


async def test_21_finals_without_waiting_are_numbered_in_order(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        for size in (10, 20, 30):
            await speaker.say(size)
        jobs = [await node.job() for _ in range(3)]
        assert [(job["utterance_index"], len(job["audio"])) for job in jobs] == [(0, 10), (1, 20), (2, 30)]


async def test_22_silence_ends_an_utterance(store_options):
    """Decision: a window of 150 ms follows the pause, in which frames still join."""
    async with world(store_options) as house:
        node, speaker = await cast(house)
        await speaker.chunk(600)
        await house.pass_time(2.1499, speaker)
        await no_job(house, node, speaker)
        house.clock.advance(0.0002)
        job = await node.job()
        assert flags(job) == {"is_timeout_triggered"}
        assert job["padding_ms"] == 220


async def test_22_a_frame_in_the_tail_window_joins_the_closing_utterance(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        await speaker.chunk(600)
        await house.pass_time(2.1, speaker)
        await speaker.chunk(60)
        await house.pass_time(0.06, speaker)
        assert len((await node.job())["audio"]) == 660


async def test_23_chunks_closer_than_the_pause_stay_together(store_options):
    async with world(store_options, **FAST) as house:
        node, speaker = await cast(house)
        for _ in range(5):
            await speaker.chunk(60)
            await house.pass_time(PAUSE_S / 2, speaker)
        await no_job(house, node, speaker)
        await house.pass_time(SILENCE_CUT_S, speaker)
        assert len((await node.job())["audio"]) == 300
        await no_job(house, node, speaker)


async def talk_for(speaker: Speaker, milliseconds: int) -> None:
    for _ in range(milliseconds // 20):
        await speaker.chunk(60)


async def test_24_speech_of_the_longest_duration_is_cut_and_goes_on(store_options):
    """Decision: a tail of 200 ms is held back, so that the end of the turn always has audio to carry it."""
    async with world(store_options, **FAST) as house:
        node, speaker = await cast(house)
        await talk_for(speaker, 980)
        await no_job(house, node, speaker)
        await talk_for(speaker, 20)
        job = await node.job()
        assert flags(job) == {"is_max_duration_triggered"}
        assert (job["padding_ms"], job["utterance_index"], len(job["audio"])) == (220, 0, 2400)
        await speaker.chunk(60, final=True)
        job = await node.job()
        assert (job["utterance_index"], len(job["audio"])) == (1, 660)


async def test_25_the_pieces_of_a_long_speech_share_a_turn(store_options):
    async with world(store_options, **FAST) as house:
        node, speaker = await cast(house)
        await talk_for(speaker, 1800)
        await speaker.chunk(60, final=True)
        await speaker.say(60)
        jobs = [await node.job() for _ in range(4)]
        assert [flags(job) for job in jobs] == [{FLAGS[2]}, {FLAGS[2]}, {FLAGS[0]}, {FLAGS[0]}]
        assert sum(len(job["audio"]) for job in jobs) == 1800 * 3 + 120
        turns = [job["turn_id"] for job in jobs]
        assert turns[0] == turns[1] == turns[2] != turns[3]


async def test_26_an_empty_final_after_a_limit_ends_the_turn_on_the_node(store_options):
    """B8: the held-back tail carries the end of the turn; the next utterance has a turn of its own."""
    async with world(store_options, **FAST) as house:
        node, speaker = await cast(house)
        await talk_for(speaker, 1000)
        await speaker.final()
        await speaker.say(60)
        piece, end, after = [await node.job() for _ in range(3)]
        assert flags(end) == {"is_manual_cut"}
        assert len(piece["audio"]) + len(end["audio"]) == 3000
        assert piece["turn_id"] == end["turn_id"] != after["turn_id"]


async def test_27_silence_after_a_limit_ends_the_turn_on_the_node(store_options):
    async with world(store_options, **FAST) as house:
        node, speaker = await cast(house)
        await talk_for(speaker, 1000)
        piece = await node.job()
        await house.pass_time(SILENCE_CUT_S, speaker)
        end = await node.job()
        assert flags(end) == {"is_timeout_triggered"}
        assert piece["turn_id"] == end["turn_id"]


ONE_BIG_CHUNK = {"wire": {"audio_frame_bytes": 600_000, "control_bytes": 64 * 1024}}


async def test_28_speech_of_too_many_bytes_is_cut_and_goes_on(store_options):
    """Decision of 6.7: the node is told that more is to come; of one chunk a tail stays for that."""
    async with world(store_options, segmentation={"max_duration_ms": 0}, **ONE_BIG_CHUNK) as house:
        node, speaker = await cast(house)
        await speaker.chunk(512_001)
        job = await node.job()
        assert flags(job) == {"is_max_duration_triggered"}
        assert job.get("padding_ms", 0) == 0
        await speaker.final()
        end = await node.job()
        assert len(job["audio"]) + len(end["audio"]) == 512_001
        assert job["turn_id"] == end["turn_id"]


async def test_29_a_final_chunk_of_too_many_bytes_is_a_manual_cut(store_options):
    async with world(store_options, segmentation={"max_duration_ms": 0}, **ONE_BIG_CHUNK) as house:
        node, speaker = await cast(house)
        await speaker.say(512_001)
        job = await node.job()
        assert flags(job) == {"is_manual_cut"}
        assert len(job["audio"]) == 512_001


async def test_30_the_limit_itself_is_not_too_much(store_options):
    async with world(store_options, segmentation={"max_duration_ms": 0}, **ONE_BIG_CHUNK) as house:
        node, speaker = await cast(house)
        await speaker.chunk(512_000)
        await no_job(house, node, speaker)


async def test_31_the_first_chunk_after_a_long_silence_is_not_cut_off(store_options):
    async with world(store_options, **FAST) as house:
        node, speaker = await cast(house)
        await speaker.chunk(60)
        await house.pass_time(SILENCE_CUT_S, speaker)
        assert len((await node.job())["audio"]) == 60
        house.clock.advance(2 * PAUSE_S)
        await speaker.chunk(60)
        await house.pass_time(0.1, speaker)
        await speaker.chunk(60)
        await speaker.final()
        job = await node.job()
        assert (job["utterance_index"], len(job["audio"])) == (1, 120)
        await no_job(house, node, speaker)


async def test_32_the_same_after_a_manual_cut(store_options):
    async with world(store_options, **FAST) as house:
        node, speaker = await cast(house)
        await speaker.say(60)
        await node.job()
        await house.pass_time(2 * PAUSE_S, speaker)
        await speaker.chunk(60)
        await house.pass_time(0.1, speaker)
        await speaker.chunk(60, final=True)
        assert len((await node.job())["audio"]) == 120
        await no_job(house, node, speaker)


async def test_33_a_chunk_after_the_pause_belongs_to_the_next_utterance(store_options):
    async with world(store_options, **FAST) as house:
        node, speaker = await cast(house)
        await speaker.chunk(60)
        await house.pass_time(1.5 * PAUSE_S, speaker)
        await speaker.chunk(60)
        await speaker.final()
        jobs = [await node.job(), await node.job()]
        assert [(len(job["audio"]), flags(job)) for job in jobs] == [(60, {FLAGS[1]}), (60, {FLAGS[0]})]


async def test_34_audio_that_is_not_base64_is_refused_and_never_sent(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        await speaker.chunk(60, payload="%%%")
        await speaker.expect("error", code="INVALID_MESSAGE")
        await speaker.say(600)
        assert len((await node.job())["audio"]) == 600


async def test_35_a_repeated_seq_is_taken_once(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        await speaker.chunk(60, seq=7)
        await speaker.chunk(60, seq=7)
        await speaker.chunk(0, final=True, seq=8)
        await speaker.chunk(0, final=True, seq=8)
        assert len((await node.job())["audio"]) == 60
        await no_job(house, node, speaker)


async def test_35_a_jump_of_seq_loses_nothing(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        for seq in (24, 25, 900, 2**40):
            await speaker.chunk(60, seq=seq)
        await speaker.chunk(0, final=True, seq=2**40 + 1)
        assert len((await node.job())["audio"]) == 240


async def test_36_without_a_pause_only_the_client_cuts(store_options):
    async with world(store_options, segmentation={"pause_ms": 0}) as house:
        node, speaker = await cast(house)
        for _ in range(3):
            await speaker.chunk(60)
            await house.pass_time(1, speaker)
        await speaker.final()
        job = await node.job()
        assert (len(job["audio"]), flags(job)) == (180, {"is_manual_cut"})


async def test_37_a_thousand_chunks_at_once_stay_in_order(store_options):
    limits = {"clients": {"message_burst": 2000}}
    async with world(store_options, segmentation={"max_duration_ms": 0}, server=limits) as house:
        node, speaker = await cast(house)
        sent = [number.to_bytes(2, "big") * 100 for number in range(1000)]
        for chunk in sent:
            await speaker.chunk(chunk)
        await speaker.final()
        assert (await node.job())["audio"] == b"".join(sent)


async def test_38_pcm16_is_measured_as_pcm16(store_options):
    """Of 10 s of pcm16 the last 200 ms are the tail that ends the turn."""
    async with world(store_options, segmentation={"max_duration_ms": 10_000}) as house:
        node, speaker = await cast(house, audio_format="pcm16")
        for _ in range(99):
            await speaker.chunk(LOUD * 1600)
        await no_job(house, node, speaker)
        await speaker.chunk(LOUD * 1600)
        job = await node.job()
        assert flags(job) == {"is_max_duration_triggered"}
        assert len(job["audio"]) == 320_000 - 6400


async def test_39_framed_opus_is_measured_by_its_packets(store_options):
    limits = {"clients": {"message_burst": 1000}}
    async with world(store_options, segmentation={"max_duration_ms": 10_000}, server=limits) as house:
        node, speaker = await cast(house)
        packet = pack([b"\x48" + bytes(29)])
        for _ in range(499):
            await speaker.chunk(packet)
        await no_job(house, node, speaker)
        await speaker.chunk(packet)
        job = await node.job()
        assert flags(job) == {"is_max_duration_triggered"}
        assert len(job["audio"]) == 490 * len(packet)


async def test_40_the_clients_clock_is_that_of_the_utterances_own_first_chunk(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        for later_s in (0, 60):
            await house.live(later_s, node)
            now_ms = house.clock.wall_ms()
            await speaker.chunk(60, client_timestamp_ms=now_ms - 40)
            await speaker.chunk(60, client_timestamp_ms=now_ms - 5)
            await speaker.final()
            await node.answer(await node.job())
            result = await speaker.expect("translation_result")
            assert result["network_timings"]["web_to_scheduler_ms"] == 40


MERGING = {**FAST, "segmentation": {**FAST["segmentation"], "short_merge_ms": 400, "max_duration_ms": 0}}


async def test_41_a_short_utterance_waits_for_more_speech(store_options):
    async with world(store_options, **MERGING) as house:
        node, speaker = await cast(house)
        await speaker.chunk(600)
        await house.pass_time(SILENCE_CUT_S, speaker)
        await no_job(house, node, speaker)
        await speaker.chunk(3000)
        await speaker.final()
        assert len((await node.job())["audio"]) == 3600


async def test_42_a_short_utterance_is_never_lost(store_options):
    async with world(store_options, **MERGING) as house:
        node, speaker = await cast(house)
        await speaker.chunk(600)
        await house.pass_time(2 * PAUSE_S + 2 * HANGOVER_S, speaker)
        assert len((await node.job())["audio"]) == 600


async def test_43_a_short_manual_utterance_goes_at_once(store_options):
    async with world(store_options, **MERGING) as house:
        node, speaker = await cast(house)
        await speaker.say(300)
        assert len((await node.job())["audio"]) == 300


# What goes beyond the cases


async def test_a_gap_is_told_from_a_pause(store_options):
    """Affinity treats them differently. Here the timer is late, so the frame finds the pause uncut."""
    async with world(store_options, **FAST) as house:
        node, speaker = await cast(house)
        await speaker.chunk(60)
        await speaker.sync()
        house.clock._now += 1.0  # the clock moved, but nobody was called
        await speaker.chunk(60)
        job = await node.job()
        assert (job["is_timeout_triggered"], job["is_pause_triggered"]) == (True, True)


@pytest.mark.parametrize(
    ("before", "after"), [(b"", 60), (pack([bytes(8)] * 13), 60 + 130)], ids=["nothing", "quiet"]
)
async def test_quiet_alone_is_no_utterance_but_leads_into_one(store_options, before, after):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        await speaker.chunk(before)
        await speaker.final()
        await no_job(house, node, speaker)
        await speaker.chunk(before)
        await speaker.say(60)
        job = await node.job()
        assert (job["utterance_index"], len(job["audio"])) == (0, after)


async def test_a_failing_job_never_blocks_later_speech(store_options):
    """B1: whatever becomes of one utterance, the writer goes on with the next."""
    async with world(store_options) as house:
        node, speaker = await cast(house)
        for index in range(3):
            await speaker.say(60)
            job = await node.job()
            assert job["utterance_index"] == index
            await node.fail(job, "PROCESSING_ERROR")
            await speaker.expect("missing_result", utterance_index=index)
