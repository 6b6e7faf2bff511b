"""Pools: where a node lives, and which pools a job asks."""

from __future__ import annotations

import msgspec
import pytest

from lingua_scheduler.core.model import NodeId
from lingua_scheduler.core.pools import NOWHERE, CapabilityPool, PoolPlan, PoolsOptions, TenantPool

CORE = ("node-inference", "nmt-m2m100", "piper-tts")
TYPES = ("asr", "nmt", "tts")


def plan(**options) -> PoolPlan:
    return PoolPlan(PoolsOptions(**options))


def test_ac_73_without_configured_pools_a_node_lives_in_its_hash_bucket():
    assert plan(pool_count=16).pool_of(NodeId("abc"), ()) == 11
    assert plan(pool_count=16, hash_seed=1).pool_of(NodeId("abc"), ()) == 10


def test_ac_70_equal_pools_share_nodes_by_hash_and_a_tenant_override_decides_the_order():
    pools = (
        CapabilityPool(pool_id=10, required_services=CORE),
        CapabilityPool(pool_id=11, required_services=CORE),
    )
    two = plan(by_capability=pools, tenant_overrides=(TenantPool(tenant_id="tenant-A", pool_id=11),))
    assert two.pool_of(NodeId("node-cap-1"), CORE) == 10
    assert two.pool_of(NodeId("node-cap-0"), CORE) == 11
    assert two.route(routing_key="tenant-A", tenant_id="tenant-A", types=TYPES, models=()).order == (11, 10)
    assert two.route(routing_key="tenant-B", tenant_id="tenant-B", types=TYPES, models=()).preferred == 10


def test_the_most_specific_pool_wins_and_a_node_that_fits_none_is_in_none():
    pools = (
        CapabilityPool(pool_id=1, required_services=CORE),
        CapabilityPool(pool_id=2, required_services=(*CORE, "tone")),
    )
    two = plan(by_capability=pools)
    assert two.pool_of(NodeId("n"), CORE) == 1
    assert two.pool_of(NodeId("n"), (*CORE, "tone", "other")) == 2
    assert two.pool_of(NodeId("n"), ("tone",)) == NOWHERE


def test_ac_71_exact_strict_and_all_required_send_each_job_to_its_own_kind():
    pools = (
        CapabilityPool(pool_id=1, required_services=CORE),
        CapabilityPool(pool_id=2, required_services=(*CORE, "tone-service")),
    )
    strict = plan(
        by_capability=pools, match_scope="all_required", match_mode="exact", strict_eligibility=True
    )
    assert strict.route(routing_key="s", tenant_id=None, types=TYPES, models=()).order == (1,)
    assert strict.route(routing_key="s", tenant_id=None, types=TYPES, models=("tone-service",)).order == (2,)
    assert strict.route(routing_key="s", tenant_id=None, types=TYPES, models=("unlisted",)).order == ()


def test_ac_72_without_fallback_only_the_preferred_pool_is_asked():
    ring = plan(pool_count=4).route(routing_key="abc", tenant_id=None, types=TYPES, models=())
    only = plan(pool_count=4, fallback_scan_all_pools=False).route(
        routing_key="abc", tenant_id=None, types=TYPES, models=()
    )
    assert len(ring.order) == 4
    assert only.order == ring.order[:1]


def test_ac_75_a_tenant_with_a_strict_pool_never_leaves_it():
    strict = plan(
        pool_count=4, strict_eligibility=True, tenant_overrides=(TenantPool(tenant_id="t", pool_id=2),)
    )
    assert strict.route(routing_key="t", tenant_id="t", types=TYPES, models=()).order == (2,)


def test_an_override_to_an_ineligible_pool_starts_at_the_first_eligible_one():
    pools = (
        CapabilityPool(pool_id=1, required_services=("asr-only",)),
        CapabilityPool(pool_id=2, required_services=CORE),
        CapabilityPool(pool_id=3, required_services=CORE),
    )
    loose = plan(by_capability=pools, tenant_overrides=(TenantPool(tenant_id="t", pool_id=1),))
    assert loose.route(routing_key="t", tenant_id="t", types=TYPES, models=()).order == (2, 3)


def test_nodes_with_the_same_languages_share_a_pool_when_asked_for():
    spread = plan(pool_count=16, by_languages=True)
    assert spread.pool_of(NodeId("a"), (), ("zh", "en")) == spread.pool_of(
        NodeId("b"), (), ("en", "zh", "en")
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"by_capability": [{"pool_id": 1}, {"pool_id": 1}]},
        {"tenant_overrides": [{"tenant_id": "t", "pool_id": 5}]},
    ],
)
def test_pools_that_cannot_work_are_refused(wrong):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, PoolsOptions)
