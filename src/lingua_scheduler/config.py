"""The option records of every layer as one tree: defaults, a TOML file, the environment and flags.

Later sources win. Every value is checked by itself, so that a mistake is one line that names the key and
where it was set. Such a line never repeats the value: it may be a secret.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec

from lingua_scheduler.admin.guard import AdminOptions
from lingua_scheduler.core.affinity import AffinityOptions
from lingua_scheduler.core.autoscale import AutoscaleOptions
from lingua_scheduler.core.catalogue import ModelHubOptions
from lingua_scheduler.core.groups import GroupOptions
from lingua_scheduler.core.lifecycle import NodeHealthOptions
from lingua_scheduler.core.ordering import OrderingOptions
from lingua_scheduler.core.pairing import PairingOptions
from lingua_scheduler.core.pools import PoolsOptions
from lingua_scheduler.core.resume import ResumeOptions
from lingua_scheduler.core.rooms import RoomOptions
from lingua_scheduler.core.segmentation import SegmenterOptions
from lingua_scheduler.core.timeouts import TimeoutOptions
from lingua_scheduler.core.transcript import TranscriptOptions
from lingua_scheduler.core.unavailability import UnavailabilityOptions
from lingua_scheduler.edge.server import EdgeOptions
from lingua_scheduler.errors import ConfigError
from lingua_scheduler.flow.company import PeerOptions
from lingua_scheduler.flow.credentials import AuthOptions
from lingua_scheduler.flow.dispatch import DispatchOptions
from lingua_scheduler.flow.drain import DrainOptions
from lingua_scheduler.flow.opening import SessionOptions
from lingua_scheduler.flow.partials import PartialOptions
from lingua_scheduler.flow.registration import NodeOptions
from lingua_scheduler.flow.snapshot import PlacementOptions
from lingua_scheduler.log import LogOptions, printable
from lingua_scheduler.secret import Secret, SecretUrl, mask_url
from lingua_scheduler.slowness import ObservabilityOptions
from lingua_scheduler.store.connection import StoreOptions
from lingua_scheduler.store.instances import BEATS_PER_PRESENCE, CompanyOptions
from lingua_scheduler.store.jobs import LifeOptions
from lingua_scheduler.tracing.options import TracingOptions
from lingua_scheduler.watch import WatchOptions
from lingua_scheduler.wire.codec import WireOptions

FILE_NAME = "lingua.toml"
ENVIRONMENT_PREFIX = "LINGUA_"
FILE_VARIABLE = "LINGUA_CONFIG"
HUB_VARIABLE = "MODEL_HUB_URL"
"""What the first generation and the nodes' tools call the address of the model hub."""

_MAX_FILE_BYTES = 1 << 20
_PLACE = re.compile(r" - at `\$(.*)`$")
_SECRET_NAME = re.compile(r"(^|_)(password|secret|token|key)s?$")

Key = tuple[str, ...]
Record = TypeVar("Record", bound=msgspec.Struct)


class InstanceOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who this instance is."""

    id: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.-]{0,64}$")] = ""
    """Name of this instance, unique among all that share a Redis; empty makes one up at each start."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set, one table for each part that is tuned."""

    instance: InstanceOptions = InstanceOptions()
    server: EdgeOptions = EdgeOptions()
    wire: WireOptions = WireOptions()
    redis: StoreOptions = StoreOptions()
    lives: LifeOptions = LifeOptions()
    company: CompanyOptions = CompanyOptions()
    peers: PeerOptions = PeerOptions()
    session: SessionOptions = SessionOptions()
    resume: ResumeOptions = ResumeOptions()
    segmentation: SegmenterOptions = SegmenterOptions()
    results: OrderingOptions = OrderingOptions()
    partials: PartialOptions = PartialOptions()
    groups: GroupOptions = GroupOptions()
    affinity: AffinityOptions = AffinityOptions()
    pools: PoolsOptions = PoolsOptions()
    placement: PlacementOptions = PlacementOptions()
    dispatch: DispatchOptions = DispatchOptions()
    job_timeout: TimeoutOptions = TimeoutOptions()
    nodes: NodeOptions = NodeOptions()
    node_health: NodeHealthOptions = NodeHealthOptions()
    model_not_available: UnavailabilityOptions = UnavailabilityOptions()
    model_hub: ModelHubOptions = ModelHubOptions()
    pairing: PairingOptions = PairingOptions()
    rooms: RoomOptions = RoomOptions()
    transcript: TranscriptOptions = TranscriptOptions()
    drain: DrainOptions = DrainOptions()
    watch: WatchOptions = WatchOptions()
    admin: AdminOptions = AdminOptions()
    autoscale: AutoscaleOptions = AutoscaleOptions()
    observability: ObservabilityOptions = ObservabilityOptions()
    tracing: TracingOptions = TracingOptions()
    auth: AuthOptions = AuthOptions()
    log: LogOptions = LogOptions()


