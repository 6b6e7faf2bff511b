"""What can go wrong with engines, and how each failure is told to people and to the scheduler."""

from __future__ import annotations

from typing import Any

from lingua_scheduler.errors import LinguaError

MISSING = "MODEL_NOT_AVAILABLE"
_TIMEOUTS = {"nmt": "NMT_TIMEOUT", "tts": "TTS_TIMEOUT"}
_ANY_FAILURE = "PROCESSING_ERROR"


class EngineError(LinguaError):
    """An engine could not do its work; `service` names its step."""

    code = _ANY_FAILURE

    def __init__(self, service: str, message: str) -> None:
        super().__init__(message)
        self.service = service

    @property
    def details(self) -> dict[str, Any]:
        """What a failed job says beside code and message."""
        return {"service_id": self.service}


class ModelMissing(EngineError):
    """A program, a weight or a language is not there, or not what it should be; names what would help."""

    code = MISSING


class EngineFailed(EngineError):
    """An engine raised; the message names the kind of failure, never what was said."""


class WorkerDied(EngineError):
    """The process of the engines ended while it worked."""


class EngineHung(EngineError):
    """An engine missed its deadline and was killed with its process."""

    def __init__(self, service: str, deadline_s: float) -> None:
        super().__init__(service, f"{service} did not finish within {deadline_s:g} s and was killed")
        self.code = _TIMEOUTS.get(service, _ANY_FAILURE)


class NothingToOffer(LinguaError):
    """No pair of languages passed the start-up test; the message says what failed."""
