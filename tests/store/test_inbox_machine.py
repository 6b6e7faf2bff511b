"""The real inbox against a model: whoever dies, each letter is settled or buried, none is lost."""

from __future__ import annotations

import secrets
from collections import Counter

import pytest
import uvloop
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from lingua_scheduler.core.company import Letter, Posted, Renewal
from lingua_scheduler.core.model import InstanceId
from lingua_scheduler.store.connection import StoreOptions
from lingua_scheduler.store.instances import GROUP, CompanyOptions
from store.letters import A, B, C, Life

IDS = (A, B, C)
LIMITS = CompanyOptions(inbox_max=8)

members = st.sampled_from(IDS)
numbers = st.integers(0, 20)


class Correspondence(RuleBasedStateMachine):
    """Three instances write to each other, die, return, and inherit from each other."""

    url = ""
    mode = "single"

    def __init__(self) -> None:
        super().__init__()
        self.loop = uvloop.new_event_loop()
        self.options = StoreOptions(url=self.url, mode=self.mode, key_prefix=f"test-{secrets.token_hex(4)}")
        self.lives: dict[InstanceId, Life] = {}
        self.all_lives: list[Life] = []
        self.alive: set[InstanceId] = set()
        self.adopter: dict[InstanceId, InstanceId] = {}
        self.held: dict[InstanceId, dict[str, Letter]] = {each: {} for each in IDS}  # by who holds them
        self.open: dict[bytes, InstanceId] = {}  # sent, neither settled nor buried: in whose inbox
        self.settled: Counter[bytes] = Counter()
        self.buried: Counter[bytes] = Counter()
        self.count = 0

    def run(self, awaitable):
        """Wait for the real thing."""
        return self.loop.run_until_complete(awaitable)

    @initialize()
    def begin(self):
        """Start three instances."""
        for each in IDS:
            self.begin_life(each)

    def begin_life(self, each):
        """Start a process under an id."""
        self.count += 1
        life = Life(self.options, each, boot=f"boot-{self.count}", limits=LIMITS)
        self.all_lives.append(life)
        self.run(life.enter())
        self.lives[each] = life
        self.alive.add(each)
        self.adopter.pop(each, None)

    # Lives

    @rule(each=members)
    def crash(self, each):
        """Let a process die with everything it holds."""
        if each in self.alive and len(self.alive) > 1:
            self.alive.discard(each)
            self.held[each] = {}
            self.run(self.lives[each].die())
            for dead, adopter in list(self.adopter.items()):
                if adopter == each:  # its time to adopt is over as well
                    self.run(self.lives[dead].call("DEL", self.lives[dead].keys.adopter(dead)))
                    del self.adopter[dead]

    @rule(each=members)
    def return_(self, each):
        """Start a process again under its id."""
        if each not in self.alive:
            self.begin_life(each)

    @rule(each=members)
    def renew(self, each):
        """Let it renew its presence."""
        if each in self.alive:
            life = self.lives[each]
            assert self.run(life.instances.renew(life.presence)) is not Renewal.TAKEN

    @rule(each=members)
    def lose_group(self, each):
        """Let somebody destroy a group."""
        if each in self.alive:
            life = self.lives[each]
            self.run(life.call("XGROUP", "DESTROY", life.keys.inbox(each), GROUP))

    # Letters

    @rule(source=members, to=members)
    def send(self, source, to):
        """Write a letter."""
        if source not in self.alive:
            return
        self.count += 1
        body = f"letter-{self.count}".encode()
        posted = self.run(self.lives[source].inbox.send(to, body))
        full = sum(1 for where in self.open.values() if where == to) >= LIMITS.inbox_max
        expected = Posted.GONE if to not in self.alive else Posted.FULL if full else Posted.SENT
        assert posted is expected
        if posted is Posted.SENT:
            self.open[body] = to

    @rule(each=members, again=st.booleans())
    def take(self, each, again):
        """Let it take new letters, or all it has not settled."""
        if each in self.alive:
            inbox = self.lives[each].inbox
            self.hand(each, each, self.run(inbox.retake(idle_ms=0) if again else inbox.take(block_s=0)))

    def hand(self, holder, inbox, letters):
        """Remember who holds what; nothing is invented."""
        for letter in letters:
            assert (
                letter.body in self.settled or letter.body in self.buried or self.open[letter.body] == inbox
            )
            self.held[holder][letter.id] = letter

    @rule(each=members, number=numbers, how=st.sampled_from(["settle", "settle", "bury"]))
    def deal_with(self, each, number, how):
        """Settle or bury a letter, perhaps one that somebody else has dealt with since."""
        held = self.held[each]
        if each not in self.alive or not held:
            return
        letter = held.pop(list(held)[number % len(held)])
        inbox = self.lives[each].inbox
        self.run(inbox.settle([letter]) if how == "settle" else inbox.bury(letter, "machine"))
        if self.open.pop(letter.body, None) is not None:
            (self.settled if how == "settle" else self.buried)[letter.body] += 1

    # The dead

    @rule(dead=members)
    def adopt(self, dead):
        """Let everybody who lives try to adopt."""
        others = sorted(self.alive - {dead})
        won = [each for each in others if self.run(self.lives[each].instances.adopt(dead, by=each))]
        if dead in self.alive:
            assert won == []
        else:
            assert won == [self.adopter.get(dead, others[0])]
            self.adopter[dead] = won[0]

    @rule(dead=members, heir=members)
    def inherit(self, dead, heir):
        """Let somebody inherit; only the adopter gets anything."""
        if heir not in self.alive or heir == dead:
            return
        letters = self.run(self.lives[heir].inbox.inherit(dead))
        left = [body for body, where in self.open.items() if where == dead]
        if dead in self.alive or self.adopter.get(dead) != heir:
            assert letters == []
        else:
            assert bool(letters) == bool(left)
        self.hand(heir, dead, letters)

    @rule(number=numbers)
    def forget(self, number):
        """Let somebody forget everybody else; whoever lives or has letters stays."""
        by = self.lives[sorted(self.alive)[number % len(self.alive)]]
        for other in set(IDS) - {by.id}:
            self.run(by.instances.forget(other))
            if other in self.alive or other in self.open.values():
                assert self.run(by.call("EXISTS", by.keys.inbox(other)))
            else:
                self.adopter.pop(other, None)
                assert other not in self.run(by.instances.missing())

    # What always holds

    @invariant()
    def every_letter_is_in_one_place(self):
        """Redis has what is open and what was buried, and nothing else."""
        if not self.lives:
            return
        life = self.lives[A]
        in_redis: dict[bytes, InstanceId] = {}
        dead: Counter[bytes] = Counter()
        for each in IDS:
            for _, flat in self.run(life.call("XRANGE", life.keys.inbox(each), "-", "+")):
                assert flat[1] not in in_redis
                in_redis[flat[1]] = each
            for _, flat in self.run(life.call("XRANGE", life.keys.dead(each), "-", "+")):
                dead[flat[3]] += 1
        assert in_redis == self.open
        assert dead == self.buried
        assert all(times == 1 for times in (self.settled + self.buried).values())

    @invariant()
    def those_that_live_are_known(self):
        """The registry agrees with the presences."""
        if self.lives:
            assert self.run(self.lives[A].instances.company()).keys() == self.alive

    def teardown(self):
        """Deal with everything that is left, as survivors would; then nothing may be left."""
        try:
            if self.lives:
                self.drain()
        finally:
            for each in self.all_lives:
                self.run(each.connection.close())
            self.loop.close()

    def drain(self):
        """Let one survivor look after the dead, and everybody after themselves."""
        survivor = self.lives[min(self.alive)]
        for dead in set(IDS) - self.alive:
            heir = self.lives[self.adopter.get(dead, survivor.id)]
            self.run(heir.instances.adopt(dead, by=heir.id))
            while letters := self.run(heir.inbox.inherit(dead)):
                self.finish(heir, letters)
            self.run(heir.instances.forget(dead))
        for each in self.alive:
            life = self.lives[each]
            while letters := self.run(life.inbox.take(block_s=0)):
                self.finish(life, letters)
            self.finish(life, self.run(life.inbox.retake(idle_ms=0)))
            assert self.run(life.pending()) == 0
        assert self.open == {}
        assert self.run(survivor.instances.missing()) == []
        for each in IDS:
            assert self.run(survivor.waiting()) == 0
            gone = self.run(survivor.call("EXISTS", survivor.keys.inbox(each))) == 0
            assert gone == (each not in self.alive)

    def finish(self, life, letters):
        """Settle letters for good."""
        self.run(life.inbox.settle(letters))
        for letter in letters:
            del self.open[letter.body]
            self.settled[letter.body] += 1


@pytest.mark.parametrize("store", ["single", "cluster"])
def test_every_letter_is_settled_or_buried_and_none_is_lost_or_invented(request, store):
    options = request.getfixturevalue("store_options" if store == "single" else "cluster_options")
    Correspondence.url, Correspondence.mode = options.url, options.mode
    run_state_machine_as_test(
        Correspondence,
        settings=settings(
            max_examples=40 if store == "single" else 6,
            stateful_step_count=50,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
    servers = (
        [request.getfixturevalue("redis_server")]
        if store == "single"
        else request.getfixturevalue("cluster").masters
    )
    for server in servers:
        with server.client() as client:
            client.flushall()
