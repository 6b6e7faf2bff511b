"""Short sentences for people who see an error code, in English and Chinese."""
# ruff: noqa: RUF001  (Chinese sentences use Chinese punctuation)

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

NODE_FAILURE_CODES = frozenset(
    {
        "NO_AVAILABLE_NODE",
        "MODEL_NOT_AVAILABLE",
        "WS_DISCONNECTED",
        "NMT_TIMEOUT",
        "TTS_TIMEOUT",
        "MODEL_VERIFY_FAILED",
        "MODEL_CORRUPTED",
    }
)
"""Codes of a failed result that a `ui_event` repeats with their hint; any other code it leaves out."""


class _Sentence(NamedTuple):
    en: str
    zh: str


_HINTS: Mapping[str, _Sentence] = {
    "INVALID_MESSAGE": _Sentence("The request could not be understood.", "请求无法识别。"),
    "INTERNAL_ERROR": _Sentence(
        "Something went wrong on the server. Please try again.", "服务器出错，请重试。"
    ),
    "INVALID_SESSION": _Sentence("This session is not valid. Please reconnect.", "会话无效，请重新连接。"),
    "SESSION_CLOSED": _Sentence("The session has ended. Please reconnect.", "会话已结束，请重新连接。"),
    "NODE_UNAVAILABLE": _Sentence(
        "The translation node cannot be reached. Please try again.", "翻译节点暂不可用，请重试。"
    ),
    "NO_AVAILABLE_NODE": _Sentence(
        "No translation node is free. Please try again later.", "当前没有可用的翻译节点，请稍后再试。"
    ),
    "JOB_TIMEOUT": _Sentence("The translation took too long. Please try again.", "翻译超时，请重试。"),
    "MODEL_NOT_AVAILABLE": _Sentence(
        "A model is missing. Rescheduling, or waiting for the model.",
        "所需模型不可用，正在重新调度或等待模型就绪。",
    ),
    "WS_DISCONNECTED": _Sentence(
        "The connection was lost. Please refresh the page or reconnect.", "连接已断开，请刷新页面或重新连接。"
    ),
    "NMT_TIMEOUT": _Sentence(
        "Translating took too long. Please try a shorter sentence.", "翻译超时，请缩短句子后重试。"
    ),
    "TTS_TIMEOUT": _Sentence("Speech synthesis took too long. Please try again.", "语音合成超时，请重试。"),
    "MODEL_VERIFY_FAILED": _Sentence(
        "A model failed its check. Please download it again.", "模型校验失败，请重新下载。"
    ),
    "MODEL_CORRUPTED": _Sentence(
        "A model is damaged. Please download it again.", "模型文件已损坏，请重新下载。"
    ),
    "MODEL_LOAD_FAILED": _Sentence(
        "A model could not be loaded. Please try again later.", "模型加载失败，请稍后再试。"
    ),
    "NODE_OVERLOADED": _Sentence(
        "The translation node is busy. Please try again later.", "翻译节点繁忙，请稍后再试。"
    ),
    "INVALID_PAIRING_CODE": _Sentence("The pairing code is wrong or has expired.", "配对码错误或已过期。"),
    "UNSUPPORTED_FEATURE": _Sentence("This server does not offer that feature.", "服务器不支持该功能。"),
    "SCHEDULER_DEPENDENCY_DOWN": _Sentence(
        "The service is temporarily unavailable. Please try again later.", "服务暂时不可用，请稍后再试。"
    ),
    "NO_GPU_AVAILABLE": _Sentence(
        "This machine has no GPU, so it cannot serve as a node.", "本机没有可用的 GPU，无法作为节点。"
    ),
    "NODE_ID_CONFLICT": _Sentence(
        "Another node already uses this id. Please choose another.", "节点 ID 已被占用，请更换。"
    ),
    "INVALID_CAPABILITY_SCHEMA": _Sentence(
        "The node describes its abilities wrongly. Please update the node.",
        "节点能力描述不符合要求，请更新节点程序。",
    ),
    "RESUME_FAILED": _Sentence(
        "The earlier conversation could not be taken up. A new one has begun.",
        "无法恢复之前的会话，已开始新的会话。",
    ),
    "RATE_LIMITED": _Sentence("Too many requests. Please slow down.", "请求过于频繁，请稍候。"),
    "ROOM_NOT_FOUND": _Sentence("There is no such room.", "房间不存在。"),
    "ROOM_FULL": _Sentence("The room is full.", "房间已满。"),
    "INVALID_ROOM_CODE": _Sentence("A room code has six digits.", "房间码应为六位数字。"),
    "ALREADY_IN_ROOM": _Sentence("You are already in a room.", "您已在房间中。"),
    "NOT_IN_ROOM": _Sentence("You are not in this room.", "您不在该房间中。"),
    "PEER_UNAVAILABLE": _Sentence("That person is not in the room.", "对方不在房间中。"),
}

_ROOM_OVER = _Sentence(
    "The room is closed because nobody spoke for a long time.", "房间因长时间无人说话已关闭。"
)
_GENERIC = _Sentence("Something went wrong. Please try again later.", "出现错误，请稍后再试。")


def hint(code: str, lang: str) -> str | None:
    """Give a code's sentence in Chinese or, for any other language, in English; None for unknown codes."""
    sentence = _HINTS.get(code)
    return None if sentence is None else _in(sentence, lang)


def room_over(lang: str) -> str:
    """Say that a room has ended because nobody spoke."""
    return _in(_ROOM_OVER, lang)


def generic_hint(lang: str) -> str:
    """Give the one sentence that fits every error."""
    return _in(_GENERIC, lang)


def _in(sentence: _Sentence, lang: str) -> str:
    primary = lang.lower().replace("_", "-").split("-", 1)[0]
    return sentence.zh if primary == "zh" else sentence.en
