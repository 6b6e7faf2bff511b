"""The process of the speakers of a chaos run: run as a module, with its settings as one argument.

It speaks until a line comes on standard input, then waits for every answer, closes its sessions and ends.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from lingua_scheduler.chaos.history import Recorder
from lingua_scheduler.chaos.node_process import READY
from lingua_scheduler.chaos.speaker import Speaker, SpeakerSettings
from lingua_scheduler.log import LogOptions, configure


async def _main(settings: SpeakerSettings) -> None:
    configure(LogOptions(level="warning"))
    recorder = Recorder(Path(settings.history), "clients")
    speakers = [Speaker(number, settings, recorder) for number in range(settings.speakers)]
    running = asyncio.gather(*(speaker.run() for speaker in speakers))
    for speaker in speakers:
        await speaker.open.wait()
    print(READY, flush=True)  # noqa: T201 the driver waits for it
    await _told()
    for speaker in speakers:
        speaker.be_quiet()
    await running


async def _told() -> None:
    """Wait for a line, or for the end of who would write it."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.readline()


if __name__ == "__main__":
    asyncio.run(_main(msgspec.json.decode(sys.argv[1], type=SpeakerSettings)))
