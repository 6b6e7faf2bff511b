"""Redis forgets everything, or is away, while people speak: all of it still ends, and nothing is oversold."""

from __future__ import annotations

from typing import Any

from lingua_scheduler.errors import DependencyDown
from lingua_scheduler.store.connection import StoreOptions
from stored_jobs import session_fields
from support import wait_until
from world import World, world

RESUMES = {"supports_resume": True}


async def field(w: World, session_id: str, name: str) -> str | None:
    """Read one field of a session's record."""
    value = await w.redis("HGET", w.keys.session(session_id), name)
    return value.decode() if value is not None else None


async def test_a_session_that_redis_lost_is_whole_again_after_its_next_utterance(
    store_options: StoreOptions,
) -> None:
    """Otherwise whoever takes it over would find a record that it cannot read."""
    async with world(store_options) as w:
        node = await w.node()
        speaker = await w.session(**RESUMES)
        await wait_until(lambda: field(w, speaker.id, "opening"), description="the session is written")
        before = await field(w, speaker.id, "opening")
        await w.redis("DEL", w.keys.session(speaker.id))
        await speaker.say()
        await node.answer(await node.job())
        await speaker.expect("translation_result")
        await wait_until(lambda: field(w, speaker.id, "opening"), description="it is whole again")
        assert await field(w, speaker.id, "opening") == before


async def test_a_record_that_only_a_job_has_written_counts_as_gone(store_options: StoreOptions) -> None:
    async with world(store_options) as w:
        speaker = await w.session(**RESUMES)
        await wait_until(lambda: field(w, speaker.id, "opening"), description="the session is written")
        await w.redis("HDEL", w.keys.session(speaker.id), "opening", "whole")
        await w.instance.sessions.renew()
        await wait_until(lambda: field(w, speaker.id, "opening"), description="it is whole again")


async def test_the_audio_of_an_utterance_that_was_given_up_unwritten_is_kept_until_its_end_is_written(
    store_options: StoreOptions, monkeypatch: Any
) -> None:
    """Its client was told, perhaps on a dead connection: whoever takes the session over must know."""
    async with world(store_options) as w:
        jobs, away = w.instance.stores.jobs, True
        create, finish = jobs.create, jobs.finish

        async def shaky_create(*args: Any) -> Any:
            if away:
                raise DependencyDown("away")
            return await create(*args)

        async def shaky_finish(*args: Any) -> Any:
            if away:
                raise DependencyDown("away")
            return await finish(*args)

        monkeypatch.setattr(jobs, "create", shaky_create)
        monkeypatch.setattr(jobs, "finish", shaky_finish)
        speaker = await w.session(**RESUMES)
        await speaker.say()
        await speaker.expect("ui_event", error_code="SCHEDULER_DEPENDENCY_DOWN")
        await w.pass_time(11, speaker)
        await speaker.expect("missing_result", utterance_index=0)
        await speaker.sync()
        assert speaker.seen("audio_ack") == []
        away = False
        await speaker.expect("audio_ack", seq=0)
        assert (await session_fields(w.redis, w.keys, speaker.id, "told")).keys() == {"0:en"}


async def test_a_node_that_redis_lost_is_not_given_more_than_it_has_room_for(
    store_options: StoreOptions,
) -> None:
    async with world(store_options) as w:
        node = await w.node(max_concurrent_jobs=1)
        speaker = await w.session()
        await speaker.say()
        first = await node.job()
        snapshot = w.instance.snapshot
        await wait_until(lambda: snapshot._versions[0], description="the snapshot has seen the node")
        await w.redis("FLUSHALL")
        await wait_until(
            lambda: w.redis("HGET", w.keys.nodes(0), node.id), description="the node is written anew"
        )
        await speaker.say()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE", utterance_index=1)
        assert node.seen("job_assign") == []
        await node.answer(first)
        await node.beat()
        await node.answer(await node.job(utterance_index=1))
        await speaker.expect("translation_result", utterance_index=1)
