"""Every fault that a chaos run can inject: which one of the written faults it is, whom it hits, how long."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Victim(StrEnum):
    """What a fault is done to."""

    NODE = "node"  # one process of nodes
    ODD_NODE = "odd node"  # one that can break the protocol
    NODES = "all nodes"
    CLIENTS = "clients"
    INSTANCE = "instance"
    REDIS = "redis"


class Fault(StrEnum):
    """The faults, by the names a command line knows them under."""

    NODE_KILL = "node_kill"
    NODE_CRASH_AFTER_ACK = "node_crash_after_ack"
    NODE_FREEZE = "node_freeze"
    NODE_DRAIN = "node_drain"
    NODE_TWICE = "node_twice"
    NODE_LATE = "node_late"
    NODE_MUTE = "node_mute"
    NODE_FULL = "node_full"
    NODE_SLOW = "node_slow"
    NODE_FLAP = "node_flap"
    NODE_LATENCY = "node_latency"
    NODES_GONE = "nodes_gone"
    CLIENT_RESET = "client_reset"
    CLIENT_STORM = "client_storm"
    CLIENT_BLACKHOLE = "client_blackhole"
    CLIENT_HALF_CLOSE = "client_half_close"
    CLIENT_SLOW_READER = "client_slow_reader"
    CLIENT_LATENCY = "client_latency"
    INSTANCE_KILL = "instance_kill"
    INSTANCE_CRASH = "instance_crash"
    INSTANCE_DRAIN = "instance_drain"
    INSTANCE_PAUSE = "instance_pause"
    INSTANCE_FREEZE = "instance_freeze"
    INSTANCE_STARVE = "instance_starve"
    INSTANCE_TWIN = "instance_twin"
    SCRAPE_STORM = "scrape_storm"
    REDIS_PAUSE = "redis_pause"
    REDIS_BLACKHOLE = "redis_blackhole"
    REDIS_CUT_OFF = "redis_cut_off"
    REDIS_KILL_CONNECTIONS = "redis_kill_connections"
    REDIS_SCRIPT_FLUSH = "redis_script_flush"
    REDIS_FULL = "redis_full"
    REDIS_FLUSH = "redis_flush"
    REDIS_RESTART = "redis_restart"
    REDIS_FAILOVER = "redis_failover"
    REDIS_PRIMARY_LOST = "redis_primary_lost"
    INBOX_POISON = "inbox_poison"
    INBOX_DELETED = "inbox_deleted"


@dataclass(frozen=True, slots=True)
class Trait:
    """What is known about a fault before it happens."""

    numbers: tuple[str, ...]  # as the list of faults counts them
    victim: Victim
    lasts_s: tuple[float, float]
    does: str
    on_one: bool = True  # possible with a single Redis
    on_cluster: bool = True
    forgets: bool = False  # Redis loses what it knew
    downs_instance: bool = False  # an instance cannot be reached
    cuts_clients: bool = False  # clients must come back
    downs_node: bool = False
    copies: int = 1  # how often it is in a deck; 0: only where a plan is made for it


_NODE, _ODD, _ALL = Victim.NODE, Victim.ODD_NODE, Victim.NODES
_CLIENTS, _INSTANCE, _REDIS = Victim.CLIENTS, Victim.INSTANCE, Victim.REDIS
_INSTANT = (0.5, 1.0)

TRAITS: dict[Fault, Trait] = {
    Fault.NODE_KILL: Trait(("F01", "F02"), _NODE, (1, 3), "kill -9, started again later", downs_node=True),
    Fault.NODE_CRASH_AFTER_ACK: Trait(
        ("F01",), _NODE, (2, 4), "dies right after the next acknowledgement", downs_node=True
    ),
    Fault.NODE_FREEZE: Trait(("F14",), _NODE, (1, 5), "kill -STOP, then -CONT", downs_node=True),
    Fault.NODE_DRAIN: Trait(("F29",), _NODE, (0.5, 1), "SIGTERM, started again", downs_node=True),
    Fault.NODE_TWICE: Trait(("F04",), _ODD, (3, 6), "answers every job twice"),
    Fault.NODE_LATE: Trait(("F05",), _ODD, (4, 8), "answers after its attempt was given up"),
    Fault.NODE_MUTE: Trait(("F02",), _ODD, (3, 6), "neither acknowledges nor answers"),
    Fault.NODE_FULL: Trait(("F07",), _NODE, (2, 5), "refuses every job for want of room"),
    Fault.NODE_SLOW: Trait(("F11",), _NODE, (3, 6), "takes six times as long"),
    Fault.NODE_FLAP: Trait(("F08",), _NODE, (3, 5), "its connection is reset every half second"),
    Fault.NODE_LATENCY: Trait(("F13",), _NODE, (3, 6), "300 ms, jitter 60 ms, slices of 64 bytes"),
    Fault.NODES_GONE: Trait(("F10",), _ALL, (1, 3), "kill -9 of every node", downs_node=True),
    Fault.CLIENT_RESET: Trait(
        ("F16", "F19"), _CLIENTS, _INSTANT, "reset of some", cuts_clients=True, copies=2
    ),
    Fault.CLIENT_STORM: Trait(("F23",), _CLIENTS, _INSTANT, "reset of all at once", cuts_clients=True),
    Fault.CLIENT_BLACKHOLE: Trait(
        ("F17",), _CLIENTS, (1, 7), "nothing passes, and nobody is told", cuts_clients=True
    ),
    Fault.CLIENT_HALF_CLOSE: Trait(
        ("F16",), _CLIENTS, _INSTANT, "end of what the clients hear", cuts_clients=True
    ),
    Fault.CLIENT_SLOW_READER: Trait(
        ("F22",), _CLIENTS, (2, 5), "4000 bytes/s towards them", cuts_clients=True
    ),
    Fault.CLIENT_LATENCY: Trait(("F56",), _CLIENTS, (2, 5), "100 ms, jitter 100 ms, slices of 512 bytes"),
    Fault.INSTANCE_KILL: Trait(
        ("F26", "F32"), _INSTANCE, (1, 6), "kill -9, another started later", downs_instance=True, copies=3
    ),
    Fault.INSTANCE_CRASH: Trait(
        ("F26",), _INSTANCE, (1, 2), "dies at its crash point", downs_instance=True, copies=0
    ),
    Fault.INSTANCE_DRAIN: Trait(
        ("F28",), _INSTANCE, (0.5, 2), "SIGTERM, another started", downs_instance=True, copies=2
    ),
    Fault.INSTANCE_PAUSE: Trait(
        ("F31",), _INSTANCE, (0.5, 1.5), "kill -STOP for less than its presence lives", downs_instance=True
    ),
    Fault.INSTANCE_FREEZE: Trait(
        ("F31",),
        _INSTANCE,
        (5, 8),
        "kill -STOP for longer than its presence lives",
        downs_instance=True,
        copies=2,
    ),
    Fault.INSTANCE_STARVE: Trait(("F34",), _INSTANCE, (3, 6), "stopped for four fifths of the time"),
    Fault.INSTANCE_TWIN: Trait(("F35",), _INSTANCE, (2, 3), "a second process under the same id"),
    Fault.SCRAPE_STORM: Trait(("F55",), _INSTANCE, (2, 5), "metrics read every 100 ms"),
    Fault.REDIS_PAUSE: Trait(("F38",), _REDIS, (1, 4), "CLIENT PAUSE"),
    Fault.REDIS_BLACKHOLE: Trait(("F38",), _REDIS, (2, 6), "nobody hears Redis", on_cluster=False),
    Fault.REDIS_CUT_OFF: Trait(
        ("F38",), _INSTANCE, (2, 7), "one instance hears no Redis", on_cluster=False, downs_instance=True
    ),
    Fault.REDIS_KILL_CONNECTIONS: Trait(("F40",), _REDIS, (2, 4), "CLIENT KILL every half second"),
    Fault.REDIS_SCRIPT_FLUSH: Trait(("F41",), _REDIS, _INSTANT, "SCRIPT FLUSH"),
    Fault.REDIS_FULL: Trait(("F46",), _REDIS, (1, 3), "maxmemory below what is used"),
    Fault.REDIS_FLUSH: Trait(("F37",), _REDIS, _INSTANT, "FLUSHALL", forgets=True),
    Fault.REDIS_RESTART: Trait(
        ("F37",), _REDIS, (0.5, 2), "kill -9, started again empty", on_cluster=False, forgets=True
    ),
    Fault.REDIS_FAILOVER: Trait(("F41",), _REDIS, (1, 2), "CLUSTER FAILOVER of one primary", on_one=False),
    Fault.REDIS_PRIMARY_LOST: Trait(
        ("F41", "F37"), _REDIS, (3, 5), "a primary is stopped until its replica has taken over", on_one=False
    ),
    Fault.INBOX_POISON: Trait(("F47",), _INSTANCE, _INSTANT, "letters that nobody can read"),
    Fault.INBOX_DELETED: Trait(("F49",), _INSTANCE, _INSTANT, "DEL of an inbox with its group"),
}
