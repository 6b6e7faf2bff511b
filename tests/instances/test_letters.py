"""Letters that find nobody, come twice, come late or cannot be read."""

from __future__ import annotations

import secrets
from typing import Any

from lingua_scheduler.core.company import Presence
from lingua_scheduler.core.model import InstanceId
from lingua_scheduler.core.rooms import RoomOptions
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.store.connection import StoreOptions
from lingua_scheduler.store.instances import CompanyOptions
from lingua_scheduler.store.jobs import LifeOptions
from lingua_scheduler.store.stores import Stores
from lingua_scheduler.wire.codec import encode
from lingua_scheduler.wire.node import JobResult
from lingua_scheduler.wire.peer import PeerWord
from neighbours import shown, two
from support import wait_until
from world import World, world

IMPATIENT = {"retake_ms": 100, "dlq_max_deliveries": 3}


def word_for(session_id: str, job_id: str = "job-1") -> bytes:
    """Word a letter with a result."""
    result = JobResult(
        job_id=job_id,
        attempt_id=1,
        node_id="n",
        session_id=session_id,
        utterance_index=0,
        success=True,
        trace_id="t",
        text_asr="said",
    )
    return encode(PeerWord(node_id="n", session_id=session_id, word=result))


async def recorded(world_: World, session_id: str) -> None:
    """Return when a session is written to Redis."""
    key = world_.keys.session(session_id)
    await wait_until(lambda: world_.redis("EXISTS", key), description="the session is written")


async def pending(world_: World) -> int:
    """Count the letters that were handed out and not settled."""
    summary = await world_.redis("XPENDING", world_.keys.inbox(world_.instance.id), "scheduler")
    return int(summary[0])


async def dead(world_: World) -> list[Any]:
    """Read an instance's dead letters."""
    entries: list[Any] = await world_.redis("XRANGE", world_.keys.dead(world_.instance.id), "-", "+")
    return entries


async def test_a_letter_for_a_session_that_left_is_tried_again_then_buried(
    store_options: StoreOptions,
) -> None:
    """AC-60: with payload, source and count; nothing stays pending."""
    async with two(store_options, peers=IMPATIENT) as (a, b):
        await a.instance.stores.inbox.send(b.instance.id, word_for("s-gone"))
        await wait_until(lambda: b.counted("phase2_dlq_moved_total") == 1, description="the letter is buried")
        [(_, fields)] = await dead(b)
        facts = dict(zip(fields[::2], fields[1::2], strict=True))
        assert b"s-gone" in facts[b"body"]
        assert facts[b"source"].decode() == a.instance.id
        assert int(facts[b"deliveries"]) >= 3
        assert await pending(b) == 0
        assert b.counted("letters_received_total", kind="peer_word", outcome="later") >= 3


async def test_one_that_can_be_delivered_does_not_wait_behind_many_that_cannot(
    store_options: StoreOptions,
) -> None:
    """AC-61."""
    options = {"retake_ms": 200, "dlq_max_deliveries": 1000}
    async with two(store_options, peers=options) as (a, b):
        speaker = await b.session()
        key = b.keys.session(speaker.id)
        await recorded(b, speaker.id)
        await b.redis("DEL", key)
        for number in range(99):
            await b.instance.stores.inbox.send(a.instance.id, word_for(f"s-{number}"))
        await b.instance.stores.inbox.send(a.instance.id, word_for(speaker.id))
        await wait_until(
            lambda: a.counted("letters_received_total", kind="peer_word", outcome="later") >= 100,
            description="all of them wait",
        )
        await b.instance.sessions.renew()
        await wait_until(
            lambda: b.counted("letters_received_total", kind="peer_word", outcome="done") == 1,
            description="the last one was sent on",
        )
        assert await pending(a) == 99


async def test_a_letter_that_cannot_be_read_is_buried_at_once_and_holds_nothing_up(
    store_options: StoreOptions,
) -> None:
    """F47."""
    async with world(store_options, peers=IMPATIENT) as w:
        inbox = w.keys.inbox(w.instance.id)
        await w.redis("XADD", inbox, "*", "nonsense", "1")
        await w.redis("XADD", inbox, "*", "body", b'{"type":"peer_taken"}', "source", "x")
        await w.redis("XADD", inbox, "*", "body", b"\xff" * 100_000, "source", "x")
        await w.instance.stores.inbox.send(
            w.instance.id, b'{"type":"peer_taken","session_id":"s-1","epoch":2}'
        )
        await wait_until(lambda: w.counted("phase2_dlq_moved_total") == 3, description="three are buried")
        await wait_until(
            lambda: w.counted("letters_received_total", kind="peer_taken", outcome="done") == 1,
            description="the good one had its effect",
        )
        assert await pending(w) == 0
        assert not await w.redis("XLEN", inbox)


