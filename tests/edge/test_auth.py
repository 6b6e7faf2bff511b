"""The door of the sockets: a key or token is asked for before the upgrade; wrong ones all get one answer."""

from __future__ import annotations

import logging

import pytest

from edge.frames import text
from lingua_scheduler import log
from lingua_scheduler.clock import SystemClock
from lingua_scheduler.core.keys import (
    KeyChanges,
    KeyFacts,
    KeyKind,
    KeyRecord,
    TokenFacts,
    TokenWish,
    digest_of,
    made_key,
    sealed,
)
from lingua_scheduler.edge.auth import Gatekeeper
from lingua_scheduler.flow.credentials import AuthOptions, Credentials
from lingua_scheduler.log import LogOptions
from lingua_scheduler.wire.close import CloseCode
from logs import captured
from support import wait_until

SECRET = b"s" * 32
INIT = {"type": "session_init", "client_version": "1", "platform": "t", "src_lang": "zh", "tgt_lang": "en"}


class Keyring:
    """Keys in memory that were given out, and the door that knows them."""

    def __init__(self, *, host: str = "0.0.0.0", **options) -> None:
        self.version = 0
        self.records: dict[str, KeyRecord] = {}
        self.tenant_key = self.make("tenant", tenant="acme")
        self.node_key = self.make("node", node_id="node-1")
        self.credentials = Credentials(
            AuthOptions(**options), self, clock=SystemClock(), secret=lambda: SECRET, host=host
        )

    def make(self, kind: str, **members) -> str:
        """Make one more."""
        key_id, key = made_key(KeyKind(kind))
        facts = KeyFacts(id=key_id, kind=KeyKind(kind), digest=digest_of(key), **members)
        self.records[key_id] = KeyRecord(facts)
        self.version += 1
        return key

    async def changes(self, since: str) -> KeyChanges:
        """Tell what is new."""
        records = None if since == str(self.version) else tuple(self.records.values())
        return KeyChanges(str(self.version), SystemClock().wall_ms(), records)

    async def revoke(self, key: str) -> None:
        """Revoke a key and let the instance look."""
        key_id = key.split("_")[2]
        self.records[key_id] = KeyRecord(self.records[key_id].facts, revoked_ms=1)
        self.version += 1
        await self.credentials.refresh()

    def token(self, **wish) -> str:
        """Make a session token."""
        return self.credentials.token(self.tenant_key, "127.0.0.1", TokenWish(**wish))[0]


@pytest.fixture(autouse=True)
def quiet(caplog, capfd):
    """No library may log a warning or print anything, whatever a peer shows."""
    yield
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.fixture
async def ring():
    """Give keys of an instance that anybody can reach."""
    made = Keyring()
    await made.credentials.refresh()
    return made


@pytest.fixture
async def guarded(world, ring):
    """Give an edge that asks for the keys of the ring."""
    world.edge._gate = Gatekeeper(ring.credentials)
    return world


async def status(world, path: str = "/ws/session", **headers: str | None) -> int:
    """Ask for an upgrade and give the answer; a refused connection is ended."""
    client = await world.raw()
    answer = await client.upgrade(path, **headers)
    if answer != 101:
        assert await client.at_end()
    client.end()
    return answer


def bearer(credential: str) -> dict[str, str]:
    """Show it as programs do."""
    return {"Authorization": f"Bearer {credential}"}


def offered(credential: str) -> dict[str, str]:
    """Show it as browsers do."""
    return {"Sec_WebSocket_Protocol": f"lingua, bearer.{credential}"}


# Let in


async def test_a_tenant_key_and_its_tokens_open_sessions(guarded, ring):
    assert await status(guarded, **bearer(ring.tenant_key)) == 101
    assert await status(guarded, **bearer(ring.token())) == 101
    assert await status(guarded, **offered(ring.token())) == 101


async def test_a_node_key_opens_links(guarded, ring):
    assert await status(guarded, "/ws/node", **bearer(ring.node_key)) == 101


async def test_each_door_takes_its_own_keys_only(guarded, ring):
    assert await status(guarded, "/ws/node", **bearer(ring.tenant_key)) == 401
    assert await status(guarded, "/ws/node", **bearer(ring.token())) == 401
    assert await status(guarded, **bearer(ring.node_key)) == 401
    assert await status(guarded, **bearer(ring.make("admin"))) == 401


