"""The real scripts against a model: three owners, each of which may believe that the session is its own."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass

import pytest
import uvloop
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lingua_scheduler.core.model import InstanceId, SessionId
from lingua_scheduler.core.stored import Finish, Logged, Tenure
from lingua_scheduler.errors import Fenced
from lingua_scheduler.store.connection import StoreOptions
from store.ledgers import A, B, Ledgers, job_end, new_job, slot_on
from stored_jobs import session_fields

SESSION = SessionId("s-1")
C = InstanceId("instance-c")

owners = st.sampled_from([A, B, C])
numbers = st.integers(0, 20)


@dataclass
class ModelJob:
    """What should be true of a job."""

    job_id: str
    index: int
    attempt: int = 0
    lost: bool = False

    @property
    def name(self) -> str:
        """What it is found by in claims and log."""
        return f"{self.index}:en"


@dataclass
class Belief:
    """What an instance believes of the session."""

    epoch: int = 0  # 0: it never had it
    next_index: int = 0


class Hands(RuleBasedStateMachine):
    """The session is opened, taken over, written by its owner and by older ones, and forgotten by Redis."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.loop = uvloop.new_event_loop()
        options = StoreOptions(url=self.url, key_prefix=f"test-{secrets.token_hex(4)}")
        self.ledgers = {owner: Ledgers(options, owner) for owner in (A, B, C)}
        self.call = self.ledgers[A].call
        self.beliefs = {owner: Belief() for owner in (A, B, C)}
        self.record: tuple[InstanceId, int] | None = None
        self.next_index, self.last_seq = 0, None
        self.claims: dict[int, str] = {}
        self.open: dict[str, ModelJob] = {}
        self.log: dict[str, bytes] = {}
        self.settled: set[str] = set()  # ended, and acknowledged or never told
        self.count = 0

    def run(self, awaitable):
        """Wait for the real thing."""
        return self.loop.run_until_complete(awaitable)

    def teardown(self):
        """Leave an empty Redis."""
        self.run(self.call("FLUSHALL"))
        for ledgers in self.ledgers.values():
            self.run(ledgers.connection.close())
        self.loop.close()

    def writes(self, owner) -> bool:
        """Tell whether a write of this instance should count; if so it is the owner from then on."""
        mine = (owner, self.beliefs[owner].epoch)
        if self.record is None or self.record == mine:
            return True
        if self.record[1] >= mine[1]:
            return False
        self.record = mine
        return True

    def believer(self, number):
        """Pick an instance that believes to have the session, more often the one that has it."""
        if self.record is not None and number % 2:
            return self.record[0]
        some = [owner for owner, belief in self.beliefs.items() if belief.epoch]
        return some[number % len(some)]

    def job(self, number) -> ModelJob | None:
        """Pick an open job."""
        return list(self.open.values())[number % len(self.open)] if self.open else None

    # Owners

    @initialize()
    def begin(self):
        """Open it on one instance."""
        self.beliefs[A].epoch = 1
        self.write_anew(1)

    @rule(number=numbers)
    def write_anew(self, number):
        """Write the record, as an instance does that was told it is gone."""
        owner = self.believer(number)
        belief = self.beliefs[owner]
        fields = {"src_lang": "zh", "next_index": str(belief.next_index)}
        opened = self.ledgers[owner].sessions.open(SESSION, owner, fields, epoch=belief.epoch)
        if not self.writes(owner):
            with pytest.raises(Fenced):
                self.run(opened)
            return
        assert self.run(opened) == belief.epoch
        self.record = (owner, belief.epoch)
        self.next_index = max(self.next_index, belief.next_index)

    @rule(number=numbers)
    def renew(self, number):
        """Extend its life."""
        owner = self.believer(number)
        known = self.record is not None
        answer = self.run(self.ledgers[owner].sessions.renew({SESSION: self.beliefs[owner].epoch}, owner))
        if not known:
            assert answer == {SESSION: Tenure.GONE}
        else:
            assert answer == ({} if self.writes(owner) else {SESSION: Tenure.TAKEN})

    @rule(owner=owners, behind=st.sampled_from([0, 0, 0, 1, -1]))
    def take_over(self, owner, behind):
        """Let a client come with its token, perhaps an old one."""
        epoch = (self.record[1] if self.record else 1) - behind
        stored = self.run(self.ledgers[owner].sessions.take_over(SESSION, owner, epoch=epoch))
        if self.record is None or behind:
            assert stored is None
        else:
            self.taken(owner, stored)

    @rule()
    def take_over_at_once(self):
        """Let the client come everywhere at once."""
        if self.record is None:
            return
        epoch = self.record[1]

        async def rush():
            return await asyncio.gather(
                *(one.sessions.take_over(SESSION, owner, epoch=epoch) for owner, one in self.ledgers.items())
            )

        won = [(owner, got) for owner, got in zip(self.ledgers, self.run(rush()), strict=True) if got]
        assert len(won) == 1
        self.taken(*won[0])

    def taken(self, owner, stored):
        """Compare what the new owner got with what there should be."""
        assert (stored.before, stored.epoch) == (self.record[0], self.record[1] + 1)
        jobs = sorted(self.open.values(), key=lambda job: job.index)
        assert [(job.job_id, job.index, job.attempt) for job in stored.jobs] == [
            (job.job_id, job.index, job.attempt) for job in jobs if not job.lost
        ]
        assert stored.lost == tuple((job.index, "en") for job in jobs if job.lost)
        assert {entry.name: entry.message for entry in stored.log} == self.log
        assert [entry.index for entry in stored.log] == sorted(entry.index for entry in stored.log)
        for job in stored.jobs:
            assert (job.reservation.attempt if job.reservation else 0) == job.attempt
        assert (stored.next_index, stored.last_seq) == (self.next_index, self.last_seq)
        self.record = (owner, stored.epoch)
        self.beliefs[owner] = Belief(stored.epoch, stored.next_index)

    @rule(seldom=st.integers(0, 3), number=numbers)
    def flush(self, seldom, number):
        """Let Redis forget everything; what instances believe stays, and any of them may write first."""
        if seldom:
            return
        self.run(self.call("FLUSHALL"))
        self.record, self.next_index, self.last_seq = None, 0, None
        for kept in (self.claims, self.open, self.log, self.settled):
            kept.clear()
        self.write_anew(number)

    @rule(number=numbers)
    def an_older_owner_closes(self, number):
        """Let an instance end a session that it has lost."""
        owner = self.believer(number)
        if self.record is not None and self.beliefs[owner].epoch < self.record[1]:
            self.run(self.ledgers[owner].sessions.close(SESSION, epoch=self.beliefs[owner].epoch))

    # Jobs

    @rule(number=numbers, placed=st.booleans(), seq=st.none() | st.integers(0, 99))
    def create(self, number, placed, seq):
        """File the next utterance of an instance."""
        owner = self.believer(number)
        belief = self.beliefs[owner]
        self.count += 1
        job = ModelJob(f"job-{self.count}", belief.next_index, attempt=int(placed))
        made = self.ledgers[owner].jobs.create(
            new_job(job.job_id, index=job.index, session_epoch=belief.epoch, last_seq=seq),
            slot_on("n1", job.job_id) if placed else None,
        )
        if not self.writes(owner):
            with pytest.raises(Fenced):
                self.run(made)
            return
        self.record = (owner, belief.epoch)
        claimed = self.run(made)
        known = self.claims.get(job.index)
        assert (claimed.job_id, claimed.fresh) == (known or job.job_id, known is None)
        belief.next_index += 1
        if known is None:
            self.claims[job.index] = job.job_id
            self.open[job.job_id] = job
            self.next_index = max(self.next_index, job.index + 1)
            if seq is not None:
                self.last_seq = max(seq, self.last_seq or 0)

    @precondition(lambda self: self.open)
    @rule(number=numbers, which=numbers)
    def attempt(self, number, which):
        """Place a job on its next node."""
        owner, job = self.believer(number), self.job(which)
        if job.lost:
            return
        current, following = (
            slot_on(f"n{attempt}", job.job_id, attempt=attempt) for attempt in (job.attempt, job.attempt + 1)
        )
        counts = self.writes(owner)
        jobs, epoch = self.ledgers[owner].jobs, self.beliefs[owner].epoch
        assert self.run(jobs.step(SESSION, current, "DISPATCHED", epoch=epoch)) is counts
        assert self.run(jobs.attempt(SESSION, following, epoch=epoch)) is counts
        job.attempt += counts

    @precondition(lambda self: self.open)
    @rule(
        number=numbers, which=numbers, told=st.booleans(), behind=st.sampled_from([0, 0, 0, 1]), ack=numbers
    )
    def finish(self, number, which, told, behind, ack):
        """End a job, perhaps by an attempt that is not current; acknowledge some of what was told before."""
        owner, job = self.believer(number), self.job(which)
        forget = sorted(self.log)[: ack // 5]
        said = f"{job.job_id} by {owner}".encode()
        end = job_end(
            job.job_id,
            session_epoch=self.beliefs[owner].epoch,
            attempt=job.attempt + behind,
            log=Logged(job.index, "en", said) if told else None,
            forget=tuple(forget),
        )
        verdict = self.run(self.ledgers[owner].jobs.finish(end))
        if not self.writes(owner):
            assert verdict is Finish.FENCED
            return
        for name in forget:
            del self.log[name]
            self.settled.add(name)
        if behind and not job.lost:
            assert verdict is Finish.STALE
            return
        assert verdict is (Finish.UNKNOWN if job.lost else Finish.ACCEPTED)
        assert job.lost or self.run(self.ledgers[owner].jobs.finish(end)) is Finish.DONE
        del self.open[job.job_id]
        if told:
            self.log[job.name] = said
        else:
            self.settled.add(job.name)

    @precondition(lambda self: self.open)
    @rule(which=numbers)
    def lose(self, which):
        """Let Redis lose the record of a job."""
        job = self.job(which)
        key = self.ledgers[A].keys.session(SESSION)
        raw = self.run(self.call("HGET", key, f"job:{job.job_id}"))
        self.run(self.call("HSET", key, f"job:{job.job_id}", b"\n".join([b"", *raw.split(b"\n")[1:]])))
        job.lost = True

    # What always holds

    @invariant()
    def redis_agrees_with_the_model(self):
        """Owner, epoch, open jobs and log are what they should be."""
        keys = self.ledgers[A].keys
        owner, epoch = self.run(self.call("HMGET", keys.session(SESSION), "owner", "epoch"))
        assert (owner and (owner.decode(), int(epoch))) == self.record
        assert self.fields("job").keys() == self.open.keys()

    @invariant()
    def every_claimed_utterance_is_in_one_place(self):
        """Open, told and not acknowledged, or settled; never in two of them, never in none."""
        open_ = [record.split(b"\n")[1].decode() for record in self.fields("job").values()]
        assert sorted([*open_, *self.fields("told"), *self.settled]) == sorted(self.fields("claim"))

    def fields(self, kind):
        """Read the fields of one kind of the session."""
        return self.run(session_fields(self.call, self.ledgers[A].keys, SESSION, kind))

    @invariant()
    def one_instance_at_most_has_the_highest_epoch(self):
        """Whoever believes in the epoch of the record is its owner."""
        if self.record is not None:
            same = [owner for owner, belief in self.beliefs.items() if belief.epoch == self.record[1]]
            assert same == [] or self.record[0] in same


def test_whoever_takes_a_session_over_has_it_alone_and_whole(redis_server, prefix):
    Hands.url = redis_server.url
    run_state_machine_as_test(
        Hands,
        settings=settings(
            max_examples=80,
            stateful_step_count=40,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
