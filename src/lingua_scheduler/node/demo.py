"""A node that answers by a fixed rule: it hears how long somebody spoke, and says that it is only a demo."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Iterable
from math import pi, sin

from lingua_scheduler.core.audio import duration_ms
from lingua_scheduler.core.model import AudioFormat
from lingua_scheduler.node.announcement import About
from lingua_scheduler.node.job import Job, JobFailed, Translation
from lingua_scheduler.node.node import DEFAULT_URL, Node
from lingua_scheduler.node.options import LinkOptions
from lingua_scheduler.node.usage import Usage
from lingua_scheduler.wire.node import JobAssign
from lingua_scheduler.wire.opus import SPEECH_RATE, encode_opus

DEMO_LANGUAGES = ("en", "pt", "zh")

_TONE_HZ, _TONE_S, _FADE_S, _LOUDNESS = 440, 0.3, 0.02, 6000


def demo_translation(assign: JobAssign, *, tone: bool = True) -> Translation:
    """Answer by the rule: duration and languages as text and, if wanted, a short tone as voice."""
    try:
        audio_format = AudioFormat(assign.audio_format)
    except ValueError:
        raise JobFailed("PROCESSING_ERROR", "the audio format is unknown") from None
    spoken_s = duration_ms(audio_format, assign.sample_rate, assign.audio) / 1000
    steps = assign.pipeline
    heard = assign.text or f"[demo] {spoken_s:.1f} s of speech in {assign.src_lang}"
    voice = tone and steps.use_tts
    return Translation(
        text_asr=heard,
        text_translated=f"{heard}, not translated to {assign.tgt_lang}" if steps.use_nmt else "",
        tts_audio=demo_tone(audio_format) if voice else b"",
        tts_format=audio_format.value,
    )


@functools.cache
def demo_tone(audio_format: AudioFormat) -> bytes:
    """Give a short tone at 16 kHz."""
    count, fade = round(_TONE_S * SPEECH_RATE), round(_FADE_S * SPEECH_RATE)
    samples = array(
        "h",
        (
            round(
                _LOUDNESS
                * min(1.0, at / fade, (count - at) / fade)
                * sin(2 * pi * _TONE_HZ * at / SPEECH_RATE)
            )
            for at in range(count)
        ),
    )
    return encode_opus(samples.tobytes()) if audio_format is AudioFormat.OPUS else samples.tobytes()


def demo_node(
    url: str = DEFAULT_URL,
    *,
    node_id: str | None = None,
    languages: Iterable[str] = DEMO_LANGUAGES,
    capacity: int = 4,
    options: LinkOptions | None = None,
    usage: Callable[[], Usage] | None = None,
) -> Node:
    """Make a node that follows the rule; unless told otherwise, it heeds no signal."""

    async def answer(job: Job) -> Translation:
        return demo_translation(job.assign)

    return Node(
        handler=answer,
        languages=languages,
        capacity=capacity,
        url=url,
        about=About(node_id=node_id, usage=usage, text_jobs=True),
        options=options or LinkOptions(handle_signals=False),
    )
