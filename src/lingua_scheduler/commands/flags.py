"""The flags of the commands; what they mean is written here, what they do in each command."""

from __future__ import annotations

import argparse
from pathlib import Path

DEFAULT_URL = "ws://127.0.0.1:5010"
"""Where clients and nodes look for a scheduler."""
ADMIN_URL = "http://127.0.0.1:5010"
"""Where operators look for one."""


def add_server_flags(parser: argparse.ArgumentParser) -> None:
    """Where an instance listens and which Redis it uses."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file (TOML)")
    parser.add_argument("--host", metavar="H", help="address to listen on")
    parser.add_argument("--port", type=int, metavar="P", help="port to listen on; 0 takes a free one")
    parser.add_argument(
        "--redis-url", metavar="URL", help="Redis to use; without it, an embedded one is started"
    )
    parser.add_argument("--instance-id", metavar="ID", help="name of this instance, unique among all")
    parser.add_argument(
        "--insecure",
        action="store_const",
        const=True,
        help="listen beyond this machine although nobody needs a key",
    )


def add_speak_flags(parser: argparse.ArgumentParser) -> None:
    """What to stream, and how."""
    parser.add_argument(
        "file", metavar="FILE.wav", help="speech to translate; - reads it from standard input"
    )
    parser.add_argument("--from", dest="src", required=True, metavar="LANG", help="language spoken, or auto")
    parser.add_argument("--to", dest="tgt", required=True, metavar="LANG", help="language wanted")
    parser.add_argument("--url", default=DEFAULT_URL, metavar="WS", help=f"scheduler (default {DEFAULT_URL})")
    parser.add_argument("--out", type=Path, metavar="FILE.wav", help="write the translated voice here")
    parser.add_argument(
        "--format", choices=("opus", "pcm16"), default="opus", help="how audio is sent (default opus)"
    )
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="file with the key or token to show")
    parser.add_argument("--timings", action="store_true", help="show where the time of each result went")
    parser.add_argument("--fast", action="store_true", help="do not wait for real time between frames")


def add_own_node_flags(parser: argparse.ArgumentParser) -> None:
    """Which node runs beside the instance."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--demo", action="store_true", help="run a node that answers by fixed rules instead")
    choice.add_argument("--no-node", action="store_true", help="run no node; wait for yours")


def add_node_flags(parser: argparse.ArgumentParser) -> None:
    """Which node to run."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration of the node (TOML)")
    parser.add_argument("--demo", action="store_true", help="answer by fixed rules, without engines")
    parser.add_argument("--url", metavar="WS", help=f"scheduler (default: as configured, else {DEFAULT_URL})")
    parser.add_argument(
        "--node-id", metavar="ID", help="id to register with; without it, the scheduler gives one"
    )
    parser.add_argument("--capacity", type=int, metavar="N", help="jobs at a time")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="file with the key to show")
    parser.add_argument(
        "--languages", default="en,pt,zh", metavar="A,B", help="with --demo: languages (default en,pt,zh)"
    )


def add_dlq_flags(parser: argparse.ArgumentParser) -> None:
    """Which dead letters, and what to do with them."""
    parser.add_argument("what", choices=("list", "show", "replay", "drop"))
    parser.add_argument("letter", nargs="?", metavar="ID", help="letter, as the list names it")
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file (TOML)")
    parser.add_argument("--redis-url", metavar="URL", help="Redis that the instances share")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--all", action="store_true", help="drop: every letter")
    parser.add_argument("--body", action="store_true", help="show: the whole body, which may hold speech")
    parser.add_argument("--into", metavar="ID", help="replay: instance whose inbox gets the letter")
    parser.add_argument("--before", metavar="ID", help="list: go on after this letter")
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="list: most letters (default 50)")


def add_keys_flags(parser: argparse.ArgumentParser) -> None:
    """Which key, and what to do with it."""
    parser.add_argument("what", choices=("create", "list", "revoke"))
    parser.add_argument("id", nargs="?", metavar="ID", help="revoke: key, as the list names it")
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file (TOML)")
    parser.add_argument("--redis-url", metavar="URL", help="Redis that the instances share")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--kind", choices=("tenant", "node", "admin"), help="create: whose key it is")
    parser.add_argument("--tenant", default="", metavar="T", help="create: tenant whose sessions it opens")
    parser.add_argument("--node-id", default="", metavar="ID", help="create: only id its node may have")
    parser.add_argument("--label", default="", metavar="L", help="create: a word for people")
    parser.add_argument("--ttl-days", type=float, metavar="D", help="create: days after which it expires")
    parser.add_argument(
        "--max-sessions",
        type=int,
        default=0,
        metavar="N",
        help="create: most connections of the tenant on one instance (default: as configured)",
    )
    parser.add_argument(
        "--no-store", action="store_true", help="create: print lines for a configuration file, use no Redis"
    )


def add_bench_flags(parser: argparse.ArgumentParser) -> None:
    """What to measure, and how."""
    parser.add_argument(
        "what",
        choices=("run", "compare", "peers", "growth", "placement", "hop", "room"),
        help="run: load by a profile; compare: two reports; peers: an instance beside others, as ratios;"
        " growth: curves over nodes, sessions and more;"
        " placement: microseconds inside Redis;"
        " hop: what another instance adds; room: a large room",
    )
    parser.add_argument(
        "reports",
        nargs="*",
        type=Path,
        metavar="NAME",
        help="compare: two JSON files; growth: curves (default all)",
    )
    parser.add_argument(
        "--profile", metavar="P", help="run: name of a profile, or a TOML file (without it: list them)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="K=V", help="run: change a value; repeatable"
    )
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="run: how often (default 1)")
    parser.add_argument(
        "--out", type=Path, metavar="PATH", help="run: write the report as JSON here; growth: a directory"
    )
    parser.add_argument("--quick", action="store_true", help="growth: few small points, for a look")
    parser.add_argument("--html", type=Path, metavar="FILE", help="run: write it as a page with plots here")
    parser.add_argument(
        "--margin", type=float, default=0.1, metavar="M", help="compare: part taken for noise (default 0.1)"
    )
    parser.add_argument(
        "--rounds", type=int, default=3000, metavar="N", help="calls per figure (default 3000)"
    )
    parser.add_argument("--nodes", type=int, default=10_000, metavar="N", help="most nodes (default 10000)")
    parser.add_argument(
        "--listeners", type=int, default=200, metavar="N", help="listeners in the room (default 200)"
    )


def add_chaos_flags(parser: argparse.ArgumentParser) -> None:
    """Which faults, and for how long."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seed", type=int, metavar="N", help="run one plan, the one of this seed")
    which.add_argument("--seeds", type=int, default=10, metavar="N", help="run seeds 1 to N (default 10)")
    parser.add_argument(
        "--duration", type=float, default=20.0, metavar="S", help="time in which faults begin (default 20)"
    )
    parser.add_argument("--instances", type=int, default=3, metavar="N", help="instances (default 3)")
    parser.add_argument("--cluster", action="store_true", help="on a Redis Cluster of three and three")
    parser.add_argument("--rolling", action="store_true", help="restart everything in turn; lose nothing")
    parser.add_argument("--crash", default="", metavar="A,B", help="let an instance die at these points")
    parser.add_argument("--faults", default="", metavar="A,B", help="only these, by name or number")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave histories and logs here")
    parser.add_argument("--plan", action="store_true", help="only print what would be done")


