"""From what a session asks for (pipeline and features) to what a node must have (services and models)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lingua_scheduler.errors import ConfigError, UnsupportedFeature

CORE_MODULES = frozenset({"asr", "nmt", "tts", "vad"})
"""Modules that depend on nothing and name no model of their own."""

ALWAYS_INCLUDED = frozenset({"asr", "nmt", "tts"})
"""Modules that belong to every job."""

TEXT_JOBS = "text_jobs"
"""What a node announces that translates words which another job has recognised; counts like a service."""

_CORE_SERVICES = frozenset({"asr", "nmt", "tts"})  # vad is part of asr services, not a service type


@dataclass(frozen=True, slots=True)
class Module:
    """One optional ability: the models it brings, the modules it builds on, the service type that runs it."""

    models: frozenset[str]
    depends_on: frozenset[str] = frozenset()
    service: str | None = None


MODULES: Mapping[str, Module] = {
    "emotion_detection": Module(frozenset({"emotion-xlm-r"}), frozenset({"asr"})),
    "speaker_identification": Module(frozenset({"speaker-id-ecapa"}), service="tone"),
    "voice_cloning": Module(
        frozenset({"vc-model-v1"}), frozenset({"speaker_identification"}), service="tone"
    ),
    "speech_rate_detection": Module(frozenset({"sr-d-v1"}), frozenset({"asr"})),
    "speech_rate_control": Module(frozenset({"tts-vocoder-v1"}), frozenset({"speech_rate_detection", "tts"})),
    "persona_adaptation": Module(frozenset({"persona-style-transformer"}), frozenset({"asr"})),
}
"""Every optional module by name."""

FEATURE_MODULES: Mapping[str, str] = {
    "emotion_detection": "emotion_detection",
    "voice_style_detection": "voice_cloning",
    "speech_rate_detection": "speech_rate_detection",
    "speech_rate_control": "speech_rate_control",
    "speaker_identification": "speaker_identification",
    "persona_adaptation": "persona_adaptation",
}
"""The module behind each feature flag of the protocol."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The steps a session wants for its speech."""

    use_asr: bool = True
    use_nmt: bool = True
    use_tts: bool = True
    use_semantic: bool = False
    use_tone: bool = False

    def services(self) -> frozenset[str]:
        """Name the service types of these steps."""
        wanted = {
            "asr": self.use_asr,
            "nmt": self.use_nmt,
            "tts": self.use_tts,
            "semantic": self.use_semantic,
            "tone": self.use_tone,
        }
        return frozenset(service for service, used in wanted.items() if used)


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a node must have to take a job."""

    modules: frozenset[str]
    services: frozenset[str]
    models: frozenset[str]


def feature_modules(features: Mapping[str, bool | None]) -> frozenset[str]:
    """Name the module of each feature that is switched on; UnsupportedFeature names an unknown one."""
    modules = set()
    for feature, wanted in features.items():
        if wanted is not True:
            continue
        if feature not in FEATURE_MODULES:
            raise UnsupportedFeature(f"unknown feature: {feature}")
        modules.add(FEATURE_MODULES[feature])
    return frozenset(modules)


def expand(modules: Iterable[str], table: Mapping[str, Module] = MODULES) -> frozenset[str]:
    """Add everything the modules build on. UnsupportedFeature for an unknown one, ConfigError for a cycle."""
    expanded: set[str] = set()
    for module in sorted(modules):
        _visit(module, table, (), expanded)
    return frozenset(expanded)


def _visit(name: str, table: Mapping[str, Module], path: tuple[str, ...], expanded: set[str]) -> None:
    if name in path:
        raise ConfigError(f"modules: {' > '.join((*path, name))} is a cycle")
    if name in expanded:
        return
    if name not in CORE_MODULES:
        if name not in table:
            raise UnsupportedFeature(f"unknown module: {name}")
        for dependency in sorted(table[name].depends_on):
            _visit(dependency, table, (*path, name), expanded)
    expanded.add(name)


def required(
    pipeline: Pipeline, features: Mapping[str, bool | None], table: Mapping[str, Module] = MODULES
) -> Requirements:
    """Collect what the pipeline and every active feature, with all it builds on, ask of a node."""
    optional = expand(feature_modules(features), table)
    entries = [table[name] for name in optional if name in table]
    return Requirements(
        modules=optional | ALWAYS_INCLUDED,
        services=pipeline.services()
        | (optional & _CORE_SERVICES)
        | {entry.service for entry in entries if entry.service is not None},
        models=frozenset().union(*(entry.models for entry in entries)),
    )
