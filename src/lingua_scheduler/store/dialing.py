"""How a socket to Redis is opened: at which address, with which login, and not without a first answer."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from redis.asyncio.connection import AbstractConnection, UnixDomainSocketConnection
from redis.asyncio.connection import Connection as TcpConnection
from redis.exceptions import AuthenticationError, AuthorizationError, RedisError, ResponseError

from lingua_scheduler.errors import ConfigError
from lingua_scheduler.log import get_logger
from lingua_scheduler.store.replies import shortened

_SECRET_BYTES = 65536

_log = get_logger(__name__)

Address = Mapping[str, Any]
"""What the library needs to know to connect to one server."""


class LoginRefused(RedisError):
    """The server does not let us in, or there is no secret to show; the text is fit to be shown."""


class Login:
    """User and secret of every connection; the secret is read anew for each, so it may change at any time."""

    def __init__(self, username: str, password_file: str) -> None:
        self._username = username
        self._password_file = Path(password_file) if password_file else None
        self._refusals: dict[str, str] = {}  # by server, for as long as it refuses us
        try:
            self.words()
        except LoginRefused as refusal:
            raise ConfigError(str(refusal)) from None

    def words(self) -> dict[str, str]:
        """Give the login as it is now; LoginRefused when the secret cannot be used."""
        words = {"username": self._username} if self._username else {}
        return words if self._password_file is None else {**words, "password": _secret(self._password_file)}

    def refused(self, server: str, reason: str) -> None:
        """Note that a server refused the login; it is logged when it is news."""
        if self._refusals.get(server) != reason:
            self._refusals[server] = reason
            _log.error("redis_refused", server=server, reason=reason)

    def accepted(self, server: str) -> None:
        """Note that a server let us in."""
        self._refusals.pop(server, None)


def _secret(path: Path) -> str:
    try:
        with path.open("rb") as source:
            exposed = path.stat().st_mode & stat.S_IROTH
            secret = source.read(_SECRET_BYTES).decode().rstrip("\r\n")
    except OSError as error:
        raise LoginRefused(f"redis.password_file: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise LoginRefused("redis.password_file: is not UTF-8") from None
    if exposed:
        raise LoginRefused("redis.password_file: everybody can read this file: chmod 600 it")
    if not secret:
        raise LoginRefused("redis.password_file: is empty")
    return secret


class Dialer:
    """Opens sockets to one server; of several addresses, to the first one where a master is."""

    def __init__(
        self, addresses: Sequence[Address], login: Login, *, timeout_s: float, any_role: bool = False
    ) -> None:
        self._addresses = addresses
        self._login = login
        self._timeout_s = timeout_s / len(addresses)
        self._any_role = any_role  # of a cluster, replicas too can say where the slots are
        self._current = 0

    async def dial(self) -> AbstractConnection:
        """Connect, log in and wait for the first answer; every address is tried once."""
        failure: Exception | None = None
        for _ in self._addresses:
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await self._open(self._addresses[self._current])
            except TimeoutError:
                failure = ConnectionError("connecting took too long")
            except (RedisError, OSError) as error:
                failure = error
            self.move_on()
        raise failure or ConnectionError("no address")

    def move_on(self) -> None:
        """Begin with the next address next time: the current one is of no use."""
        self._current = (self._current + 1) % len(self._addresses)

    async def _open(self, address: Address) -> AbstractConnection:
        server = _name(address)
        try:
            connection = _made({**address, **self._login.words()})
        except LoginRefused as refusal:
            self._login.refused(server, str(refusal))
            raise
        try:
            await self._greet(connection, server)
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    async def _greet(self, connection: AbstractConnection, server: str) -> None:
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
            role = await self._role(connection)
        except (AuthenticationError, AuthorizationError, ResponseError) as error:
            reason = f"Redis refuses the login (user, password): {shortened(error)}"
            self._login.refused(server, reason)
            raise LoginRefused(reason) from None
        self._login.accepted(server)
        if role != "master":
            raise ConnectionError(f"{server} is a {role} and no master")

    async def _role(self, connection: AbstractConnection) -> str:
        """Have the server answer something; a server that may not name its role passes for a master."""
        await connection.send_command("PING" if self._any_role else "ROLE", check_health=False)
        try:
            answer = await connection.read_response()
        except ResponseError:
            return "master"
        return "master" if self._any_role else str(answer[0], "ascii", "replace")


def _name(address: Address) -> str:
    if "path" in address:
        return str(address["path"])
    return f"{address.get('host', 'localhost')}:{address.get('port', 6379)}"


def _made(address: Address) -> AbstractConnection:
    kind = address.get("connection_class", UnixDomainSocketConnection if "path" in address else TcpConnection)
    known = {name: value for name, value in address.items() if name != "connection_class"}
    # Plain RESP2 replies; no deadline of its own, the channel has one; a bare connection never retries.
    ours = {"socket_timeout": None, "protocol": 2, "driver_info": None, "decode_responses": False}
    made: AbstractConnection = kind(**{**known, **ours})
    return made
