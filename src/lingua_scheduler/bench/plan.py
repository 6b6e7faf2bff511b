"""Everything that happens in a run, decided in advance from its seed: who comes when and speaks how long.

Send times are fixed before anything is sent, so a slow server cannot slow down what is asked of it. Times
are in seconds from the beginning of the run. Utterances are made as they are needed: a long run costs no
memory in advance.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, count

from lingua_scheduler.bench.profile import Profile

NEVER = math.inf

_LANGUAGES = (
    *("en", "zh", "es", "ja", "de", "fr", "pt", "ko", "it", "ru", "ar", "hi", "tr"),
    *("vi", "pl", "nl", "th", "id", "sv", "uk", "cs", "el", "ro", "hu", "fi"),
)
_TABLE = 4099  # draws of one kind that are made in advance; a prime, so that steps visit all of them
_CLIENT_STEP, _INDEX_STEP = 1009, 101


class Form(StrEnum):
    """How audio is sent."""

    OPUS = "opus"
    PCM = "pcm"
    BINARY = "binary"


@dataclass(frozen=True, slots=True)
class Client:
    """One client of the run."""

    number: int
    form: Form
    src: str
    tgt: str
    tenant: str
    instance: int  # where it connects
    arrives_s: float | None = None  # None: it is there from the beginning
    leaves_s: float = NEVER
    silent: bool = False
    room: int | None = None


@dataclass(frozen=True, slots=True)
class Spoken:
    """One utterance: when its first frame is sent, and how many there are."""

    begins_s: float
    frames: int


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node of the fleet."""

    number: int
    slots: int
    factor: float  # how much longer it takes
    instance: int
    languages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Crash:
    """A node vanishes."""

    at_s: float
    node: int


def languages(profile: Profile) -> tuple[str, ...]:
    """Name the languages of a run: as many as its pairs and its rooms need."""
    wanted = 2
    while wanted * (wanted - 1) < profile.company.pairs:
        wanted += 1
    if profile.rooms.share:
        wanted = max(wanted, profile.rooms.most)
    return _LANGUAGES[:wanted]


def pairs(profile: Profile) -> list[tuple[str, str]]:
    """Name the language pairs, most frequent first."""
    known = languages(profile)
    every = [(source, target) for source in known for target in known if source != target]
    every.sort(key=lambda pair: known.index(pair[0]) + known.index(pair[1]))
    return every[: profile.company.pairs]


def clients(profile: Profile) -> list[Client]:
    """Plan every client: those who are there from the beginning, the silent ones, and who comes later."""
    chance = random.Random(f"{profile.seed}/clients")  # noqa: S311 a plan is to be repeated
    sessions, numbers = profile.sessions, count()
    makes = _Makes(profile, chance)
    present = [makes.client(next(numbers)) for _ in range(round(sessions.count * profile.overload))]
    present = _housed(profile, present, chance)
    silent = [makes.client(next(numbers), silent=True) for _ in range(round(sessions.idle))]
    coming = [makes.client(next(numbers), arrives_s=at_s) for at_s in _arrivals(profile, chance)]
    return [*present, *silent, *coming]


def utterances(profile: Profile, client: Client) -> Iterator[Spoken]:
    """Give what a client says, one after the other, until the window ends or the client leaves."""
    speech, chance = profile.speech, random.Random(f"{profile.seed}/speech/{client.number}")  # noqa: S311
    frame_s = speech.frame_ms / 1000
    at_s = (client.arrives_s or 0.0) + chance.uniform(0.0, speech.begin_within_s)
    while not client.silent and at_s < min(profile.end_s, client.leaves_s):
        lasts_s = lognormal(chance, speech.mean_s, speech.sigma)
        lasts_s = min(max(lasts_s, speech.shortest_s), speech.longest_s)
        spoken = Spoken(at_s, max(1, round(lasts_s / frame_s)))
        yield spoken
        at_s += spoken.frames * frame_s
        at_s += chance.expovariate(1 / speech.pause_s) if speech.pause_s else 0.0


def nodes(profile: Profile) -> list[NodePlan]:
    """Plan the fleet."""
    fleet, chance = profile.fleet, random.Random(f"{profile.seed}/nodes")  # noqa: S311
    slow = set(chance.sample(range(fleet.nodes), round(fleet.nodes * fleet.slow_share)))
    places = instances_at(fleet.at, profile.system.instances)
    return [
        NodePlan(
            number,
            chance.randint(fleet.fewest_slots, fleet.most_slots),
            fleet.slow_factor if number in slow else 1.0,
            places[number % len(places)],
            _own_pair(places[number % len(places)]) if profile.company.apart else languages(profile),
        )
        for number in range(fleet.nodes)
    ]


def crashes(profile: Profile) -> list[Crash]:
    """Plan which nodes vanish, and when."""
    fleet, chance = profile.fleet, random.Random(f"{profile.seed}/crashes")  # noqa: S311
    if not fleet.nodes:
        return []
    times = poisson(chance, fleet.crashes_per_min / 60, profile.end_s)
    return [Crash(at_s, chance.randrange(fleet.nodes)) for at_s in times]


