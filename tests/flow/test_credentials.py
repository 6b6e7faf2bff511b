"""Who is let in: by which key or token, for what, until when, and what happens when that ends."""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
import pytest

from lingua_scheduler.clock import VirtualClock
from lingua_scheduler.core.keys import (
    KeyChanges,
    KeyFacts,
    KeyKind,
    KeyRecord,
    NotLetIn,
    Refusal,
    TokenFacts,
    TokenWish,
    digest_of,
    made_key,
    sealed,
)
from lingua_scheduler.errors import DependencyDown
from lingua_scheduler.flow.credentials import AuthOptions, Credentials, Purpose, is_loopback
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.codec import decode_client, decode_node

SECRET = b"s" * 32
REDIS_AHEAD_MS = 7_000_000  # its clock is nobody else's
ANNA, BERT = "10.0.0.1", "10.0.0.2"


class Ledger:
    """Keys in memory, with Redis' clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.records: dict[str, KeyRecord] = {}
        self.version = 0
        self.away = False

    async def changes(self, since: str) -> KeyChanges:
        """Tell the time and what is new."""
        if self.away:
            raise DependencyDown("away")
        records = None if since == str(self.version) else tuple(self.records.values())
        return KeyChanges(str(self.version), self.now_ms, records)

    @property
    def now_ms(self) -> int:
        """Redis' time."""
        return self.clock.wall_ms() + REDIS_AHEAD_MS


class House:
    """Credentials under test."""

    def __init__(self, *, host: str = "0.0.0.0", **options) -> None:
        self.clock = VirtualClock()
        self.ledger = Ledger(self.clock)
        self.counted: Counter[tuple[str, str]] = Counter()
        self.credentials = Credentials(
            AuthOptions(**options),
            self.ledger,
            clock=self.clock,
            secret=lambda: SECRET,
            host=host,
            count=lambda purpose, why: self.counted.update([(purpose, why)]),
        )

    def key(self, kind: str, *, ttl_s: float = 0, **members) -> str:
        """Make a key known in Redis, where this instance has yet to look."""
        key_id, key = made_key(KeyKind(kind))
        facts = KeyFacts(id=key_id, kind=KeyKind(kind), digest=digest_of(key), **members)
        until_ms = self.ledger.now_ms + round(ttl_s * 1000) if ttl_s else 0
        self.ledger.records[key_id] = KeyRecord(facts, self.ledger.now_ms, until_ms)
        self.ledger.version += 1
        return key

    def revoke(self, key: str) -> None:
        """Revoke a key in Redis."""
        key_id = key.split("_")[2]
        before = self.ledger.records[key_id]
        self.ledger.records[key_id] = KeyRecord(before.facts, before.created_ms, before.expires_ms, 1)
        self.ledger.version += 1

    def look(self) -> None:
        """Let the instance look at Redis."""
        asyncio.run(self.credentials.refresh())

    def why(
        self, shown: str | None, purpose: Purpose = Purpose.SESSION, remote: str = ANNA
    ) -> Refusal | None:
        """Tell why somebody is not let in; None: they are."""
        try:
            self.credentials.let_in(purpose, shown, remote)
        except NotLetIn as refusal:
            return refusal.why
        return None

    def inside(self, shown: str | None, purpose: Purpose = Purpose.SESSION) -> Visit:
        """Let somebody in and keep them."""
        return Visit(self.credentials.let_in(purpose, shown, ANNA))


class Visit:
    """A connection that was let in."""

    def __init__(self, admitted) -> None:
        self.admitted = admitted.__enter__()
        self.closed: list[int] = []
        admitted.opened(lambda code, _reason: self.closed.append(code))

    def leave(self) -> None:
        """Go."""
        self.admitted.__exit__()


def session_init(**members):
    """Word what a client says first."""
    basic = {
        "type": "session_init",
        "client_version": "1",
        "platform": "t",
        "src_lang": "zh",
        "tgt_lang": "en",
    }
    return decode_client(msgspec.json.encode({**basic, **members}))


@pytest.fixture
def house():
    """Give an instance that anybody can reach, and that has looked at Redis."""
    made = House()
    made.look()
    return made


# Keys


@pytest.mark.parametrize(
    ("kind", "purposes"),
    [("tenant", {"session", "token"}), ("node", {"node"}), ("admin", {"admin"})],
)
def test_each_kind_of_key_opens_its_own_doors_only(house, kind, purposes):
    key = house.key(kind, tenant="acme" if kind == "tenant" else "")
    house.look()
    assert {each.value for each in Purpose if house.why(key, each) is None} == purposes
    assert {house.why(key, each) for each in Purpose} == {None, Refusal.KIND}


