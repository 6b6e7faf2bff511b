"""Two instances as processes that live beside each other (AC-56 to AC-60, AC-64, AC-65, F35).

Every case runs on one Redis and on a cluster; the fleet asserts at its end that no process ever met a key in
the wrong slot.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import signal
from typing import Any, NamedTuple, Self

import msgspec
import pytest
import pytest_asyncio

from fleet import Fleet, Ground, Member, arrives, fleet
from lingua_scheduler.core.company import Posted
from lingua_scheduler.core.rooms import RoomOptions
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.store.instances import CompanyOptions
from lingua_scheduler.store.jobs import LifeOptions
from lingua_scheduler.store.stores import Stores
from processes import lingua
from support import wait_until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

VOICE = b"\x01\x02" * 40_000
SETTINGS = {
    "LINGUA_COMPANY__PRESENCE_TTL_S": "4",
    "LINGUA_PEERS__SETTLE_MS": "1000",
    "LINGUA_PEERS__DLQ_MAX_DELIVERIES": "3",
}


class Two(NamedTuple):
    """Two instances that know each other."""

    fleet: Fleet
    a: Member
    b: Member


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def two(shared_place):
    """Run two instances for the whole module."""
    async with fleet(shared_place) as made:
        yield Two(made, *await made.run("a", "b", **SETTINGS))


async def test_ac_56_partials_and_voice_cross_between_processes(two: Two):
    node = await two.fleet.node(two.a, features=["exact_flags", "any_order", "job_ack"])
    await two.fleet.serves(two.b, "zh")
    speaker = await two.fleet.session(two.b)
    for index in range(3):
        await speaker.say(b"\xff" * 900)
        job = await node.job(utterance_index=index)
        assert job["audio"] == b"\xff" * 900
        about = {key: job[key] for key in ("job_id", "session_id", "trace_id", "utterance_index")}
        await node.send("asr_partial", node_id=node.id, **about, text=f"part {index}", is_final=False)
        await speaker.expect("asr_partial", text=f"part {index}")
        await node.answer(job, tts_audio=base64.b64encode(VOICE).decode(), tts_format="pcm16")
        result = await speaker.expect("translation_result", utterance_index=index)
        assert result["text_translated"] == "hello"
        assert base64.b64decode(result["tts_audio"]) == VOICE
    await speaker.hang_up()
    await node.hang_up()


async def test_ac_57_traffic_inside_one_process_adds_no_entries(two: Two):
    node = await two.fleet.node(two.a, "de", "fr")
    speaker = await two.fleet.session(two.a, src_lang="de", tgt_lang="fr")
    before = [await two.fleet.letters_ever(each) for each in (two.a, two.b)]
    for index in range(3):
        await speaker.say()
        await node.answer(await node.job(utterance_index=index))
        await speaker.expect("translation_result", utterance_index=index)
    assert [await two.fleet.letters_ever(each) for each in (two.a, two.b)] == before
    await speaker.hang_up()
    await node.hang_up()


async def test_ac_58_presence_lasts_shortly_and_says_since_when(two: Two):
    """The time of the start is that of the process: it does not move with the renewals."""
    key = two.fleet.keys.presence("a")
    seen = set()
    renewed = await two.fleet.redis("HGET", key, "until_ms")
    for _ in range(2):
        now = renewed
        renewed = await two.fleet.redis_until(lambda reply, now=now: reply != now, "HGET", key, "until_ms")
        assert 0 < await two.fleet.redis("TTL", key) <= 30
        seen.add(await two.fleet.redis("HGET", key, "started_ms"))
    assert len(seen) == 1
    assert (await two.fleet.redis("HGET", key, "url")).decode() == two.a.url


async def test_ac_59_nothing_is_written_to_an_instance_without_presence(two: Two):
    """Its node is still the first choice; the letter is refused at once, and the job goes to another node."""
    far = await two.fleet.node(two.a, "it", "es")
    await two.fleet.serves(two.b, "it")
    speaker = await two.fleet.session(two.b, src_lang="it", tgt_lang="es")
    before = await two.fleet.letters_ever(two.a)
    gone = await two.fleet.metric(two.b, "letters_sent_total", outcome="gone")
    two.a.tell(signal.SIGSTOP)
    try:
        await two.fleet.redis("DEL", two.fleet.keys.presence("a"))
        await speaker.say()
        await two.fleet.counts(two.b, "letters_sent_total", least=gone + 1, outcome="gone")
        near = await two.fleet.node(two.b, "it", "es")
        job = await arrives(near, "job_assign", utterance_index=0)
        assert await two.fleet.letters_ever(two.a) == before
    finally:
        two.a.tell(signal.SIGCONT)
    await near.answer(job)
    await speaker.expect("translation_result", utterance_index=0)
    await two.fleet.acquainted(two.a, two.b)
    assert far.seen("job_assign") == []
    for wire in (speaker, near, far):
        await wire.hang_up()


class Outsider:
    """Somebody who writes letters without being an instance."""

    def __init__(self, place: Ground) -> None:
        self._stores = Stores(
            place.options, LifeOptions(), CompanyOptions(), RoomOptions(), owner="x", metrics=Metrics()
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stores.connection.close()

    async def write(self, to: str, **letter: Any) -> None:
        """Put a letter into an inbox."""
        assert await self._stores.inbox.send(to, msgspec.json.encode(letter)) is Posted.SENT


def result_for(session_id: str) -> dict[str, Any]:
    word = {
        "type": "job_result",
        "job_id": "job-1",
        "attempt_id": 1,
        "node_id": "n",
        "session_id": session_id,
        "utterance_index": 0,
        "success": True,
        "text_asr": "hush",
        "trace_id": "t",
    }
    return {"type": "peer_word", "node_id": "n", "session_id": session_id, "word": word}


async def test_ac_60_a_letter_for_a_session_that_left_can_be_seen_replayed_and_dropped(two: Two):
    async def dlq(*arguments: str) -> Any:
        async with lingua("dlq", *arguments, "--json", **two.fleet.ground.environment) as command:
            assert await command.ended() == 0, command.lines
            assert not command.count("hush")
            return json.loads("".join(command.lines))

    moved = await two.fleet.metric(two.b, "phase2_dlq_moved_total")
    async with Outsider(two.fleet.ground) as outside:
        await outside.write("b", **result_for("s-gone"))
    await two.fleet.counts(two.b, "phase2_dlq_moved_total", least=moved + 1)
    assert (await two.fleet.redis("XPENDING", two.fleet.keys.inbox("b"), "scheduler"))[0] == 0
    [listed] = await dlq("list")
    shown = await dlq("show", listed["letter"])
    assert (shown["instance"], shown["source"]) == ("b", "x")
    assert shown["deliveries"] >= 3
    assert (shown["body"]["session_id"], shown["body"]["word"]["job_id"]) == ("s-gone", "job-1")

    assert await dlq("replay", listed["letter"], "--into", "a") == {"letter": listed["letter"], "into": "a"}
    await two.fleet.counts(two.a, "phase2_dlq_moved_total")
    [[entry, _]] = await two.fleet.redis("XRANGE", two.fleet.keys.dead("a"), "-", "+")
    assert await dlq("drop", f"a/{entry.decode()}") == {"dropped": 1}
    assert not await two.fleet.redis("XLEN", two.fleet.keys.dead("a"))


async def test_ac_65_environments_with_different_prefixes_do_not_meet(two: Two):
    """Not even two instances of one name, a session, a node and a token of the other."""
    here = two.fleet
    other = Ground(
        msgspec.structs.replace(here.ground.options, key_prefix=f"other-{secrets.token_hex(4)}"),
        here.ground.servers,
    )
    node = await here.node(two.b, "ja", "ko")
    speaker = await here.session(two.b, src_lang="ja", tgt_lang="ko")
    async with fleet(other) as there:
        [twin] = await there.run("a", LINGUA_RESUME__WINDOW_S="0")
        assert await there.metric(twin, "instances_alive") == 1
        stranger = await there.session(
            twin, src_lang="ja", tgt_lang="ko", resume_token=speaker.ack["resume_token"]
        )
        assert stranger.id != speaker.id
        assert stranger.ack["resumed"] is False
        await stranger.say()
        await stranger.expect("ui_event", event="ERROR", error_code="NO_AVAILABLE_NODE")
        await stranger.hang_up()
        await speaker.say()
        await node.answer(await node.job(session_id=speaker.id))
        await speaker.expect("translation_result", utterance_index=0)
        assert node.seen("job_assign") == []
        prefixes = (f"{here.keys.prefix}:", f"{other.options.key_prefix}:")
        keys = other.all_keys()
        assert [key for key in keys if not key.startswith(prefixes)] == []
        assert not [key for key in keys if key.startswith(prefixes[1]) and speaker.id in key]
        twin.tell(signal.SIGTERM)
        assert await twin.command.ended() == 0
    assert await here.metric(two.a, "instances_alive") == 2
    assert not [key for key in other.all_keys(f"{prefixes[1]}*") if "{session" in key or "{instance:" in key]
    for key in other.all_keys(f"{prefixes[1]}*"):
        await here.redis("DEL", key)
    await speaker.hang_up()
    await node.hang_up()


async def test_f35_an_id_that_is_in_use_is_refused_in_one_line(two: Two):
    boot = await two.fleet.redis("HGET", two.fleet.keys.presence("a"), "boot")
    second = await two.fleet.begin("a", **SETTINGS)
    assert await second.ended() == 1
    [said] = [line for line in second.lines if line.startswith("lingua: ")]
    assert said.startswith("lingua: another process lives under the instance id a: stop it, or start")
    assert not second.count("instance_started")
    assert await two.fleet.redis("HGET", two.fleet.keys.presence("a"), "boot") == boot
    assert (await two.fleet.get(two.a, "/ready"))[0] == 200


async def test_an_ended_session_leaves_nothing_in_any_slot(two: Two):
    """AC-64: the slots of sessions, pools and instances lie on different servers of the cluster."""
    node = await two.fleet.node(two.a, "nl", "sv")
    await two.fleet.serves(two.b, "nl")
    speakers = await asyncio.gather(
        *(two.fleet.session(two.b, src_lang="nl", tgt_lang="sv") for _ in range(12))
    )
    for speaker in speakers:
        await speaker.say()
        await node.answer(await node.job(session_id=speaker.id))
        await speaker.expect("translation_result", utterance_index=0)
        await speaker.send("session_close", session_id=speaker.id, reason="bye")
    ids = [speaker.id for speaker in speakers]

    def gone() -> bool:
        return not [key for key in two.fleet.ground.all_keys("*session:*") if any(id_ in key for id_ in ids)]

    await wait_until(gone, description="nothing of the sessions is left")
    await node.hang_up()
