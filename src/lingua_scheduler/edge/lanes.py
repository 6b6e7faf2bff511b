"""The two kinds of sockets: what is spoken on each, what it may cost, and who of the flow answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from lingua_scheduler.edge.limits import SocketOptions
from lingua_scheduler.edge.surroundings import Surroundings
from lingua_scheduler.edge.writer import Sink
from lingua_scheduler.wire.address import NODE_PATH, SESSION_PATH
from lingua_scheduler.wire.audio import parse_frame
from lingua_scheduler.wire.codec import client_decoder, node_decoder
from lingua_scheduler.wire.node import FromNode
from lingua_scheduler.wire.session import FromClient

M = TypeVar("M")
M_contra = TypeVar("M_contra", contravariant=True)


class Peer(Protocol[M_contra]):
    """The flow's side of one connection."""

    @property
    def binary_audio(self) -> bool:
        """The client has agreed to send audio in binary frames; without that they are ignored."""
        ...

    def received(self, message: M_contra) -> None:
        """Take one message without waiting; a WireError is answered with an `error` message."""

    def lost(self) -> None:
        """Learn that nothing will come or go any more: called once, never from inside another call."""


class Door(Protocol[M_contra]):
    """Where the flow receives new connections."""

    def open(self, sink: Sink, *, remote: str) -> Peer[M_contra]:
        """Make the peer of a new connection."""
        ...


@dataclass(frozen=True, slots=True)
class Lane(Generic[M]):
    """One kind of socket: where it is found, what it speaks, what it may cost and who answers."""

    path: str
    options: SocketOptions
    first_message_bytes: int  # the longest message of a peer that has not introduced itself yet
    max_message_bytes: int
    door: Door[M]
    decode: Callable[[bytes], M]
    decode_binary: Callable[[bytes], M] | None = None


def session_lane(options: SocketOptions, door: Door[FromClient], around: Surroundings) -> Lane[FromClient]:
    """Make the lane of clients."""
    wall_ms, wire = around.clock.wall_ms, around.wire

    def decode_binary(payload: bytes) -> FromClient:
        return parse_frame(payload, wall_ms(), wire)

    return Lane(
        path=SESSION_PATH,
        options=options,
        first_message_bytes=wire.control_bytes + 2 * wire.audio_frame_bytes,
        max_message_bytes=wire.client_ceiling_bytes,
        door=door,
        decode=client_decoder(wire),
        decode_binary=decode_binary,
    )


def node_lane(options: SocketOptions, door: Door[FromNode], around: Surroundings) -> Lane[FromNode]:
    """Make the lane of nodes."""
    return Lane(
        path=NODE_PATH,
        options=options,
        first_message_bytes=around.wire.heartbeat_bytes,
        max_message_bytes=around.wire.node_ceiling_bytes,
        door=door,
        decode=node_decoder(around.wire),
    )
