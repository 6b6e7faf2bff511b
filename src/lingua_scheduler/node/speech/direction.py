"""From which language into which: what a job allows, what engines can do, and what a node may promise."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from lingua_scheduler.node.speech.engine import primary
from lingua_scheduler.wire.node import JobAssign

_AUTO = "auto"
_LONGEST_ROUTE = 4  # languages on the way, both ends included

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Direction:
    """What may be spoken in a job, and what is wanted for each of it."""

    spoken: tuple[str, ...]
    tgt: str
    two_way: bool = False

    @classmethod
    def of(cls, assign: JobAssign) -> Direction:
        """Read the languages of a job."""
        tgt = primary(assign.tgt_lang)
        if assign.src_lang.lower() != _AUTO:
            return cls((primary(assign.src_lang),), tgt)
        both = tuple(primary(lang) for lang in (assign.lang_a, assign.lang_b) if lang)
        if len(both) > 1:
            return cls(both, tgt, two_way=tgt in both)
        return cls(both or tuple(dict.fromkeys(map(primary, assign.auto_langs or ()))), tgt)

    def target(self, heard: str) -> str:
        """Give the language wanted when this one was heard: in a two-way talk, the other one."""
        if not self.two_way:
            return self.tgt
        return next((lang for lang in self.spoken if lang != heard), self.tgt)


def route(pairs: Collection[Pair], src: str, tgt: str) -> tuple[str, ...] | None:
    """Find the shortest way from one language to another, both included; None when there is none."""
    waiting: deque[tuple[str, ...]] = deque([(src,)])
    seen = {src}
    while waiting:
        way = waiting.popleft()
        if way[-1] == tgt:
            return way
        if len(way) == _LONGEST_ROUTE:
            continue
        for step in sorted(after for before, after in pairs if before == way[-1]):
            if step not in seen:
                seen.add(step)
                waiting.append((*way, step))
    return None


@dataclass(frozen=True, slots=True)
class Offer:
    """What a node may promise: every language heard goes into every language offered."""

    heard: tuple[str, ...]
    offered: tuple[str, ...]


def offer(heard: Iterable[str], pairs: Collection[Pair], spoken: Collection[str] | None) -> Offer:
    """Choose the largest promise that holds for all of its pairs.

    The scheduler places a job wherever its source is heard and its target offered, so a node that hears two
    languages may offer only what both can be turned into. `spoken` limits the targets to those with a voice;
    None when the node has no voices at all.
    """
    sources = sorted(set(heard))
    targets = {
        src: frozenset(
            tgt
            for tgt in {src, *(after for _, after in pairs)}
            if (spoken is None or tgt in spoken) and route(pairs, src, tgt)
        )
        for src in sources
    }

    def promised(seed: str) -> Offer:
        able = tuple(src for src in sources if targets[src] >= targets[seed])
        return Offer(able, tuple(sorted(targets[seed])))

    def worth(made: Offer) -> int:
        return sum(src != tgt for src in made.heard for tgt in made.offered)

    return max((promised(seed) for seed in sources), key=worth, default=Offer((), ()))
