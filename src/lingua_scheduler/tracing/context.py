"""Where a span stands: the W3C trace context, and how the ids of this protocol become ids of traces.

A session's `trace_id` is made in the form of the W3C trace context, so it is the id of the trace as it is.
What a client sends in another form is brought into this one, by the same rule on every instance and node.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

_TRACE_CHARS, _SPAN_BYTES = 32, 8
_TRACE = re.compile(r"[0-9a-f]{32}\Z")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]{0,256})?\Z")
_NO_TRACE, _NO_SPAN, _NO_VERSION = "0" * _TRACE_CHARS, "0" * (2 * _SPAN_BYTES), "ff"
_SAMPLED = 1


@dataclass(frozen=True, slots=True)
class Context:
    """One span, as others may name it for a parent."""

    trace_id: str  # 32 hexadecimal digits
    span_id: str  # 16 of them
    sampled: bool = True

    @property
    def traceparent(self) -> str:
        """Word it as the W3C header `traceparent`."""
        return f"00-{self.trace_id}-{self.span_id}-{self.sampled:02x}"


def read_traceparent(text: str | None) -> Context | None:
    """Read a `traceparent`; None when it is none, as the W3C asks for."""
    found = _PARENT.match(text or "")
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == _NO_VERSION or trace_id == _NO_TRACE or span_id == _NO_SPAN or (version == "00" and more):
        return None
    return Context(trace_id, span_id, sampled=bool(int(flags, 16) & _SAMPLED))


def trace_of(trace_id: str) -> str:
    """Give the id of the trace that a `trace_id` of this protocol stands for; most are it already."""
    plain = trace_id.lower()
    if _UUID.match(plain):
        plain = plain.replace("-", "")
    if _TRACE.match(plain) and plain != _NO_TRACE:
        return plain
    return hashlib.blake2b(trace_id.encode(), digest_size=_TRACE_CHARS // 2).hexdigest()


def span_of(name: str) -> str:
    """Give the id of a span that has a name: whoever goes on with what it is about writes the same one."""
    return hashlib.blake2b(name.encode(), digest_size=_SPAN_BYTES).hexdigest()
