"""Spans along an utterance: what the house knows of tracing, and the one module that knows OpenTelemetry."""
