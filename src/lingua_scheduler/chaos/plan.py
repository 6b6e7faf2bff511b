"""What will be broken and when: a pure function of a seed, so that every run can be repeated."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from lingua_scheduler.chaos.faults import TRAITS, Fault, Victim
from lingua_scheduler.crash import CrashPoint

FAULTLESS_S = 2.0
"""How long the run is left alone before the first fault."""

_PAUSE_S = (0.6, 2.5)  # between the beginnings of two faults
_FORGETFUL_SHARE = 0.4  # of the plans begin with a Redis that forgets
_HAND = 4  # faults of which the one that can begin first is taken
_FORGETTING_S = 6.0  # around a Redis that forgets, nothing else is broken
_RECOVERS_S = 1.5  # between the end of one fault and a like one
_NODE_BACK_S = 2.0
_ROLLING_STEP_S = 2.5
_CRASH_AT = 20  # times a crash point on every job's way is passed: some seconds of load
_NODES = (Victim.NODE, Victim.ODD_NODE, Victim.NODES)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a run consists of."""

    instances: int = 3
    nodes: int = 3  # processes of well-behaved nodes
    odd_nodes: int = 1  # processes of nodes that can break the protocol
    cluster: bool = False
    duration_s: float = 20.0  # of the time in which faults begin
    faults: tuple[Fault, ...] = ()  # empty: all that are possible


