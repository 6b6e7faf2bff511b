"""Everything an instance keeps in Redis, on one connection."""

from __future__ import annotations

from lingua_scheduler.core.model import InstanceId
from lingua_scheduler.core.rooms import RoomOptions
from lingua_scheduler.core.transcript import TranscriptOptions
from lingua_scheduler.errors import CorruptValue, StoreError
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.store.auth_keys import AuthKeyStore
from lingua_scheduler.store.connection import Connection, StoreOptions
from lingua_scheduler.store.inbox import InboxStore
from lingua_scheduler.store.instances import CompanyOptions, InstanceStore
from lingua_scheduler.store.jobs import JobStore, LifeOptions
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.nodes import NodeStore
from lingua_scheduler.store.notices import NoticeStore
from lingua_scheduler.store.pairing import PairingStore
from lingua_scheduler.store.rooms import RoomStore
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.sessions import SessionStore
from lingua_scheduler.store.transcripts import TranscriptStore

_log = get_logger(__name__)


class Stores:
    """The ledgers on one connection; implements `core.ports.Ledgers`."""

    def __init__(
        self,
        options: StoreOptions,
        lives: LifeOptions,
        company: CompanyOptions,
        rooms: RoomOptions,
        *,
        owner: InstanceId,
        metrics: Metrics,
        transcript: TranscriptOptions = TranscriptOptions(),  # noqa: B008 it is frozen
    ) -> None:
        self._metrics = metrics
        self._was_up = False
        self.connection = Connection(options, on_state=self._state_changed)
        scripts = Scripts(self.connection, meter=self._measure)
        keys = Keys(options.key_prefix)
        unreadable = metrics.store_corrupt_value_total.inc
        self.nodes = NodeStore(self.connection, scripts, keys, unreadable)
        self.jobs = JobStore(self.connection, scripts, keys, owner, lives)
        self.sessions = SessionStore(
            self.connection, scripts, keys, lives, transcript_keep_s=transcript.keep_s
        )
        self.instances = InstanceStore(scripts, keys, company)
        self.inbox = InboxStore(self.connection, scripts, keys, owner, company)
        self.rooms = RoomStore(scripts, keys, rooms)
        self.transcripts = TranscriptStore(self.connection, scripts, keys, transcript, lives)
        self.pairing = PairingStore(self.connection, keys)
        self.notices = NoticeStore(self.connection, keys)
        self.auth_keys = AuthKeyStore(scripts, keys, unreadable)

    @property
    def up(self) -> bool:
        """The last call reached Redis."""
        return self.connection.up

    def _measure(self, script: str, seconds: float, failure: StoreError | None) -> None:
        self._metrics.store_call_total.inc(script, "ok" if failure is None else "err")
        self._metrics.store_call_seconds.observe(seconds)
        if isinstance(failure, CorruptValue):
            self._metrics.store_corrupt_value_total.inc()

    def _state_changed(self, up: bool) -> None:  # noqa: FBT001 the connection's callback
        if up and self._was_up:
            self._metrics.store_reconnect_total.inc()
        self._was_up = self._was_up or up
        (_log.info if up else _log.warning)("redis_reached" if up else "redis_lost")
