"""A client whose tokens are short-lived: it comes back with another one each time."""

from __future__ import annotations

import aiohttp
import pytest

from client.scripted import ScriptedServer
from keyed import KEYS_ONLY, an_hour_passes, revoke, tenant_key, token
from lingua_scheduler.client import (
    ClientOptions,
    ConnectionLost,
    LastingClient,
    ServerUnreachable,
    SessionClient,
    SessionRefused,
)
from support import wait_until
from world import World, world

QUICK = {"reconnect_min_s": 0.01, "reconnect_max_s": 0.02}
PAIR = {"src_lang": "zh", "tgt_lang": "en"}


class Backend:
    """A tenant's own server: it has the key, and makes a token for each connection."""

    def __init__(self, house: World, key: str) -> None:
        self._house = house
        self._key = key
        self.made: list[str] = []

    async def token(self) -> str:
        """Ask the scheduler for a token, as the documentation says."""
        headers = {"Authorization": f"Bearer {self._key}"}
        url = f"{self._house.instance.url}/api/v1/tokens"
        async with self._house._http.post(url, headers=headers, json={"ttl_s": 60}) as answer:
            answer.raise_for_status()
            self.made.append((await answer.json())["token"])
            return self.made[-1]


async def test_each_connection_shows_another_token_and_the_session_goes_on(store_options):
    async with world(store_options, **KEYS_ONLY) as house:
        backend = Backend(house, await tenant_key(house.instance))
        options = ClientOptions(**QUICK)
        async with LastingClient.connect(
            house.instance.url, options=options, fresh_token=backend.token, **PAIR
        ) as client:
            first = client.session_id
            await an_hour_passes(house.instance)
            await client.drop()
            await wait_until(lambda: client.returns == 1, description="it is back")
            assert (client.session_id, client.ack.resumed) == (first, True)
            assert len(set(backend.made)) == 2


async def test_an_expired_token_lets_nobody_come_back(store_options):
    async with world(store_options, **KEYS_ONLY) as house:
        made = token(house.instance, await tenant_key(house.instance))
        options = ClientOptions(token=made, **QUICK)
        async with LastingClient.connect(house.instance.url, options=options, **PAIR) as client:
            await an_hour_passes(house.instance)
            await client.drop()
            await wait_until(lambda: client.failure is not None, description="it gives up")
            assert isinstance(client.failure, SessionRefused)
            assert client.failure.code == "UNAUTHORISED"
            with pytest.raises(SessionRefused):
                await client.send_audio(b"lost")


async def test_a_token_that_expired_on_its_way_is_asked_for_once_more(store_options):
    async with world(store_options, **KEYS_ONLY) as house:
        key = await tenant_key(house.instance)
        old = token(house.instance, key)
        given = [old]

        async def fresh() -> str:
            return given.pop(0) if given else token(house.instance, key)

        options = ClientOptions(**QUICK)
        async with LastingClient.connect(
            house.instance.url, options=options, fresh_token=fresh, **PAIR
        ) as client:
            await an_hour_passes(house.instance)
            given.append(old)
            await client.drop()
            await wait_until(lambda: client.returns == 1, description="it is back")
            given += [old, old]
            await client.drop()
            await wait_until(lambda: client.failure is not None, description="it gives up")


async def test_a_source_that_cannot_be_reached_is_asked_again_and_one_that_fails_is_not(store_options):
    async with world(store_options, **KEYS_ONLY) as house:
        key = await tenant_key(house.instance)
        troubles: list[Exception] = []

        async def fresh() -> str:
            if troubles:
                raise troubles.pop(0)
            return token(house.instance, key)

        options = ClientOptions(**QUICK)
        async with LastingClient.connect(
            house.instance.url, options=options, fresh_token=fresh, **PAIR
        ) as client:
            troubles += [ConnectionRefusedError(), aiohttp.ClientError(), TimeoutError()]
            await client.drop()
            await wait_until(lambda: client.returns == 1, description="it is back")
            troubles += [KeyError("token"), KeyError("token")]
            await client.drop()
            await wait_until(lambda: client.failure is not None, description="it gives up")
            assert str(client.failure) == "UNAUTHORISED: no fresh token: KeyError"


async def test_a_revoked_key_ends_it_and_nobody_is_asked_for_a_token(store_options):
    async with world(store_options, **KEYS_ONLY) as house:
        key = await tenant_key(house.instance)
        backend = Backend(house, key)
        async with LastingClient.connect(house.instance.url, fresh_token=backend.token, **PAIR) as client:
            await revoke(house.instance, key)
            await house.instance.credentials.refresh()
            await wait_until(lambda: client.failure is not None, description="it gives up")
            assert isinstance(client.failure, ConnectionLost)
            assert client.failure.close_code == 4500
            assert len(backend.made) == 1


async def test_a_first_connection_without_a_token_to_show_fails_at_once():
    async def fresh() -> str:
        raise OSError

    async with ScriptedServer() as server:
        with pytest.raises(ServerUnreachable, match="no fresh token can be had now"):
            async with SessionClient.connect(server.url, fresh_token=fresh, **PAIR):
                pass
        assert server.peers == []
