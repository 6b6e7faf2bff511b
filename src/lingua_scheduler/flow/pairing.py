"""Pairing: a node asks for a code, a person types it, and a session belongs to that node."""

from __future__ import annotations

from dataclasses import dataclass

from lingua_scheduler.aio import Tasks
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.hints import hint
from lingua_scheduler.core.model import NodeId
from lingua_scheduler.core.pairing import PairingOptions, Quota, is_code, neighbourhood, new_code
from lingua_scheduler.core.ports import PairingLedger, Sink
from lingua_scheduler.errors import DependencyDown, RateExceeded, StoreError
from lingua_scheduler.log import get_logger
from lingua_scheduler.wire.common import ErrorMessage
from lingua_scheduler.wire.node import PairingCode

_log = get_logger(__name__)

_MINUTE_S = 60.0
_TRIES = 20  # codes that may turn out to be taken before a node is told to ask again

INVALID_CODE = "INVALID_PAIRING_CODE"
_WRONG = "the pairing code is not known, has expired, or too many wrong ones were tried lately"
_UNCHECKED = "the pairing code could not be checked now, and may be used up: ask for a new one"


@dataclass(frozen=True, slots=True)
class Redeemed:
    """What became of a code: it led to a node, to nobody, or could not be checked."""

    node_id: NodeId | None = None
    checked: bool = True

    @property
    def wrong(self) -> bool:
        """It was a guess that failed."""
        return self.checked and self.node_id is None

    def complaint(self, *, lang: str, trace_id: str) -> ErrorMessage | None:
        """Word what the client must know, the same for every wrong code; None when all is well."""
        if self.node_id is not None:
            return None
        advice = hint(INVALID_CODE if self.checked else DependencyDown.code, lang)
        text = _WRONG if self.checked else _UNCHECKED
        return ErrorMessage(code=INVALID_CODE, message=text, hint=advice, trace_id=trace_id)


class Pairing:
    """Gives codes to nodes and takes them from clients; each works once, on any instance."""

    def __init__(self, ledger: PairingLedger, options: PairingOptions, clock: Clock, tasks: Tasks) -> None:
        self._ledger = ledger
        self.options = options
        self._clock = clock
        self._tasks = tasks
        self._codes = Quota(options.codes_per_minute, _MINUTE_S)
        self._guesses = Quota(options.guesses_per_minute, _MINUTE_S)

    def request(self, node_id: NodeId, sink: Sink) -> None:
        """Send a node its code as soon as there is one; RateExceeded when it wants too many."""
        if not self._codes.take(node_id, self._clock.now()):
            raise RateExceeded("too many pairing codes were asked for")
        self._tasks.start(self._issue(node_id, sink), name=f"pairing code {node_id}")

    async def redeem(self, code: str, address: str) -> Redeemed:
        """Find the node of a code and use the code up, unless its sender has guessed too often."""
        guesser = neighbourhood(address)
        if not self._guesses.take(guesser, self._clock.now()) or not is_code(code):
            return Redeemed()
        try:
            redeemed = Redeemed(await self._ledger.redeem(code))
        except StoreError as error:
            _log.info("pairing_not_checked", reason=str(error))
            redeemed = Redeemed(checked=False)
        if not redeemed.wrong:
            self._guesses.give_back(guesser)
        return redeemed

    async def _issue(self, node_id: NodeId, sink: Sink) -> None:
        try:
            sink.post(await self._fresh(node_id))
        except StoreError as error:
            _log.info("pairing_code_not_made", node=node_id, reason=str(error))
            sink.post(ErrorMessage(code=error.code, message="no pairing code can be given now: ask again"))

    async def _fresh(self, node_id: NodeId) -> PairingCode:
        life_s = self.options.code_life_s
        for _ in range(_TRIES):
            code, expires_at_ms = new_code(), self._clock.wall_ms() + life_s * 1000
            if await self._ledger.offer(code, node_id, life_s=life_s):
                return PairingCode(code=code, expires_at_ms=expires_at_ms)
        raise StoreError("every pairing code that was tried is taken")
