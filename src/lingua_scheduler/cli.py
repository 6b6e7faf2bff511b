"""The command line: each command parses, calls and prints. What a command needs is imported when it runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lingua_scheduler import __version__
from lingua_scheduler.commands import flags, looking
from lingua_scheduler.errors import ConfigError, LinguaError

if TYPE_CHECKING:
    from lingua_scheduler.config import Loaded

_REFUSED = 2  # exit code: not started, because of the command line or the configuration
_FAILED = 1
_INTERRUPTED = 130


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
    flags.add_server_flags(everything)
    flags.add_own_node_flags(everything)
    serve = add("serve", _serve, "Run one instance; without a Redis URL, with an embedded Redis.")
    flags.add_server_flags(serve)
    serve.add_argument(
        "--workers", type=int, default=1, metavar="N", help="instances that share the port (default 1)"
    )
    flags.add_drain_flags(
        add("drain", _drain, "Take an instance, or a node, out of service; or take that back.")
    )
    looking.add_commands(add)
    flags.add_speak_flags(add("speak", _speak, "Stream a WAV file in real time and print what comes back."))
    flags.add_node_flags(
        add("node", _node, "Run the reference node: speech recognition, translation and voice.")
    )
    flags.add_dlq_flags(add("dlq", _dlq, "List, show, replay or drop letters no instance could deal with."))
    flags.add_keys_flags(add("keys", _keys, "Make, list or revoke keys of tenants, nodes and operators."))
    flags.add_bench_flags(
        add("bench", _bench, "Measure what parts cost, run load by a profile, or compare two such runs.")
    )
    flags.add_chaos_flags(
        add("chaos", _chaos, "Break a system of processes by a seeded plan; tell what fails.")
    )
    test = add("test", _test, "Check formatting, lint, types and imports of a checkout, then run its tests.")
    test.add_argument("pytest", nargs=argparse.REMAINDER, metavar="-- ...", help="arguments for pytest")
    show = add("config", _config, "Show the effective configuration, or an example of all options.")
    show.add_argument("what", choices=("show", "example"))
    show.add_argument("--config", type=Path, metavar="FILE", help="configuration file (TOML)")
    add("version", _version, "Print the version.")
    return parser


def _loaded(given: argparse.Namespace) -> Loaded:
    from lingua_scheduler.config import load  # noqa: PLC0415

    flags = {
        "--host": ("server.host", given.host),
        "--port": ("server.port", given.port),
        "--redis-url": ("redis.url", given.redis_url),
        "--instance-id": ("instance.id", given.instance_id),
        "--insecure": ("auth.insecure", given.insecure),
    }
    return load(given.config, flags=flags)


def _up(given: argparse.Namespace) -> int:
    loaded = _loaded(given)
    from lingua_scheduler.commands.serve import OwnNode, up  # noqa: PLC0415

    own_node = OwnNode.NONE if given.no_node else OwnNode.DEMO if given.demo else OwnNode.SPEECH
    return up(loaded.config, own_node)


def _serve(given: argparse.Namespace) -> int:
    if given.workers < 1:
        raise ConfigError("--workers: must be at least 1")
    if given.workers > 1:
        from lingua_scheduler.commands.binding import refuse_open_door  # noqa: PLC0415
        from lingua_scheduler.commands.workers import run_workers  # noqa: PLC0415

        refuse_open_door(_loaded(given).config)
        return run_workers(given.workers, lambda: _loaded(given).config)
    loaded = _loaded(given)
    from lingua_scheduler.commands.serve import serve  # noqa: PLC0415

    return serve(loaded.config)


def _drain(given: argparse.Namespace) -> int:
    from lingua_scheduler.commands.drain import DrainRequest, drain  # noqa: PLC0415

    return drain(
        DrainRequest(
            url=given.url,
            node_id=given.node,
            deadline_s=given.deadline,
            cancel=given.cancel,
            wait=given.wait,
            token_file=given.token_file,
            as_json=given.json,
        )
    )


def _speak(given: argparse.Namespace) -> int:
    from lingua_scheduler.commands.speak import SpeakRequest, speak  # noqa: PLC0415
    from lingua_scheduler.commands.token_file import read_token  # noqa: PLC0415

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
            token=read_token(given.token_file),
        )
    )


def _node(given: argparse.Namespace) -> int:
    from lingua_scheduler.commands.token_file import read_token  # noqa: PLC0415

    token = read_token(given.token_file)
    if not given.demo:
        from lingua_scheduler.node.speech.reference import run_speech_node  # noqa: PLC0415

        return run_speech_node(
            given.config, url=given.url, node_id=given.node_id, capacity=given.capacity, token=token
        )
    from lingua_scheduler.commands.node import NodeRequest, run_node  # noqa: PLC0415

    languages = tuple(filter(None, given.languages.split(",")))
    return run_node(
        NodeRequest(given.url or flags.DEFAULT_URL, given.node_id, languages, given.capacity or 4, token)
    )


def _dlq(given: argparse.Namespace) -> int:
    from lingua_scheduler.config import load  # noqa: PLC0415

    config = load(given.config, flags={"--redis-url": ("redis.url", given.redis_url)}).config
    from lingua_scheduler.commands.dlq import DlqRequest, dlq  # noqa: PLC0415

    return dlq(
        config,
        DlqRequest(
            what=given.what,
            letter=given.letter,
            every=given.all,
            into=given.into,
            before=given.before,
            most=given.limit,
            as_json=given.json,
            whole=given.body,
        ),
    )


def _keys(given: argparse.Namespace) -> int:
    from lingua_scheduler.config import load  # noqa: PLC0415

    config = load(given.config, flags={"--redis-url": ("redis.url", given.redis_url)}).config
    from lingua_scheduler.commands.keys import KeysRequest, keys  # noqa: PLC0415

    return keys(
        config,
        KeysRequest(
            what=given.what,
            key_id=given.id,
            kind=given.kind,
            tenant=given.tenant,
            node_id=given.node_id,
            label=given.label,
            ttl_days=given.ttl_days,
            max_sessions=given.max_sessions,
            store=not given.no_store,
            as_json=given.json,
        ),
    )


def _bench(given: argparse.Namespace) -> int:
    from lingua_scheduler.commands.bench import bench  # noqa: PLC0415

    return bench(given)


def _chaos(given: argparse.Namespace) -> int:
    from lingua_scheduler.commands.chaos import ChaosRequest, chaos  # noqa: PLC0415

    seeds = (given.seed,) if given.seed is not None else tuple(range(1, given.seeds + 1))
    return chaos(
        ChaosRequest(
            seeds=(1,) if (given.rolling or given.crash) and given.seed is None else seeds,
            duration_s=given.duration,
            instances=given.instances,
            cluster=given.cluster,
            rolling=given.rolling,
            crash=tuple(filter(None, given.crash.split(","))),
            faults=tuple(filter(None, given.faults.split(","))),
            keep=given.keep,
            show_plan=given.plan,
        )
    )


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