def test_a_key_is_unknown_until_the_copy_has_it_and_needs_no_redis_afterwards(house):
    key = house.key("tenant", tenant="acme")
    assert house.why(key) is Refusal.UNKNOWN
    house.look()
    house.ledger.away = True
    assert house.why(key) is None


def test_wrong_expired_and_revoked_keys_are_told_apart_for_operators_only(house):
    key, short = house.key("tenant", tenant="acme"), house.key("tenant", tenant="acme", ttl_s=60)
    house.look()
    assert house.why(key[:-1] + ("0" if key[-1] != "0" else "1")) is Refusal.WRONG
    assert house.why("lk_tenant_0123456789ab_" + "0" * 40) is Refusal.UNKNOWN
    assert house.why("lk_tenant_0123456789ab") is Refusal.MALFORMED
    assert house.why(short) is None
    house.clock.advance(60)
    assert house.why(short) is Refusal.EXPIRED
    house.revoke(key)
    assert house.why(key) is None
    house.look()
    assert house.why(key) is Refusal.REVOKED
    assert house.counted["session", "revoked"] == 1


def test_before_the_copy_was_ever_loaded_nobody_with_a_key_of_redis_is_let_in():
    """I11: when it cannot be decided, the answer is no."""
    house = House()
    key = house.key("tenant", tenant="acme")
    house.ledger.away = True
    with pytest.raises(DependencyDown):
        house.look()
    assert house.why(key) is Refusal.UNREADY
    assert house.why(token(key)) is Refusal.UNREADY
    assert house.why(None) is Refusal.MISSING
    assert not house.credentials.is_admin(key, ANNA)


def test_keys_of_the_configuration_need_no_redis():
    key_id, key = made_key(KeyKind.TENANT)
    facts = KeyFacts(id=key_id, kind=KeyKind.TENANT, digest=digest_of(key), tenant="acme")
    house = House(keys=(facts,))
    assert house.why(key) is None
    house.look()
    assert house.why(key) is None, "Redis does not know it, and need not"


def test_two_configured_keys_have_two_ids():
    facts = KeyFacts(id="0123456789ab", kind=KeyKind.ADMIN, digest="sha256:" + "0" * 64)
    with pytest.raises(ValueError, match="the same id"):
        AuthOptions(keys=(facts, facts))


# Strangers


@pytest.mark.parametrize(
    ("host", "options", "sessions", "nodes"),
    [
        ("127.0.0.1", {}, True, True),
        ("::1", {}, True, True),
        ("localhost", {}, True, True),
        ("0.0.0.0", {}, False, False),
        ("", {}, False, False),
        ("::", {}, False, False),
        ("scheduler.example", {}, False, False),
        ("0.0.0.0", {"insecure": True}, True, True),
        ("0.0.0.0", {"allow_anonymous_sessions": "always"}, True, False),
        ("127.0.0.1", {"allow_anonymous_nodes": "never"}, True, False),
        ("0.0.0.0", {"insecure": True, "allow_anonymous_nodes": "never"}, True, False),
    ],
)
def test_strangers_are_let_in_where_nobody_else_can_come_or_the_operator_says_so(
    host, options, sessions, nodes
):
    house = House(host=host, **options)
    assert (house.why(None) is None) is sessions
    assert (house.why(None, Purpose.NODE) is None) is nodes
    assert house.why(None, Purpose.ADMIN) is Refusal.MISSING
    assert house.why(None, Purpose.TOKEN) is Refusal.MISSING


def test_a_wrong_key_is_refused_even_where_strangers_are_let_in():
    house = House(host="127.0.0.1")
    house.look()
    assert house.why("nonsense") is Refusal.MALFORMED
    assert house.why("") is Refusal.MALFORMED


def test_addresses_of_this_machine_are_known():
    assert all(map(is_loopback, ("127.0.0.1", "127.8.9.10", "::1", "localhost")))
    assert not any(
        map(is_loopback, ("0.0.0.0", "::", "", "10.0.0.1", "localhost.example", "127.0.0.1.example"))
    )


# Tokens


def token(key: str, **members) -> str:
    """Seal a token of a key without asking anybody."""
    until_ms = VirtualClock().wall_ms() + REDIS_AHEAD_MS + 60_000
    basic = {"key_id": key.split("_")[2], "tenant": "acme", "scope": "session", "until_ms": until_ms}
    return sealed(SECRET, TokenFacts(**{**basic, **members}))


