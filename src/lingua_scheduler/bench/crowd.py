"""All clients of a run in one process. Run as a module, with the file of its settings as the one argument."""

from __future__ import annotations

import random
import sys
import time
from array import array
from collections import defaultdict

from lingua_scheduler.bench import plan, sound
from lingua_scheduler.bench.reactor import Reactor
from lingua_scheduler.bench.records import DONE, FINISH, READY, START, Settings, Spoken, settings_of, write
from lingua_scheduler.bench.reporting import Line
from lingua_scheduler.bench.speaker import Speaker

_PIECE_BYTES = 48_000  # the server's default takes 64 KiB in one frame
_LOOK_S = 0.05
_PATIENCE_S = 45.0  # for the last answers, longer than any job may take
_CLOSES_PER_S = 1000.0
_KEPT_LATENESS = 5000


class Crowd:
    """Everybody who speaks or is silent."""

    def __init__(self, settings: Settings) -> None:
        profile = settings.profile
        self.settings = settings
        self.reactor = Reactor()
        self.spoken = Spoken()
        audio = {form: sound.frame(form, profile.speech.frame_ms) for form in plan.Form}
        self.frames = {form: sound.frames_of(form, each) for form, each in audio.items()}
        self.frame_bytes = {form: len(each) for form, each in audio.items()}
        cut = sound.pieces(profile.cycles.audio_bytes, _PIECE_BYTES)
        self.pieces = [sound.BinaryFrames(piece) for piece in cut]
        self.piece_bytes = sum(map(len, cut))
        self.jitter = plan.Draws.of_jitter(profile)
        self.begun_s = 0.0
        self._lateness_s = array("d")
        self._chance = random.Random(f"{profile.seed}/retries")  # noqa: S311 part of the plan
        self._speakers = [Speaker(self, client) for client in plan.clients(profile)]
        self._present = [each for each in self._speakers if each.client.arrives_s is None]
        self._awaited = {each.client.number for each in self._present}
        self._rooms: dict[int, list[Speaker]] = defaultdict(list)
        for each in self._present:
            if each.client.room is not None:
                self._rooms[each.client.room].append(each)
        self._gives_up_s = 0.0
        self._line = Line(self.reactor, {START: self._start, FINISH: self._finish})

    def run(self) -> None:
        """Open the sessions of those who are there from the beginning, then wait for orders."""
        now_s = time.monotonic()
        for number, speaker in enumerate(self._present):
            self.reactor.at(now_s + number / self.settings.profile.sessions.connects_per_s, speaker.connect)
        if not self._present:
            self._line.say(READY)
        self.reactor.run()

    # What speakers tell

    def late(self, seconds: float) -> None:
        """Note how late a frame was."""
        self.spoken.frames += 1
        self._lateness_s.append(seconds)

    def opened(self, speaker: Speaker) -> None:
        """A speaker has its session."""
        client = speaker.client
        if not speaker.beats:
            speaker.beats = True
            heartbeat_s = self.settings.profile.sessions.heartbeat_s
            self.reactor.at(time.monotonic() + heartbeat_s * self._chance.random(), speaker.beat)
        if self.begun_s:
            if client.arrives_s is not None:
                speaker.begin()
        elif client.room is None:
            self._is_there(speaker)
        elif self._rooms[client.room][0] is speaker:
            speaker.say(f'{{"type":"room_create","client_ts":0,"preferred_lang":"{client.src}"}}')

    def turned_away(self, speaker: Speaker, retry_after_s: float | None) -> None:
        """Let those come back who must; when there is too much on purpose, the others have lost."""
        profile = self.settings.profile
        if speaker.returning or (not self.begun_s and profile.overload <= 1):
            again_s = retry_after_s or self._chance.uniform(0, profile.storm.retry_s)
            self.reactor.at(time.monotonic() + again_s, speaker.connect)
        elif not self.begun_s:
            self._is_there(speaker)

    def in_room(self, speaker: Speaker, code: str) -> None:
        """A speaker has opened or joined its room: the next one may join."""
        members = self._rooms[speaker.client.room or 0]
        self._is_there(speaker)
        place = members.index(speaker) + 1
        if place < len(members):
            self._join(members[place], code)

    def _join(self, speaker: Speaker, code: str) -> None:
        if not speaker.active:
            self.reactor.at(time.monotonic() + _LOOK_S, lambda _: self._join(speaker, code))
            return
        lang = speaker.client.src
        speaker.say(f'{{"type":"room_join","room_code":"{code}","preferred_lang":"{lang}"}}')

    def _is_there(self, speaker: Speaker) -> None:
        if self._awaited:
            self._awaited.discard(speaker.client.number)
            if not self._awaited:
                self._line.say(READY)

    # The run

    def _start(self, moment: str) -> None:
        profile = self.settings.profile
        self.begun_s = float(moment)
        self.spoken.present = sum(each.active for each in self._speakers)
        for speaker in self._speakers:
            if speaker.client.arrives_s is not None:
                self.reactor.at(self.begun_s + speaker.client.arrives_s, speaker.connect)
            elif speaker.active:
                self.reactor.at(self.begun_s, speaker.begin)
        if profile.storm.at_s:
            self.reactor.at(self.begun_s + profile.warmup_s + profile.storm.at_s, self._storm)
        ends_s = self.begun_s + profile.end_s
        self._gives_up_s = ends_s + profile.speech.longest_s + _PATIENCE_S
        self.reactor.at(ends_s, self._look)

    def _storm(self, due_s: float) -> None:
        hit = [each for each in self._speakers if each.client.silent and each.active]
        for speaker in hit:
            speaker.drop(due_s)
        for speaker in hit:
            self.reactor.at(due_s, speaker.connect)

    def _look(self, due_s: float) -> float | None:
        """After the window: wait until everything is answered, then close what is open."""
        waits = any(not each.quiet or not each.answered for each in self._speakers if each.active)
        waits = waits or any(each.returning for each in self._speakers) or not self._all_heard()
        if waits and due_s < self._gives_up_s:
            return due_s + _LOOK_S
        still_open = [each for each in self._speakers if each.active]
        for number, speaker in enumerate(still_open):
            self.reactor.at(due_s + number / _CLOSES_PER_S, speaker.close)
        self.reactor.at(due_s + len(still_open) / _CLOSES_PER_S, self._close)
        return None

    def _all_heard(self) -> bool:
        """Everybody in a room has heard everything that others in it said."""
        for members in self._rooms.values():
            total = sum(len(each.conversation.said) for each in members)
            for each in members:
                if len(each.conversation.heard) < total - len(each.conversation.said) and each.active:
                    return False
        return True

    def _close(self, due_s: float) -> float | None:
        opened = (each for each in self._speakers if each.session_id)
        if not all(each.conversation.closed for each in opened) and due_s < self._gives_up_s:
            return due_s + _LOOK_S
        self._write()
        return None

    def _write(self) -> None:
        late = sorted(self._lateness_s)
        step = max(1, len(late) // _KEPT_LATENESS)
        self.spoken.lateness_s = late[::-step][::-1]  # the worst one is always among them
        self.spoken.conversations = [each.conversation for each in self._speakers if each.session_id]
        write(self.settings.observations, self.spoken)
        self._line.say(DONE)

    def _finish(self, _: str) -> None:
        self.reactor.stop()


if __name__ == "__main__":
    Crowd(settings_of(sys.argv)).run()
