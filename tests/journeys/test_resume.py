"""An instance is killed in the middle of a sentence; its client finds the conversation again on another."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from lingua_scheduler.client import ClientOptions, LastingClient
from lingua_scheduler.wire.session import TranslationResult
from processes import lingua
from support import wait_until
from world import world

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="starts processes of its own")

QUICK = ClientOptions(reconnect_min_s=0.02, reconnect_max_s=0.1, acknowledge_after_s=0.05)
SOUND = b"\xff" * 600


async def test_a_killed_instance_costs_a_pause_and_nothing_else(store_options):
    places = {
        "LINGUA_REDIS__URL": str(store_options.url),
        "LINGUA_REDIS__KEY_PREFIX": store_options.key_prefix,
    }
    serve = ("serve", "--port", "0", "--instance-id", "doomed")
    async with world(store_options) as survivor, lingua(*serve, **places) as doomed:
        node = await survivor.node()
        urls = [await doomed.url(), survivor.instance.url]
        async with LastingClient.connect(urls, options=QUICK, src_lang="zh", tgt_lang="en") as client:
            await client.send_audio(SOUND, final=True)
            await node.answer(await node.job(utterance_index=0))
            assert (await client.expect(TranslationResult)).utterance_index == 0
            await client.send_audio(SOUND, final=True)
            placed = await node.job(utterance_index=1)
            await client.send_audio(SOUND)
            before = client.session_id

            doomed.tell(signal.SIGKILL)

            await client.send_audio(SOUND, final=True)
            await wait_until(lambda: client.returns, description="the client is back")
            assert client.session_id == before
            await node.answer(placed)
            last = await node.job(utterance_index=2)
            assert len(last["audio"]) == 1200
            await node.answer(last)
            for index in (1, 2):
                assert (await client.expect(TranslationResult)).utterance_index == index
            assert await client.close()
        assert not survivor.instance.sessions.get(before)
