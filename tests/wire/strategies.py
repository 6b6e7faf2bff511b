"""Hypothesis strategies for every message, built from the message types themselves."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from lingua_scheduler.wire.node import FromNode, ToNode
from lingua_scheduler.wire.session import FromClient, ToClient

UNIONS: dict[str, Any] = {
    "FromClient": FromClient,
    "ToClient": ToClient,
    "FromNode": FromNode,
    "ToNode": ToNode,
}

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def classes(union: Any) -> tuple[type[msgspec.Struct], ...]:
    """Every message class of a union."""
    return get_args(union)


def messages(cls: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Any legal message of a class."""
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    fields = {}
    for field in info.fields:
        value = _values(field.type)
        fields[field.name] = value if field.required else st.just(field.default) | value
    if cls.__name__ == "Utterance":  # whole samples
        fields["audio"] = fields["audio"].map(lambda audio: audio + audio)
    if cls.__name__ in ("Utterance", "SessionInit"):  # anything else reads as absent
        fields["trace_id"] = st.none() | st.from_regex(r"[A-Za-z0-9._:-]{1,40}", fullmatch=True)
    return st.builds(cls, **fields)


def _strings(info: inspect.StrType) -> st.SearchStrategy[str]:
    longest = min(info.max_length or 40, 40)
    if info.pattern is None:
        return st.text(min_size=info.min_length or 0, max_size=longest)
    characters = info.pattern.removeprefix("^").removesuffix(r"+\Z").removesuffix(r"*\Z")
    return st.from_regex(f"{characters}{{{info.min_length or 0},{longest}}}", fullmatch=True)


def _scalars(info: inspect.Type) -> st.SearchStrategy[Any] | None:
    match info:
        case inspect.StrType():
            return _strings(info)
        case inspect.IntType(ge=least, le=most):
            return st.integers(least, most) if least is not None else st.integers(-(2**63), 2**63)
        case inspect.FloatType(ge=least, le=most):
            return st.floats(least, most, allow_nan=False, allow_infinity=False)
        case inspect.BytesType():
            return st.binary(min_size=info.min_length or 0, max_size=64)
    plain = {inspect.BoolType: st.booleans(), inspect.NoneType: st.none(), inspect.AnyType: json_values}
    return plain.get(type(info))


def _values(info: inspect.Type) -> st.SearchStrategy[Any]:
    scalars = _scalars(info)
    if scalars is not None:
        return scalars
    match info:
        case inspect.UnionType(types=types):
            return st.one_of([_values(member) for member in types])
        case inspect.VarTupleType(item_type=item):
            return st.lists(_values(item), max_size=2).map(tuple)
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(_values(key), _values(value), max_size=2)
        case inspect.StructType(cls=cls):
            return messages(cls)
    raise TypeError(f"no strategy for {info}")
