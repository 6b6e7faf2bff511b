"""Lines that leave through a thread of their own: a blocked pipe or a full disk costs lines, never time."""

from __future__ import annotations

import os
import select
import threading

_QUEUE_LIMIT_BYTES = 1 << 20


class LineWriter:
    """Hands lines to a file descriptor from its own thread; what does not fit is dropped and counted."""

    def __init__(self, fd: int, *, limit_bytes: int = _QUEUE_LIMIT_BYTES) -> None:
        self.dropped = 0  # lines that were never written, since the start
        self.fd = fd
        self._limit_bytes = limit_bytes
        self._lines: list[bytes] = []
        self._held_bytes = 0  # queued and being written
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def write(self, line: bytes) -> None:
        """Queue one line; returns at once, whatever the other end does."""
        with self._changed:
            if self._held_bytes + len(line) > self._limit_bytes:
                self.dropped += 1
                return
            self._held_bytes += len(line)
            self._lines.append(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until every queued line has been tried; False when that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: self._held_bytes == 0, timeout_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                lines, self._lines = self._lines, []
            written = self._put(b"".join(lines))
            with self._changed:
                self._held_bytes -= sum(map(len, lines))
                self.dropped += 0 if written else len(lines)
                self._changed.notify_all()

    def _put(self, data: bytes) -> bool:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self.fd, rest) :]
            except BlockingIOError:  # another program made the shared terminal non-blocking
                select.select((), (self.fd,), ())
            except OSError:
                return False
        return True