def test_a_token_opens_sessions_for_its_tenant_until_it_expires(house):
    key = house.key("tenant", tenant="acme")
    house.look()
    made, ttl_s = house.credentials.token(key, ANNA, TokenWish(ttl_s=30))
    assert ttl_s == 30
    house.ledger.away = True
    assert house.credentials.let_in(Purpose.SESSION, made, BERT).grant.tenant == "acme"
    house.clock.advance(29.9)
    assert house.why(made) is None
    house.clock.advance(0.1)
    assert house.why(made) is Refusal.EXPIRED


def test_a_token_lasts_as_configured_when_nobody_says_how_long():
    house = House(token_default_s=5)
    key = house.key("tenant", tenant="acme")
    house.look()
    assert house.credentials.token(key, ANNA, TokenWish())[1] == 5


def test_a_token_opens_nothing_but_sessions(house):
    key = house.key("tenant", tenant="acme")
    house.look()
    for purpose in (Purpose.NODE, Purpose.ADMIN, Purpose.TOKEN):
        assert house.why(token(key), purpose) is Refusal.MALFORMED
    assert house.why(token(key, scope="other")) is Refusal.KIND


def test_a_token_counts_no_longer_than_its_key(house):
    key, other = house.key("tenant", tenant="acme"), house.key("node")
    house.look()
    assert house.why(token(key)) is None
    assert house.why(token(key, tenant="other")) is Refusal.WRONG
    assert house.why(token(other)) is Refusal.WRONG, "no key of a tenant"
    assert house.why(token(key, key_id="0123456789ab")) is Refusal.UNKNOWN
    assert house.why(token(key)[:-1]) is Refusal.WRONG
    house.revoke(key)
    house.look()
    assert house.why(token(key)) is Refusal.REVOKED


@pytest.mark.parametrize("kind", ["node", "admin"])
def test_only_tenants_make_tokens(house, kind):
    key = house.key(kind)
    house.look()
    with pytest.raises(NotLetIn):
        house.credentials.token(key, ANNA, TokenWish())


# Too many


def test_whoever_tries_too_many_keys_is_not_heard_and_others_are():
    house = House(failures_per_min=3)
    key = house.key("tenant", tenant="acme")
    house.look()
    for _ in range(3):
        assert house.why("lk_tenant_0123456789ab_" + "0" * 40) is Refusal.UNKNOWN
    assert house.why(key) is Refusal.THROTTLED
    assert house.why(key, remote=BERT) is None
    house.clock.advance(60)
    assert house.why(key) is None


def test_keys_that_were_right_once_are_no_guesses(house):
    key = house.key("tenant", tenant="acme", ttl_s=1)
    house.look()
    house.clock.advance(1)
    for _ in range(100):
        assert house.why(key) is Refusal.EXPIRED


@pytest.mark.parametrize(
    ("options", "members"), [({"max_sessions_per_tenant": 2}, {}), ({}, {"max_sessions": 2})]
)
def test_a_tenant_has_only_so_many_connections(options, members):
    house = House(**options)
    key = house.key("tenant", tenant="acme", **members)
    other = house.key("tenant", tenant="other", **members)
    house.look()
    first, _second = house.inside(key), house.inside(token(key))
    assert house.why(key) is Refusal.CROWDED
    assert house.why(token(key)) is Refusal.CROWDED
    assert house.why(other) is None
    house.credentials.token(key, ANNA, TokenWish())
    first.leave()
    first.leave()
    assert house.why(key) is None
    house.inside(key)
    assert house.why(key) is Refusal.CROWDED


# Revocation


def test_revoking_closes_what_the_key_and_its_tokens_opened_and_nothing_else(house):
    key, other = house.key("tenant", tenant="acme"), house.key("tenant", tenant="acme")
    house.look()
    hit = [house.inside(key), house.inside(token(key))]
    gone, spared = house.inside(key), house.inside(other)
    gone.leave()
    house.revoke(key)
    house.look()
    assert [visit.closed for visit in hit] == [[CloseCode.UNAUTHORISED]] * 2
    assert not gone.closed
    assert not spared.closed


def test_a_connection_that_is_being_opened_when_its_key_is_revoked_is_closed_once_it_is_open(house):
    key = house.key("node")
    house.look()
    admitted = house.credentials.let_in(Purpose.NODE, key, ANNA)
    closed = []
    with admitted:
        house.revoke(key)
        house.look()
        admitted.opened(lambda code, _reason: closed.append(code))
    assert closed == [CloseCode.UNAUTHORISED]


