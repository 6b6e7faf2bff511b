"""The log under test: read what was written, and leave no setting behind."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lingua_scheduler import log
from lingua_scheduler.log import LogOptions


@contextmanager
def kept() -> Iterator[None]:
    """Undo every `configure` of the block, and write what it logged before it ends."""
    logs, root = log._logs, logging.getLogger()
    before = (logs.writer, logs.options, list(logs.processors))
    library = (root.level, list(root.handlers))
    try:
        yield
    finally:
        log.flush()
        logs.writer, logs.options, logs.processors[:] = before
        for name, channel in logs.channels.items():
            channel.threshold = logs.threshold(name)
        root.setLevel(library[0])
        root.handlers[:] = library[1]


class Written:
    """What is logged during a block."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._parts: list[bytes] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while part := os.read(self._fd, 1 << 16):
            self._parts.append(part)

    def close(self) -> None:
        """Read to the end; the other end is closed."""
        self._thread.join()
        os.close(self._fd)

    @property
    def text(self) -> str:
        """Everything, once the block has ended."""
        return b"".join(self._parts).decode()

    @property
    def lines(self) -> list[str]:
        """The same, line by line."""
        return self.text.splitlines()


@contextmanager
def captured(options: LogOptions) -> Iterator[Written]:
    """Read all that is logged while the block lasts, in the form and at the level of these options."""
    reading, writing = os.pipe()
    written = Written(reading)
    try:
        with kept():
            log.configure(options, fd=writing)
            yield written
    finally:
        os.close(writing)
        written.close()
