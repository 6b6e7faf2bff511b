"""What somebody carries who was let in: every message that could claim more than was granted passes here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, Self

import msgspec

from lingua_scheduler.core.keys import Grant, NotLetIn, Refusal
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.node import NodeRegister
from lingua_scheduler.wire.rooms import RoomChange, RoomCreate, RoomJoin
from lingua_scheduler.wire.session import SessionInit, Utterance

_AUTO: Final = "auto"  # stands for the languages that are named beside it


class House(Protocol):
    """Where passes are known."""

    def entered(self, who: Pass) -> None:
        """Remember a connection until `left`."""

    def left(self, who: Pass) -> None:
        """Forget a connection."""

    def refused(self, purpose: str, why: Refusal) -> None:
        """Count a refusal."""

    def speaks_for(self, grant: Grant, tenant: str) -> bool:
        """Tell whether somebody may use the name of a tenant."""
        ...

    def may_be(self, grant: Grant, node_id: str) -> bool:
        """Tell whether a node may have an id."""
        ...


class Pass:
    """One connection's permission, from its upgrade to its end."""

    __slots__ = ("_end", "_ended", "_house", "_purpose", "grant", "traceparent")

    def __init__(self, grant: Grant, purpose: str, house: House) -> None:
        self.grant = grant
        self._purpose = purpose
        self._house = house
        self.traceparent: str | None = None  # what the request for the upgrade said of its trace
        self._end: Callable[[int, str], None] | None = None  # closes the connection, once there is one
        self._ended: tuple[int, str] | None = None

    def __enter__(self) -> Self:
        """Begin to count as inside, even before there is a connection to close."""
        self._house.entered(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Count as inside no more."""
        self._house.left(self)

    def opened(self, end: Callable[[int, str], None]) -> None:
        """Learn how to close the connection; at once, if that was asked for meanwhile."""
        self._end = end
        if self._ended is not None:
            end(*self._ended)

    def close(self, code: int, reason: str) -> None:
        """End the connection."""
        self._ended = code, reason
        if self._end is not None:
            self._end(code, reason)

    def checked(self, message: Any) -> Any:
        """Give a message with what was granted filled in; None when it claims more: that closes with 4503."""
        rule = _RULES.get(type(message))
        if rule is None:
            return message
        try:
            return self._traced(rule(self.grant, self._house, message))
        except NotLetIn as refusal:
            self._house.refused(self._purpose, refusal.why)
            self.close(CloseCode.FORBIDDEN, f"not allowed with this key or token: {refusal.why.value}")
            return None

    def _traced(self, message: Any) -> Any:
        if self.traceparent is None or not isinstance(message, SessionInit) or message.traceparent:
            return message
        return msgspec.structs.replace(message, traceparent=self.traceparent)


def _session(grant: Grant, house: House, wish: SessionInit) -> SessionInit:
    if wish.tenant_id and not house.speaks_for(grant, wish.tenant_id):
        raise NotLetIn(Refusal.TENANT)
    named = (wish.src_lang, wish.tgt_lang, wish.lang_a, wish.lang_b, *(wish.auto_langs or ()))
    _refuse_languages(grant, *named)
    return msgspec.structs.replace(wish, tenant_id=grant.tenant) if grant.tenant else wish


def _utterance(grant: Grant, _house: House, message: Utterance) -> Utterance:
    _refuse_languages(grant, message.src_lang, message.tgt_lang)
    return message


def _room(
    grant: Grant, _house: House, message: RoomCreate | RoomJoin | RoomChange
) -> RoomCreate | RoomJoin | RoomChange:
    code = None if isinstance(message, RoomCreate) else message.room_code
    if grant.room and code != grant.room:
        raise NotLetIn(Refusal.ROOM)
    _refuse_languages(grant, message.preferred_lang)
    return message


def _node(grant: Grant, house: House, message: NodeRegister) -> NodeRegister:
    if message.node_id and not house.may_be(grant, message.node_id):
        raise NotLetIn(Refusal.NODE)
    return msgspec.structs.replace(message, node_id=grant.node_id) if grant.node_id else message


def _refuse_languages(grant: Grant, *named: str | None) -> None:
    allowed = (*grant.languages, _AUTO)
    if grant.languages and any(lang and lang.lower() not in allowed for lang in named):
        raise NotLetIn(Refusal.LANGUAGE)


_Rule = Callable[[Grant, House, Any], Any]
_RULES: Final[dict[type, _Rule]] = {
    SessionInit: _session,
    Utterance: _utterance,
    RoomCreate: _room,
    RoomJoin: _room,
    RoomChange: _room,
    NodeRegister: _node,
}
