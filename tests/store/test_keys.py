from __future__ import annotations

import re

import pytest

from lingua_scheduler.store.keys import Keys, hash_tag, slot

KEYS = Keys("lingua")
RULES = {rule.name: rule for rule in Keys.catalogue()}


def test_a_key_starts_with_the_prefix_and_carries_its_tag():
    assert KEYS.node(3, "node-A") == "lingua:{pool:3}:node:node-A"
    assert KEYS.ended("s-1", "job-2") == "lingua:{session:s-1}:ended:job-2"
    assert KEYS.pairing("123456") == "lingua:{pair:123456}:pairing"
    assert KEYS.where("node-A") == "lingua:{node:node-A}:where"


def test_keys_of_one_tag_share_a_slot():
    assert len({slot(KEYS.node(3, f"node-{n}")) for n in range(50)} | {slot(KEYS.leases(3))}) == 1
    assert len({slot(KEYS.session("s")), slot(KEYS.ended("s", "j")), slot(KEYS.audio("s", "j"))}) == 1


@pytest.mark.parametrize(
    ("key", "tag"),
    [
        ("a{b}c", "b"),
        ("a{b}{c}", "b"),
        ("a{}{c}", "a{}{c}"),
        ("a{b", "a{b"),
        ("a}b{c}", "c"),
        ("{{b}}", "{b"),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_the_tag_is_what_stands_between_the_first_braces(key, tag):
    assert hash_tag(key) == tag


def test_slots_are_those_of_the_server(cluster):
    samples = ["a", "123456789", "é", "x{y}z", "{}x", "lingua:{pool:0}:node:n", "\u4f60{\u597d}", "{a}{b}"]
    with cluster.masters[0].client() as client:
        for key in samples:
            assert slot(key) == slot(key.encode()) == client.execute_command("CLUSTER KEYSLOT", key)
        raw = b"\xff{\xfe}"
        assert slot(raw) == client.execute_command("CLUSTER KEYSLOT", raw)


def test_every_kind_has_a_type_a_meaning_and_an_end():
    for rule in Keys.catalogue():
        assert rule.type in {"string", "hash", "set", "zset", "stream", "list"}
        assert rule.meaning
        assert bool(rule.ttl) != bool(rule.owner), rule.name
        assert re.match(r"\{\w+(:<\w+>)?\}:\w", rule.template), rule.name


def test_kinds_cannot_be_mistaken_for_each_other():
    for rule in Keys.catalogue():
        example = re.sub(r"<\w+>", "x", rule.template)
        assert [other.name for other in Keys.catalogue() if other.matches(example)] == [rule.name]


def test_the_kind_of_a_key_is_found():
    assert KEYS.rule_of(KEYS.node(3, "a:b}c")) == RULES["node"]
    assert KEYS.rule_of(KEYS.pairing("123456")) == RULES["pairing"]
    assert KEYS.rule_of("lingua:{pool:3}:nonsense") is None
    assert KEYS.rule_of(Keys("other").leases(0)) is None
    assert KEYS.rule_of("lingua2:{pool:0}:leases") is None


def test_every_builder_is_in_the_catalogue():
    builders = {name for name in vars(Keys) if not name.startswith("_")} - {"catalogue", "rule_of"}
    assert builders == set(RULES)


@pytest.mark.parametrize("prefix", ["", "a{b", "a}"])
def test_a_prefix_that_would_change_the_tag_is_refused(prefix):
    with pytest.raises(ValueError, match="prefix"):
        Keys(prefix)
