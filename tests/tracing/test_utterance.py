"""One utterance is one tree of spans, under the id that the messages and the log lines have."""

import json

import pytest

from collector import collecting
from lingua_scheduler.log import LogOptions
from lingua_scheduler.secret import Secret, SecretUrl
from logs import captured
from neighbours import shown, two
from support import wait_until
from world import FAST, configured, world

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CANARY = "canary words nobody may read"
NODE = {"features": ["exact_flags", "any_order", "trace_context"]}
CLIENT, SERVER, INTERNAL = 3, 2, 1


def traced(collector, **options):
    return {"tracing": {"enabled": True, "endpoint": SecretUrl(collector.url), "flush_ms": 10, **options}}


async def said(speaker, node, **answer):
    """Say one utterance and let the node answer it; give the job and the result."""
    await speaker.say()
    job = await node.job()
    await node.answer(job, CANARY, CANARY, **answer)
    return job, await speaker.expect("translation_result")


async def test_an_utterance_is_one_trace_with_its_stages_inside(store_options):
    async with collecting() as collector, world(store_options, **traced(collector)) as house:
        node, speaker = await house.node(**NODE), await house.session()
        await speaker.say(640)
        job = await node.job()
        about = {name: job[name] for name in ("job_id", "attempt_id", "session_id", "trace_id")}
        await node.send("job_ack", node_id=node.id, **about)
        await node.send("job_started", node_id=node.id, **about)
        house.clock.advance(0.4)
        await node.answer(job, CANARY, CANARY)
        result = await speaker.expect("translation_result")
        root = await collector.one("utterance")
        stages = {name: await collector.one(name) for name in ("wait", "placement", "node", "delivery")}
    trace_id = speaker.ack["trace_id"]
    assert {span.trace_id for span in collector.spans} == {trace_id}
    assert result["trace_id"] == job["trace_id"] == root.facts["trace_id"] == f"{trace_id}-0"
    assert (root.parent_id, root.kind, root.error) == ("", SERVER, "")
    assert {span.parent_id for span in stages.values()} == {root.span_id}
    assert job["traceparent"] == f"00-{trace_id}-{stages['node'].span_id}-01"
    assert (
        root.facts.items()
        >= {
            "session_id": speaker.id,
            "job_id": job["job_id"],
            "utterance_index": 0,
            "src_lang": "zh",
            "tgt_lang": "en",
            "cut": "manual",
            "outcome": "translation",
            "attempts": 1,
        }.items()
    )
    assert stages["node"].facts.items() >= {"node_id": node.id, "attempt": 1, "pair": "zh:en"}.items()
    assert isinstance(stages["node"].facts["pool"], int)
    assert [name for name, _ in stages["node"].events] == ["accepted", "started"]
    assert stages["node"].kind == CLIENT
    assert stages["node"].took_ms == pytest.approx(400, abs=1)
    assert root.source["service.name"] == "lingua-scheduler"
    assert root.source["service.instance.id"] == house.instance.id


async def test_spans_hold_no_word_and_no_sound(store_options):
    async with collecting() as collector, world(store_options, **traced(collector)) as house:
        node, speaker = await house.node(**NODE), await house.session()
        await said(speaker, node, tts_audio="Y2FuYXJ5", tts_format="pcm16")
        await speaker.say()
        job = await node.job()
        await node.fail(job, CANARY, CANARY)
        await speaker.expect("missing_result")
        failed = await collector.one("node", attempt=1, outcome="failed")
    assert failed.error == "OTHER"  # what stood there was no code
    for body in collector.bodies:
        for word in (b"canary", b"Y2FuYXJ5", b"\xff" * 20):
            assert word not in body


async def test_an_utterance_across_instances_is_one_trace(store_options):
    async with collecting() as collector, two(store_options, **traced(collector)) as (a, b):
        node, speaker = await b.node(**NODE), await a.session()
        await shown(a, 1)
        job, _ = await said(speaker, node)
        root, hop = await collector.one("utterance"), await collector.one("hop")
        out = await collector.one("node")
        await wait_until(lambda: collector.named("delivery"), description="all stages")
    assert {span.trace_id for span in collector.spans} == {speaker.ack["trace_id"]}
    assert out.parent_id == root.span_id
    assert hop.parent_id == out.span_id  # the letter carried it
    assert job["traceparent"].split("-")[2] == out.span_id
    assert root.source["service.instance.id"] == out.source["service.instance.id"] == a.instance.id
    assert hop.source["service.instance.id"] == b.instance.id
    assert hop.facts["sent_by"] == a.instance.id
    assert out.facts["instance"] == b.instance.id


