"""Clients and nodes of the first generation in a room."""

from __future__ import annotations

import asyncio

from first_generation import FirstGenerationNode, spoken
from lingua_scheduler.store.connection import StoreOptions
from neighbours import shown
from party import members, party

PAGE = {
    "client_version": "web-client-v1.0",
    "platform": "web",
    "dialect": None,
    "features": {},
    "pairing_code": None,
    "mode": "one_way",
    "tenant_id": None,
}


async def test_an_old_page_and_a_new_client_share_a_room(store_options: StoreOptions, instances: int) -> None:
    """The page learns of its room by `room_create_ack`, knows nobody's language and plays samples."""
    async with party(store_options, instances) as room:
        node = await room.node()
        page = await room.arrive("A", **PAGE, trace_id="0e6f2f0a-1111-4222-8333-444455556666")
        await page.send("room_create", client_ts=1794770805381)
        room.code = (await page.expect("room_create_ack"))["room_code"]
        await room.join("B", wish={"audio_format": "pcm16", "supports_resume": True})
        [me, other] = await members(page, 2)
        assert me["session_id"] == page.id
        assert "preferred_lang" not in me
        assert other["preferred_lang"] == "en"
        await page.send(
            "webrtc_offer", room_code=room.code, to=room["B"].id, sdp={"type": "offer", "sdp": ""}
        )
        assert (await room["B"].expect("webrtc_offer"))["to"] == page.id
        await room.say("A")
        await node.answer(await node.job(tgt_lang="en"))
        heard = await room["B"].expect("translation_result")
        assert heard["speaker_session_id"] == page.id
        await room["B"].say(b"\x00\x40" * 3000)
        job = await node.job()
        assert job["tgt_lang"] == "en", "nobody else said what it wants to hear"


async def test_a_node_of_the_first_generation_serves_all_languages_of_a_room(
    store_options: StoreOptions, instances: int
) -> None:
    """It takes each utterance of a session only once, and would not give the same words twice."""
    async with party(store_options, instances) as room:
        house = room.houses[0]
        node = await asyncio.wait_for(FirstGenerationNode.join(house, languages=("zh", "en", "ja")), 5)
        for each in room.houses:
            await shown(each, 1)
        await room.everybody("A", "B", "D")
        for index in range(3):
            await room["A"].say(spoken(f"some words {index}"))
            for name in "BD":
                heard = await room[name].expect("translation_result", utterance_index=index)
                assert heard["text_asr"] == f"some words {index}"
                assert heard["text_translated"] == f"[some words {index}]"
        assert not node.memory.out_of_order
