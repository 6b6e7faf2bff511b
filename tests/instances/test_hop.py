"""A session on one instance, its node on another: all arrives, and what is near never takes a detour."""

from __future__ import annotations

import base64
from typing import Any

from lingua_scheduler.store.connection import StoreOptions
from neighbours import shown, two
from support import wait_until

TTS = b"\x01\x02" * 400


async def test_assignment_partial_and_result_cross_between_instances(store_options: StoreOptions) -> None:
    async with two(store_options) as (a, b):
        node = await a.node(features=["exact_flags", "any_order", "job_ack"])
        await shown(b, 1)
        speaker = await b.session()
        await speaker.say(b"\xff" * 900)
        job = await node.job()
        assert job["audio"] == b"\xff" * 900
        about = {key: job[key] for key in ("job_id", "attempt_id", "session_id", "trace_id")}
        await node.send("job_ack", node_id=node.id, **about)
        await speaker.expect("ui_event", event="NODE_ACCEPTED")
        await node.send(
            "asr_partial",
            node_id=node.id,
            job_id=job["job_id"],
            session_id=job["session_id"],
            utterance_index=0,
            text="你",
            is_final=False,
            trace_id=job["trace_id"],
        )
        assert (await speaker.expect("asr_partial"))["text"] == "你"
        await node.answer(job, tts_audio=base64.b64encode(TTS).decode(), tts_format="pcm16")
        result = await speaker.expect("translation_result")
        assert result["text_translated"] == "hello"
        assert base64.b64decode(result["tts_audio"]) == TTS
        await b.settled(speaker)
        assert await b.reserved() == []
        assert len(a.instance.errands) == 0


async def test_traffic_inside_one_instance_writes_no_letter(store_options: StoreOptions) -> None:
    """AC-57."""
    async with two(store_options) as (a, b):
        node = await a.node()
        speaker = await a.session()
        await speaker.say()
        await node.answer(await node.job())
        await speaker.expect("translation_result")
        for each in (a, b):
            assert each.instance.metrics.registry.get_sample_value(
                "scheduler_letters_sent_total", {"kind": "peer_assign", "outcome": "sent"}
            ) in (None, 0.0)
            assert not await each.redis("XLEN", each.keys.inbox(each.instance.id))


async def test_audio_is_not_in_the_letters(store_options: StoreOptions) -> None:
    async with two(store_options) as (a, b):
        node = await a.node()
        await shown(b, 1)
        bodies: list[bytes] = []
        send = b.instance.stores.inbox.send

        async def spy(to: Any, body: bytes) -> Any:
            bodies.append(body)
            return await send(to, body)

        b.instance.stores.inbox.send = spy  # type: ignore[method-assign]
        speaker = await b.session()
        await speaker.say(b"\xff" * 3000)
        await node.job()
        assert len(bodies) == 1
        assert len(bodies[0]) < 1500


async def test_a_node_lost_on_another_instance_moves_the_job(store_options: StoreOptions) -> None:
    async with two(store_options) as (a, b):
        first = await a.node()
        await shown(b, 1)
        speaker = await b.session()
        await speaker.say()
        await first.job()
        second = await b.node()
        await first.hang_up()
        job = await second.job()
        assert job["attempt_id"] == 2
        await second.answer(job)
        await speaker.expect("translation_result")


async def test_a_cancelled_job_is_cancelled_on_the_other_instance(store_options: StoreOptions) -> None:
    async with two(store_options, session={"close_drain_ms": 100}) as (a, b):
        node = await a.node()
        await shown(b, 1)
        speaker = await b.session()
        await speaker.say()
        job = await node.job()
        await speaker.send("session_close", session_id=speaker.id, reason="bye")
        session = b.instance.sessions.get(speaker.id)
        await wait_until(lambda: session.closing, description="the session is being closed")
        await b.pass_time(1)
        assert (await node.expect("job_cancel"))["job_id"] == job["job_id"]
        await wait_until(lambda: len(a.instance.errands) == 0, description="the errand is over")


async def test_a_message_to_an_instance_that_does_not_live_writes_no_letter(
    store_options: StoreOptions,
) -> None:
    """AC-59."""
    async with two(store_options) as (a, b):
        await b.redis("DEL", b.keys.presence(a.instance.id))
        posted = await b.instance.stores.inbox.send(a.instance.id, b"{}")
        assert posted.value == "gone"
        assert not await b.redis("XLEN", b.keys.inbox(a.instance.id))
