"""The catalogue of services: what the model hub offers, read with suspicion, and how that became known.

A hub that fails keeps nobody from working, so what was known stays until something better comes: the hub's
next answer, or the local index. One bad entry costs nothing but itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from lingua_scheduler.errors import LinguaError

INDEX_FILE = "services_index.json"

_MOST_VARIANTS = 64
_PATIENT_FAILURES = 2  # so many failures in a row do not make the pause longer
_LARGEST_EXPONENT = 8
_LONGEST_ERROR = 300

_Word = Annotated[str, msgspec.Meta(max_length=128)]
_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
_Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]


class NoCatalogue(LinguaError):
    """The hub or the local index gives none; the sentence says why, `advice` what to do."""

    retryable = True

    def __init__(self, why: str, advice: str = "") -> None:
        super().__init__(why)
        self.advice = advice


class ModelHubOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the catalogue of services comes from, and what it may cost."""

    base_url: Annotated[str, msgspec.Meta(max_length=1024)] = ""
    """Address of the model hub, like `http://hub:5000`; empty: only the local index counts."""
    storage_path: str = ""
    """Folder of the local index, `services_index.json`, which counts while the hub fails; empty: none."""
    allow_private: bool = False
    """Let a public name in `base_url` lead to a private address; addresses and local names always may."""
    interval_s: _Seconds = 30
    """Pause between two questions to the hub, also after its first two failures in a row."""
    max_interval_s: _Seconds = 300
    """Longest pause after more failures; each of them doubles it."""
    connect_timeout_s: _Seconds = 3
    """Longest time to find the hub's address and to connect."""
    timeout_s: _Seconds = 20
    """Longest time for one whole question."""
    max_answer_bytes: Annotated[int, msgspec.Meta(ge=1024, le=64 * 2**20)] = 4 * 2**20
    """A catalogue that is larger is refused."""
    max_services: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1000
    """Services that are kept; those after them are left out and counted."""

    def __post_init__(self) -> None:
        if self.base_url and not _is_plain(self.base_url):
            raise ValueError("base_url: expected one like http://hub:5000, without user, password and query")

    @property
    def services_url(self) -> str:
        """Where the hub lists its services."""
        return f"{self.base_url.rstrip('/')}/api/services"


class Artifact(msgspec.Struct, frozen=True):
    """What a node would download; nothing here ever does."""

    type: _Word = "zip"
    url: Annotated[str, msgspec.Meta(max_length=2048)] = ""
    sha256: _Word = ""
    size_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0


class ServiceVariant(msgspec.Struct, frozen=True):
    """A version of a service on a platform; without an artifact, some node has it and the hub does not."""

    version: str
    platform: str
    artifact: Artifact | None = None


class Service(msgspec.Struct, frozen=True):
    """A service that can be had."""

    service_id: str
    name: str
    latest_version: str
    variants: list[ServiceVariant]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The services of one source, by their ids, and how many entries of it were of no use."""

    services: tuple[Service, ...] = ()
    skipped: int = 0


class _Entry(msgspec.Struct):
    service_id: _Id | None = None
    name: _Word | None = None
    latest_version: _Word | None = None
    variants: list[msgspec.Raw] = []


class _VariantEntry(msgspec.Struct):
    artifact: Artifact
    version: _Word | None = None
    platform: _Word | None = None


class _Answer(msgspec.Struct):
    services: list[msgspec.Raw]


_read_answer = msgspec.json.Decoder(_Answer).decode
_read_index = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_read_entry = msgspec.json.Decoder(_Entry).decode
_read_variant = msgspec.json.Decoder(_VariantEntry).decode


def read_answer(body: bytes, options: ModelHubOptions) -> Catalogue:
    """Read what a hub answers: an object with a list `services`. NoCatalogue when it is something else."""
    try:
        entries = _read_answer(body).services
    except (msgspec.DecodeError, RecursionError) as error:
        advice = (
            "see with curl what /api/services of the hub says: an object with a list services is expected"
        )
        raise NoCatalogue(f"no catalogue: {_short(error)}", advice) from None
    return _read((("", entry) for entry in entries), options)


def read_index(body: bytes, options: ModelHubOptions) -> Catalogue:
    """Read a local index: services by their ids, or like a hub's answer. NoCatalogue when it is neither."""
    try:
        index = _read_index(body)
        if (listed := index.get("services")) is not None and bytes(listed).lstrip().startswith(b"["):
            return _read((("", entry) for entry in _read_list(listed)), options)
    except (msgspec.DecodeError, RecursionError) as error:
        advice = f"write {INDEX_FILE} anew: services by their ids, or an object with a list services"
        raise NoCatalogue(f"no catalogue: {_short(error)}", advice) from None
    return _read(index.items(), options)