def add_drain_flags(parser: argparse.ArgumentParser) -> None:
    """What to take out of service, and how."""
    parser.add_argument("--url", default=ADMIN_URL, metavar="HTTP", help=f"instance (default {ADMIN_URL})")
    parser.add_argument("--node", metavar="ID", help="drain this node instead of the instance")
    parser.add_argument(
        "--deadline",
        type=float,
        metavar="S",
        help="seconds until what is left is cut off (default: as configured)",
    )
    parser.add_argument("--cancel", action="store_true", help="take the drain back")
    parser.add_argument("--wait", action="store_true", help="return when it is drained")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="file with the admin token")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a sentence")


def add_admin_flags(parser: argparse.ArgumentParser) -> None:
    """Whom to ask, and how to show the answer."""
    parser.add_argument("--url", default=ADMIN_URL, metavar="HTTP", help=f"instance (default {ADMIN_URL})")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="file with the admin token")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def add_status_flags(parser: argparse.ArgumentParser) -> None:
    """How to watch."""
    add_admin_flags(parser)
    parser.add_argument("--once", action="store_true", help="show it once, also on a terminal")
    parser.add_argument(
        "--every", type=float, default=2.0, metavar="S", help="seconds between two looks (default 2)"
    )


def add_list_flags(parser: argparse.ArgumentParser) -> None:
    """How much of a list."""
    add_admin_flags(parser)
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="most rows (default 100)")


def add_simulate_flags(parser: argparse.ArgumentParser) -> None:
    """Which job might be."""
    add_admin_flags(parser)
    parser.add_argument(
        "--from", dest="src", default="zh", metavar="LANG", help="language spoken (default zh)"
    )
    parser.add_argument("--to", dest="tgt", default="en", metavar="LANG", help="language wanted (default en)")
    parser.add_argument("--tenant", metavar="ID", help="tenant of the job")
    parser.add_argument("--session", metavar="ID", help="session of the job")
    parser.add_argument("--routing-key", metavar="KEY", help="what its pool is found by")
    parser.add_argument(
        "--required", action="append", metavar="NAME", help="service type or model; repeatable"
    )
    parser.add_argument("--without", metavar="ID", help="node that must not be chosen")


def add_doctor_flags(parser: argparse.ArgumentParser) -> None:
    """What to look at."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file (TOML)")
    parser.add_argument("--redis-url", metavar="URL", help="Redis to look at")
    parser.add_argument("--url", metavar="HTTP", help="instance to ask (default: the one of this machine)")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="file with the admin token")
    parser.add_argument("--json", action="store_true", help="print JSON instead of sentences")
