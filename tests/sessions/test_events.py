"""The catalogue of `ui_event` and case 84: how far an utterance has come, and what to do when it failed."""

from __future__ import annotations

from typing import Any

import pytest

from stored_jobs import job_state
from support import wait_until
from world import FakeNode, Speaker, World, world

HINTS = {
    "NO_AVAILABLE_NODE": (
        "No translation node is free. Please try again later.",
        "当前没有可用的翻译节点，请稍后再试。",  # noqa: RUF001 Chinese punctuation
    ),
    "JOB_TIMEOUT": (
        "The translation took too long. Please try again.",
        "翻译超时，请重试。",  # noqa: RUF001 Chinese punctuation
    ),
    "NMT_TIMEOUT": (
        "Translating took too long. Please try a shorter sentence.",
        "翻译超时，请缩短句子后重试。",  # noqa: RUF001 Chinese punctuation
    ),
}


async def step(node: FakeNode, kind: str, job: dict[str, Any], **fields: Any) -> None:
    """Send `job_ack` or `job_started`."""
    names = ("job_id", "attempt_id", "session_id", "trace_id")
    await node.send(kind, **{"node_id": node.id, **{name: job[name] for name in names}, **fields})


async def test_84_an_acknowledgement_is_told_once(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        job = await node.job()
        for _ in range(2):
            await step(node, "job_ack", job)
        await step(node, "job_started", job)
        await house.settled(node, speaker)

        (told,) = speaker.seen("ui_event", event="NODE_ACCEPTED")
        assert (told["utterance_index"], told["job_id"], told["status"]) == (0, job["job_id"], "ok")


@pytest.mark.parametrize("wrong", [{"attempt_id": 2}, {"job_id": "job-x"}], ids=["attempt", "job"])
async def test_84_an_acknowledgement_of_another_attempt_or_job_is_ignored(store_options, wrong):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        job = await node.job()
        await step(node, "job_ack", job, **wrong)
        await step(node, "job_started", job, **wrong)
        await house.settled(node, speaker)

        assert not speaker.seen("ui_event", event="NODE_ACCEPTED")


async def test_84_an_acknowledgement_of_a_node_that_does_not_have_the_job_is_ignored(store_options):
    async with world(store_options) as house:
        nodes = [await house.node(), await house.node()]
        speaker = await house.session()
        await speaker.say()
        owner, job = await house.taken(*nodes)
        (stranger,) = [node for node in nodes if node is not owner]
        await step(stranger, "job_ack", job)
        await house.settled(stranger, speaker)
        assert not speaker.seen("ui_event", event="NODE_ACCEPTED")

        await owner.answer(job)
        await speaker.expect("translation_result")
        await step(owner, "job_ack", job)
        await house.settled(owner, speaker)
        assert not speaker.seen("ui_event", event="NODE_ACCEPTED"), "the job had ended"


async def test_events_carry_the_time_since_the_utterance_was_cut(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session(trace_id="t-1")
        await speaker.say()
        job = await node.job()
        house.clock.advance(0.25)
        await step(node, "job_ack", job)
        await node.sync()
        house.clock.advance(1)
        await node.answer(job)
        await speaker.expect("translation_result")

        events = speaker.seen("ui_event")
        assert [(event["event"], event["elapsed_ms"]) for event in events] == [
            ("DISPATCHED", 0),
            ("NODE_ACCEPTED", 250),
            ("ASR_FINAL", 1250),
            ("NMT_DONE", 1250),
        ]
        for event in events:
            assert event["status"] == "ok"
            assert event.keys() == {
                "type", "trace_id", "session_id", "job_id", "utterance_index", "event", "elapsed_ms", "status"
            }  # fmt: skip
            assert event["trace_id"].startswith("t-1")
            assert (event["session_id"], event["job_id"]) == (speaker.id, job["job_id"])


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("你好", ""), ["ASR_FINAL"]),
        (("", "hello"), ["NMT_DONE"]),
        (("  ", "hello"), ["NMT_DONE"]),
        (("你好", " "), ["ASR_FINAL"]),
    ],
)
async def test_a_step_is_told_only_when_it_brought_text(store_options, texts, expected):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        await node.answer(await node.job(), *texts)
        await speaker.expect("translation_result")

        assert [event["event"] for event in speaker.seen("ui_event")] == ["DISPATCHED", *expected]


async def fail_with(house: World, speaker: Speaker, code: str) -> dict[str, Any]:
    """Bring the newest utterance to an error with this code; give the event."""
    if code == "NO_AVAILABLE_NODE":
        await speaker.say()
    elif code == "JOB_TIMEOUT":
        await speaker.say()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        house.clock.advance(10)
    else:
        node = await house.node()
        await speaker.say()
        await node.fail(await node.job(), code)
    return await speaker.expect("ui_event", event="ERROR", error_code=code)


@pytest.mark.parametrize("code", HINTS)
@pytest.mark.parametrize(("lang", "which"), [(None, 0), ("en", 0), ("zh-CN", 1), ("zh", 1), ("ja", 0)])
async def test_a_code_comes_with_a_hint_in_the_language_the_client_asked_for(
    store_options, code, lang, which
):
    async with world(store_options) as house:
        speaker = await house.session(**({"hint_lang": lang} if lang else {}))

        told = await fail_with(house, speaker, code)

        assert (told["status"], told["hint"]) == ("error", HINTS[code][which])


@pytest.mark.parametrize(
    "code", ["WS_DISCONNECTED", "NMT_TIMEOUT", "TTS_TIMEOUT", "MODEL_VERIFY_FAILED", "MODEL_CORRUPTED"]
)
async def test_the_codes_of_nodes_that_people_can_act_on_are_repeated(store_options, code):
    async with world(store_options) as house:
        speaker = await house.session()

        told = await fail_with(house, speaker, code)

        assert told["hint"]
        assert (await speaker.expect("missing_result"))["reason"] == "job_failed"
        assert not speaker.seen("error")


@pytest.mark.parametrize("code", ["PROCESSING_ERROR", "INTERNAL_ERROR", "JOB_TIMEOUT", "<script>"])
async def test_any_other_code_of_a_node_stays_between_the_machines(store_options, code):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        await node.fail(await node.job(), code, "C:\\secret\\path")

        told = await speaker.expect("ui_event", event="ERROR")

        assert "error_code" not in told
        assert "hint" not in told
        await speaker.expect("missing_result")
        assert "secret" not in str(speaker.inbox)


async def state(house: World, speaker: Speaker, job: dict[str, Any]) -> str | None:
    """Read the state of a job in Redis."""
    return await job_state(house.redis, house.keys, speaker.id, job["job_id"])


async def reaches(house: World, speaker: Speaker, job: dict[str, Any], wanted: str) -> None:
    """Wait until the record of a job says this."""

    async def there() -> bool:
        return await state(house, speaker, job) == wanted

    await wait_until(there, description=f"the job is {wanted}")


@pytest.mark.parametrize("sign", ["job_started", "asr_partial"])
async def test_the_record_of_a_job_follows_what_its_node_says(store_options, sign):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        job = await node.job()
        assert await state(house, speaker, job) == "DISPATCHED"
        await step(node, "job_ack", job)
        await reaches(house, speaker, job, "ACCEPTED")
        extra = {"utterance_index": 0, "text": "你", "is_final": False} if sign == "asr_partial" else {}
        for _ in range(3):
            await step(node, sign, job, **extra)
        await reaches(house, speaker, job, "RUNNING")
        await node.answer(job)
        await reaches(house, speaker, job, "RELEASED")
