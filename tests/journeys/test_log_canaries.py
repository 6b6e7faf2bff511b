"""No audio, no text and no secret is in any log line: whole lives at debug level, in both forms.

Everything private is a canary. The lines are searched for each, also encoded, escaped, reversed or in pieces.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json

import aiohttp
import pytest

from canaries import audio_forms, forms, leaks
from edge.frames import TEXT, frame
from edge.world import HEARTBEAT
from edge.world import World as EdgeWorld
from journeys.test_auth import STRICT, answer_to, link, make, refused, speaker
from lingua_scheduler.aio import Alarms, Tasks
from lingua_scheduler.cli import main
from lingua_scheduler.clock import VirtualClock
from lingua_scheduler.errors import DependencyDown, StoreError
from lingua_scheduler.log import LogOptions, get_logger
from lingua_scheduler.node import JobFailed, LinkOptions, Node, Translation
from lingua_scheduler.secret import Secret
from lingua_scheduler.store.connection import Connection, StoreOptions
from logs import captured
from neighbours import shown, two
from support import wait_until
from world import World, world

PCM = b"PcmCanary\x00\x01\x7f\xfe~" * 60  # 840 bytes, an even number
VOICE = b"VoiceCanary\xff\xee\x01" * 40
HEARD, SPOKEN, PARTIAL = (
    "kanarienvogel hat 金丝雀 gesagt",
    "the canary said yellow",
    "partial-canary half a word",
)
ERROR = "node-error-canary: could not say 'guten morgen kanarie'"
ADMIN, QUERY, REDIS = "AdminCanary-9f3e", "QueryCanary-77aa", "RedisCanary-31bc"
BROKEN = "broken-canary-payload"

TEXTS = (HEARD, SPOKEN, PARTIAL, ERROR, ADMIN, QUERY, REDIS, BROKEN)


@pytest.fixture(params=["json", "console"])
def form(request):
    return request.param


def forbidden(*more: str) -> set[str]:
    found = audio_forms(PCM) | audio_forms(VOICE)
    for each in (*TEXTS, *more):
        found |= forms(each)
    return found


def debug(form: str) -> LogOptions:
    return LogOptions(level="debug", format=form)


def checked(written, *more: str) -> None:
    """Nothing of it is there; and the log was there to be looked at."""
    assert "the last line" in written.text
    assert leaks(written.text, forbidden(*more)) == []


def last_line() -> None:
    get_logger("canary").error("the last line")


async def talk(house: World, node, client) -> None:
    """Say something in every way, with partial results, a voice and a transcript."""
    await client.chunk(PCM)
    await client.chunk(PCM, final=True)
    job = await node.job()
    about = {name: job[name] for name in ("job_id", "session_id", "utterance_index", "trace_id")}
    await node.send("asr_partial", node_id=node.id, text=PARTIAL, is_final=False, **about)
    await client.expect("asr_partial")
    await node.answer(job, HEARD, SPOKEN, tts_audio=base64.b64encode(VOICE).decode(), tts_format="pcm16")
    await client.expect("translation_result")
    await client.utterance(1, PCM * 40)
    await node.answer(await node.job(), HEARD, SPOKEN)
    await client.expect("translation_result")


async def mistakes(house: World, client) -> None:
    """Send what cannot be read, with something private in each place."""
    text = base64.b64encode(PCM).decode()
    for raw in (
        f'{{"type": "audio_chunk", "payload": "{text}!!", "seq": "{HEARD}"}}',
        f'{{"type": "{HEARD}"}}',
        f'{{"type": "session_init", "src_lang": "{HEARD}"}}',
        f'{{"type": "utterance", "audio": "{text}"',
        f'["{HEARD}"]',
        HEARD,
        f'{{"type": "client_heartbeat", "session_id": "{QUERY}", "timestamp": 1}}',
    ):
        await client.send_raw(raw)
    await client.send_raw(PCM)
    await client.sync()
    await wait_until(lambda: len(client.seen("error")) >= 6, description="all are refused")


async def troubles(node, client) -> None:
    """Let a node fail in every way it has, telling what was said each time."""
    details = {"text": HEARD, "nested": [SPOKEN], "service_id": ERROR, "reason": ERROR}
    for code in ("PROCESSING_ERROR", ERROR, "MODEL_NOT_AVAILABLE", "NODE_OVERLOADED"):
        await client.say(PCM)
        job = await node.job()
        await node.fail(job, code, ERROR, **details)
        if code in ("PROCESSING_ERROR", ERROR):
            await client.expect("missing_result")
    await node.send("node_error", node_id=node.id, code=ERROR, message=ERROR, details=details)
    await node.send("MODEL_NOT_AVAILABLE", node_id=node.id, job_id="job-x", model_id=ERROR, reason=HEARD)
    await node.send_raw(f'{{"type": "job_result", "text_asr": "{HEARD}"}}')
    await node.send_raw(f'{{"type": "node_register", "platform": "{HEARD}"}}')
    await node.send_raw(PCM)
    await node.sync()


async def test_a_whole_life_with_its_mistakes(store_options, form):
    shown_keys: list[str] = []
    with captured(debug(form)) as written:
        tables = {**STRICT, "admin": {"token": Secret(ADMIN)}, "transcript": {"keep_s": 60}}
        async with world(store_options, **tables) as house:
            tenant, join = await make(house, "tenant", tenant="acme"), await make(house, "node")
            async with answer_to(house, "POST", "/api/v1/tokens", tenant, json={}) as answer:
                token = (await answer.json())["token"]
            node = await (await link(house, join)).register()
            await node.beat()
            await node.expect("node_status", status="ready")
            client = await (await speaker(house, token)).init(audio_format="pcm16", supports_resume=True)
            await talk(house, node, client)
            await mistakes(house, client)
            await troubles(node, client)
            await node.send("pairing_code_request", node_id=node.id)
            code = (await node.expect("pairing_code"))["code"]
            for each in (code, "000000", HEARD):
                await (await speaker(house, tenant)).init(pairing_code=each)
            resume = client.ack["resume_token"]
            client.reset()
            for each in (resume, resume[:-2] + "!!", HEARD):
                await (await speaker(house, tenant)).init(resume_token=each, supports_resume=True)
            shown_keys += [tenant, join, token, resume, client.ack["transcript_token"]]
            shown_keys += [part for key in (tenant, join) for part in (key.rpartition("_")[2],)]
            await knocks(house, shown_keys)
        last_line()
    checked(written, *shown_keys)
    assert code not in [word.strip("\"',:=") for word in written.text.split()]
    if form == "json":
        assert '"event":"session_opened"' in written.text


async def knocks(house: World, keys: list[str]) -> None:
    """Ask over HTTP for what is not given, with secrets in every part of the request."""
    for key in (*keys, ADMIN[:-1], QUERY):
        for path in ("/ws/session", "/ws/node", "/api/v1/stats", f"/{QUERY}", "/api/v1/nodes/x/drain"):
            async with answer_to(house, "GET", f"{path}?token={key}&api_key={QUERY}", key + "x"):
                pass
        async with answer_to(house, "POST", f"/api/v1/tokens?key={key}", key + "x", json={"scope": HEARD}):
            pass
    await refused(house, f"/ws/session?token={QUERY}", QUERY)
    host, port = house.instance.edge.address
    for line in (f"GET /{QUERY} {QUERY}\r\n\r\n", f"{HEARD}\r\n\r\n", f"GET / HTTP/1.1\r\n{QUERY}\r\n\r\n"):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(line.encode())
        with contextlib.suppress(ConnectionError, TimeoutError):
            await asyncio.wait_for(reader.read(100), 5)
        writer.close()


async def test_two_instances_and_a_room(store_options, form):
    with captured(debug(form)) as written:
        async with two(store_options) as (a, b):
            node = await b.node()
            await shown(a, 1)
            client, listener = await a.session(audio_format="pcm16"), await b.session(src_lang="en")
            await client.send("room_create", client_ts=1, display_name=PARTIAL, preferred_lang="zh")
            room = await client.expect("room_create_ack")
            await listener.send(
                "room_join", room_code=room["room_code"], display_name=PARTIAL, preferred_lang="en"
            )
            await listener.expect("room_members")
            await client.say(PCM)
            job = await node.job()
            voice = base64.b64encode(VOICE).decode()
            await node.answer(job, HEARD, SPOKEN, tts_audio=voice, tts_format="pcm16")
            await listener.expect("translation_result")
            await client.say(PCM)
            await node.job()
            await node.hang_up()  # the job goes back by letter
            await client.send_raw(HEARD)
            await client.sync()
            await a.redis("XADD", a.keys.inbox(b.instance.id), "*", "body", HEARD)
            await b.instance.letters.receive(block_s=0.01)
        last_line()
    checked(written)


# Faults of ours


async def test_an_exception_that_quotes_a_payload(form):
    """Whatever raises, and wherever: kinds and places are logged, never what the exception says."""
    loop = asyncio.get_running_loop()
    with captured(debug(form)) as written:
        tasks, clock = Tasks(), VirtualClock()

        async def crash() -> None:
            try:
                raise ValueError(f"cannot read {BROKEN} {PCM!r}")  # noqa: TRY301
            except ValueError as error:
                raise KeyError(BROKEN, HEARD) from error

        task = tasks.start(crash(), name="crash")
        await asyncio.wait((task,))
        alarms = Alarms(clock)
        alarms.set(clock.now() + 1, lambda: {}[BROKEN])
        clock.advance(2)
        group = ExceptionGroup(BROKEN, [RuntimeError(HEARD), OSError(5, "broken pipe", BROKEN)])
        get_logger("m").error("grouped", exc_info=group)
        get_logger("m").info(
            "fact", error=ValueError(BROKEN), reason=UnicodeDecodeError("utf-8", PCM, 0, 1, BROKEN)
        )
        get_logger("m").info("failed", error=JobFailed("X", HEARD), failure=StoreError("our own words"))
        loop.call_soon(lambda payload: payload.no_such_thing, BROKEN)
        forgotten = loop.create_task(crash())
        await asyncio.sleep(0.01)
        loop.call_exception_handler(
            {"message": f"Exception in callback f({BROKEN!r})", "exception": ValueError(HEARD)}
        )
        loop.call_exception_handler({"message": "Fatal", "transport": BROKEN, "exception": ValueError(HEARD)})
        assert forgotten.done()
        del forgotten
        last_line()
    checked(written)
    assert "task_crashed" in written.text
    assert "test_log_canaries.py" in written.text  # the place is told
    assert "KeyError" in written.text
    assert "which led to" in written.text
    assert "broken pipe" in written.text
    assert "our own words" in written.text


async def test_a_peer_that_makes_the_flow_fail(form):
    """The edge logs that a message could not be handled, and nothing of the message."""
    with captured(debug(form)) as written:
        async with EdgeWorld() as edge:
            client = await edge.client()
            edge.sessions.peers[-1].raises = ValueError(f"{BROKEN} {PCM!r} {HEARD}")
            client.send(frame(TEXT, json.dumps({**HEARTBEAT, "extra": BROKEN}).encode()))
            await wait_until(lambda: "message_failed" in written.text, description="it is logged")
        last_line()
    checked(written)


async def test_a_handler_of_a_node_that_quotes_what_was_said(store_options, form):
    async def handled(job) -> Translation:
        if job.assign.utterance_index == 0:
            raise ValueError(f"{HEARD} {job.assign.audio!r}")
        raise JobFailed(ERROR, HEARD, details={"text": HEARD})

    with captured(debug(form)) as written:
        async with world(store_options) as house:
            node = Node(
                handler=handled,
                languages=("zh", "en"),
                url=house.instance.url,
                options=LinkOptions(handle_signals=False),
            )
            running = asyncio.create_task(node.run())
            await node.registered.wait()
            client = await house.session(audio_format="pcm16")
            for _ in range(2):
                await client.say(PCM)
                await client.expect("missing_result")
            node.stop()
            await running
        last_line()
    checked(written)
    assert "handler_failed" in written.text
    assert "job_failed" in written.text


# Redis


async def test_a_redis_that_refuses_the_password_or_the_command(redis_server, form, tmp_path):
    secret = tmp_path / "password"
    secret.write_text(REDIS)
    secret.chmod(0o600)
    with captured(debug(form)) as written:
        for options in (
            StoreOptions(url=redis_server.url, username="nobody", password_file=str(secret)),
            StoreOptions(url=f"redis://user:{REDIS}@127.0.0.1:1/0"),
        ):
            connection = Connection(options)
            with pytest.raises(DependencyDown) as failure:
                await connection.call("PING")
            get_logger("m").warning("redis_lost", reason=str(failure.value), error=failure.value)
            await connection.close()
        connection = Connection(StoreOptions(url=redis_server.url))
        with pytest.raises(StoreError) as unknown:
            await connection.call("NOSUCHCOMMAND", REDIS, HEARD)
        get_logger("m").warning("refused", reason=str(unknown.value), exc_info=unknown.value)
        await connection.close()
        last_line()
    checked(written)
    assert "unknown command" in written.text


# What commands print


def test_no_secret_is_printed_by_config_show_or_doctor(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "own.toml"
    own.write_text(
        f"""
        [redis]
        url = "redis://user:{REDIS}@127.0.0.1:1/0"
        [admin]
        token = "{ADMIN}"
        [tracing]
        authorization = "Bearer {QUERY}"
        endpoint = "https://name:{QUERY}@collector.example/v1/traces?api_key={QUERY}"
        """
    )
    own.chmod(0o600)
    main(["config", "show", "--config", "own.toml"])
    main(["doctor", "--config", "own.toml"])
    main(["doctor", "--config", "own.toml", "--json"])
    own.write_text(f'[admin]\ntoken = ["{ADMIN}"]\n[redis]\nurl = 7\n')
    main(["config", "show", "--config", "own.toml"])
    main(["doctor", "--config", "own.toml"])
    printed = capsys.readouterr()
    assert "collector.example" in printed.out
    assert leaks(printed.out + printed.err, forms(REDIS) | forms(ADMIN) | forms(QUERY)) == []


# Switches


async def test_one_module_can_speak_while_the_others_are_silent(store_options):
    options = LogOptions(format="json", level="error", levels={"flow.sessions": "info"})
    with captured(options) as written:
        async with world(store_options) as house:
            node, client = await house.node(), await house.session(audio_format="pcm16")
            await client.say(PCM)
            await node.answer(await node.job(), HEARD, SPOKEN)
            await client.expect("translation_result")
    assert {'"logger":"flow.sessions"' in line for line in written.lines} == {True}
    assert "session_opened" in written.text


async def test_a_folder_of_modules_can_be_silenced(store_options):
    options = LogOptions(format="json", level="debug", levels={"flow": "error", "flow.dispatch": "debug"})
    with captured(options) as written:
        async with world(store_options) as house:
            node, client = await house.node(), await house.session()
            await client.say()
            await node.answer(await node.job())
            await client.expect("translation_result")
    assert "job_placed" in written.text
    assert "session_opened" not in written.text
    assert "instance_started" in written.text


@pytest.mark.parametrize("wrong", ["lk_node_x_y", QUERY])
async def test_a_node_that_is_not_let_in_does_not_log_its_key(store_options, form, wrong):
    with captured(debug(form)) as written:
        async with world(store_options, **STRICT) as house:
            node = Node(
                handler=None,
                languages=("zh", "en"),
                url=house.instance.url,
                options=LinkOptions(handle_signals=False, token=Secret(wrong)),
            )
            with pytest.raises(Exception, match="401"):
                await node.run()
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await house._http.ws_connect(f"{house.instance.url}/ws/node?key={wrong}")
        last_line()
    checked(written, *([wrong] if wrong != QUERY else []))
