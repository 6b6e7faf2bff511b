"""Who we are to Redis: a secret that may change at any time, a login refused, a right that is missing."""

from __future__ import annotations

import pytest

from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.errors import ConfigError, DependencyDown, StoreError
from lingua_scheduler.store import channel, dialing
from lingua_scheduler.store.connection import Connection, StoreOptions
from support import wait_until

SCRIPT = "return redis.call('INCR', KEYS[1])"


@pytest.fixture
def server():
    """Run a server of the test's own whose user `lingua` has the password `one`."""
    with EmbeddedRedis(port=0) as made:
        with made.client() as client:
            client.execute_command("ACL SETUSER lingua on >one ~* +@all")
        yield made


@pytest.fixture
def admin(server):
    with server.client() as client:
        yield client.execute_command


@pytest.fixture
def secret(tmp_path):
    """Give the file of the password, readable by its owner only."""
    path = tmp_path / "password"
    path.write_text("one\n")
    path.chmod(0o600)
    return path


@pytest.fixture
async def connect(server, secret):
    made = []

    def connect(**options):
        chosen = {"url": server.url, "username": "lingua", "password_file": str(secret), **options}
        made.append(Connection(StoreOptions(reconnect_pause_s=0.0, **chosen)))
        return made[-1]

    yield connect
    for each in made:
        await each.close()


@pytest.fixture
def alarms(monkeypatch):
    """Collect what is logged as an error."""
    logged = []
    for module in (channel, dialing):
        monkeypatch.setattr(
            module._log, "error", lambda event, **facts: logged.append((event, facts)), raising=False
        )
    return logged


def rotated(admin, secret, password):
    admin("ACL SETUSER", "lingua", "resetpass", f">{password}")
    admin("CLIENT KILL", "USER", "lingua")
    secret.write_text(password)


async def test_the_login_of_the_options_is_used_instead_of_that_of_the_address(server, connect):
    connection = connect(url=f"redis://nobody:wrong@127.0.0.1:{server.port}")
    assert await connection.call("ACL", "WHOAMI") == b"lingua"


async def test_a_new_secret_is_used_from_the_next_connect_on(connect, admin, secret):
    connection = connect()
    await connection.call("PING")
    rotated(admin, secret, "two")
    await wait_until(lambda: answered(connection), description="the new secret is used")


async def answered(connection):
    try:
        return await connection.call("PING")
    except DependencyDown:
        return False


async def test_a_refused_login_is_told_once_without_the_secret_and_ends_by_itself(
    connect, admin, secret, alarms
):
    connection = connect()
    await connection.call("PING")
    rotated(admin, secret, "hunter2")
    secret.write_text("hunter3")
    await wait_until(lambda: not connection.up or fails(connection), description="the socket is gone")
    for _ in range(5):
        with pytest.raises(DependencyDown, match=r"refuses the login .*invalid username-password") as failure:
            await connection.call("PING")
        assert "hunter" not in str(failure.value)
    reader = connection.blocking()
    with pytest.raises(DependencyDown, match="refuses the login"):
        await reader.call("BLPOP", "x", 0.01, block_s=0.01)
    assert [event for event, _ in alarms] == ["redis_refused"]
    assert "hunter" not in str(alarms)
    secret.write_text("hunter2")
    await wait_until(lambda: answered(connection), description="the right secret is there")
    rotated(admin, secret, "three")
    secret.write_text("four")
    await wait_until(lambda: len(alarms) == 2 or fails(connection), description="a new refusal is news")


async def fails(connection):
    return not await answered(connection)


async def test_a_redis_that_wants_a_password_and_gets_none_refuses_the_login(connect, admin, alarms):
    admin("CONFIG SET", "requirepass", "hunter2")
    with pytest.raises(DependencyDown, match="refuses the login"):
        await connect(username="", password_file="").call("PING")


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda path: path.unlink(), "cannot be read: No such file"),
        (lambda path: path.write_text("\n"), "is empty"),
        (lambda path: path.write_bytes(b"\xff"), "is not UTF-8"),
        (lambda path: path.chmod(0o644), "everybody can read this file"),
    ],
    ids=["gone", "empty", "binary", "exposed"],
)
async def test_a_secret_that_cannot_be_used_stops_a_start_but_not_a_running_instance(
    connect, admin, secret, alarms, spoil, complaint
):
    connection = connect()
    await connection.call("PING")
    spoil(secret)
    with pytest.raises(ConfigError, match=f"redis.password_file: {complaint}"):
        connect()
    admin("CLIENT KILL", "USER", "lingua")
    await wait_until(lambda: fails(connection), description="the socket is gone")
    with pytest.raises(DependencyDown, match=f"redis.password_file: {complaint}"):
        await connection.call("PING")
    secret.write_text("one")
    secret.chmod(0o600)
    await wait_until(lambda: answered(connection), description="the secret is back")
    assert [event for event, _ in alarms] == ["redis_refused"]


async def test_a_forbidden_command_is_named_without_its_arguments_and_fails_that_call_only(
    connect, admin, alarms
):
    connection = connect()
    admin("ACL SETUSER", "lingua", "-incr", "resetkeys", "~open*")
    for command, told in (
        (("INCR", "open-secret"), "no permission for INCR$"),
        (("GET", "hidden-secret"), "no permission for the keys of GET$"),
        (("EVAL", SCRIPT, 1, "open-secret"), r"no permission for INCR, used in a script \(EVAL\)"),
        (("INCR", "open-secret"), "no permission for INCR$"),
    ):
        with pytest.raises(StoreError, match=told) as failure:
            await connection.call(*command)
        assert "secret" not in str(failure.value)
        assert not isinstance(failure.value, DependencyDown)
    assert connection.up
    assert [event for event, _ in alarms] == ["redis_forbidden"] * 3
    admin("ACL SETUSER", "lingua", "+incr")
    assert await connection.call("INCR", "open-secret") == 1


async def test_a_user_who_may_not_ask_for_the_role_can_work(connect, admin):
    admin("ACL SETUSER", "lingua", "-role")
    assert await connect().call("INCR", "x") == 1