async def test_a_browser_is_answered_with_the_protocol_and_never_with_its_token(guarded, ring):
    client = await guarded.client(**offered(ring.token()))
    assert "Sec-WebSocket-Protocol: lingua\r\n" in client.head
    assert "bearer" not in client.head.lower()
    plain = await guarded.client(**bearer(ring.token()))
    assert "Sec-WebSocket-Protocol" not in plain.head


async def test_the_protocol_is_answered_where_nobody_is_asked_for_a_key(world):
    client = await world.client(Sec_WebSocket_Protocol="other, lingua")
    assert "Sec-WebSocket-Protocol: lingua\r\n" in client.head
    client = await world.client(Sec_WebSocket_Protocol="other")
    assert "Sec-WebSocket-Protocol" not in client.head


async def test_strangers_are_let_in_on_loopback(world):
    ring = Keyring(host="127.0.0.1")
    await ring.credentials.refresh()
    world.edge._gate = Gatekeeper(ring.credentials)
    assert await status(world) == 101
    assert await status(world, "/ws/node") == 101
    assert await status(world, **bearer("wrong")) == 401


# Not let in


async def test_every_wrong_key_gets_the_same_answer(guarded, ring):
    """Nobody learns from an answer which ids exist, or what is wrong with a key."""
    gone = ring.make("tenant", tenant="acme")
    await ring.revoke(gone)
    ago = TokenFacts(key_id=ring.tenant_key.split("_")[2], tenant="acme", scope="session", until_ms=1)
    last = ring.tenant_key[-1]
    wrong = [
        None,
        gone,
        sealed(SECRET, ago),
        sealed(b"t" * 32, ago),
        ring.tenant_key[:-1] + ("0" if last != "0" else "1"),
        "lk_tenant_0123456789ab_" + "0" * 40,
        ring.node_key,
        "nonsense",
    ]
    answers = set()
    for each in wrong:
        client = await guarded.raw()
        assert await client.upgrade(**(bearer(each) if each else {})) == 401
        rest = await client.reader.read()
        dated = [line for line in client.head.splitlines() if not line.startswith("Date:")]
        answers.add(("\n".join(dated), rest))
    assert len(answers) == 1
    assert "WWW-Authenticate: Bearer" in answers.pop()[0]
    assert not guarded.sessions.peers


async def test_a_token_in_the_address_is_not_read(guarded, ring):
    token = ring.token()
    for query in (f"token={token}", f"access_token={token}", f"Authorization=Bearer%20{token}"):
        assert await status(guarded, f"/ws/session?{query}") == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic {token}"},
        {"Authorization": "{token}"},
        {"Authorization": "Bearer {token} {token}"},
        {"Authorization": "Bearer {token}, Bearer {token}"},
        {"Authorization": "Bearer {token}\u00e9"},
        {"Authorization": "Bearer \u202e{token}"},
        {"Authorization": "Bearer " + "x" * 4000},
        {"Authorization": "Bearer lk_tenant_" + "0" * 4000},
        {"Authorization": "Bearer lt1." + "." * 4000},
        {"Authorization": "Bearer {token}\r\nAuthorization: Bearer {token}"},
        {"Authorization": "Bearer {token}", "Sec_WebSocket_Protocol": "lingua, bearer.{token}"},
        {"Sec_WebSocket_Protocol": "lingua, bearer.{token}, bearer.{token}"},
        {"Sec_WebSocket_Protocol": "bearer.{token}\r\nSec-WebSocket-Protocol: bearer.{token}"},
        {"Sec_WebSocket_Protocol": "lingua, bearer."},
        {"Sec_WebSocket_Protocol": "lingua, Bearer.{token}"},
        {"Sec_WebSocket_Protocol": ",".join(["bearer.x"] * 500)},
    ],
)
async def test_strange_headers_let_nobody_in(guarded, ring, headers):
    token = ring.token()
    said = {name: value.replace("{token}", token) for name, value in headers.items()}
    assert await status(guarded, **said) == 401
    assert not guarded.sessions.peers
    assert await status(guarded, **bearer(token)) == 101


@pytest.mark.parametrize("size", [9000, 40_000])
async def test_headers_that_are_too_long_are_refused_unread(guarded, size):
    client = await guarded.raw()
    assert await client.upgrade(Authorization="Bearer " + "x" * size) in (400, 431)


