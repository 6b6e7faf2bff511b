"""`lingua keys`: a key is shown once, listed without itself, and revoked for good."""

from __future__ import annotations

import json
import re
import tomllib

import msgspec
import pytest

from lingua_scheduler.commands.binding import refuse_open_door
from lingua_scheduler.commands.keys import KeysRequest, keys
from lingua_scheduler.commands.token_file import read_token
from lingua_scheduler.config import Config, load
from lingua_scheduler.core.keys import digest_of, key_id_of
from lingua_scheduler.errors import ConfigError, LinguaError

KEY = re.compile(r"lk_(?:tenant|node|admin)_[0-9a-f]{12}_[0-9a-f]{40}")


@pytest.fixture
def config(store_options):
    """Give a configuration that leads to the test's Redis."""
    return msgspec.structs.replace(Config(), redis=store_options)


@pytest.fixture
def act(config, capsys):
    """Give the command; it returns what was printed."""

    def run(what: str, key_id: str | None = None, **members) -> str:
        assert keys(config, KeysRequest(what, key_id, **members)) == 0
        return capsys.readouterr().out

    return run


def test_a_key_is_shown_once_and_listed_without_itself(act):
    assert act("list") == "no keys\n"
    out = act("create", kind="tenant", tenant="acme", label="web", max_sessions=3, ttl_days=1)
    [key] = KEY.findall(out)
    head, row = act("list").splitlines()
    assert head.split() == ["ID", "KIND", "FOR", "CREATED", "EXPIRES", "STATE", "LABEL"]
    assert row.split()[:3] == [key_id_of(key), "tenant", "acme"]
    assert row.split()[5:] == ["good", "web"]
    for shown in (act("list"), act("list", as_json=True)):
        assert not KEY.search(shown)
        assert key.rpartition("_")[2] not in shown
        assert "sha256" not in shown


def test_json_is_for_programs(act):
    made = json.loads(act("create", kind="node", node_id="node-1", as_json=True))
    assert key_id_of(made["key"]) == made["id"]
    [listed] = json.loads(act("list", as_json=True))
    assert (listed["id"], listed["kind"], listed["node_id"]) == (made["id"], "node", "node-1")
    assert (listed["expires"], listed["revoked"]) == (None, None)
    assert json.loads(act("revoke", made["id"], as_json=True)) == {"revoked": made["id"]}
    [listed] = json.loads(act("list", as_json=True))
    assert listed["revoked"]


def test_a_key_is_revoked_by_its_id(act):
    key = act("create", kind="admin").splitlines()[0]
    key_id = key_id_of(key)
    assert act("revoke", key_id).startswith(f"revoked {key_id}")
    assert "revoked 2" in act("list")
    with pytest.raises(LinguaError, match="no key 0123456789ab in Redis"):
        act("revoke", "0123456789ab")


def test_a_key_for_a_configuration_file_needs_no_redis_and_is_read_back(capsys, tmp_path):
    request = KeysRequest("create", kind="tenant", tenant='ac"me', label="a = b", store=False)
    assert keys(Config(), request) == 0
    out = capsys.readouterr().out
    [key] = KEY.findall(out)
    [said] = tomllib.loads(out)["auth"]["keys"]
    assert said["digest"] == digest_of(key)
    file = tmp_path / "lingua.toml"
    file.write_text(out, encoding="utf-8")
    [facts] = load(file, environ={}).config.auth.keys
    assert (facts.id, facts.tenant, facts.label) == (key_id_of(key), 'ac"me', "a = b")


@pytest.mark.parametrize(
    ("members", "complaint"),
    [
        ({"what": "create"}, "keys create: --kind"),
        ({"what": "create", "kind": "tenant"}, "a tenant key names its tenant"),
        ({"what": "create", "kind": "admin", "tenant": "t"}, "a tenant key names its tenant"),
        ({"what": "create", "kind": "admin", "node_id": "n"}, "only a node key"),
        ({"what": "create", "kind": "admin", "label": "x" * 129}, "keys create: expected str of length"),
        ({"what": "create", "kind": "admin", "max_sessions": -1}, "keys create: expected int"),
        ({"what": "create", "kind": "admin", "ttl_days": 0}, "--ttl-days"),
        ({"what": "create", "kind": "admin", "ttl_days": float("nan")}, "--ttl-days"),
        ({"what": "create", "kind": "admin", "ttl_days": 1, "store": False}, "does not expire"),
        ({"what": "create", "kind": "admin", "key_id": "x"}, "takes no id"),
        ({"what": "list", "key_id": "x"}, "takes no id"),
        ({"what": "revoke"}, "takes an id"),
        ({"what": "list", "store": False}, "--no-store is for"),
        ({"what": "list"}, "redis.url"),
    ],
)
def test_what_makes_no_sense_is_refused(members, complaint):
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        keys(Config(), KeysRequest(**members))


# Where an instance may listen


def at(config: Config, host: str, **auth) -> Config:
    """Listen there."""
    replace = msgspec.structs.replace
    return replace(config, server=replace(config.server, host=host), auth=replace(config.auth, **auth))


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "10.1.2.3", "scheduler.example"])
def test_listening_beyond_this_machine_needs_a_key(config, host):
    with pytest.raises(ConfigError, match="there is no key") as refusal:
        refuse_open_door(at(config, host))
    assert "\n" not in str(refusal.value)
    with pytest.raises(ConfigError):
        refuse_open_door(at(Config(), host))
    refuse_open_door(at(config, host, insecure=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_listening_on_this_machine_needs_none(host):
    refuse_open_door(at(Config(), host))


def test_a_key_in_redis_is_enough_unless_it_was_revoked(config, act):
    made = json.loads(act("create", kind="tenant", tenant="acme", as_json=True))
    refuse_open_door(at(config, "0.0.0.0"))
    act("revoke", made["id"])
    with pytest.raises(ConfigError, match="there is no key"):
        refuse_open_door(at(config, "0.0.0.0"))


def test_an_admin_token_is_enough(config):
    admin = msgspec.structs.replace(config.admin, token="t")
    refuse_open_door(msgspec.structs.replace(at(config, "0.0.0.0"), admin=admin))


# Token files


def test_a_token_file_is_read_without_its_line_end(tmp_path):
    file = tmp_path / "token"
    file.write_text("lk_node_x\n")
    token = read_token(file)
    assert token == "lk_node_x"
    assert repr(token) == "'***'"
    assert read_token(None) == ""


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"caf\xc3\xa9", b"\xff", b"x" * 5000])
def test_a_file_without_a_token_is_refused_and_not_repeated(tmp_path, content):
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="--token-file: ") as refusal:
        read_token(file)
    assert "words" not in str(refusal.value)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_token(tmp_path / "none")
