"""The story of a service with keys: who is let in, what they may do, and how fast a lost key is shut out."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager

import aiohttp
import pytest

from lingua_scheduler.cli import main
from lingua_scheduler.client.connection import ClientOptions
from lingua_scheduler.client.errors import SessionRefused
from lingua_scheduler.client.session import SessionClient
from lingua_scheduler.core.keys import KeyFacts, KeyKind, digest_of, made_key
from lingua_scheduler.log import LogOptions
from lingua_scheduler.node import LinkOptions
from lingua_scheduler.node.demo import demo_node
from lingua_scheduler.node.uplink import NodeGaveUp
from lingua_scheduler.secret import Secret
from lingua_scheduler.wire.close import CloseCode
from logs import captured
from neighbours import two
from support import wait_until
from world import FakeNode, Speaker, World, world

STRICT = {
    "auth": {"allow_anonymous_sessions": "never", "allow_anonymous_nodes": "never", "refresh_s": 0.1},
    "server": {"port": 0},
}


async def make(house: World, kind: str, **members) -> str:
    """Make a key as `lingua keys create` does, and let this instance learn of it."""
    key_id, key = made_key(KeyKind(kind))
    facts = KeyFacts(id=key_id, kind=KeyKind(kind), digest=digest_of(key), **members)
    assert await house.instance.stores.auth_keys.add(facts)
    await house.instance.credentials.refresh()
    return key


async def revoke(house: World, key: str) -> None:
    """Revoke a key as `lingua keys revoke` does; nobody is told."""
    assert await house.instance.stores.auth_keys.revoke(key.split("_")[2])


async def speaker(house: World, credential: str) -> Speaker:
    """Connect a client that shows a key or token."""
    return Speaker(await socket(house, "/ws/session", credential))


async def link(house: World, credential: str) -> FakeNode:
    """Connect a node that shows a key."""
    return FakeNode(await socket(house, "/ws/node", credential))


async def socket(house: World, path: str, credential: str) -> aiohttp.ClientWebSocketResponse:
    headers = {"Authorization": f"Bearer {credential}"}
    return await house._http.ws_connect(f"{house.instance.url}{path}", headers=headers)


async def refused(house: World, path: str, credential: str | None) -> int:
    """Tell how a connection is refused."""
    headers = {"Authorization": f"Bearer {credential}"} if credential else {}
    with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
        await house._http.ws_connect(f"{house.instance.url}{path}", headers=headers)
    return refusal.value.status


@asynccontextmanager
async def answer_to(house: World, method: str, path: str, credential: str | None = None, **request):
    """Send a request over HTTP."""
    headers = {"Authorization": f"Bearer {credential}"} if credential else {}
    async with house._http.request(
        method, f"{house.instance.url}{path}", headers=headers, **request
    ) as answer:
        yield answer


async def test_a_session_and_a_node_with_keys_translate(store_options):
    async with world(store_options, **STRICT) as house:
        tenant, join = await make(house, "tenant", tenant="acme"), await make(house, "node", node_id="node-1")
        node = await (await link(house, join)).register()
        assert node.id == "node-1"
        await node.beat()
        await node.expect("node_status", status="ready")
        client = await (await speaker(house, tenant)).init()
        assert house.instance.sessions.get(client.id).opening.tenant_id == "acme"
        await client.say()
        await node.answer(await node.job())
        assert (await client.expect("translation_result"))["text_translated"] == "hello"


async def test_nobody_comes_in_without_a_key_or_with_a_wrong_one(store_options):
    async with world(store_options, **STRICT) as house:
        tenant, join = await make(house, "tenant", tenant="acme"), await make(house, "node")
        for path, wrong in (("/ws/session", join), ("/ws/node", tenant)):
            for credential in (None, wrong, tenant[:-5], "nonsense"):
                assert await refused(house, path, credential) == 401
        assert house.counted("auth_refused_total", kind="session", why="missing") == 1
        assert house.counted("auth_refused_total", kind="node", why="kind") == 1
        assert house.counted("auth_refused_total", kind="session", why="malformed") == 2


async def test_a_browser_gets_a_token_of_its_server_and_never_the_key(store_options):
    async with world(store_options, **STRICT) as house:
        tenant = await make(house, "tenant", tenant="acme")
        wish = {"scope": "session", "ttl_s": 60, "languages": ["zh", "en"]}
        async with answer_to(house, "POST", "/api/v1/tokens", tenant, json=wish) as answer:
            assert answer.status == 201
            assert answer.headers["Cache-Control"] == "no-store"
            made = await answer.json()
        assert (made["expires_in_s"], made["scope"]) == (60, "session")
        page = await house._http.ws_connect(
            f"{house.instance.url}/ws/session", protocols=("lingua", f"bearer.{made['token']}")
        )
        assert page.protocol == "lingua"
        client = await Speaker(page).init()
        assert house.instance.sessions.get(client.id).opening.tenant_id == "acme"
        other = await speaker(house, made["token"])
        await other.send("session_init", client_version="1", platform="t", src_lang="zh", tgt_lang="de")
        assert await other.closed() == CloseCode.FORBIDDEN


@pytest.mark.parametrize(
    ("kind", "members", "body", "status"),
    [
        ("node", {}, {}, 401),
        ("admin", {}, {}, 401),
        ("tenant", {"tenant": "acme"}, {"ttl_s": 3601}, 400),
        ("tenant", {"tenant": "acme"}, {"scope": "admin"}, 400),
        ("tenant", {"tenant": "acme"}, {"nonsense": 1}, 400),
    ],
)
async def test_tokens_are_made_for_tenants_within_limits(store_options, kind, members, body, status):
    async with world(store_options, **STRICT) as house:
        key = await make(house, kind, **members)
        async with answer_to(house, "POST", "/api/v1/tokens", key, json=body) as answer:
            assert (answer.status, answer.content_type) == (status, "application/problem+json")
        async with answer_to(house, "POST", "/api/v1/tokens", json=body) as answer:
            assert answer.status in (status, 401)
        async with answer_to(house, "POST", "/api/v1/tokens", key, data=b"{}") as answer:
            assert answer.status == 415


async def test_a_token_of_one_instance_counts_on_every_other(store_options):
    async with two(store_options, **STRICT) as (here, there):
        tenant = await make(here, "tenant", tenant="acme")
        await there.instance.credentials.refresh()
        async with answer_to(here, "POST", "/api/v1/tokens", tenant, json={}) as answer:
            token = (await answer.json())["token"]
        await (await speaker(there, token)).init()


async def test_a_tenant_speaks_for_itself_only(store_options):
    async with world(store_options, **STRICT) as house:
        client = await speaker(house, await make(house, "tenant", tenant="acme"))
        await client.send(
            "session_init",
            client_version="1",
            platform="t",
            src_lang="zh",
            tgt_lang="en",
            tenant_id="other",
        )
        assert await client.closed() == CloseCode.FORBIDDEN
        assert len(house.instance.sessions) == 0


async def test_a_session_is_resumed_by_its_own_tenant_only(store_options):
    async with world(store_options, **STRICT) as house:
        acme, other = await make(house, "tenant", tenant="acme"), await make(house, "tenant", tenant="other")
        client = await (await speaker(house, acme)).init(supports_resume=True)
        await client.hang_up()
        thief = await (await speaker(house, other)).init(resume_token=client.ack["resume_token"])
        assert thief.ack["resumed"] is False
        again = await (await speaker(house, acme)).init(resume_token=client.ack["resume_token"])
        assert (again.ack["resumed"], again.id) == (True, client.id)


async def test_a_node_with_another_nodes_id_is_sent_away(store_options):
    async with world(store_options, **STRICT) as house:
        bound, loose = await make(house, "node", node_id="node-1"), await make(house, "node")
        for key, node_id in ((bound, "node-2"), (loose, "node-1")):
            node = await link(house, key)
            await node.ask_to_register(node_id=node_id)
            assert await node.closed() == CloseCode.FORBIDDEN
        assert house.instance.snapshot.nodes() == []


async def test_a_revoked_key_is_shut_out_of_all_instances(store_options):
    """Nobody tells the instances: each looks for itself."""
    async with two(store_options, **STRICT) as (here, there):
        tenant, join = await make(here, "tenant", tenant="acme"), await make(here, "node")
        spared = await make(here, "tenant", tenant="acme")
        await there.instance.credentials.refresh()
        async with answer_to(there, "POST", "/api/v1/tokens", tenant, json={}) as answer:
            token = (await answer.json())["token"]
        hit = [
            await (await speaker(here, tenant)).init(),
            await (await speaker(there, tenant)).init(),
            await (await speaker(there, token)).init(),
            await (await link(there, join)).register(),
        ]
        other = await (await speaker(there, spared)).init()
        await revoke(here, tenant)
        await revoke(here, join)
        assert [await each.closed() for each in hit] == [CloseCode.UNAUTHORISED] * 4
        await other.sync()
        for house in (here, there):
            assert await refused(house, "/ws/session", tenant) == 401
            assert await refused(house, "/ws/session", token) == 401
            assert await refused(house, "/ws/node", join) == 401


async def test_redis_away_changes_nothing_for_those_who_have_keys(store_options):
    """F23: a storm of reconnects asks Redis nothing."""
    async with world(store_options, **STRICT) as house:
        tenant = await make(house, "tenant", tenant="acme")

        async def no_redis(_since: str) -> None:
            raise AssertionError("nobody is asked")

        house.instance.stores.auth_keys.changes = no_redis
        await (await speaker(house, tenant)).init()
        assert await refused(house, "/ws/session", "nonsense") == 401


async def test_operators_give_orders_with_admin_keys(store_options):
    async with world(store_options, **STRICT, admin={"token": Secret("operator")}) as house:
        admin, tenant = await make(house, "admin"), await make(house, "tenant", tenant="acme")
        answers = {}
        for name, key in (("key", admin), ("token", "operator"), ("tenant", tenant), ("none", None)):
            async with answer_to(house, "GET", "/api/v1/drain", key) as answer:
                answers[name] = answer.status
        assert answers == {"key": 200, "token": 200, "tenant": 401, "none": 401}
        await revoke(house, admin)
        await house.instance.credentials.refresh()
        async with answer_to(house, "GET", "/api/v1/drain", admin) as answer:
            assert answer.status == 401


async def test_our_own_client_and_node_show_what_they_are_given(store_options):
    async with world(store_options, **STRICT) as house:
        url = house.instance.url.replace("http", "ws", 1)
        tenant, join = await make(house, "tenant", tenant="acme"), await make(house, "node")
        shown = ClientOptions(token=Secret(tenant))
        async with SessionClient.connect(url, src_lang="zh", tgt_lang="en", options=shown) as client:
            assert client.ack.session_id
        with pytest.raises(SessionRefused, match="UNAUTHORISED"):
            async with SessionClient.connect(url, src_lang="zh", tgt_lang="en"):
                pass
        stranger = demo_node(url, options=LinkOptions(handle_signals=False))
        with pytest.raises(NodeGaveUp, match="401"):
            await stranger.run()
        node = demo_node(url, options=LinkOptions(handle_signals=False, token=Secret(join)))
        tasks = house.instance._tasks
        tasks.start(node.run(), name="node")
        await wait_until(node.registered.is_set, description="the node is known")
        node.stop()
        await wait_until(lambda: not house.instance.routing.links(), description="the node has left")
        for options in (shown, LinkOptions(token=Secret(join))):
            assert "lk_" not in repr(options)


async def test_nothing_secret_is_logged_from_the_first_key_to_the_last(store_options):
    """A canary: a whole life at debug level, and no part of any key or token in it."""
    with captured(LogOptions(level="debug", format="json")) as written:
        async with world(store_options, **STRICT, admin={"token": Secret("operator-canary")}) as house:
            tenant, join = await make(house, "tenant", tenant="acme"), await make(house, "node")
            async with answer_to(house, "POST", "/api/v1/tokens", tenant, json={}) as answer:
                token = (await answer.json())["token"]
            for wrong in (tenant[:-1], token[:-1]):
                await refused(house, "/ws/session", wrong)
                async with answer_to(house, "POST", "/api/v1/tokens", wrong, json={}):
                    pass
            client = await (await speaker(house, token)).init()
            node = await (await link(house, join)).register()
            for key in (tenant, join):
                await revoke(house, key)
            await client.closed()
            await node.closed()
    lines = written.text
    assert "access_revoked" in lines
    for secret in (tenant, join, token, "operator-canary"):
        for part in (secret, secret.rpartition("_")[2][:12], secret.rpartition(".")[2][:12]):
            assert part not in lines


# Starting


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Run where no configuration file lies about and nothing is set by the environment."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("LINGUA_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("command", [["serve"], ["up", "--demo"], ["serve", "--workers", "2"]])
def test_an_open_door_is_refused_at_start_in_one_line(elsewhere, capsys, command):
    assert main([*command, "--host", "0.0.0.0", "--port", "0"]) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("lingua: server.host: 0.0.0.0 can be reached from elsewhere")
    assert complaint.count("\n") == 1


def test_the_command_makes_lists_and_revokes(elsewhere, store_options, monkeypatch, capsys):
    monkeypatch.setenv("LINGUA_REDIS__KEY_PREFIX", store_options.key_prefix)
    redis = ("--redis-url", store_options.url)
    assert main(["keys", "create", "--kind", "tenant", "--tenant", "acme", "--label", "web", *redis]) == 0
    key = capsys.readouterr().out.split()[0]
    key_id = key.split("_")[2]
    assert main(["keys", "list", *redis]) == 0
    assert key_id in capsys.readouterr().out
    assert main(["keys", "revoke", key_id, "--json", *redis]) == 0
    assert main(["keys", "revoke", "0123456789ab", *redis]) == 1
    assert main(["keys", "revoke"]) == 2
