"""A session that cannot be served is told so at once, not after it has spoken."""

from __future__ import annotations

from world import world


async def test_the_ack_warns_when_no_node_can_do_the_pair(store_options):
    async with world(store_options) as house:
        await house.node("fr", "de")
        speaker = await house.session(hint_lang="zh")
        assert speaker.ack["warning"] == "NO_AVAILABLE_NODE"
        assert speaker.ack["retry_after_ms"] == 5000
        assert speaker.ack["hint"]
        assert not speaker.seen("error"), "the existing web client would show a blocking alert"


async def test_the_ack_says_nothing_when_a_node_is_there_even_if_it_is_full(store_options):
    async with world(store_options) as house:
        node = await house.node(max_concurrent_jobs=1)
        busy = await house.session()
        await busy.say()
        await node.job()
        assert not {"warning", "retry_after_ms", "hint"} & (await house.session()).ack.keys()


async def test_a_session_that_was_warned_is_served_once_a_node_comes(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        assert speaker.ack["warning"] == "NO_AVAILABLE_NODE"
        node = await house.node()
        await speaker.say()
        await node.job(utterance_index=0)
