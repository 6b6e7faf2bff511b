"""The real scripts against a model: in whatever order, no node is oversold and no job ends twice."""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import dataclass, field

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

from lingua_scheduler.core.model import JobId, NodeId, SessionId
from lingua_scheduler.core.placement import Exclusion, NodeFacts, Reservation
from lingua_scheduler.core.stored import Beat, Finish
from lingua_scheduler.store.connection import StoreOptions
from store.ledgers import POOL, Ledgers, ask, audit, facts, job_end, new_job

SESSION = SessionId("s-1")
KINDS = (frozenset({"asr"}), frozenset({"asr", "tone"}))
SHELVES = tuple(facts(types=kind).shelf for kind in KINDS)

node_ids = st.sampled_from(["n1", "n2", "n3"])
job_ids = st.sampled_from([f"job-{number}" for number in range(4)])
kinds = st.sampled_from(KINDS)
doors = st.sampled_from([None, None, None, Exclusion.CAPACITY_EXCEEDED, Exclusion.OFFLINE])
numbers = st.integers(0, 10)
states = st.sampled_from(["ACCEPTED", "RUNNING", "RELEASED"])


@dataclass
class ModelNode:
    """What should be true of a node."""

    facts: NodeFacts
    epoch: int
    foreign: int
    alive: bool = True


@dataclass
class ModelJob:
    """What should be true of a job."""

    attempt: int = 0
    node: str = ""
    state: str = "CREATED"
    ends: Counter[Finish] = field(default_factory=Counter)

    @property
    def ended(self) -> bool:
        """Nothing may change any more."""
        return self.state in ("FINISHED", "RELEASED")


