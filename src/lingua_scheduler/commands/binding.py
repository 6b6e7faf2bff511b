"""Where an instance may listen: beyond this machine only with keys, or when somebody says `--insecure`."""

from __future__ import annotations

import asyncio

from lingua_scheduler.config import Config
from lingua_scheduler.errors import ConfigError
from lingua_scheduler.flow.credentials import is_loopback
from lingua_scheduler.log import printable
from lingua_scheduler.store.auth_keys import AuthKeyStore
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts


def refuse_open_door(config: Config) -> None:
    """ConfigError when strangers could reach an instance that knows no key."""
    auth, host = config.auth, config.server.host
    if is_loopback(host) or auth.insecure or auth.keys or config.admin.token:
        return
    if config.redis.url and asyncio.run(_has_keys(config)):
        return
    raise ConfigError(
        f"server.host: {printable(host) or 'every address'} can be reached from elsewhere, and there is no"
        " key: make one with `lingua keys create`, or say --insecure"
    )


async def _has_keys(config: Config) -> bool:
    connection = Connection(config.redis)
    try:
        records = await AuthKeyStore(Scripts(connection), Keys(config.redis.key_prefix)).all()
        return any(not record.revoked_ms for record in records)
    finally:
        await connection.close()
