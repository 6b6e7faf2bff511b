"""`lingua serve` and `lingua up`: an instance as a process, until it is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from enum import Enum, auto
from typing import Any

import msgspec

from lingua_scheduler.app import running
from lingua_scheduler.commands.binding import refuse_open_door
from lingua_scheduler.commands.instance import StopOrders, drained, serve_until_told
from lingua_scheduler.config import Config
from lingua_scheduler.core.keys import KeyFacts, KeyKind, digest_of, made_key
from lingua_scheduler.errors import LinguaError
from lingua_scheduler.log import configure
from lingua_scheduler.node import LinkOptions, Node
from lingua_scheduler.node.demo import demo_node
from lingua_scheduler.node.speech.configuration import load_speech_options
from lingua_scheduler.node.speech.errors import EngineError, NothingToOffer
from lingua_scheduler.node.speech.options import NodeTracingOptions
from lingua_scheduler.node.speech.reference import reference_node
from lingua_scheduler.secret import Secret
from lingua_scheduler.tracing.options import TracingOptions

_WELCOME = """
Lingua Scheduler is up at {url}
  talk in a browser:  {url}
  speak from a file:  ./lingua speak FILE.wav --from en --to pt --url {ws}
  stop it:            Ctrl-C finishes what was said; once more stops at once
"""
_WAY_OUT = (
    "Without engines: ./lingua up --demo answers by fixed rules, ./lingua up --no-node waits for your nodes"
)


_OWN_NODE = "lingua-node"  # what it is called in traces


class OwnNode(Enum):
    """The node that `up` runs beside the instance."""

    SPEECH = auto()  # the reference node with real engines
    DEMO = auto()  # answers by fixed rules
    NONE = auto()


def serve(config: Config) -> int:
    """Run one instance until it is told to stop; return the exit code."""
    refuse_open_door(config)
    return _run(_serve(config))


def up(config: Config, own_node: OwnNode) -> int:
    """Run an instance, and a node of its own, until it is told to stop; return the exit code."""
    refuse_open_door(config)
    return _run(_up(config, own_node))


def _run(main: Coroutine[Any, Any, int]) -> int:
    import uvloop  # noqa: PLC0415 not there on every platform

    return uvloop.run(main)


async def _serve(config: Config) -> int:
    return await serve_until_told(config, StopOrders())


async def _up(config: Config, own_node: OwnNode) -> int:
    configure(config.log)
    orders = StopOrders()
    key_id, key = made_key(KeyKind.NODE)
    facts = KeyFacts(id=key_id, kind=KeyKind.NODE, digest=digest_of(key), label="own node")
    async with running(_knowing(_for_one_machine(config), facts)) as instance:
        address = instance.url.replace("http", "ws", 1)
        async with _node(own_node, address, key, config.tracing) as node:
            serving = asyncio.create_task(node.run(), name="own node") if node else None
            if node is not None and serving is not None:
                await _registered(node, serving)
            print(_WELCOME.format(url=instance.url, ws=address), flush=True)
            orders.listen()
            code = await drained(instance, orders)
            if node is not None and serving is not None:
                node.stop()  # what it had to do is done: the instance is drained
                await serving
    orders.ignore()
    return code


async def _registered(node: Node, serving: asyncio.Task[None]) -> None:
    """Wait until the scheduler knows the node; a node that ends before that has failed."""
    registered = asyncio.ensure_future(node.registered.wait())
    await asyncio.wait((registered, serving), return_when=asyncio.FIRST_COMPLETED)
    registered.cancel()
    if serving.done():
        serving.result()


@asynccontextmanager
async def _node(
    own_node: OwnNode, address: str, key: Secret, tracing: TracingOptions
) -> AsyncIterator[Node | None]:
    if own_node is OwnNode.NONE:
        yield None
        return
    link = LinkOptions(handle_signals=False, token=key)  # the signals are for the instance
    if own_node is OwnNode.DEMO:
        yield demo_node(address, options=link)
        return
    print("loading and testing the speech engines ...", flush=True)
    traced = NodeTracingOptions(**{**msgspec.structs.asdict(tracing), "service_name": _OWN_NODE})
    options = msgspec.structs.replace(load_speech_options(None), url=address, link=link, tracing=traced)
    try:
        async with reference_node(options, show=print) as node:
            yield node
    except (NothingToOffer, EngineError) as failure:
        raise LinguaError(f"{failure}. {_WAY_OUT}") from failure


def _knowing(config: Config, facts: KeyFacts) -> Config:
    """Let the own node in, whoever else is."""
    auth = msgspec.structs.replace(config.auth, keys=(*config.auth.keys, facts))
    return msgspec.structs.replace(config, auth=auth)


def _for_one_machine(config: Config) -> Config:
    """Accept a node without a GPU, however busy the machine is that it shares with everything else."""
    replace = msgspec.structs.replace
    return replace(
        config,
        node_health=replace(config.node_health, require_gpu=False),
        nodes=replace(config.nodes, resource_threshold=100, memory_threshold=100),
    )