@dataclass(frozen=True, slots=True)
class Step:
    """One fault: when it begins after the start of the load, how long it lasts, whom it hits."""

    at_s: float
    lasts_s: float
    fault: Fault
    victim: int = 0  # number of the instance or process of nodes

    @property
    def ends_s(self) -> float:
        """When it is healed."""
        return self.at_s + self.lasts_s

    def line(self) -> str:
        """Word the step for people."""
        trait = TRAITS[self.fault]
        whom = f" {self.victim}" if trait.victim in (Victim.NODE, Victim.ODD_NODE, Victim.INSTANCE) else ""
        return (
            f"{self.at_s:6.2f} s  for {self.lasts_s:4.2f} s  {self.fault.value:24} "
            f"{trait.victim.value}{whom}: {trait.does} ({', '.join(trait.numbers)})"
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """All steps of one run, in order."""

    seed: int
    shape: Shape
    steps: tuple[Step, ...]
    lossless: bool = False  # nothing may be missing
    armed: str = ""  # the crash point of the first instance

    @property
    def ends_s(self) -> float:
        """When everything is healed."""
        return max((step.ends_s for step in self.steps), default=0.0)

    def lines(self) -> list[str]:
        """Word the plan for people."""
        shape = self.shape
        redis = "a cluster of 3 + 3" if shape.cluster else "one Redis"
        head = (
            f"seed {self.seed}: {shape.instances} instances, {shape.nodes} + {shape.odd_nodes} nodes, {redis}"
        )
        head += f", instance 0 dies {self.armed}" if self.armed else ""
        return [head, *(step.line() for step in self.steps)]


def possible(shape: Shape) -> list[Fault]:
    """List the faults that can be injected into a run of this shape."""
    wanted = shape.faults or tuple(Fault)
    return [fault for fault in wanted if TRAITS[fault].copies and _fits(fault, shape)]


def _fits(fault: Fault, shape: Shape) -> bool:
    trait = TRAITS[fault]
    if not (trait.on_cluster if shape.cluster else trait.on_one):
        return False
    if trait.victim is Victim.ODD_NODE and not shape.odd_nodes:
        return False
    return not (trait.downs_instance and shape.instances == 1 and fault is not Fault.REDIS_CUT_OFF)


def planned(seed: int, shape: Shape) -> Plan:
    """Deal faults from a shuffled deck until the time is full."""
    chance = random.Random(seed)  # noqa: S311 a plan must be repeatable
    forgetting = [fault for fault in possible(shape) if TRAITS[fault].forgets]
    deck: list[Fault] = []
    steps: list[Step] = []
    at_s = FAULTLESS_S
    if forgetting and chance.random() < _FORGETFUL_SHARE:  # later there is hardly ever room for it
        steps.append(_dealt(chance, shape, chance.choice(forgetting), at_s))
    while at_s < FAULTLESS_S + shape.duration_s:
        deck = deck or _shuffled(chance, shape)
        hand = [_moved(_dealt(chance, shape, fault, at_s), steps) for fault in deck[-_HAND:]]
        step = min(hand, key=lambda step: step.at_s)
        deck.remove(step.fault)
        if not (TRAITS[step.fault].forgets and any(TRAITS[each.fault].forgets for each in steps)):
            steps.append(step)
            at_s = max(at_s, step.at_s) + chance.uniform(*_PAUSE_S)
    return Plan(seed, shape, tuple(sorted(steps, key=lambda step: step.at_s)))


def rolling(seed: int, shape: Shape) -> Plan:
    """Restart every instance and every process of nodes in turn, in order; nothing may be missing."""
    steps, at_s = [], FAULTLESS_S
    nodes = shape.nodes + shape.odd_nodes
    for number in range(max(shape.instances, nodes)):
        if number < shape.instances:
            steps.append(Step(at_s, 1.0, Fault.INSTANCE_DRAIN, number))
            at_s += _ROLLING_STEP_S
        if number < nodes:
            steps.append(Step(at_s, 0.5, Fault.NODE_DRAIN, number))
            at_s += _ROLLING_STEP_S / 2
    return Plan(seed, shape, tuple(steps), lossless=True)


def crashing(seed: int, shape: Shape, point: CrashPoint) -> Plan:
    """Let the first instance die at a crash point, and bring about what leads there."""
    steps = [Step(FAULTLESS_S, 1.5, Fault.INSTANCE_CRASH, 0)]
    if point is CrashPoint.AFTER_TAKE_OVER:
        steps += [Step(FAULTLESS_S + 0.2 + number, 0.5, Fault.CLIENT_STORM) for number in range(3)]
    elif point is CrashPoint.AFTER_ADOPT:
        shape = replace(shape, instances=2)  # else another survivor may be the one that adopts
        steps.append(Step(FAULTLESS_S + 0.2, 12.0, Fault.INSTANCE_KILL, 1))
    elif point is CrashPoint.MID_DRAIN:
        steps = [Step(FAULTLESS_S, 1.5, Fault.INSTANCE_DRAIN, 0)]
    rare = (CrashPoint.AFTER_TAKE_OVER, CrashPoint.AFTER_ADOPT, CrashPoint.MID_DRAIN)
    armed = point.value if point in rare else f"{point.value}:{_CRASH_AT}"
    return Plan(seed, shape, tuple(steps), armed=armed)


def _shuffled(chance: random.Random, shape: Shape) -> list[Fault]:
    deck = [fault for fault in possible(shape) for _ in range(TRAITS[fault].copies)]
    chance.shuffle(deck)
    return deck


def _dealt(chance: random.Random, shape: Shape, fault: Fault, at_s: float) -> Step:
    trait = TRAITS[fault]
    lasts_s = round(chance.uniform(*trait.lasts_s), 2)
    if trait.victim is Victim.INSTANCE:
        victim = chance.randrange(shape.instances)
    elif trait.victim is Victim.ODD_NODE:
        victim = shape.nodes + chance.randrange(shape.odd_nodes)
    elif trait.victim is Victim.NODE:
        victim = chance.randrange(shape.nodes + shape.odd_nodes)
    else:
        victim = 0
    return Step(round(at_s, 2), lasts_s, fault, victim)


def _moved(step: Step, before: list[Step]) -> Step:
    """Begin later when the step would meet one that it must not meet."""
    earliest_s = max([step.at_s, *(other.ends_s + _distance_s(step, other) for other in before)])
    return Step(round(earliest_s, 2), step.lasts_s, step.fault, step.victim)


def _distance_s(step: Step, other: Step) -> float:
    """How long after the end of one fault the other may begin; less than any duration: they may meet."""
    one, two = TRAITS[step.fault], TRAITS[other.fault]
    if one.forgets or two.forgets:
        return _FORGETTING_S
    if one.downs_instance and two.downs_instance:
        return _RECOVERS_S
    if step.fault is other.fault or _same_victim(step, other):
        return _RECOVERS_S
    if one.downs_node and two.downs_node:
        return _NODE_BACK_S
    return float("-inf")


def _same_victim(step: Step, other: Step) -> bool:
    one, two = TRAITS[step.fault].victim, TRAITS[other.fault].victim
    if one in _NODES and two in _NODES:
        return step.victim == other.victim or Victim.NODES in (one, two)
    return one is two and step.victim == other.victim
