"""Which pool a node belongs to, and in which order a job asks the pools.

A node is in exactly one pool: the most specific configured pool whose services it has, equals decided by a
stable hash; without configured pools, a hash bucket. A job asks its preferred pool first, then, if allowed,
the others in a ring. A tenant with a pool of its own and strict eligibility never leaves it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from lingua_scheduler.core.model import NodeId, PoolId
from lingua_scheduler.core.placement import stable_hash

NOWHERE = PoolId(-1)
"""The pool of nodes that fit no configured pool: nobody asks it."""

_PoolNumber = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class CapabilityPool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One configured pool."""

    pool_id: _PoolNumber
    """Number of the pool."""
    name: str = ""
    """What people call it."""
    required_services: tuple[str, ...] = ()
    """Services a node must have installed to be in this pool; none takes every node."""


class TenantPool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tenant that has a pool of its own."""

    tenant_id: str
    """The tenant."""
    pool_id: _PoolNumber
    """Its pool."""


class CoreServices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The service ids behind the core service types; an empty one removes that requirement."""

    asr: str = "node-inference"
    """Speech recognition."""
    nmt: str = "nmt-m2m100"
    """Translation."""
    tts: str = "piper-tts"
    """Speech synthesis."""

    def ids(self, types: Collection[str]) -> frozenset[str]:
        """Name the services behind these types."""
        known = {"asr": self.asr, "nmt": self.nmt, "tts": self.tts}
        return frozenset(known[kind] for kind in types if known.get(kind))


class PoolsOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How nodes are spread over pools and how jobs find theirs."""

    pool_count: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    """Hash pools when none are configured: 1 makes least connections exact, 16 spreads over a cluster."""
    hash_seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Seed of the hash that gives nodes and tenants their pools."""
    by_capability: tuple[CapabilityPool, ...] = ()
    """Pools by capability; each node is in the most specific one it fits."""
    by_languages: bool = False
    """Without configured pools: nodes with the same languages share a pool."""
    tenant_overrides: tuple[TenantPool, ...] = ()
    """Tenants with a pool of their own."""
    fallback_scan_all_pools: bool = True
    """Ask the other pools when the preferred one has no free node."""
    match_scope: Literal["core_only", "all_required"] = "core_only"
    """Which of a job's services decide where it may go: the core ones, or all."""
    match_mode: Literal["contains", "exact"] = "contains"
    """Whether a pool must have at least these services, or exactly these."""
    strict_eligibility: bool = False
    """Refuse a job that fits no pool, and never leave a tenant's own pool."""
    core_services: CoreServices = CoreServices()
    """The services that count as core."""

    def __post_init__(self) -> None:
        """Refuse pools that cannot be told apart and tenants that point nowhere."""
        numbers = [pool.pool_id for pool in self.by_capability]
        if len(set(numbers)) != len(numbers):
            raise ValueError("by_capability: a pool_id is used twice")
        known = numbers or range(self.pool_count)
        for override in self.tenant_overrides:
            if override.pool_id not in known:
                raise ValueError(f"tenant_overrides: there is no pool {override.pool_id}")


@dataclass(frozen=True, slots=True)
class Route:
    """The pools a job may ask, best first; empty when strict eligibility leaves none."""

    order: tuple[PoolId, ...]
    preferred: PoolId | None


class PoolPlan:
    """The configured pools, and the two questions about them."""

    def __init__(self, options: PoolsOptions) -> None:
        self._options = options
        self._required = {
            PoolId(pool.pool_id): frozenset(pool.required_services) for pool in options.by_capability
        }
        self._overrides = {
            override.tenant_id: PoolId(override.pool_id) for override in options.tenant_overrides
        }
        self.pools = tuple(sorted(self._required)) or tuple(map(PoolId, range(options.pool_count)))
        """Every pool a job may ask, in order of its number."""

    @property
    def known(self) -> tuple[PoolId, ...]:
        """Every pool that may hold nodes: also the one for nodes that fit none."""
        return (*self.pools, NOWHERE) if self._required else self.pools

    @property
    def strict(self) -> bool:
        """A job never leaves the pools of its route, whoever asks for it."""
        return self._options.strict_eligibility

    def required_services(self, pool: PoolId) -> frozenset[str]:
        """What a node must have installed to be in this pool."""
        return self._required.get(pool, frozenset())

    def pool_of(self, node_id: NodeId, services: Collection[str], languages: Collection[str] = ()) -> PoolId:
        """Name the one pool of a node; NOWHERE when it fits no configured pool."""
        options = self._options
        if not self._required:
            key = "-".join(sorted(set(languages))) if options.by_languages else node_id
            return PoolId(stable_hash(key, options.hash_seed) % options.pool_count)
        installed = frozenset(services)
        fitting = {pool: wanted for pool, wanted in self._required.items() if wanted <= installed}
        most = max((len(wanted) for wanted in fitting.values()), default=0)
        equals = sorted(pool for pool, wanted in fitting.items() if len(wanted) == most)
        return equals[stable_hash(node_id, options.hash_seed) % len(equals)] if equals else NOWHERE

    def route(
        self, *, routing_key: str, tenant_id: str | None, types: Collection[str], models: Collection[str]
    ) -> Route:
        """Order the pools for a job that needs these service types and models."""
        eligible = self._eligible(types, models)
        if not eligible:
            if self._options.strict_eligibility:
                return Route((), None)
            eligible = self.pools
        own = self._overrides.get(tenant_id or "")
        if own is not None and self._options.strict_eligibility:
            return Route((own,), own) if own in eligible else Route((), None)
        if own is None:
            several = len(eligible) > 1
            start = stable_hash(routing_key, self._options.hash_seed) % len(eligible) if several else 0
        else:
            start = eligible.index(own) if own in eligible else 0
        if not self._options.fallback_scan_all_pools:
            return Route((eligible[start],), eligible[start])
        return Route(eligible[start:] + eligible[:start], eligible[start])

    def _eligible(self, types: Collection[str], models: Collection[str]) -> tuple[PoolId, ...]:
        if not self._required:
            return self.pools
        wanted = self._options.core_services.ids(types)
        if self._options.match_scope == "all_required":
            wanted |= frozenset(models)
        return tuple(pool for pool in self.pools if self._matches(self._required[pool], wanted))

    def _matches(self, offered: frozenset[str], wanted: frozenset[str]) -> bool:
        if not wanted or not offered:
            return True
        return offered == wanted if self._options.match_mode == "exact" else wanted <= offered
