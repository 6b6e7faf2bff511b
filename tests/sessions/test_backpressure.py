"""A client that talks faster than it is answered: told rarely, never cut off in the middle of a word."""

from __future__ import annotations

from leftovers import assert_nothing_left, in_memory
from world import FakeNode, Speaker, World, world

SMALL = {"session": {"max_open_utterances": 4}}


async def cast(house: World, **wish) -> tuple[FakeNode, Speaker]:
    return await house.node(max_concurrent_jobs=64), await house.session(**wish)


async def fill(node: FakeNode, speaker: Speaker, count: int) -> list[dict]:
    jobs = []
    for _ in range(count):
        await speaker.say(60)
        jobs.append(await node.job())
    return jobs


def told(speaker: Speaker) -> list[str]:
    return [message["action"] for message in speaker.seen("backpressure")]


async def test_a_client_that_asks_is_told_to_slow_down_at_half_and_to_pause_at_the_limit(store_options):
    async with world(store_options, **SMALL) as house:
        node, speaker = await cast(house, supports_backpressure=True)
        await fill(node, speaker, 2)
        assert told(speaker) == []
        await speaker.chunk(60)
        assert (await speaker.expect("backpressure"))["action"] == "SLOW_DOWN"
        await fill(node, speaker, 2)
        await speaker.chunk(60)
        pause = await speaker.expect("backpressure")
        assert (pause["action"], pause["resume_after_ms"]) == ("PAUSE", 2000)


async def test_it_is_told_once_and_again_only_when_it_should_have_resumed(store_options):
    async with world(store_options, **SMALL) as house:
        node, speaker = await cast(house, supports_backpressure=True)
        await fill(node, speaker, 4)
        for _ in range(50):
            await speaker.chunk(60)
        await speaker.sync()
        assert told(speaker) == ["SLOW_DOWN", "PAUSE"]
        await house.pass_time(2, speaker)
        for _ in range(50):
            await speaker.chunk(60)
        await speaker.sync()
        assert told(speaker) == ["SLOW_DOWN", "PAUSE", "PAUSE"]


async def test_a_client_that_does_not_ask_hears_nothing_of_it(store_options):
    """The web client of the first generation misreads it; and an `error` would be a blocking alert."""
    async with world(store_options, **SMALL) as house:
        node, speaker = await cast(house)
        await fill(node, speaker, 4)
        for _ in range(50):
            await speaker.chunk(60)
        await speaker.sync()
        assert told(speaker) == []
        assert speaker.seen("error") == []


async def test_a_final_is_never_refused_and_tells_once_what_was_dropped(store_options):
    async with world(store_options, **SMALL) as house:
        node, speaker = await cast(house)
        jobs = await fill(node, speaker, 3)
        await speaker.chunk(60)
        await speaker.sync()
        jobs += await fill(node, speaker, 1)
        assert len(jobs[3]["audio"]) == 120
        for _ in range(30):
            await speaker.chunk(60)
        await speaker.chunk(90, final=True)
        error = await speaker.expect("error", code="RATE_LIMITED")
        assert error["details"] == {"dropped_chunks": 30}
        job = await node.job()
        assert (len(job["audio"]), job["utterance_index"]) == (90, 4)
        assert speaker.seen("error") == []


async def test_audio_is_taken_again_as_soon_as_something_was_answered(store_options):
    async with world(store_options, **SMALL) as house:
        node, speaker = await cast(house)
        jobs = await fill(node, speaker, 4)
        for _ in range(3):
            await speaker.chunk(60)
        await node.answer(jobs[0])
        await speaker.expect("translation_result")
        await speaker.chunk(60)
        error = await speaker.expect("error", code="RATE_LIMITED")
        assert error["details"] == {"dropped_chunks": 3}
        await speaker.final()
        assert len((await node.job())["audio"]) == 60


async def test_a_burst_without_an_end_is_reported_now_and_then(store_options):
    async with world(store_options, **SMALL) as house:
        node, speaker = await cast(house)
        await fill(node, speaker, 4)
        for _ in range(120):
            await speaker.chunk(60)
            await house.pass_time(0.1, speaker)
        assert [error["details"]["dropped_chunks"] for error in speaker.seen("error")] == [51, 51]


async def test_a_dropped_frame_may_be_sent_again(store_options):
    """A frame that was not taken does not use its number."""
    async with world(store_options, **SMALL) as house:
        node, speaker = await cast(house)
        jobs = await fill(node, speaker, 4)
        await speaker.chunk(60, seq=77)
        await node.answer(jobs[0])
        await speaker.expect("translation_result")
        await speaker.chunk(60, seq=77)
        await speaker.chunk(0, final=True, seq=78)
        assert len((await node.job())["audio"]) == 60


async def test_a_whole_utterance_too_many_is_refused_and_may_be_sent_again(store_options):
    async with world(store_options, **SMALL) as house:
        node, speaker = await cast(house)
        jobs = await fill(node, speaker, 4)
        await speaker.utterance(4)
        await speaker.expect("error", code="RATE_LIMITED")
        await node.answer(jobs[0])
        await speaker.expect("translation_result")
        await speaker.utterance(4)
        assert (await node.job())["utterance_index"] == 4


async def test_another_session_is_not_slowed_down(store_options):
    async with world(store_options, **SMALL) as house:
        node, speaker = await cast(house)
        await fill(node, speaker, 4)
        await speaker.chunk(60)
        other = await house.session()
        await other.say(60)
        assert (await node.job())["session_id"] == other.id


async def test_nothing_of_a_crowded_session_stays(store_options):
    async with world(store_options, **SMALL) as house:
        node = await house.node(max_concurrent_jobs=64)
        before = in_memory(house)
        speaker = await house.session(supports_backpressure=True)
        await fill(node, speaker, 4)
        for _ in range(5):
            await speaker.chunk(60)
        await speaker.hang_up()
        await house.forget(speaker, nodes=(node,))
        await assert_nothing_left(house, before, speaker.id)
