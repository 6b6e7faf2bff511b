"""The room scripts against a model: whatever sessions of whichever instance do, in whatever order."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field, replace

import uvloop
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from lingua_scheduler.core.model import InstanceId, SessionId
from lingua_scheduler.core.room_ledger import Change, Newcomer, Refusal
from lingua_scheduler.core.rooms import Mode, Room, RoomOptions
from lingua_scheduler.store.connection import StoreOptions
from lingua_scheduler.store.rooms import RoomStore
from lingua_scheduler.store.scripts import Scripts
from store.ledgers import A, B, Ledgers

CAPACITY = 3
CODES = ("111111", "222222")
OWNERS = (A, B)

sessions = st.sampled_from([SessionId(f"s-{number}") for number in range(4)])
codes = st.sampled_from(CODES)
instances = st.sampled_from([0, 1])
langs = st.sampled_from([None, "en", "ja", "zh"])
any_number = st.integers(0, 10)
wishes = st.none() | st.tuples(sessions, st.booleans())


@dataclass(frozen=True)
class ModelMember:
    """What should be true of a member."""

    owner: InstanceId
    epoch: int
    lang: str | None
    mode: Mode
    wishes: dict[str, bool] = field(default_factory=dict)


async def together(calls):
    """Wait for several calls at once."""
    return await asyncio.gather(*calls)


class Rooms(RuleBasedStateMachine):
    """Sessions come, go, change and move on two instances; each instance remembers what it last saw."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.loop = uvloop.new_event_loop()
        options = StoreOptions(url=self.url, key_prefix=f"test-{secrets.token_hex(4)}")
        self.ledgers = Ledgers(options)
        self.draw = CODES[0]
        self.stores = [
            RoomStore(
                Scripts(self.ledgers.connection),
                self.ledgers.keys,
                RoomOptions(capacity=CAPACITY),
                draw=lambda: self.draw,
            )
            for _ in OWNERS
        ]
        self.model: dict[str, dict[SessionId, ModelMember]] = {}  # by code, in the order of joining
        self.known: dict[tuple[int, str], Room] = {}
        self.versions: dict[str, int] = {}
        self.epoch = 1

    def run(self, awaitable):
        """Wait for the real thing."""
        return self.loop.run_until_complete(awaitable)

    def teardown(self):
        """Leave an empty Redis."""
        self.run(self.ledgers.call("FLUSHALL"))
        self.run(self.ledgers.connection.close())
        self.loop.close()

    def seen(self, at: int, code: str, answer: Room) -> None:
        """Check what an instance was told against the model, and let it remember that."""
        members = self.model.get(code, {})
        assert [member.session_id for member in answer.members] == list(members)
        for member in answer.members:
            told = ModelMember(
                member.owner, member.epoch, member.preferred_lang, member.mode, dict(member.raw_voice)
            )
            assert told == members[member.session_id]
        numbers = [member.number for member in answer.members]
        assert numbers == sorted(set(numbers))
        before = self.known.get((at, code))
        assert before is None or answer.version >= before.version
        assert before is None or answer.version > before.version or answer.members == before.members
        self.known[at, code] = answer

    # What sessions do

    @initialize(at=instances, lang=langs)
    def begin(self, at, lang):
        """Start with a room of two and a room of one."""
        for code, session_id in ((CODES[0], "s-0"), (CODES[1], "s-1")):
            self.create(at, code, SessionId(session_id), lang)
        self.join(1 - at, CODES[0], SessionId("s-1"), "en", Mode.TEXT)

    def create(self, at, code, session_id, lang):
        """Open a room under a code."""
        self.draw = code
        self.model[code] = {session_id: ModelMember(OWNERS[at], self.epoch, lang, Mode.VOICE)}
        newcomer = Newcomer(session_id, OWNERS[at], self.epoch, preferred_lang=lang)
        self.seen(at, code, self.run(self.stores[at].create(newcomer)))

    @rule(at=instances, code=codes, session_id=sessions, lang=langs, mode=st.sampled_from(Mode))
    def come(self, at, code, session_id, lang, mode):
        """Join, or open a room if there is none."""
        existed = code in self.model
        self.join(at, code, session_id, lang, mode)
        if not existed:
            self.create(at, code, session_id, lang)

    def join(self, at, code, session_id, lang, mode):
        """Join, or be told why not."""
        newcomer = Newcomer(session_id, OWNERS[at], self.epoch, "A name", lang, mode)
        answer = self.run(self.stores[at].join(code, newcomer))
        members = self.model.get(code)
        if members is None:
            assert answer is Refusal.NOT_FOUND
        elif session_id in members:
            assert answer is Refusal.ALREADY
        elif len(members) == CAPACITY:
            assert answer is Refusal.FULL
        else:
            members[session_id] = ModelMember(OWNERS[at], self.epoch, lang, mode)
            self.seen(at, code, answer)

    @rule(at=instances, code=codes, session_id=sessions, late=any_number)
    def leave(self, at, code, session_id, late):
        """Leave, or try to although a newer owner has the session."""
        members = self.model.get(code, {})
        member = members.get(session_id)
        epoch = (member.epoch if member else self.epoch) - (late == 10)
        answer = self.run(self.stores[at].leave(code, session_id, epoch=epoch))
        if member is None or late == 10:
            assert answer is Refusal.NOT_FOUND
            return
        del members[session_id]
        for other in members.values():
            other.wishes.pop(session_id, None)
        self.seen(at, code, answer)
        if not members:
            del self.model[code]

    @rule(at=instances, code=codes, session_id=sessions, lang=langs, wish=wishes)
    def change_something(self, at, code, session_id, lang, wish):
        """Change a language and a wish, both or none."""
        self.change(at, code, session_id, lang, wish)

    def change(self, at, code, session_id, lang, wish):
        """Change, or be told why not."""
        answer = self.run(
            self.stores[at].change(code, session_id, Change(preferred_lang=lang, raw_voice=wish))
        )
        members = self.model.get(code, {})
        if session_id not in members:
            assert answer is Refusal.NOT_FOUND
        elif wish and (wish[0] == session_id or wish[0] not in members):
            assert answer is Refusal.NO_PEER
        else:
            member = members[session_id]
            told = {**member.wishes, **dict([wish] if wish else [])}
            members[session_id] = replace(member, lang=lang or member.lang, wishes=told)
            self.seen(at, code, answer)

    @rule(at=instances, code=codes, numbers=st.tuples(any_number, any_number), receive=st.booleans())
    def mute(self, at, code, numbers, receive):
        """Let one member say whether it wants to hear another."""
        members = list(self.model.get(code, {}))
        if len(members) > 1:
            one = members[numbers[0] % len(members)]
            others = [member for member in members if member != one]
            self.change(at, code, one, None, (others[numbers[1] % len(others)], receive))

    @rule(at=instances, code=codes, session_id=sessions, step=st.sampled_from([-1, 0, 1]))
    def move(self, at, code, session_id, step):
        """Hold a session from now on, again, or too late."""
        member = self.model.get(code, {}).get(session_id)
        owner = OWNERS[at] if step else member.owner if member else A
        epoch = (member.epoch if member else 1) + step
        answer = self.run(self.stores[at].move(code, session_id, owner=owner, epoch=epoch))
        if member is None or step < 0:
            assert answer is Refusal.NOT_FOUND
            return
        self.epoch = max(self.epoch, epoch)
        self.model[code][session_id] = replace(member, owner=owner, epoch=epoch)
        self.seen(at, code, answer)

    @rule(at=instances, code=codes, session_id=sessions)
    def speak(self, at, code, session_id):
        """Speak, knowing what was seen last."""
        known = self.known.get((at, code))
        answer = self.run(self.stores[at].speak(code, session_id, known=known))
        if session_id in self.model.get(code, {}):
            self.seen(at, code, answer)
        else:
            assert answer is Refusal.NOT_FOUND

    # What time does

    @rule(code=codes, seldom=any_number)
    def expire(self, code, seldom):
        """Let a room have been silent for too long."""
        if not seldom:
            self.run(self.ledgers.call("DEL", *self.places(code)))
            self.model.pop(code, None)

    # What always holds

    def places(self, code: str) -> list[str]:
        """Name every key that a room may have."""
        keys = self.ledgers.keys
        return [keys.room(code), keys.members(code), keys.wishes(code)]

    @invariant()
    def every_instance_can_see_the_room_as_it_is(self):
        """Members in their order, never too many, versions that only rise, nothing of a room that is over."""
        asked = [(at, code) for code in CODES for at in (0, 1)]
        reading = [self.stores[at].read(code, known=self.known.get((at, code))) for at, code in asked]
        for (at, code), answer in zip(asked, self.run(together(reading)), strict=True):
            assert (answer is not None) == (code in self.model)
            if answer is not None:
                self.seen(at, code, answer)
                assert 0 < len(answer.members) <= CAPACITY
                assert answer.version >= self.versions.get(code, 0)
                self.versions[code] = answer.version

    @invariant()
    def every_key_of_a_room_ends_with_it(self):
        """All of them have the same time to live."""
        for code in CODES:
            left = self.run(together(self.ledgers.call("PTTL", key) for key in self.places(code)))
            there = [ms for ms in left if ms != -2]
            assert bool(there) == (code in self.model)
            assert not there or (min(there) > 0 and max(there) - min(there) < 1000)


def test_all_instances_agree_on_rooms_whatever_their_sessions_do(redis_server, prefix):
    Rooms.url = redis_server.url
    run_state_machine_as_test(
        Rooms,
        settings=settings(
            max_examples=60,
            stateful_step_count=50,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