async def test_a_page_of_elsewhere_is_refused_before_its_token_is_looked_at(guarded, ring):
    assert await status(guarded, Origin="https://evil.example", **offered(ring.token())) == 403


async def test_before_the_keys_are_known_everybody_is_asked_to_come_back(world):
    """I11: fail closed."""
    ring = Keyring()
    world.edge._gate = Gatekeeper(ring.credentials)
    client = await world.raw()
    assert await client.upgrade(**bearer(ring.tenant_key)) == 503
    assert "Retry-After:" in client.head
    assert await status(world) == 401
    await ring.credentials.refresh()
    assert await status(world, **bearer(ring.tenant_key)) == 101


async def test_guessing_is_throttled_and_tells_nothing(world):
    ring = Keyring(failures_per_min=5)
    await ring.credentials.refresh()
    world.edge._gate = Gatekeeper(ring.credentials)
    for _ in range(5):
        assert await status(world, **bearer("lk_tenant_0123456789ab_" + "0" * 40)) == 401
    assert await status(world, **bearer("lk_tenant_0123456789ab_" + "0" * 40)) == 429
    assert await status(world, **bearer(ring.tenant_key)) == 429


async def test_a_tenant_with_enough_connections_is_asked_to_come_back(world):
    ring = Keyring(max_sessions_per_tenant=1)
    await ring.credentials.refresh()
    world.edge._gate = Gatekeeper(ring.credentials)
    first = await world.client(**bearer(ring.tenant_key))
    assert await status(world, **bearer(ring.tenant_key)) == 429
    first.end()
    await wait_until(lambda: not world.edge.connections, description="the first one has left")
    assert await status(world, **bearer(ring.tenant_key)) == 101


# Inside


async def test_the_flow_hears_the_tenant_of_the_key(guarded, ring):
    client = await guarded.client(**offered(ring.token()))
    client.send(text(**INIT))
    [peer] = guarded.sessions.peers
    await wait_until(lambda: peer.messages, description="the message has come")
    assert peer.messages[0].tenant_id == "acme"


async def test_another_tenant_is_closed_with_4503_and_reaches_nobody(guarded, ring):
    client = await guarded.client(**bearer(ring.tenant_key))
    client.send(text(**INIT, tenant_id="other") + text(**INIT))
    assert await client.close_code() == CloseCode.FORBIDDEN
    [peer] = guarded.sessions.peers
    assert peer.messages == []


async def test_a_revoked_key_closes_its_connections_with_4500_and_no_others(guarded, ring):
    other = ring.make("tenant", tenant="other")
    await ring.credentials.refresh()
    hit = [await guarded.client(**bearer(ring.tenant_key)), await guarded.client(**offered(ring.token()))]
    spared = [
        await guarded.client(**bearer(other)),
        await guarded.client("/ws/node", **bearer(ring.node_key)),
    ]
    await ring.revoke(ring.tenant_key)
    assert [await client.close_code() for client in hit] == [CloseCode.UNAUTHORISED] * 2
    for client in spared:
        assert await client.is_open()


async def test_nothing_is_remembered_of_connections_that_ended(guarded, ring):
    for _ in range(3):
        await status(guarded, **bearer(ring.tenant_key))
    await wait_until(lambda: not guarded.edge.connections, description="all have left")
    assert not ring.credentials._inside
    assert not ring.credentials._present


# Logs


async def test_no_key_or_token_is_ever_logged(guarded, ring):
    """A canary: everything that is shown, right and wrong, at the lowest level of all loggers."""
    shown = [ring.tenant_key, ring.node_key, ring.token(), "canary-nonsense", ring.token()[:-1] + "!"]
    with captured(LogOptions(level="debug", format="json")) as written:
        for each in shown:
            for path in ("/ws/session", f"/ws/node?token={each}"):
                await status(guarded, path, **bearer(each))
                await status(guarded, path, **offered(each))
                await status(guarded, path, Authorization=each + "\u00e9" * 9000)
        await ring.revoke(ring.tenant_key)
        log.get_logger("canary").error("the last line")
    lines = written.text
    assert "the last line" in lines
    for each in shown:
        assert each not in lines
        assert each.rpartition("_")[2][:16] not in lines
