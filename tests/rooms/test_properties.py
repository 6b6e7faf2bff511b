"""Whatever people do in a room, each hears exactly what it should: once, in its language, in order."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

from lingua_scheduler.store.connection import StoreOptions
from party import TEXT, Party, party
from world import FakeNode

NAMES = "ABCDEF"
LANGS = ("zh", "en", "ja", "de")
STEPS = 40


class Play:
    """A random play, and what everybody must have heard at its end."""

    def __init__(self, room: Party, node: FakeNode, seed: int) -> None:
        self.room = room
        self.node = node
        self.chance = random.Random(seed)
        self.inside: dict[str, str] = {}  # who is in the room, and the language each wants
        self.count: dict[str, int] = defaultdict(int)
        self.due: dict[str, list[tuple[str, int, str]]] = defaultdict(list)

    async def step(self) -> None:
        """Let one thing happen."""
        outside = [name for name in NAMES if name not in self.inside]
        acts: list[Any] = [self.speak, self.speak, self.change]
        acts += [self.leave] if len(self.inside) > 2 else []
        acts += [self.join] if outside else []
        await self.chance.choice(acts)()

    async def join(self) -> None:
        """Somebody who is outside comes in."""
        name = self.chance.choice([name for name in NAMES if name not in self.inside])
        lang = self.chance.choice(LANGS)
        guest = self.room[name]
        await guest.send("room_join", room_code=self.room.code, display_name=name, preferred_lang=lang)
        await guest.expect("room_create_ack")
        self.inside[name] = lang

    async def leave(self) -> None:
        """Somebody leaves, in one of three ways; the one who opened the room stays."""
        name = self.chance.choice([name for name in self.inside if name != "A"])
        await self.room[name].send("room_leave", room_code=self.room.code)
        del self.inside[name]
        await self.room.quiet()

    async def change(self) -> None:
        """Somebody wants another language from now on."""
        name = self.chance.choice(list(self.inside))
        self.inside[name] = self.chance.choice(LANGS)
        guest, lang = self.room[name], self.inside[name]
        await guest.send("room_change", room_code=self.room.code, preferred_lang=lang)
        await self.room.quiet()

    async def speak(self) -> None:
        """Somebody says something, and it is answered in any order."""
        speaker = self.chance.choice(list(self.inside))
        index, self.count[speaker] = self.count[speaker], self.count[speaker] + 1
        src = self.src(speaker)
        wanted = {lang for name, lang in self.inside.items() if name != speaker}
        await self.room.say(speaker)
        if not wanted - {src}:
            await self.room.quiet()
            return
        open_ = set(wanted - {src})
        jobs: list[dict[str, Any]] = []
        while open_ or jobs:
            if not jobs or self.chance.random() < 0.5:
                await self.room.quiet()
                jobs += [await self.node.job() for _ in self.node.seen("job_assign")]
                open_ -= {job["tgt_lang"] for job in jobs}
            if jobs:
                job = jobs.pop(self.chance.randrange(len(jobs)))
                await self.node.answer(job, asr=f"{speaker} {index}", translated=f"{job['tgt_lang']} {index}")
        await self.room.quiet()
        for name, lang in self.inside.items():
            if name != speaker:
                self.due[name].append((self.room[speaker].id, index, lang))

    def src(self, name: str) -> str:
        """Tell what somebody speaks."""
        return LANGS[NAMES.index(name) % len(LANGS)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("features", [["exact_flags", "any_order"], TEXT], ids=("audio", "text"))
async def test_everybody_hears_exactly_what_it_should(
    store_options: StoreOptions, instances: int, seed: int, features: list[str]
) -> None:
    async with party(store_options, instances) as room:
        play = Play(room, await room.node(*LANGS, features=features), seed)
        for name in NAMES:
            await room.arrive(name, src_lang=play.src(name), tgt_lang="fr")
        await room["A"].send("room_create", client_ts=1, display_name="A", preferred_lang="zh")
        room.code = (await room["A"].expect("room_create_ack"))["room_code"]
        play.inside["A"] = "zh"
        await play.join()
        for _ in range(STEPS):
            await play.step()
        for name in NAMES:
            heard = [
                (each["speaker_session_id"], each["utterance_index"], each["tgt_lang"])
                for each in room[name].seen("translation_result")
            ]
            assert heard == play.due[name]
            assert not room[name].seen("missing_result")
            assert not room[name].seen("room_expired")