def test_nobody_is_shown_out_because_redis_lost_its_keys_but_nobody_new_is_let_in(house):
    key = house.key("tenant", tenant="acme")
    house.look()
    visit = house.inside(key)
    house.ledger.records.clear()
    house.ledger.version = 0
    house.look()
    assert not visit.closed
    assert house.why(key) is Refusal.UNKNOWN


# Claims


def test_the_tenant_of_the_key_is_the_tenant_of_the_session(house):
    key = house.key("tenant", tenant="acme")
    house.look()
    visit = house.inside(key)
    assert visit.admitted.checked(session_init()).tenant_id == "acme"
    assert visit.admitted.checked(session_init(tenant_id="acme")).tenant_id == "acme"
    assert not visit.closed
    assert visit.admitted.checked(session_init(tenant_id="other")) is None
    assert visit.closed == [CloseCode.FORBIDDEN]
    assert house.counted["session", "tenant"] == 1


def test_a_stranger_cannot_speak_for_a_tenant_that_has_keys():
    house = House(host="127.0.0.1")
    key = house.key("tenant", tenant="acme")
    house.look()
    stranger = house.inside(None)
    assert stranger.admitted.checked(session_init(tenant_id="free")).tenant_id == "free"
    assert stranger.admitted.checked(session_init()).tenant_id is None
    house.revoke(key)
    house.look()
    assert stranger.admitted.checked(session_init(tenant_id="acme")) is None
    assert stranger.closed == [CloseCode.FORBIDDEN]


@pytest.mark.parametrize(
    ("members", "allowed"),
    [
        ({}, True),
        ({"src_lang": "ZH", "tgt_lang": "EN"}, True),
        ({"src_lang": "auto", "lang_a": "zh", "lang_b": "en"}, True),
        ({"src_lang": "auto", "auto_langs": ["zh", "de"]}, False),
        ({"tgt_lang": "de"}, False),
        ({"lang_b": "de"}, False),
    ],
)
def test_a_token_may_be_for_some_languages_only(house, members, allowed):
    key = house.key("tenant", tenant="acme")
    house.look()
    visit = house.inside(token(key, languages=("zh", "en")))
    assert (visit.admitted.checked(session_init(**members)) is not None) is allowed
    assert bool(visit.closed) is not allowed


@pytest.mark.parametrize(
    ("message", "allowed"),
    [
        (b'{"type":"room_join","room_code":"123456"}', True),
        (b'{"type":"room_join","room_code":"654321"}', False),
        (b'{"type":"room_create","client_ts":1}', False),
    ],
)
def test_a_token_may_be_for_one_room_only(house, message, allowed):
    key = house.key("tenant", tenant="acme")
    house.look()
    bound, free = house.inside(token(key, room="123456")), house.inside(key)
    assert (bound.admitted.checked(decode_client(message)) is not None) is allowed
    assert free.admitted.checked(decode_client(message)) is not None


REGISTER = (
    b'{"type":"node_register","version":"2.0.0","capability_schema_version":"2.0","platform":"linux",'
    b'"hardware":{"cpu_cores":8,"memory_gb":32},"installed_models":[],"capability_by_type":[],"features_supported":{},'
    b'"accept_public_jobs":true%s}'
)


def test_a_node_gets_the_id_its_key_is_bound_to_and_may_have_no_other(house):
    key = house.key("node", node_id="node-1")
    house.look()
    visit = house.inside(key, Purpose.NODE)
    assert visit.admitted.checked(decode_node(REGISTER % b"")).node_id == "node-1"
    assert visit.admitted.checked(decode_node(REGISTER % b',"node_id":"node-1"')).node_id == "node-1"
    assert visit.admitted.checked(decode_node(REGISTER % b',"node_id":"node-2"')) is None
    assert visit.closed == [CloseCode.FORBIDDEN]
    assert house.counted["node", "node"] == 1


def test_an_id_that_a_key_is_bound_to_is_for_no_other_node(house):
    house.key("node", node_id="node-1")
    loose = house.key("node")
    house.look()
    visit = house.inside(loose, Purpose.NODE)
    assert visit.admitted.checked(decode_node(REGISTER % b"")).node_id is None
    assert visit.admitted.checked(decode_node(REGISTER % b',"node_id":"node-2"')).node_id == "node-2"
    assert visit.admitted.checked(decode_node(REGISTER % b',"node_id":"node-1"')) is None


def test_other_messages_pass_as_they_are(house):
    key = house.key("tenant", tenant="acme")
    house.look()
    message = decode_client(b'{"type":"client_heartbeat","session_id":"s-1","timestamp":1}')
    assert house.inside(key).admitted.checked(message) is message
