"""Every message of every union survives the wire, and says what the protocol says it must."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lingua_scheduler.wire import codec, node, session
from lingua_scheduler.wire.common import ErrorMessage, Pipeline, PipelineWish
from wire.strategies import UNIONS, classes, messages

steady = settings(deadline=None, derandomize=True)

DECODERS: dict[str, Any] = {
    "FromClient": codec.decode_client,
    "ToClient": codec.decode_from_server,
    "FromNode": codec.decode_node,
    "ToNode": codec.decode_to_node,
}
EVERY = [(name, cls) for name, union in UNIONS.items() for cls in classes(union)]
EVERY_IDS = [f"{name}-{cls.__name__}" for name, cls in EVERY]
every_message = pytest.mark.parametrize(("union", "cls"), EVERY, ids=EVERY_IDS)


@every_message
def test_a_message_comes_back_as_it_was_sent(union, cls):
    @settings(steady, max_examples=15, suppress_health_check=list(HealthCheck))
    @given(messages(cls), st.booleans())
    def round_trip(message, as_text):
        data = codec.encode(message)
        assert DECODERS[union](data.decode() if as_text else data) == message

    round_trip()


@every_message
def test_a_message_is_frozen_named_after_its_type_and_built_by_keyword(union, cls):
    config = cls.__struct_config__
    assert config.frozen
    assert config.omit_defaults
    assert config.tag_field == "type"
    camel = "".join(word.capitalize() for word in config.tag.lower().split("_"))
    assert cls.__name__ in (camel, f"{camel}Message")
    with pytest.raises(TypeError):
        cls("positional")


@every_message
def test_null_means_absent_for_every_optional_member(union, cls):
    @settings(steady, max_examples=2, suppress_health_check=list(HealthCheck))
    @given(messages(cls))
    def nulls(message):
        optional = {field.encode_name for field in msgspec.structs.fields(cls) if not field.required}
        members = msgspec.json.decode(codec.encode(message))
        absent = {name: value for name, value in members.items() if name not in optional}
        null = absent | {name: None for name in optional if not name.startswith("is_")}
        decode = DECODERS[union]
        assert decode(msgspec.json.encode(null)) == decode(msgspec.json.encode(absent))

    nulls()


@every_message
def test_a_required_member_must_be_there_and_is_always_written(union, cls):
    @settings(steady, max_examples=2, suppress_health_check=list(HealthCheck))
    @given(messages(cls))
    def required(message):
        members = msgspec.json.decode(codec.encode(message))
        for field in msgspec.structs.fields(cls):
            if field.required:
                short = {name: value for name, value in members.items() if name != field.encode_name}
                assert len(short) == len(members) - 1
                with pytest.raises(codec.InvalidMessage, match="missing required field"):
                    DECODERS[union](msgspec.json.encode(short))

    required()


def required_of(cls: type[msgspec.Struct]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(cls) if field.required}


@pytest.mark.parametrize(
    ("cls", "names"),
    [
        (session.SessionInit, "client_version platform src_lang tgt_lang"),
        (session.AudioChunk, "session_id seq is_final"),
        (
            session.Utterance,
            "session_id utterance_index manual_cut src_lang tgt_lang audio audio_format sample_rate",
        ),
        (session.ClientHeartbeat, "session_id timestamp"),
        (session.TtsStarted, "session_id trace_id group_id ts_start_ms"),
        (session.TtsPlayEnded, "session_id trace_id group_id ts_end_ms"),
        (session.SessionClose, "session_id reason"),
        (session.RoomCreate, "client_ts"),
        (session.RoomJoin, "room_code"),
        (session.RoomLeave, "room_code"),
        (session.RoomRawVoicePreference, "room_code target_session_id receive_raw_voice"),
        (session.WebrtcOffer, "room_code to sdp"),
        (session.WebrtcAnswer, "room_code to sdp"),
        (session.WebrtcIce, "room_code to candidate"),
        (node.NodeHeartbeat, "node_id resource_usage"),
    ],
)
def test_what_a_peer_must_send_is_what_the_protocol_requires(cls, names):
    assert required_of(cls) == set(names.split())


def test_a_result_always_carries_texts_audio_and_format():
    result = session.TranslationResult(
        session_id="s-1",
        utterance_index=0,
        job_id="j-0",
        text_asr="",
        text_translated="",
        tts_audio=b"",
        tts_format="pcm16",
        trace_id="tr",
    )
    assert msgspec.json.decode(codec.encode(result)) == {
        "type": "translation_result",
        "session_id": "s-1",
        "utterance_index": 0,
        "job_id": "j-0",
        "text_asr": "",
        "text_translated": "",
        "tts_audio": "",
        "tts_format": "pcm16",
        "trace_id": "tr",
    }


def job_assign(**more: Any) -> node.JobAssign:
    return node.JobAssign(
        job_id="j-0",
        attempt_id=1,
        session_id="s-1",
        utterance_index=0,
        src_lang="zh",
        tgt_lang="en",
        pipeline=Pipeline(),
        audio=b"\x01",
        audio_format="opus",
        sample_rate=16000,
        trace_id="tr",
        **more,
    )


def test_a_job_leaves_false_flags_out_but_writes_its_pipeline_in_full():
    members = msgspec.json.decode(codec.encode(job_assign(is_manual_cut=True)))
    assert members["is_manual_cut"] is True
    assert not {"is_timeout_triggered", "is_max_duration_triggered", "is_pause_triggered"} & members.keys()
    assert members["pipeline"] == {
        "use_asr": True,
        "use_nmt": True,
        "use_tts": True,
        "use_semantic": False,
        "use_tone": False,
    }


def test_a_wish_for_a_pipeline_is_filled_with_the_defaults():
    assert PipelineWish().filled() == Pipeline()
    assert PipelineWish(use_tts=False, use_tone=True).filled() == Pipeline(use_tts=False, use_tone=True)


def test_an_error_without_extras_is_code_and_message():
    encoded = codec.encode(ErrorMessage(code="INVALID_SESSION", message="no"))
    assert encoded == b'{"type":"error","code":"INVALID_SESSION","message":"no"}'


def test_a_heartbeat_tells_absent_from_empty():
    start = '{"type":"node_heartbeat","node_id":"n","resource_usage":'
    usage = '{"cpu_percent":1,"mem_percent":2,"running_jobs":0}'
    silent = codec.decode_node(start + usage + "}")
    empty = codec.decode_node(start + usage + ',"installed_services":[],"capability_by_type":[]}')
    assert isinstance(silent, node.NodeHeartbeat)
    assert isinstance(empty, node.NodeHeartbeat)
    assert silent.installed_services is None
    assert empty.installed_services == ()


@pytest.mark.parametrize("percent", [-1, 0, 100, 130.5])
def test_a_probe_may_report_what_is_no_percentage(percent):
    """Such a node is unhealthy; its heartbeat is still a message."""
    usage = f'{{"cpu_percent":1,"mem_percent":2,"running_jobs":0,"gpu_percent":{percent}}}'
    beat = codec.decode_node(f'{{"type":"node_heartbeat","node_id":"n","resource_usage":{usage}}}')
    assert isinstance(beat, node.NodeHeartbeat)
    assert beat.resource_usage.gpu_percent == percent


def job_result(**more: Any) -> node.JobResult:
    return node.JobResult(
        job_id="j",
        attempt_id=1,
        node_id="n",
        session_id="s",
        utterance_index=0,
        success=True,
        trace_id="t",
        **more,
    )


@pytest.mark.parametrize(
    ("extra", "reason"),
    [(None, None), ({}, None), ({"reason": "ASR_EMPTY"}, "ASR_EMPTY"), ({"reason": 7}, None)],
)
def test_a_result_names_its_reason_if_it_is_a_word(extra, reason):
    assert job_result(extra=extra).reason == reason


@pytest.mark.parametrize(
    ("extra", "total_ms", "expected"),
    [
        (None, None, None),
        (None, 456, {"total_ms": 456}),
        ({"service_timings": {"asr_ms": 5, "tts_ms": 1.5}}, 456, {"asr_ms": 5, "tts_ms": 1.5}),
        ({"service_timings": {"asr_ms": "fast"}}, 456, {"total_ms": 456}),
        ({"service_timings": ["?"]}, None, None),
    ],
)
def test_a_result_tells_its_timings_as_far_as_they_can_be_read(extra, total_ms, expected):
    timings = job_result(extra=extra, processing_time_ms=total_ms).service_timings
    assert (timings if timings is None else msgspec.to_builtins(timings)) == expected


def test_unknown_members_of_extra_are_kept():
    result = job_result(extra={"audioBuffered": False, "deep": {"er": [1, None]}})
    assert codec.decode_node(codec.encode(result)) == result
