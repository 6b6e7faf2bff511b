"""The reference node: speech through real engines, from VAD to voice.

::

    async with reference_node(SpeechOptions()) as node:
        await node.run()

Engines are classes behind the protocols of `engine.py`, chosen by name in the configuration.
"""

from lingua_scheduler.node.speech.configuration import load_speech_options, speech_options
from lingua_scheduler.node.speech.engine import Heard, Sound, Span, Speech
from lingua_scheduler.node.speech.errors import EngineError, ModelMissing, NothingToOffer
from lingua_scheduler.node.speech.options import EngineChoice, SpeechOptions
from lingua_scheduler.node.speech.reference import reference_node, run_speech_node

__all__ = [
    "EngineChoice",
    "EngineError",
    "Heard",
    "ModelMissing",
    "NothingToOffer",
    "Sound",
    "Span",
    "Speech",
    "SpeechOptions",
    "load_speech_options",
    "reference_node",
    "run_speech_node",
    "speech_options",
]
