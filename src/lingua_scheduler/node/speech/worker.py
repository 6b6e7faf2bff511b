"""The program of a worker process: engines behind a pipe, so that a hung one can be killed.

Calls come on standard input and replies go to standard output. Whatever engines print goes to standard error.
The process ends when its input does, even in the middle of a call.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import traceback
from pathlib import Path
from typing import BinaryIO

from lingua_scheduler.node.speech.calls import (
    AnyCall,
    AnyReply,
    Failed,
    Hear,
    Partial,
    Setup,
    Speak,
    Translate,
    framed,
    read_call,
)
from lingua_scheduler.node.speech.errors import EngineError, ModelMissing
from lingua_scheduler.node.speech.workbench import Workbench

_SERVICES = {Hear: "asr", Translate: "nmt", Speak: "tts"}


def main() -> None:
    """Serve calls until the input ends."""
    replies = _own_output()
    calls: queue.SimpleQueue[AnyCall] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(calls,), name="calls", daemon=True).start()
    setup = calls.get()
    if not isinstance(setup, Setup):
        raise TypeError(f"expected Setup, received {type(setup).__name__}")
    bench = Workbench(setup.engines)
    _send(replies, bench.report)
    while True:
        _send(replies, _answered(bench, calls.get(), replies))


def _own_output() -> BinaryIO:
    """Keep the pipe to the node for replies alone."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return replies


def _read(calls: queue.SimpleQueue[AnyCall]) -> None:
    while (call := read_call(sys.stdin.buffer)) is not None:
        calls.put(call)
    os._exit(0)  # nobody waits any more, whatever an engine is doing


def _answered(bench: Workbench, call: AnyCall, replies: BinaryIO) -> AnyReply:
    service = _SERVICES.get(type(call), "")
    try:
        match call:
            case Hear():
                return bench.hear(call, lambda text: _send(replies, Partial(text=text)))
            case Translate():
                return bench.translate(call)
            case Speak():
                return bench.speak(call)
            case _:
                return Failed(service=service, message="the worker is set up already")
    except EngineError as error:
        return Failed(service=error.service, message=str(error), missing=isinstance(error, ModelMissing))
    except Exception as error:  # noqa: BLE001 whatever an engine does, its worker lives on
        # The message of a foreign error may quote what was said.
        return Failed(service=service, message=f"{service} failed: {type(error).__name__} at {_place(error)}")


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"


def _send(replies: BinaryIO, reply: AnyReply) -> None:
    replies.write(framed(reply))
    replies.flush()


if __name__ == "__main__":
    main()