async def test_a_failover_is_an_event_and_the_next_attempt_names_the_one_before(store_options):
    async with collecting() as collector, world(store_options, **traced(collector)) as house:
        first, speaker = await house.node(**NODE), await house.session()
        await speaker.say()
        job = await first.job()
        second = await house.node(**NODE)
        await first.hang_up()
        again = await second.job()
        await second.answer(again)
        await speaker.expect("translation_result")
        root = await collector.one("utterance")
        lost, done = await collector.one("node", attempt=1), await collector.one("node", attempt=2)
        await wait_until(lambda: len(collector.named("wait")) == 2, description="two waits")
    assert job["traceparent"] != again["traceparent"]
    assert (lost.error, lost.facts["why"], lost.facts["node_id"]) == (
        "NODE_UNAVAILABLE",
        "node_lost",
        first.id,
    )
    assert (done.error, done.links) == ("", [lost.span_id])
    assert done.parent_id == lost.parent_id == root.span_id
    ((name, facts),) = root.events
    assert (name, facts["why"], facts["node_id"]) == ("failover", "node_lost", first.id)
    assert (root.facts["attempts"], root.facts["failovers"], root.error) == (2, 1, "")


async def test_an_utterance_without_a_result_ends_in_an_error(store_options):
    async with collecting() as collector, world(store_options, **traced(collector)) as house:
        speaker = await house.session()
        await speaker.say()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        house.clock.advance(10)
        await speaker.expect("missing_result")
        root = await collector.one("utterance")
    assert (root.error, root.facts["outcome"]) == ("NO_AVAILABLE_NODE", "missing")
    assert ("waiting", {"code": "NO_AVAILABLE_NODE"}) in root.events
    assert not collector.named("node")


async def test_silence_is_an_answer_and_no_error(store_options):
    async with collecting() as collector, world(store_options, **traced(collector)) as house:
        node, speaker = await house.node(**NODE), await house.session()
        await speaker.say()
        await node.answer(await node.job(), "", "")
        await speaker.expect("missing_result", reason="silence_detected")
        root = await collector.one("utterance")
    assert (root.error, root.facts["reason"]) == ("", "silence_detected")


async def test_what_nobody_waits_for_any_more_is_shown_as_abandoned(store_options):
    async with collecting() as collector, world(store_options, **traced(collector), **FAST) as house:
        node, speaker = await house.node(**NODE), await house.session()
        await speaker.say()
        await node.job()
        await speaker.send("session_close", session_id=speaker.id, reason="done")
        await wait_until(lambda: house.instance.sessions._closing, description="it drains")
        house.clock.advance(3)
        await speaker.expect("session_close_ack")
        root, out = await collector.one("utterance"), await collector.one("node")
    assert root.facts["outcome"] == "abandoned"
    assert out.error == "SESSION_CLOSED"


async def test_a_later_owner_goes_on_with_the_trace(store_options):
    """The span of the utterance is told once, by the instance that ends it, and all stages are in it."""
    async with collecting() as collector, two(store_options, **traced(collector)) as (a, b):
        node, speaker = await b.node(**NODE), await a.session(supports_resume=True)
        await shown(a, 1)
        await speaker.say()
        job = await node.job()
        token = speaker.ack["resume_token"]
        speaker.reset()
        back = await b.session(resume_token=token, supports_resume=True, resume_try="try-1")
        assert back.ack["resumed"]
        await node.answer(job)
        await back.expect("translation_result")
        root = await collector.one("utterance")
    assert root.source["service.instance.id"] == b.instance.id
    stages = collector.named("wait") + collector.named("placement")
    assert {span.parent_id for span in stages} == {root.span_id}
    assert {span.trace_id for span in collector.spans} == {speaker.ack["trace_id"]}
    assert job["traceparent"].split("-")[1] == root.trace_id


# The client's own trace


async def test_a_client_goes_on_with_its_own_trace(store_options):
    async with collecting() as collector, world(store_options, **traced(collector)) as house:
        node, speaker = await house.node(**NODE), await house.session(traceparent=f"00-{TRACE}-{SPAN}-01")
        assert speaker.ack["trace_id"] == TRACE
        job, _ = await said(speaker, node)
        root = await collector.one("utterance")
    assert (root.trace_id, root.parent_id) == (TRACE, SPAN)
    assert job["traceparent"].split("-")[1] == TRACE


async def test_the_header_of_the_upgrade_does_the_same(store_options):
    async with collecting() as collector, world(store_options, **traced(collector)) as house:
        node = await house.node(**NODE)
        house._http.headers["traceparent"] = f"00-{TRACE}-{SPAN}-01"
        speaker = await house.session()
        await said(speaker, node)
        root = await collector.one("utterance")
    assert (speaker.ack["trace_id"], root.trace_id, root.parent_id) == (TRACE, TRACE, SPAN)


