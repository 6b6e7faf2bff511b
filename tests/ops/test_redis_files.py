"""A server takes the example configuration, and its user `lingua` can do everything an instance does."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from lingua_scheduler.config import load
from lingua_scheduler.core.keys import KeyFacts, KeyKind, digest_of, made_key
from lingua_scheduler.embedded import server_binary, wait_for
from lingua_scheduler.store.connection import StoreOptions
from world import world

ROOT = Path(__file__).parent.parent.parent
OPS = ROOT / "ops"
SERVER = (OPS / "redis/redis.conf").read_text(encoding="utf-8")
USERS = (OPS / "redis/users.acl").read_text(encoding="utf-8")
SUBCOMMANDS = {"XGROUP": ["CREATE", "lingua:x", "group", "0"], "XINFO": ["GROUPS", "lingua:x"]}
PASSWORDS = dict(re.findall(r"^user (\w+) on >(\S+)", USERS, re.MULTILINE))


@dataclass(frozen=True)
class Server:
    """A server that runs as the examples say, but for its place."""

    socket: Path

    def client(self, user: str | None = None) -> redis.Redis:
        """Log in as one of the users, or not at all."""
        login = {"username": user, "password": PASSWORDS[user]} if user else {}
        return redis.Redis(
            unix_socket_path=str(self.socket), decode_responses=True, retry=Retry(NoBackoff(), 0), **login
        )

    def answers(self) -> bool:
        with self.client("operator") as client:
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                return False


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    place = tmp_path_factory.mktemp("redis")
    (place / "redis.conf").write_text(
        SERVER.replace("\nport 6379\n", f"\nport 0\nunixsocket {place}/s\n")
        .replace("\ndir /data\n", f"\ndir {place}\n")
        .replace("\naclfile /etc/lingua-redis/users.acl\n", f"\naclfile {OPS}/redis/users.acl\n")
    )
    command = [server_binary(), str(place / "redis.conf")]
    with (place / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            made = Server(place / "s")
            wait_for(lambda: process.poll() is not None or made.answers(), "the server does not answer")
            assert process.poll() is None, (place / "log").read_text()
            yield made
        finally:
            process.terminate()


@pytest.fixture
def options(server: Server, tmp_path: Path) -> StoreOptions:
    password = tmp_path / "password"
    password.write_text(PASSWORDS["lingua"])
    password.chmod(0o600)
    return StoreOptions(url=f"unix://{server.socket}", username="lingua", password_file=str(password))


def test_the_server_never_evicts_and_keeps_what_it_was_told(server: Server) -> None:
    with server.client("operator") as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        assert int(client.config_get("maxmemory")["maxmemory"]) > 0


def test_settings_that_are_offered_as_comments_are_understood(server: Server) -> None:
    offered = re.findall(r"^#   ([a-z]+(?:-[a-z]+)+|masteruser|masterauth) (\S+)$", SERVER, re.MULTILINE)
    assert len(offered) >= 8
    with server.client("operator") as client:
        for name, _ in offered:
            assert client.config_get(name), name


def test_nobody_is_let_in_without_a_password(server: Server) -> None:
    with server.client() as client, pytest.raises(redis.AuthenticationError):
        client.get("lingua:x")


def test_the_instances_are_kept_to_their_own_keys_and_from_dangerous_commands(server: Server) -> None:
    with server.client("lingua") as client:
        for command in (
            ("GET", "other:x"),
            ("FLUSHALL",),
            ("KEYS", "*"),
            ("CONFIG", "GET", "*"),
            ("ACL", "LIST"),
        ):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command)
    with server.client("operator") as client:
        client.execute_command("ACL LOG RESET")


def test_the_rights_are_those_of_the_page_about_redis() -> None:
    (page,) = re.findall(
        r"^ACL SETUSER lingua on >\S+ (.+)$", (ROOT / "docs/redis.md").read_text("utf-8"), re.MULTILINE
    )
    (file,) = re.findall(r"^user lingua on >\S+ (.+)$", USERS, re.MULTILINE)
    assert file == page


def test_the_compose_file_has_the_password_of_the_users() -> None:
    compose = (OPS / "docker/compose.yml").read_text(encoding="utf-8")
    (url,) = re.findall(r'LINGUA_REDIS__URL: "([^"]+)"', compose)
    assert load(environ={"LINGUA_REDIS__URL": url}).config.redis.url == url
    assert f"lingua:{PASSWORDS['lingua']}@" in url


def test_every_command_of_the_store_is_allowed(server: Server) -> None:
    store = ROOT / "src/lingua_scheduler/store"
    sources = [file.read_text("utf-8") for kind in ("*.lua", "*.py") for file in store.rglob(kind)]
    called = {name for text in sources for name in re.findall(r"\bp?call\(\s*['\"]([A-Z]+)['\"]", text)}
    assert {"HSET", "ZADD", "XADD", "TIME"} <= called
    with server.client("operator") as client:
        for name in sorted(called - {"EVAL", "EVALSHA"}):  # the next test cannot do without these
            arity = abs(client.execute_command("COMMAND INFO", name)[0][1])
            arguments = SUBCOMMANDS.get(name, ["lingua:x"] * (arity - 1))
            assert client.execute_command("ACL DRYRUN", "lingua", name, *arguments) == "OK", name


@pytest.mark.parametrize("command", ["ROLE", "WAIT 1 100", "CLUSTER SLOTS", "ASKING", "PING", "AUTH a b"])
def test_what_a_connection_says_for_itself_is_allowed(server: Server, command: str) -> None:
    with server.client("operator") as client:
        assert client.execute_command("ACL DRYRUN", "lingua", *command.split()) == "OK"


async def test_an_instance_works_as_that_user(server: Server, options: StoreOptions) -> None:
    """From a key of a tenant to a translated sentence and the end; Redis notes no refusal."""
    async with world(options) as here:
        key_id, key = made_key(KeyKind.TENANT)
        facts = KeyFacts(id=key_id, kind=KeyKind.TENANT, digest=digest_of(key), tenant="acme")
        assert await here.instance.stores.auth_keys.add(facts)
        node = await here.node()
        speaker = await here.session()
        await speaker.say()
        await node.answer(await node.job())
        assert (await speaker.expect("translation_result"))["text_translated"] == "hello"
        await speaker.send("room_create", client_ts=1)
        await speaker.expect("room_create_ack")
        assert here.counted("missing_results_total") == 0
    with server.client("operator") as client:
        refused = client.acl_log()
    assert not [(entry["reason"], entry["object"]) for entry in refused]
