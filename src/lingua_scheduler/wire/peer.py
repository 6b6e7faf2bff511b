"""Letters between instances: one tagged union. No audio travels in them; they name the job it belongs to."""

from __future__ import annotations

import msgspec

from lingua_scheduler.wire.common import Attempt, BadInput, Count, Id, Lang, Message, Name, invalid
from lingua_scheduler.wire.node import AsrPartial, JobAck, JobAssign, JobResult, JobStarted, ModelNotAvailable

NodeWord = JobAck | JobStarted | AsrPartial | JobResult | ModelNotAvailable
"""What a node says about a job."""


class PeerAssign(Message, tag="peer_assign", frozen=True, kw_only=True):
    """Hand a job to a node of yours; its audio is in Redis, and its results are wanted by the sender."""

    node_id: Id
    node_epoch: int
    job: JobAssign


class PeerCancel(Message, tag="peer_cancel", frozen=True, kw_only=True):
    """Ask a node of yours to stop an attempt."""

    node_id: Id
    job_id: Id
    attempt_id: Attempt
    trace_id: Id
    reason: Name


class PeerReturn(Message, tag="peer_return", frozen=True, kw_only=True):
    """An attempt is not on its node any more, or never got there."""

    node_id: Id
    session_id: Id
    job_id: Id
    attempt_id: Attempt
    why: Name
    hops: int = 0


class PeerWord(Message, tag="peer_word", frozen=True, kw_only=True):
    """A node said something about a job of a session of yours; `voice` tells that its audio is in Redis."""

    node_id: Id
    session_id: Id
    word: NodeWord
    voice: bool = False
    hops: int = 0


class PeerTaken(Message, tag="peer_taken", frozen=True, kw_only=True):
    """A session of yours lives here now, under this epoch."""

    session_id: Id
    epoch: int


class PeerOrder(Message, tag="peer_order", frozen=True, kw_only=True):
    """The operator wants a node of yours to drain within this time, or to resume."""

    node_id: Id
    drain_s: float | None = None


class PeerRoom(Message, tag="peer_room", frozen=True, kw_only=True):
    """A room has changed: read it, and tell its members of yours."""

    room_code: Name


class PeerHeard(Message, tag="peer_heard", frozen=True, kw_only=True):
    """What somebody said in a room, for members of yours: some want to hear it, some only to read it.

    `message` is what those who read are sent, as it is; what the others are sent is in Redis under the
    speaker and `parcel`, and in `spoken` once it was fetched. A fleeting one is out of date soon.
    """

    room_code: Name
    speaker: Id
    utterance_index: Count
    tgt_lang: Lang
    message: msgspec.Raw
    hear: tuple[Id, ...] = ()
    read: tuple[Id, ...] = ()
    parcel: Id | None = None
    spoken: bytes = b""
    missing: bool = False
    fleeting: bool = False
    hops: int = 0


class PeerSignal(Message, tag="peer_signal", frozen=True, kw_only=True):
    """One member of a room arranges with another, one of yours, how to hear each other's own voice."""

    room_code: Name
    sender: Id
    receiver: Id
    message: msgspec.Raw


class PeerKept(Message, tag="peer_kept", frozen=True, kw_only=True):
    """What a session that is yours now may not have heard in its room; it is in Redis under `parcel`."""

    session_id: Id
    parcel: Id


PeerInRoom = PeerRoom | PeerHeard | PeerSignal | PeerKept
"""What instances tell each other about rooms."""

Peer = PeerAssign | PeerCancel | PeerReturn | PeerWord | PeerTaken | PeerOrder | PeerInRoom

_DECODER: msgspec.json.Decoder[Peer] = msgspec.json.Decoder(Peer)


def decode_peer(data: bytes) -> Peer:
    """Read a letter; InvalidMessage when it is none of this version."""
    try:
        return _DECODER.decode(data)
    except msgspec.ValidationError as error:
        raise invalid(BadInput.SHAPE, str(error)) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise invalid(BadInput.JSON, str(error)) from None