def newest(versions: Iterable[str]) -> str:
    """Give the highest version, 1.10 after 1.9; empty when there is none."""
    return max(versions, key=_by_number, default="")


def merged(
    offered: Iterable[Service], held: Mapping[str, AbstractSet[tuple[str, str]]], most: int
) -> list[Service]:
    """Join what the hub offers and what nodes have, as versions and platforms; at most so many services.

    Those that some node has come before those that only the hub has when not all have room.
    """
    known = {service.service_id: service for service in offered}
    chosen = [*sorted(held), *(each for each in known if each not in held)][:most]
    return [_joined(each, known.get(each), held.get(each, frozenset())) for each in sorted(chosen)]


def _joined(service_id: str, offered: Service | None, held: AbstractSet[tuple[str, str]]) -> Service:
    variants = offered.variants if offered else []
    there = {(each.version, each.platform) for each in variants}
    more = [
        ServiceVariant(version, platform)
        for version, platform in sorted(held)
        if (version, platform) not in there
    ]
    if offered is None:
        return Service(service_id, service_id, newest(each.version for each in more), more)
    return msgspec.structs.replace(offered, variants=[*variants, *more])


def _read(entries: Iterable[tuple[str, msgspec.Raw]], options: ModelHubOptions) -> Catalogue:
    services: dict[str, Service] = {}
    skipped = 0
    for key, raw in entries:
        service, bad_variants = _service(key, raw)
        skipped += bad_variants
        if service is None or service.service_id in services or len(services) >= options.max_services:
            skipped += 1
        else:
            services[service.service_id] = service
    return Catalogue(tuple(services[each] for each in sorted(services)), skipped)


def _service(key: str, raw: msgspec.Raw) -> tuple[Service | None, int]:
    """Read one entry; tell how many of its variants were of no use."""
    try:
        entry = _read_entry(raw)
    except (msgspec.DecodeError, RecursionError):
        return None, 0
    service_id = entry.service_id or key
    if not service_id or (key and service_id != key):
        return None, 0
    known = [_variant(each) for each in entry.variants[:_MOST_VARIANTS]]
    variants = [each for each in known if each is not None]
    latest = entry.latest_version or newest(each.version for each in variants)
    service = Service(service_id, entry.name or service_id, latest, variants)
    return service, len(entry.variants) - len(variants)


def _variant(raw: msgspec.Raw) -> ServiceVariant | None:
    try:
        entry = _read_variant(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    url = entry.artifact.url
    if url and not url.lower().startswith(("http://", "https://", "/")):  # it may be shown as a link
        return None
    return ServiceVariant(entry.version or "1.0.0", entry.platform or "unknown", entry.artifact)


def _by_number(version: str) -> list[tuple[int, str]]:
    parts = version.split(".")
    return [(int(part) if part.isascii() and part.isdecimal() else -1, part) for part in parts]


def _is_plain(url: str) -> bool:
    if not (url.isascii() and url.isprintable()) or any(mark in url for mark in " \\?#"):
        return False
    try:
        parts = urlsplit(url)
        _ = parts.port  # ValueError when it is none
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc


def _short(error: Exception) -> str:
    return str(error)[:_LONGEST_ERROR]


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of the services now, and how that came about; times are 0 before there is anything."""

    catalogue: Catalogue = Catalogue()
    source: Literal["none", "hub", "local"] = "none"
    fetched_at_ms: int = 0  # when the catalogue was read
    last_success_at_ms: int = 0  # when the source that is configured last gave one
    fail_count: int = 0  # failures since then
    last_error: str = ""

    def answered(self, catalogue: Catalogue, source: Literal["hub", "local"], now_ms: int) -> Standing:
        """The source that is configured gave a catalogue."""
        return Standing(catalogue, source, now_ms, now_ms)

    def failed(self, why: str, local: Catalogue | None, now_ms: int) -> Standing:
        """It did not: what was known stays, unless the local index has something."""
        kept = replace(self, fail_count=self.fail_count + 1, last_error=why[:_LONGEST_ERROR])
        if local is None or not local.services:
            return kept
        said = f"{kept.last_error}; used_local_index=true"
        return replace(kept, catalogue=local, source="local", fetched_at_ms=now_ms, last_error=said)

    def pause_s(self, options: ModelHubOptions) -> float:
        """How long to wait before the source is asked again."""
        exponent = min(max(0, self.fail_count - _PATIENT_FAILURES), _LARGEST_EXPONENT)
        longest_s = max(options.max_interval_s, options.interval_s)
        return min(options.interval_s * 2.0**exponent, longest_s)