class Placement(RuleBasedStateMachine):
    """Nodes come, report, and go; jobs take slots, move, and end; calls are repeated and come late."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.loop = uvloop.new_event_loop()
        prefix = f"test-{secrets.token_hex(4)}"
        self.ledgers = Ledgers(StoreOptions(url=self.url, key_prefix=prefix))
        self.nodes: dict[str, ModelNode] = {}
        self.old: list[tuple[NodeFacts, int]] = []  # registrations that newer ones replaced
        self.held: dict[tuple[str, int], Reservation] = {}
        self.released: list[Reservation] = []
        self.jobs: dict[str, ModelJob] = {}
        self.count = 0

    def run(self, awaitable):
        """Wait for the real thing."""
        return self.loop.run_until_complete(awaitable)

    def teardown(self):
        """Leave an empty Redis."""
        self.run(self.ledgers.call("FLUSHALL"))
        self.run(self.ledgers.connection.close())
        self.loop.close()

    # What the model knows

    def load(self, node_id: str) -> int:
        """Count the jobs a node should have."""
        node = self.nodes[node_id]
        mine = [r for r in self.held.values() if (r.node_id, r.epoch) == (node_id, node.epoch)]
        return node.foreign + len(mine)

    def choosable(self, without=()) -> list[str]:
        """Name the nodes that should have a free slot."""
        return [
            node_id
            for node_id, node in self.nodes.items()
            if node.alive
            and node.facts.closed is None
            and node_id not in without
            and self.load(node_id) < node.facts.max_jobs
        ]

    # Nodes

    @initialize(kind=kinds)
    def begin(self, kind):
        """Start with three nodes."""
        for node_id in ("n1", "n2", "n3"):
            self.register(node_id, kind, max_jobs=2, running=0)

    @rule(node_id=node_ids, kind=kinds, max_jobs=st.integers(1, 3), running=st.integers(0, 3))
    def register_anew(self, node_id, kind, max_jobs, running):
        """Let a node register, or register again."""
        self.register(node_id, kind, max_jobs, running)

    def register(self, node_id, kind, max_jobs, running):
        """Register and remember what it replaced."""
        node = facts(node_id, types=kind, max_jobs=max_jobs, running_jobs=running)
        if node_id in self.nodes:
            self.old.append((self.nodes[node_id].facts, self.nodes[node_id].epoch))
        epoch = self.run(self.ledgers.register(node))
        assert all(epoch > old for _, old in self.old)
        self.nodes[node_id] = ModelNode(node, epoch, running)

    @rule(node_id=node_ids, kind=kinds, running=st.integers(0, 4), closed=doors)
    def beat(self, node_id, kind, running, closed):
        """Let a node report."""
        node = self.nodes.get(node_id)
        if node is None:
            return
        said = facts(node_id, types=kind, max_jobs=node.facts.max_jobs, running_jobs=running, closed=closed)
        reply = self.run(self.ledgers.beat(said, node.epoch))
        assert reply is (Beat.RENEWED if node.alive else Beat.GONE)
        if node.alive:
            mine = self.load(node_id) - node.foreign
            node.facts, node.foreign = said, max(0, running - mine)

    @rule(number=numbers)
    def an_old_registration_tries_to_act(self, number):
        """Let a replaced registration try to end or renew the newer one."""
        if not self.old:
            return
        node, epoch = self.old[number % len(self.old)]
        assert not self.run(self.ledgers.nodes.leave(node.node_id, POOL, epoch=epoch))
        assert self.run(self.ledgers.beat(node, epoch)) in (Beat.REPLACED, Beat.GONE)

    @rule(node_id=node_ids, how=st.sampled_from(["leave", "die"]), seldom=st.integers(0, 2))
    def lose(self, node_id, how, seldom):
        """Let a node leave in order, or die."""
        if seldom == 0:
            getattr(self, how)(node_id)

    def leave(self, node_id):
        """Let it leave."""
        node = self.nodes.pop(node_id, None)
        if node is not None:
            assert self.run(self.ledgers.nodes.leave(NodeId(node_id), POOL, epoch=node.epoch))
            self.old = [entry for entry in self.old if entry[0].node_id != node_id]

    def die(self, node_id):
        """Let its lease end."""
        if node_id in self.nodes:
            self.nodes[node_id].alive = False
            self.run(self.ledgers.end_lease(node_id))

    @rule()
    def sweep(self):
        """Remove what is over."""
        dead = [node_id for node_id, node in self.nodes.items() if not node.alive]
        assert self.run(self.ledgers.nodes.sweep(POOL)) == len(dead)
        for node_id in dead:
            del self.nodes[node_id]
            self.old = [entry for entry in self.old if entry[0].node_id != node_id]

    # Slots

    @rule(
        job=job_ids,
        prefer=st.none() | node_ids,
        bound=st.booleans(),
        without=st.sets(node_ids, max_size=1),
        send=st.booleans(),
        times=st.integers(1, 3),
    )
    def reserve(self, job, prefer, bound, without, send, times):
        """Ask, as often as the job fails over."""
        for _ in range(times):
            self.reserve_once(job, prefer, bound=bound, without=without, send=send)

    def reserve_once(self, job, prefer, *, bound, without, send):
        """Ask for a slot of the next attempt."""
        model = self.jobs.setdefault(job, ModelJob())
        attempt = model.attempt + 1
        if (job, attempt) in self.held:
            return
        prefer = None if prefer in without else prefer
        question = ask(
            job, attempt, shelves=SHELVES, prefer=prefer, bound=bound, without=frozenset(map(NodeId, without))
        )
        choosable = self.choosable(without)
        reservation = self.run(self.ledgers.nodes.reserve(question))
        if reservation is None:
            assert not choosable or (bound and prefer in self.nodes and prefer not in choosable)
            return
        if prefer in choosable:
            assert reservation.node_id == prefer
        else:
            assert self.load(reservation.node_id) == min(self.load(node_id) for node_id in choosable)
        assert reservation.node_id in choosable
        assert reservation.epoch == self.nodes[reservation.node_id].epoch
        self.held[job, attempt] = reservation
        if send:
            self.hand_over(job)

    @rule(number=numbers)
    def ask_again(self, number):
        """Ask as if the answer had not been heard."""
        if self.held:
            (job, attempt), reservation = list(self.held.items())[number % len(self.held)]
            node = self.nodes.get(reservation.node_id)
            if node is not None and node.epoch == reservation.epoch:
                question = ask(job, attempt, shelves=SHELVES, again=True)
                again = self.run(self.ledgers.nodes.reserve(question))
                assert (again.node_id, again.epoch) == (reservation.node_id, reservation.epoch)

    @rule(number=numbers)
    def release(self, number):
        """Give a slot back."""
        if self.held:
            key = list(self.held)[number % len(self.held)]
            reservation = self.held.pop(key)
            self.released.append(reservation)
            assert self.run(self.ledgers.nodes.release(reservation))

    @rule(number=numbers)
    def release_again(self, number):
        """Give a slot back that was given back."""
        if self.released:
            reservation = self.released[number % len(self.released)]
            if (reservation.job_id, reservation.attempt) not in self.held:
                assert not self.run(self.ledgers.nodes.release(reservation))

    @rule(number=numbers)
    def expire(self, number):
        """Let a slot's time be over."""
        if self.held and all(node.alive for node in self.nodes.values()):
            reservation = self.held.pop(list(self.held)[number % len(self.held)])
            self.released.append(reservation)
            self.run(self.ledgers.end_reservation(reservation))
            assert self.run(self.ledgers.nodes.sweep(POOL)) == 1

    # Jobs

    def hand_over(self, job):
        """Make a reservation the job's attempt, as dispatch does."""
        model = self.jobs[job]
        reservation = self.held[job, model.attempt + 1]
        index = int(job.removeprefix("job-"))
        claim = self.run(self.ledgers.jobs.create(new_job(job, index=index), None))
        assert claim.job_id == job
        moved = self.run(self.ledgers.jobs.attempt(SESSION, reservation, epoch=1))
        assert moved is not model.ended
        if moved:
            model.attempt, model.node, model.state = reservation.attempt, reservation.node_id, "DISPATCHED"

    def sent(self, number):
        """Pick a job that a node has, or had."""
        sent = [job for job, model in self.jobs.items() if model.attempt]
        return sent[number % len(sent)]

    @precondition(lambda self: any(model.attempt for model in self.jobs.values()))
    @rule(number=st.integers(0, 3), state=states, offset=st.sampled_from([0, 0, 0, -1, 1]))
    def step(self, number, state, offset):
        """Let a node report progress, perhaps of another attempt."""
        job = self.sent(number)
        model = self.jobs[job]
        order = ["CREATED", "DISPATCHED", "ACCEPTED", "RUNNING", "FINISHED", "RELEASED"]
        there = order.index(model.state) >= order.index(state)
        legal = model.ended or (offset == 0 and state != "RELEASED")
        sender = Reservation(NodeId(model.node), POOL, "a", 1, "", JobId(job), model.attempt + offset)
        assert self.run(self.ledgers.jobs.step(SESSION, sender, state, epoch=1)) is legal
        if legal and not there:
            model.state = state

    @precondition(lambda self: any(model.attempt for model in self.jobs.values()))
    @rule(number=st.integers(0, 3), offset=st.sampled_from([0, 0, 0, -1, 1]))
    def finish(self, number, offset):
        """Let a node finish, perhaps another attempt."""
        job = self.sent(number)
        model = self.jobs[job]
        attempt = model.attempt + offset
        verdict = self.run(self.ledgers.jobs.finish(job_end(job, attempt=attempt)))
        model.ends[verdict] += 1
        if model.ended:
            assert verdict is Finish.DONE
        elif offset:
            assert verdict is Finish.STALE
        else:
            assert verdict is Finish.ACCEPTED
            model.state = "FINISHED"

    # What always holds

    @invariant()
    def redis_agrees_with_itself_and_with_the_model(self):
        """Every key about a pool says the same."""
        stands = self.run(audit(self.ledgers))
        assert stands.keys() == self.nodes.keys()
        for node_id, stand in stands.items():
            node = self.nodes[node_id]
            assert stand.line.epoch == str(node.epoch)
            assert stand.jobs == self.load(node_id)
            assert stand.on_shelf <= (node.facts.closed is None)
        assert {node_id for node_id, stand in stands.items() if stand.on_shelf} >= set(self.choosable())

    @invariant()
    def no_job_ended_twice(self):
        """One end is accepted, no other."""
        assert all(model.ends[Finish.ACCEPTED] <= 1 for model in self.jobs.values())


def test_no_node_is_oversold_and_no_job_ends_twice(redis_server, prefix):
    Placement.url = redis_server.url
    run_state_machine_as_test(
        Placement,
        settings=settings(
            max_examples=120,
            stateful_step_count=50,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
