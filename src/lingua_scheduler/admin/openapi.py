"""The OpenAPI document of the HTTP API, made from the endpoints that are served and the types they use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from lingua_scheduler import __version__
from lingua_scheduler.admin.endpoint import Endpoint, Parameter

_REF = "#/components/schemas/{name}"
_GUARDED = (401, 403)
_SAID = (400, 414)
_SENT = (413, 415)
_SCHEMES = {
    "admin": "The value of `admin.token`, or an admin key.",
    "tenant": "A tenant key.",
    "session": "A session token, or a tenant key.",
    "transcript": "The `transcript_token` of a session.",
}
"""What callers show, and for whom."""


class Problem(msgspec.Struct, frozen=True):
    """What went wrong, in the form of RFC 9457."""

    type: str
    title: str
    status: int
    detail: str


def document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """Describe these endpoints in the form of OpenAPI 3.1."""
    served = list(endpoints)
    types = [kind for each in served for kind in (each.answer, each.body, *each.others.values()) if kind]
    types = list(dict.fromkeys([*types, Problem]))
    refs, components = msgspec.json.schema_components(types, ref_template=_REF)
    schemas = dict(zip(types, refs, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in served:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Lingua Scheduler",
            "version": __version__,
            "description": "What operators, dashboards, autoscalers and talkers may ask of one instance.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                name: {"type": "http", "scheme": "bearer", "description": about}
                for name, about in _SCHEMES.items()
            },
        },
    }


def _operation(each: Endpoint, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": _name(each),
        "summary": each.about,
        "responses": {**_answers(each, schemas), **_problems(each, schemas)},
    }
    if each.parameters:
        described["parameters"] = [_parameter(parameter) for parameter in each.parameters]
    if each.body is not None:
        sent = {"application/json": {"schema": schemas[each.body]}}
        described["requestBody"] = {"required": True, "content": sent}
    if shown := each.shows or ("" if each.open else "admin"):
        described["security"] = [{shown: []}, {}]
    return described


def _name(each: Endpoint) -> str:
    words = re.findall(r"[A-Za-z0-9]+", each.path.removeprefix("/api"))
    return "_".join([each.method.lower(), *words])


def _answers(each: Endpoint, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "content": {
                media: {"schema": {"type": "string"} if kind is None else schemas[kind]}
                for media in (each.media, *each.other_media)
            },
        }
        for status, kind in {each.status: each.answer, **each.others}.items()
    }


def _problems(each: Endpoint, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    statuses = {*each.problems, *_SAID}
    statuses |= set() if each.open else set(_GUARDED)
    statuses |= set() if each.body is None else set(_SENT)
    content = {"application/problem+json": {"schema": schemas[Problem]}}
    return {
        str(status): {"description": HTTPStatus(status).phrase, "content": content}
        for status in sorted(statuses)
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.where,
        "required": parameter.where == "path",
        "description": parameter.about,
        "schema": parameter.schema,
    }