class Draws:
    """Values drawn in advance; which one belongs to an utterance or a frame does not depend on the run."""

    def __init__(self, values: list[float]) -> None:
        self._values = values

    def of(self, client: int, index: int) -> float:
        """Give the value of one utterance or frame of a client."""
        return self._values[(client * _CLIENT_STEP + index * _INDEX_STEP) % len(self._values)]

    @classmethod
    def of_service(cls, profile: Profile) -> Draws:
        """Draw how long jobs take, in seconds."""
        fleet, chance = profile.fleet, random.Random(f"{profile.seed}/service")  # noqa: S311
        values = [lognormal(chance, fleet.service_s, fleet.sigma) for _ in range(_TABLE)]
        late = chance.sample(range(_TABLE), round(_TABLE * fleet.straggler_share))
        for number in late:
            values[number] *= fleet.straggler_factor
        return cls(values)

    @classmethod
    def of_jitter(cls, profile: Profile) -> Draws:
        """Draw how much too early or too late frames are, in seconds."""
        most_s, chance = profile.speech.jitter_ms / 1000, random.Random(f"{profile.seed}/jitter")  # noqa: S311
        return cls([chance.uniform(-most_s, most_s) for _ in range(_TABLE)])


def lognormal(chance: random.Random, mean: float, sigma: float) -> float:
    """Draw a lognormal value with this mean; sigma is that of its logarithm."""
    return chance.lognormvariate(math.log(mean) - sigma * sigma / 2, sigma) if mean and sigma else mean


def poisson(chance: random.Random, per_s: float, until_s: float) -> list[float]:
    """Draw the moments of events that do not depend on each other."""
    times: list[float] = []
    at_s = chance.expovariate(per_s) if per_s else NEVER
    while at_s < until_s:
        times.append(at_s)
        at_s += chance.expovariate(per_s)
    return times


def zipf(number: int, exponent: float) -> list[float]:
    """Give cumulated weights of so many things, the n-th 1/n^exponent times as frequent as the first."""
    return list(accumulate(1 / rank**exponent for rank in range(1, number + 1)))


def instances_at(word: str, instances: int) -> tuple[int, ...]:
    """Name the instances that `all`, `first`, `last`, `even` or `odd` means; a lone one is everything."""
    every = tuple(range(instances))
    return {"first": every[:1], "last": every[-1:], "even": every[::2], "odd": every[1::2] or every}.get(
        word, every
    )


def _own_pair(instance: int) -> tuple[str, str]:
    """Name the pair of an instance that has one of its own."""
    src, tgt = _LANGUAGES[2 * instance : 2 * instance + 2]
    return src, tgt


class _Makes:
    """Makes clients by the parts that forms, pairs and tenants have."""

    def __init__(self, profile: Profile, chance: random.Random) -> None:
        self._profile = profile
        self._chance = chance
        self._pairs = pairs(profile)
        company, formats = profile.company, profile.formats
        self._by_pair = zipf(len(self._pairs), company.zipf)
        self._by_tenant = zipf(company.tenants, company.zipf)
        self._by_form = (formats.opus, formats.pcm, formats.binary)
        self._places = instances_at(profile.system.clients_at, profile.system.instances)

    def client(self, number: int, *, silent: bool = False, arrives_s: float | None = None) -> Client:
        chance, stay_s = self._chance, self._profile.sessions.stay_s
        (src, tgt), *_ = chance.choices(self._pairs, cum_weights=self._by_pair)
        tenant, *_ = chance.choices(range(len(self._by_tenant)), cum_weights=self._by_tenant)
        form, *_ = chance.choices((Form.OPUS, Form.PCM, Form.BINARY), weights=self._by_form)
        instance = self._places[number % len(self._places)]
        if self._profile.company.apart:
            src, tgt = _own_pair(instance)
        stays_s = chance.expovariate(1 / stay_s) if stay_s and not silent else NEVER
        return Client(
            number=number,
            form=form,
            src=src,
            tgt=tgt,
            tenant=f"tenant-{tenant}",
            instance=instance,
            arrives_s=arrives_s,
            leaves_s=(arrives_s or 0.0) + stays_s,
            silent=silent,
        )


def _arrivals(profile: Profile, chance: random.Random) -> list[float]:
    return poisson(chance, profile.sessions.arrivals_per_s * profile.overload, profile.end_s)


def _housed(profile: Profile, present: list[Client], chance: random.Random) -> list[Client]:
    """Put the first ones into rooms, each member with a language of its own; they stay to the end."""
    left = round(len(present) * profile.rooms.share)
    known, housed = languages(profile), list[Client]()
    for room in count():
        size = min(chance.randint(profile.rooms.fewest, profile.rooms.most), left, len(known))
        if size < 2:  # noqa: PLR2004 nobody talks alone
            break
        left -= size
        for place, client in enumerate(present[len(housed) : len(housed) + size]):
            housed.append(
                Client(
                    number=client.number,
                    form=client.form,
                    src=known[place],
                    tgt=known[(place + 1) % size],
                    tenant=f"tenant-{room % profile.company.tenants}",
                    instance=client.instance,
                    room=room,
                )
            )
    return [*housed, *present[len(housed) :]]
