"""Real traffic of the clients and nodes in the field decodes, and means the same when written again."""

from __future__ import annotations

import json

import pytest

from lingua_scheduler.wire import codec, node, session


def examples(text: str) -> list[str]:
    """One JSON object per paragraph."""
    return text.strip().split("\n\n")


FROM_WEB_AND_MOBILE = examples("""
{"type":"session_init","client_version":"web-client-v1.0","platform":"web","src_lang":"auto",
"tgt_lang":"en","dialect":null,"features":{},"pairing_code":null,"mode":"two_way_auto","lang_a":"zh",
"lang_b":"en","auto_langs":["zh","en"],"trace_id":"0e6f2f0a-1111-4222-8333-444455556666",
"tenant_id":null}

{"type":"session_init","client_version":"1.0.0","platform":"ios","src_lang":"zh","tgt_lang":"en",
"dialect":null,"features":{"emotion_detection":false,"voice_style_detection":false,
"speech_rate_detection":false,"speech_rate_control":false,"speaker_identification":false,
"persona_adaptation":false},"pairing_code":""}

{"type":"audio_chunk","session_id":"s-42","seq":7,"is_final":false,"payload":"TQBIgw+x/jcBAP8="}

{"type":"audio_chunk","session_id":"s-42","seq":8,"is_final":true,"payload":""}

{"type":"client_heartbeat","session_id":"s-42","timestamp":1794770758669}

{"type":"tts_started","session_id":"s-42","trace_id":"tr-1","group_id":"g-0",
"ts_start_ms":1794770525334}

{"type":"tts_play_ended","session_id":"s-42","trace_id":"tr-1","group_id":"g-1",
"ts_end_ms":1794770532143}

{"type":"room_create","client_ts":1794770805381}

{"type":"room_join","room_code":"304559","display_name":"Bea"}

{"type":"webrtc_offer","room_code":"304559","to":"s-2","sdp":{"type":"offer","sdp":"v=0..."}}

{"type":"webrtc_ice","room_code":"304559","to":"s-2",
"candidate":{"candidate":"candidate:1 1 udp 1 192.0.2.2 6000 typ host","sdpMid":"0","sdpMLineIndex":0}}

{"type":"room_raw_voice_preference","room_code":"304559","target_session_id":"s-1",
"receive_raw_voice":false}

{"type":"room_leave","room_code":"304559"}

{"type":"utterance","session_id":"s-7","utterance_index":0,"manual_cut":false,"src_lang":"zh",
"tgt_lang":"en","dialect":null,"features":{"emotion_detection":false},"audio":"AAABAA==",
"audio_format":"pcm16","sample_rate":16000}

{"type":"session_close","session_id":"s-7","reason":"client_disconnect"}
""")

TO_WEB = examples("""
{"type":"session_init_ack","session_id":"s-42","assigned_node_id":null,"message":"ok",
"trace_id":"0e6f2f0a-1111-4222-8333-444455556666"}

{"type":"translation_result","session_id":"s-42","utterance_index":0,"job_id":"j-0","text_asr":"你好",
"text_translated":"Hello","tts_audio":"TQBIgw==","tts_format":"opus","trace_id":"tr-1",
"group_id":"g-0","part_index":0,"service_timings":{"asr_ms":210,"nmt_ms":80,"tts_ms":150,
"total_ms":440},"scheduler_sent_at_ms":1794770525000}

{"type":"asr_partial","session_id":"s-42","utterance_index":0,"job_id":"j-0","text":"你",
"is_final":false,"trace_id":"tr-1"}

{"type":"missing_result","session_id":"s-42","utterance_index":3,"reason":"gap_timeout",
"created_at_ms":1794770525000,"trace_id":"tr-1"}

{"type":"error","code":"NO_AVAILABLE_NODE","message":"no node for zh-en","trace_id":"tr-1"}

{"type":"backpressure","action":"SLOW_DOWN","resume_after_ms":2000}

{"type":"ui_event","trace_id":"tr-1","session_id":"s-42","job_id":"j-0","utterance_index":0,
"event":"DISPATCHED","elapsed_ms":5,"status":"ok"}

{"type":"room_create_ack","room_code":"304559"}

{"type":"room_members","room_code":"304559","members":[{"participant_id":"s-1","session_id":"s-1",
"display_name":null,"raw_voice_preferences":{},"joined_at":1794770805389}]}
""")