@dataclass(frozen=True, slots=True)
class Setting:
    """One value as somebody set it, and where: a file, a variable or a flag."""

    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The effective configuration, and the origin of every value that somebody set (by dotted key)."""

    config: Config
    origins: dict[str, str]


def load(
    file: Path | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    flags: Mapping[str, tuple[str, Any]] | None = None,
) -> Loaded:
    """Read every source; ConfigError with one line when any value cannot be used.

    `flags` maps a command line flag to the dotted key it sets and its value; None: the flag was not given.
    Without `file`, LINGUA_CONFIG names it; without that, it is lingua.toml of the working directory, if any.
    """
    settings: dict[Key, Setting] = {}
    path = _file_to_read(file, environ)
    if path is not None:
        settings.update(_from_file(path))
    settings.update(_from_environment(environ))
    for flag, (dotted, value) in (flags or {}).items():
        if value is not None:
            settings[tuple(dotted.split("."))] = Setting(value, flag)
    config = _built(Config(), settings, ())
    _refuse_hasty_burial(config, settings)
    if path is not None:
        _refuse_exposed_secret(path, config, settings)
    return Loaded(config, {".".join(key): setting.origin for key, setting in settings.items()})


def is_secret(name: str, value: Any) -> bool:
    """Tell what must not be shown: marked as secret, called like one, or an address with a password."""
    if not isinstance(value, str) or not value:
        return False
    if isinstance(value, SecretUrl) or ("://" in value and not isinstance(value, Secret)):
        return mask_url(value) != value
    return isinstance(value, Secret) or _SECRET_NAME.search(name) is not None


def record_of(field_type: Any) -> type[msgspec.Struct] | None:
    """Give the record a field holds when it is a table of its own."""
    return field_type if isinstance(field_type, type) and issubclass(field_type, msgspec.Struct) else None


def choices(field_type: Any) -> list[str]:
    """List the words a field accepts, when it accepts only certain words."""
    if get_origin(field_type) is Literal:
        return [str(word) for word in get_args(field_type)]
    if isinstance(field_type, type) and issubclass(field_type, Enum):
        return [str(member.value) for member in field_type]
    return [word for part in get_args(field_type) for word in choices(part)]


def _file_to_read(file: Path | None, environ: Mapping[str, str]) -> Path | None:
    if file is not None:
        return file
    if FILE_VARIABLE in environ:
        return Path(environ[FILE_VARIABLE])
    return Path(FILE_NAME) if Path(FILE_NAME).exists() else None


def _from_file(path: Path) -> dict[Key, Setting]:
    name = printable(str(path))
    try:
        with path.open("rb") as source:
            text = source.read(_MAX_FILE_BYTES + 1)
        if len(text) > _MAX_FILE_BYTES:
            raise ConfigError(f"{name}: larger than {_MAX_FILE_BYTES} bytes")
        table = tomllib.loads(text.decode())
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not UTF-8 at byte {error.start}") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{name}: not TOML: {printable(str(error))}") from error
    return dict(_flattened(table, Config, (), name))


def _flattened(
    table: dict[str, Any], record: type[msgspec.Struct], at: Key, origin: str
) -> Iterator[tuple[Key, Setting]]:
    fields = {field.name: field for field in msgspec.structs.fields(record)}
    for name, value in table.items():
        key = (*at, name)
        if name not in fields:
            raise ConfigError(f"{origin}: unknown key {_dotted(key)}{_suggestion(key, fields)}")
        inner = record_of(fields[name].type)
        if inner is None:
            yield key, Setting(value, origin)
        elif isinstance(value, dict):
            yield from _flattened(value, inner, key, origin)
        else:
            raise ConfigError(f"{origin}: {_dotted(key)} is a table: write [{_dotted(key)}]")


def _from_environment(environ: Mapping[str, str]) -> dict[Key, Setting]:
    settings: dict[Key, Setting] = {}
    if HUB_VARIABLE in environ:
        settings["model_hub", "base_url"] = Setting(environ[HUB_VARIABLE], HUB_VARIABLE)
    tables = tuple(f"{ENVIRONMENT_PREFIX}{field.name.upper()}_" for field in msgspec.structs.fields(Config))
    for variable, text in environ.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        if "__" in variable:
            key, field_type = _variable_target(variable)
            settings[key] = Setting(_variable_value(text, field_type), variable)
        elif variable.startswith(tables):
            raise ConfigError(f"{printable(variable)}: write two underscores between the table and the key")
    return settings


def _variable_target(variable: str) -> tuple[Key, Any]:
    key: Key = ()
    field_type: Any = Config
    for part in variable.removeprefix(ENVIRONMENT_PREFIX).lower().split("__"):
        record = record_of(field_type)
        fields = {field.name: field for field in msgspec.structs.fields(record)} if record else {}
        key = (*key, part)
        if part not in fields:
            raise ConfigError(f"{printable(variable)}: unknown key {_dotted(key)}{_suggestion(key, fields)}")
        field_type = fields[part].type
    if record_of(field_type) is not None:
        raise ConfigError(f"{printable(variable)}: {_dotted(key)} is a table: name one of its keys")
    return key, field_type


def _variable_value(text: str, field_type: Any) -> Any:
    """Read text as TOML where the field is not text itself; what is no TOML stays text and fails the type."""
    try:
        msgspec.convert(text, field_type, dec_hook=_decoded)
    except msgspec.ValidationError:
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):
            return text
    return text


def _built(default: Record, settings: Mapping[Key, Setting], at: Key) -> Record:
    changes: dict[str, Any] = {}
    for field in msgspec.structs.fields(default):
        key = (*at, field.name)
        if record_of(field.type) is not None:
            changes[field.name] = _built(getattr(default, field.name), settings, key)
        elif key in settings:
            changes[field.name] = _checked(settings[key], field.type, key)
    try:
        return msgspec.structs.replace(default, **changes)
    except ValueError as error:  # the record's own rule about several of its keys
        origins = {setting.origin for key, setting in settings.items() if key[: len(at)] == at}
        raise ConfigError(f"{', '.join(sorted(origins))}: [{_dotted(at)}] {printable(str(error))}") from error


def _checked(setting: Setting, field_type: Any, key: Key) -> Any:
    try:
        value = msgspec.convert(setting.value, field_type, dec_hook=_decoded)
    except msgspec.ValidationError as error:
        complaint = str(error)
        place = _PLACE.search(complaint)
        inside = place[1] if place else ""
        complaint = _PLACE.sub("", complaint).replace("`", "").replace("Expected", "expected")
        if complaint.startswith("Invalid enum value"):
            complaint = f"expected one of {', '.join(choices(field_type))}"
        raise ConfigError(f"{setting.origin}: {_dotted(key)}{inside}: {printable(complaint)}") from error
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{setting.origin}: {_dotted(key)}: expected a finite number")
    return value


def _decoded(wanted: type, value: Any) -> Any:
    if issubclass(wanted, (Secret, Path)) and isinstance(value, str):
        return wanted(value)
    raise msgspec.ValidationError(f"Expected `str`, got `{type(value).__name__}`")


def _refuse_exposed_secret(path: Path, config: Config, settings: Mapping[Key, Setting]) -> None:
    if not path.stat().st_mode & stat.S_IROTH:
        return
    for key, setting in settings.items():
        value: Any = config
        for name in key:
            value = getattr(value, name)
        if setting.origin == printable(str(path)) and is_secret(key[-1], value):
            raise ConfigError(
                f"{setting.origin}: {_dotted(key)} is a secret and everybody can read this file: chmod 600 it"
            )


def _refuse_hasty_burial(config: Config, settings: Mapping[Key, Setting]) -> None:
    """A living instance renews its presence four times in its life: whoever waits less buries the living."""
    least_ms = round(config.company.presence_ttl_s * 1000 / BEATS_PER_PRESENCE)
    if config.peers.settle_ms >= least_ms:
        return
    keys = (("peers", "settle_ms"), ("company", "presence_ttl_s"))
    origins = ", ".join(sorted({settings[key].origin for key in keys if key in settings}))
    raise ConfigError(
        f"{origins}: peers.settle_ms: expected at least {least_ms}, a quarter of company.presence_ttl_s:"
        " living instances renew their presence that often, and would be taken for dead"
    )


def _dotted(key: Key) -> str:
    return printable(".".join(key))


def _suggestion(key: Key, fields: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(key[-1], fields, n=1)
    return f" (did you mean {'.'.join((*key[:-1], near[0]))}?)" if near else ""