@pytest.mark.parametrize("wrong", ["", "00-x-y-01", f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE}-{SPAN}-01" * 9])
async def test_a_traceparent_that_is_none_reads_as_absent(store_options, wrong):
    async with world(store_options) as house:
        speaker = await house.session(traceparent=wrong)
        assert speaker.ack["trace_id"] != TRACE
        assert len(speaker.ack["trace_id"]) == 32


async def test_a_client_may_decide_that_nothing_is_recorded(store_options):
    async with collecting() as collector, world(store_options, **traced(collector)) as house:
        node, quiet = await house.node(**NODE), await house.session(traceparent=f"00-{TRACE}-{SPAN}-00")
        job, _ = await said(quiet, node)
        assert "traceparent" not in job
        await said(await house.session(), node)
        root = await collector.one("utterance")
    assert root.trace_id != TRACE


async def test_clients_are_not_followed_when_the_operator_says_so(store_options):
    options = {"follow_clients": False, "sample_ratio": 0.0}
    async with collecting() as collector, world(store_options, **traced(collector, **options)) as house:
        node, speaker = await house.node(**NODE), await house.session(traceparent=f"00-{TRACE}-{SPAN}-01")
        await said(speaker, node)
    assert collector.spans == []


async def test_an_utterance_with_a_trace_of_its_own_is_in_that_trace(store_options):
    async with collecting() as collector, world(store_options, **traced(collector)) as house:
        node, speaker = await house.node(**NODE), await house.session(traceparent=f"00-{'1' * 32}-{SPAN}-01")
        await speaker.utterance(0, b"\xff" * 32_000, trace_id=TRACE)
        await node.answer(await node.job())
        await speaker.expect("translation_result", trace_id=TRACE)
        root = await collector.one("utterance")
    assert (root.trace_id, root.parent_id) == (TRACE, "")


# Off, sampled out, broken


async def test_without_tracing_nothing_is_on_the_wire_and_no_job_has_a_trail(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(**NODE), await house.session(traceparent=f"00-{TRACE}-{SPAN}-01")
        await speaker.say()
        job = await node.job()
        assert "traceparent" not in job
        assert house.instance.roster.get(job["job_id"]).trail is None
        await node.answer(job)
        await speaker.expect("translation_result", trace_id=f"{TRACE}-0")


async def test_a_node_that_does_not_ask_for_it_hears_nothing_of_traces(store_options):
    """The first generation sees the messages it knows."""
    async with collecting() as collector, world(store_options, **traced(collector)) as house:
        node, speaker = await house.node(features=None), await house.session()
        job, _ = await said(speaker, node)
        await collector.one("node")
    assert "traceparent" not in job


async def test_what_is_sampled_out_costs_no_span(store_options):
    async with collecting() as collector, world(store_options, **traced(collector, sample_ratio=0)) as house:
        node, speaker = await house.node(**NODE), await house.session()
        job, _ = await said(speaker, node)
        assert "traceparent" not in job
    assert collector.spans == []
    assert house.counted("spans_exported_total") == 0


async def test_a_collector_that_is_down_harms_nobody_and_is_counted(store_options):
    async with collecting() as collector:
        collector.status = 400
        async with world(store_options, **traced(collector)) as house:
            node, speaker = await house.node(**NODE), await house.session()
            await said(speaker, node)
            await wait_until(
                lambda: house.counted("spans_dropped_total", why="export_failed") >= 5,
                description="spans are dropped",
            )
            collector.status = 200
            await said(speaker, node)
            await wait_until(lambda: house.counted("spans_exported_total"), description="spans leave again")


async def test_a_collector_that_is_not_there_harms_nobody(store_options):
    nowhere = SecretUrl("http://127.0.0.1:9/v1/traces")
    tables = {"tracing": {"enabled": True, "endpoint": nowhere, "timeout_ms": 200}}
    async with world(store_options, **tables) as house:
        node, speaker = await house.node(**NODE), await house.session()
        for _ in range(3):
            await said(speaker, node)


async def test_the_header_for_the_collector_comes_from_a_file_and_is_shown_nowhere(store_options, tmp_path):
    secret = tmp_path / "header"
    secret.write_text("Bearer canary-secret\n")
    async with collecting() as collector:
        tables = traced(collector, authorization_file=str(secret))
        with captured(LogOptions(level="debug", format="json")) as written:
            async with world(store_options, **tables) as house:
                node, speaker = await house.node(**NODE), await house.session()
                await said(speaker, node)
                await collector.one("utterance")
    assert collector.requests[0]["authorization"] == "Bearer canary-secret"
    assert "canary" not in written.text
    shown_config = repr(configured(store_options, tracing={"authorization": Secret("canary")}))
    assert "canary" not in shown_config


# The log


@pytest.mark.parametrize("tracing", [True, False])
async def test_one_trace_id_finds_everything_in_the_logs_of_both_instances(store_options, tracing):
    async with collecting() as collector:
        tables = traced(collector) if tracing else {}
        with captured(LogOptions(level="debug", format="json")) as written:
            async with two(store_options, **tables) as (a, b):
                first, speaker = await b.node(**NODE), await a.session()
                await shown(a, 1)
                await speaker.say()
                await first.job()
                second = await b.node(**NODE)
                await shown(a, 2)
                await first.hang_up()
                job = await second.job()
                await second.answer(job)
                await speaker.expect("translation_result")
                await speaker.send("session_close", session_id=speaker.id, reason="done")
                await speaker.expect("session_close_ack")
    trace_id = speaker.ack["trace_id"]
    lines = [json.loads(line) for line in written.lines]
    found = [line["event"] for line in lines if trace_id in str(line.get("trace_id"))]
    assert {"session_opened", "job_placed", "job_handed_on", "failover", "session_ended"} <= set(found)
    for line in lines:
        if line.get("job") or line.get("session"):
            assert str(line.get("trace_id")).startswith(trace_id), line
