"""Pairing codes in Redis: each in a slot of its own, used once, by whichever instance asks first."""

from __future__ import annotations

from lingua_scheduler.core.model import NodeId
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.keys import Keys


class PairingStore:
    """Implements `core.ports.PairingLedger`."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys

    async def offer(self, code: str, node_id: NodeId, *, life_s: int) -> bool:
        """Make a code lead to a node; False when it leads to one already."""
        key = self._keys.pairing(code)
        return await self._connection.call("SET", key, node_id, "NX", "EX", life_s) is not None

    async def redeem(self, code: str) -> NodeId | None:
        """Use a code up; None when it leads nowhere."""
        node_id = await self._connection.call("GETDEL", self._keys.pairing(code))
        return None if node_id is None else NodeId(node_id.decode())