async def test_a_lost_stream_is_made_again(store_options: StoreOptions) -> None:
    """F49."""
    async with two(store_options) as (a, b):
        await b.redis("DEL", b.keys.inbox(b.instance.id))
        node = await a.node()
        await shown(b, 1)
        speaker = await b.session()
        await speaker.say()
        await node.answer(await node.job())
        await speaker.expect("translation_result")


async def test_an_assignment_whose_attempt_is_over_does_not_reach_the_node(
    store_options: StoreOptions,
) -> None:
    """AC-62b: the job has moved on while its letter lay in an inbox."""
    async with two(store_options) as (a, b):
        first = await a.node()
        await shown(b, 1)
        kept: list[tuple[Any, bytes]] = []
        send = b.instance.stores.inbox.send

        async def keep(to: Any, body: bytes) -> Any:
            kept.append((to, body))
            return await send(to, body)

        b.instance.stores.inbox.send = keep  # type: ignore[method-assign]
        speaker = await b.session()
        await speaker.say()
        old = await first.job()
        second = await b.node()
        await shown(b, 2)
        await first.fail(old, "NODE_OVERLOADED")
        await second.answer(await second.job())
        await speaker.expect("translation_result")
        to, body = next((to, body) for to, body in kept if b"peer_assign" in body)
        await send(to, body)
        await wait_until(
            lambda: a.counted("letters_received_total", kind="peer_assign", outcome="stale") == 1,
            description="the old assignment was dropped",
        )
        assert first.seen("job_assign") == []


class Ghost:
    """An instance that is known, gets letters and never reads them."""

    def __init__(self, store: StoreOptions, name: str) -> None:
        self.id = InstanceId(name)
        options = CompanyOptions(presence_ttl_s=2)
        self.stores = Stores(store, LifeOptions(), options, RoomOptions(), owner=self.id, metrics=Metrics())
        self.presence = Presence(self.id, secrets.token_hex(4), "", 1)

    async def appear(self) -> None:
        """Become known for a moment."""
        await self.stores.instances.enter(self.presence)


async def test_the_letters_of_a_dead_instance_are_adopted_by_one_survivor(
    store_options: StoreOptions,
) -> None:
    """AC-62: a survivor handles them, and the stream is gone afterwards."""
    ghost = Ghost(store_options, "ghost")
    async with two(store_options, peers={"settle_ms": 100, "look_ms": 100}) as (a, b):
        await ghost.appear()
        speaker = await b.session()
        await recorded(b, speaker.id)
        for number in range(3):
            await a.instance.stores.inbox.send(ghost.id, word_for(speaker.id, f"job-{number}"))
        for each in (a, b):
            await each.instance.company.look()
            assert ghost.id in each.instance.company.reachable

        for each in (a, b):
            await wait_until(
                lambda each=each: ghost.id not in each.instance.company.reachable,
                description="the dead one is missed",
            )
            each.clock.advance(0.2)

        def adopted() -> float:
            return a.counted("instances_adopted_total") + b.counted("instances_adopted_total")

        await wait_until(lambda: adopted() == 1, description="one survivor took charge")
        await wait_until(
            lambda: b.counted("letters_received_total", kind="peer_word", outcome="done") == 3,
            description="all letters reached the session's owner",
        )
        assert not await a.redis("EXISTS", a.keys.inbox("ghost"))
        assert adopted() == 1
        assert await a.instance.stores.instances.missing() == []
    await ghost.stores.connection.close()


async def test_jobs_on_nodes_of_a_dead_instance_move(store_options: StoreOptions) -> None:
    async with two(store_options) as (a, b):
        there = await a.node()
        await shown(b, 1)
        speaker = await b.session()
        await speaker.say()
        await there.job()
        here = await b.node()
        b.instance.company.lost(a.instance.id)
        job = await here.job()
        assert job["attempt_id"] == 2
        await here.answer(job)
        await speaker.expect("translation_result")


async def test_an_instance_whose_presence_lapsed_asks_what_it_owns_before_it_places(
    store_options: StoreOptions,
) -> None:
    """A process that was frozen finds out that a session is not its own any more before it takes a slot."""
    async with two(store_options) as (a, b):
        node = await a.node()
        speaker = await a.session()
        await recorded(a, speaker.id)
        taken = await b.instance.stores.sessions.take_over(speaker.id, b.instance.id, epoch=1)
        assert taken is not None
        a.clock.advance(60)
        assert not a.instance.company.sure
        reserved = a.counted("reserve_attempt_total", result="success")
        await speaker.say()
        assert await speaker.closed() == 4409
        assert a.counted("reserve_attempt_total", result="success") == reserved
        assert node.seen("job_assign") == []
