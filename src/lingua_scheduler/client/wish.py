"""How this client introduces itself, and what it says about whole utterances after that."""

from __future__ import annotations

from typing import Any

from lingua_scheduler import __version__
from lingua_scheduler.wire.opus import SPEECH_RATE
from lingua_scheduler.wire.session import SessionInit, SessionInitAck


def wish_for(src_lang: str, tgt_lang: str, **members: Any) -> SessionInit:
    """Word a `session_init` of this client."""
    names: dict[str, Any] = {"client_version": f"lingua-python-{__version__}", "platform": "python"}
    return SessionInit(src_lang=src_lang, tgt_lang=tgt_lang, **{**names, **members})


def agreed_about(wish: SessionInit | None, ack: SessionInitAck | None) -> dict[str, Any]:
    """Give the members of an `utterance` that follow from what was wished and agreed."""
    return {
        "src_lang": wish.src_lang if wish else None,
        "tgt_lang": wish.tgt_lang if wish else None,
        "manual_cut": True,
        "audio_format": (ack and ack.negotiated_audio_format) or "opus",
        "sample_rate": (ack and ack.negotiated_sample_rate) or SPEECH_RATE,
    }
