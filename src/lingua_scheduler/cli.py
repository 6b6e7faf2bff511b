"""The command line: each command parses, calls and prints. What a command needs is imported when it runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lingua_scheduler import __version__
from lingua_scheduler.errors import ConfigError, LinguaError

if TYPE_CHECKING:
    from lingua_scheduler.config import Loaded

_REFUSED = 2  # exit code: not started, because of the command line or the configuration
_FAILED = 1
_INTERRUPTED = 130
_DEFAULT_URL = "ws://127.0.0.1:5010"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; a refusal is one line on standard error."""
    given = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = given.command
    try:
        code = command(given)
        sys.stdout.flush()
    except ConfigError as refusal:
        print(f"lingua: {refusal}", file=sys.stderr)
        return _REFUSED
    except LinguaError as failure:
        print(f"lingua: {failure}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # the reader of our output has seen enough; nothing is left to flush at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lingua", description="The central server of real-time speech translation.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"lingua {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(name: str, command: Callable[[argparse.Namespace], int], about: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=about, description=about, allow_abbrev=False)
        added.set_defaults(command=command)
        return added

    everything = add(
        "up", _up, "Run everything on this machine: Redis, one instance and a node that translates."
    )
    _add_server_flags(everything)
    _add_own_node_flags(everything)
    _add_server_flags(add("serve", _serve, "Run one instance; without a Redis URL, with an embedded Redis."))
    _add_speak_flags(add("speak", _speak, "Stream a WAV file in real time and print what comes back."))
    _add_node_flags(add("node", _node, "Run the reference node: speech recognition, translation and voice."))
    bench = add("bench", _bench, "Measure what a part costs, on real parts, and print a table.")
    bench.add_argument("what", choices=("placement",), help="placement: microseconds inside Redis")
    bench.add_argument(
        "--rounds", type=int, default=3000, metavar="N", help="calls per figure (default 3000)"
    )
    bench.add_argument("--nodes", type=int, default=10_000, metavar="N", help="most nodes (default 10000)")
    test = add("test", _test, "Check formatting, lint, types and imports of a checkout, then run its tests.")
    test.add_argument("pytest", nargs=argparse.REMAINDER, metavar="-- ...", help="arguments for pytest")
    show = add("config", _config, "Show the effective configuration, or an example of all options.")
    show.add_argument("what", choices=("show", "example"))
    show.add_argument("--config", type=Path, metavar="FILE", help="configuration file (TOML)")
    add("version", _version, "Print the version.")
    return parser


def _add_server_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file (TOML)")
    parser.add_argument("--host", metavar="H", help="address to listen on")
    parser.add_argument("--port", type=int, metavar="P", help="port to listen on; 0 takes a free one")
    parser.add_argument(
        "--redis-url", metavar="URL", help="Redis to use; without it, an embedded one is started"
    )
    parser.add_argument("--instance-id", metavar="ID", help="name of this instance, unique among all")


def _add_speak_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE.wav", help="speech to translate; - reads it from standard input"
    )
    parser.add_argument("--from", dest="src", required=True, metavar="LANG", help="language spoken, or auto")
    parser.add_argument("--to", dest="tgt", required=True, metavar="LANG", help="language wanted")
    parser.add_argument(
        "--url", default=_DEFAULT_URL, metavar="WS", help=f"scheduler (default {_DEFAULT_URL})"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.wav", help="write the translated voice here")
    parser.add_argument(
        "--format", choices=("opus", "pcm16"), default="opus", help="how audio is sent (default opus)"
    )
    parser.add_argument("--timings", action="store_true", help="show where the time of each result went")
    parser.add_argument("--fast", action="store_true", help="do not wait for real time between frames")


def _add_own_node_flags(parser: argparse.ArgumentParser) -> None:
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--demo", action="store_true", help="run a node that answers by fixed rules instead")
    choice.add_argument("--no-node", action="store_true", help="run no node; wait for yours")


def _add_node_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration of the node (TOML)")
    parser.add_argument("--demo", action="store_true", help="answer by fixed rules, without engines")
    parser.add_argument(
        "--url", metavar="WS", help=f"scheduler (default: as configured, else {_DEFAULT_URL})"
    )
    parser.add_argument(
        "--node-id", metavar="ID", help="id to register with; without it, the scheduler gives one"
    )
    parser.add_argument("--capacity", type=int, metavar="N", help="jobs at a time")
    parser.add_argument(
        "--languages", default="en,pt,zh", metavar="A,B", help="with --demo: languages (default en,pt,zh)"
    )


def _loaded(given: argparse.Namespace) -> Loaded:
    from lingua_scheduler.config import load  # noqa: PLC0415

    flags = {
        "--host": ("server.host", given.host),
        "--port": ("server.port", given.port),
        "--redis-url": ("redis.url", given.redis_url),
        "--instance-id": ("instance.id", given.instance_id),
    }
    return load(given.config, flags=flags)


def _up(given: argparse.Namespace) -> int:
    loaded = _loaded(given)
    from lingua_scheduler.commands.serve import OwnNode, up  # noqa: PLC0415

    own_node = OwnNode.NONE if given.no_node else OwnNode.DEMO if given.demo else OwnNode.SPEECH
    return up(loaded.config, own_node)


def _serve(given: argparse.Namespace) -> int:
    loaded = _loaded(given)
    from lingua_scheduler.commands.serve import serve  # noqa: PLC0415

    return serve(loaded.config)


def _speak(given: argparse.Namespace) -> int:
    from lingua_scheduler.commands.speak import SpeakRequest, speak  # noqa: PLC0415

    return speak(
        SpeakRequest(
            file=given.file,
            src=given.src,
            tgt=given.tgt,
            url=given.url,
            out=given.out,
            audio_format=given.format,
            timings=given.timings,
            fast=given.fast,
        )
    )


def _node(given: argparse.Namespace) -> int:
    if not given.demo:
        from lingua_scheduler.node.speech.reference import run_speech_node  # noqa: PLC0415

        return run_speech_node(given.config, url=given.url, node_id=given.node_id, capacity=given.capacity)
    from lingua_scheduler.commands.node import NodeRequest, run_node  # noqa: PLC0415

    languages = tuple(filter(None, given.languages.split(",")))
    return run_node(NodeRequest(given.url or _DEFAULT_URL, given.node_id, languages, given.capacity or 4))


def _bench(given: argparse.Namespace) -> int:
    import asyncio  # noqa: PLC0415

    from lingua_scheduler.bench.placement import measure  # noqa: PLC0415

    report = asyncio.run(measure(rounds=given.rounds, most_nodes=given.nodes))
    print("\n".join(report.lines()))
    missed = report.missed()
    print("\n".join(f"missed: {goal}" for goal in missed) or "all goals met")
    return _FAILED if missed else 0


def _config(given: argparse.Namespace) -> int:
    from lingua_scheduler.commands.config_text import example, shown  # noqa: PLC0415
    from lingua_scheduler.config import load  # noqa: PLC0415

    print(example() if given.what == "example" else shown(load(given.config)), end="")
    return 0


def _test(given: argparse.Namespace) -> int:
    from lingua_scheduler.commands.check import check  # noqa: PLC0415

    extra = given.pytest[1:] if given.pytest[:1] == ["--"] else given.pytest
    return check(extra)


def _version(_given: argparse.Namespace) -> int:
    print(f"lingua {__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