FROM_NODE = examples("""
{"type":"node_register","node_id":null,"version":"2.0.0","capability_schema_version":"2.0",
"platform":"linux","hardware":{"cpu_cores":8,"memory_gb":32,"gpus":[{"name":"RTX 3060",
"memory_gb":12}]},"installed_models":[],"installed_services":[{"service_id":"faster-whisper-vad",
"type":"asr","device":"gpu","status":"running","version":"2.0.0"}],"capability_by_type":
[{"type":"asr","ready":true,"devices":["gpu"]}],"features_supported":{"emotion_detection":false},
"accept_public_jobs":true,"language_capabilities":{"asr_languages":["zh","en"],"tts_languages":
["zh","en"],"semantic_languages":["zh","en"],"semantic_core_ready":true}}

{"type":"node_register","node_id":null,"version":"2.0.0","capability_schema_version":"2.0",
"platform":"linux","hardware":{"cpu_cores":8,"memory_gb":32},"capability_by_type":
[{"type":"lexicon","ready":false},{"type":"not invented yet","ready":true,"devices":["npu"]}],
"accept_public_jobs":true}

{"type":"node_heartbeat","node_id":"node-1","timestamp":1794771018796,"resource_usage":
{"cpu_percent":37.5,"gpu_percent":0,"mem_percent":16.6,"running_jobs":0},"installed_services":
[{"service_id":"nmt-m2m100","type":"nmt","device":"gpu","status":"running","version":"1.0.0"}],
"capability_by_type":[{"type":"nmt","ready":true,"devices":["gpu"]}],"language_capabilities":
{"asr_languages":["zh","en"],"tts_languages":["zh","en"],"semantic_languages":["zh","en"],
"semantic_core_ready":true}}

{"type":"node_heartbeat","node_id":"node-1","timestamp":1794771018796,"resource_usage":
{"cpu_percent":37.5,"gpu_percent":0,"gpu_queue_length":2,"mem_percent":16.6,"running_jobs":1},
"installed_services":[],"capability_by_type":[],"rerun_metrics":{"totalReruns":3,
"successfulReruns":2},"processing_metrics":{"serviceEfficiencies":{"nmt-m2m100":0.75}}}

{"type":"job_result","job_id":"j-0","attempt_id":1,"node_id":"node-1","session_id":"s-42",
"utterance_index":0,"success":true,"text_asr":"你好","text_translated":"Hello",
"tts_audio":"YwBIgg==","tts_format":"opus","extra":{"detected_src_lang":"zh",
"audioBuffered":false},"processing_time_ms":456,"trace_id":"tr-1","asr_quality_level":"good",
"rerun_count":0}

{"type":"job_result","job_id":"j-1","attempt_id":2,"node_id":"node-1","session_id":"s-42",
"utterance_index":1,"success":false,"processing_time_ms":139,"error":{"code":"PROCESSING_ERROR",
"message":"Request failed with status code 500"},"trace_id":"tr-2"}

{"type":"asr_partial","node_id":"node-1","session_id":"s-42","utterance_index":0,"job_id":"j-0",
"text":"你","is_final":false,"trace_id":"tr-1"}

{"type":"MODEL_NOT_AVAILABLE","node_id":"node-1","job_id":"j-0","model_id":"org/whisper",
"version":"1","reason":"no such file"}
""")

TO_NODE = examples("""
{"type":"node_register_ack","node_id":"node-1","message":"ok"}

{"type":"job_assign","job_id":"j-0","attempt_id":1,"session_id":"s-42","utterance_index":0,
"src_lang":"auto","tgt_lang":"en","dialect":null,"mode":"two_way_auto","lang_a":"zh","lang_b":"en",
"auto_langs":["zh","en"],"pipeline":{"use_asr":true,"use_nmt":true,"use_tts":true},
"audio":"TQBIgw==","audio_format":"opus","sample_rate":16000,"trace_id":"tr-1","turn_id":"t-0",
"is_manual_cut":true,"is_timeout_triggered":false,"is_max_duration_triggered":false}

{"type":"job_cancel","job_id":"j-0","trace_id":"tr-1","reason":"superseded"}
""")


def without_nothing(value):
    """Drop what the protocol reads as absent: null members and flags that are false by default."""
    if isinstance(value, dict):
        silent = ("is_timeout_triggered", "is_max_duration_triggered", "use_semantic", "use_tone")
        return {
            name: without_nothing(inner)
            for name, inner in value.items()
            if inner is not None and not (inner is False and name in silent)
        }
    return [without_nothing(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("decode", "text"),
    [
        *((codec.decode_client, text) for text in FROM_WEB_AND_MOBILE),
        *((codec.decode_from_server, text) for text in TO_WEB),
        *((codec.decode_node, text) for text in FROM_NODE),
        *((codec.decode_to_node, text) for text in TO_NODE),
    ],
)
def test_traffic_of_the_field_decodes_and_means_the_same_again(decode, text):
    message = decode(text)
    written = codec.encode(message)
    assert decode(written) == message
    assert without_nothing(json.loads(written)) == without_nothing(json.loads(text))


def test_audio_arrives_decoded():
    chunk = codec.decode_client(FROM_WEB_AND_MOBILE[2])
    assert isinstance(chunk, session.AudioChunk)
    assert chunk.audio == bytes.fromhex("4d00 4883 0fb1 fe37 0100 ff")


def test_an_unknown_service_type_is_kept():
    register = codec.decode_node(FROM_NODE[1])
    assert isinstance(register, node.NodeRegister)
    assert [capability.type for capability in register.capability_by_type] == ["lexicon", "not invented yet"]
    assert register.installed_services is None
    assert register.installed_models is None
    assert register.hardware.gpus is None


def test_the_nodes_counters_are_read_from_camel_case():
    beat = codec.decode_node(FROM_NODE[3])
    assert isinstance(beat, node.NodeHeartbeat)
    assert beat.rerun_metrics is not None
    assert beat.rerun_metrics.total_reruns == 3
    assert beat.resource_usage.gpu_queue_length == 2
