"""Whatever a hub says, what is useful of it is kept, and what is not costs nothing but itself."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.core.catalogue import (
    Artifact,
    Catalogue,
    ModelHubOptions,
    NoCatalogue,
    Service,
    ServiceVariant,
    Standing,
    merged,
    newest,
    read_answer,
    read_index,
)

OPTIONS = ModelHubOptions()
ARTIFACT = {"type": "zip", "url": "/storage/x.zip", "sha256": "ab" * 32, "size_bytes": 7, "etag": '"x"'}


def variant(**members: Any) -> dict[str, Any]:
    return {"version": "1.0.0", "platform": "linux-x64", "artifact": ARTIFACT, **members}


def answer(*services: Any) -> bytes:
    return json.dumps({"services": services}).encode()


def ids(catalogue: Catalogue) -> list[str]:
    return [service.service_id for service in catalogue.services]


def test_a_service_is_read_with_all_its_variants() -> None:
    entry = {
        "service_id": "piper-tts",
        "name": "Piper",
        "latest_version": "1.1.0",
        "variants": [variant(), variant(version="1.1.0")],
        "more": [1],
    }
    catalogue = read_answer(answer(entry), OPTIONS)
    artifact = Artifact(type="zip", url="/storage/x.zip", sha256="ab" * 32, size_bytes=7)
    assert catalogue == Catalogue(
        (
            Service(
                "piper-tts",
                "Piper",
                "1.1.0",
                [
                    ServiceVariant("1.0.0", "linux-x64", artifact),
                    ServiceVariant("1.1.0", "linux-x64", artifact),
                ],
            ),
        )
    )


def test_what_is_left_open_has_a_default() -> None:
    (service,) = read_answer(answer({"service_id": "x", "variants": [{"artifact": {}}]}), OPTIONS).services
    assert (service.name, service.latest_version) == ("x", "1.0.0")
    assert service.variants == [ServiceVariant("1.0.0", "unknown", Artifact())]


def test_the_latest_version_is_the_highest_number_unless_the_hub_says_one() -> None:
    variants = [variant(version="1.9"), variant(version="1.10"), variant(version="1.2")]
    (service,) = read_answer(answer({"service_id": "x", "variants": variants}), OPTIONS).services
    assert service.latest_version == "1.10"
    assert newest([]) == ""


@pytest.mark.parametrize(
    "entry",
    [
        None,
        7,
        "x",
        [],
        {},
        {"service_id": ""},
        {"service_id": 7},
        {"service_id": "x" * 129},
        {"service_id": "x", "name": 7},
        {"service_id": "x", "variants": {}},
        {"service_id": "x", "variants": None},
        {"service_id": "good"},  # a second time
    ],
)
def test_a_bad_entry_is_skipped_and_counted(entry: Any) -> None:
    catalogue = read_answer(answer({"service_id": "good"}, entry, {"service_id": "late"}), OPTIONS)
    assert (ids(catalogue), catalogue.skipped) == (["good", "late"], 1)


@pytest.mark.parametrize(
    "bad",
    [
        None,
        {},
        {"version": "1"},
        variant(artifact=None),
        variant(artifact="x"),
        variant(artifact={"size_bytes": -1}),
        variant(artifact={"size_bytes": "1"}),
        variant(artifact={"url": "javascript:alert(1)"}),
        variant(artifact={"url": "file:///etc/passwd"}),
        variant(artifact={"url": "h" * 2049}),
        variant(version=1),
    ],
)
def test_a_bad_variant_is_skipped_and_counted_and_its_service_stays(bad: Any) -> None:
    catalogue = read_answer(answer({"service_id": "x", "variants": [bad, variant()]}), OPTIONS)
    assert (len(catalogue.services[0].variants), catalogue.skipped) == (1, 1)


def test_a_flood_of_services_and_variants_is_cut_off_and_counted() -> None:
    few = ModelHubOptions(max_services=2)
    assert read_answer(answer(*({"service_id": str(n)} for n in range(5))), few).skipped == 3
    many = {"service_id": "x", "variants": [variant()] * 100}
    catalogue = read_answer(answer(many), OPTIONS)
    assert (len(catalogue.services[0].variants), catalogue.skipped) == (64, 36)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"services": {}}',
        b'{"services": 1}',
        b'{"services": [',
        b'{"services": ["\xff"]}x',
        b'{"services":' + b"[" * 100_000,
        b'{"services": [' + b"[" * 10_000 + b"]" * 10_000 + b"]}",
    ],
)
def test_what_is_no_catalogue_is_refused_with_a_reason_and_advice(body: bytes) -> None:
    with pytest.raises(NoCatalogue) as refused:
        read_answer(body, OPTIONS)
    assert len(str(refused.value)) < 400
    assert refused.value.advice


@given(st.binary(max_size=200))
def test_no_bytes_do_worse_than_be_refused(body: bytes) -> None:
    for read in (read_answer, read_index):
        try:
            read(body, OPTIONS)
        except NoCatalogue:
            continue


def test_the_local_index_is_keyed_by_service_or_like_an_answer() -> None:
    entry = {"name": "Piper", "variants": [variant()]}
    keyed = {"piper-tts": entry, "same": {"service_id": "same"}, "other": {"service_id": "x"}, "made_at": 7}
    catalogue = read_index(json.dumps(keyed).encode(), OPTIONS)
    assert (ids(catalogue), catalogue.skipped) == (["piper-tts", "same"], 2)
    assert ids(read_index(answer({"service_id": "a"}), OPTIONS)) == ["a"]
    assert ids(read_index(b'{"services": {"name": "a service of this name"}}', OPTIONS)) == ["services"]


@pytest.mark.parametrize("body", [b"", b"[]", b"7", b'{"services": [', b'{"a":' + b"[" * 100_000])
def test_an_index_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(NoCatalogue):
        read_index(body, OPTIONS)


def test_what_nodes_have_is_joined_with_what_the_hub_offers() -> None:
    offered = (
        Service("a", "A", "2.0", [ServiceVariant("2.0", "linux", Artifact())]),
        Service("b", "B", "1", []),
    )
    held = {"a": {("2.0", "linux"), ("1.0", "linux")}, "c": {("1.9", ""), ("1.10", "")}}
    found = {service.service_id: service for service in merged(offered, held, 10)}
    assert list(found) == ["a", "b", "c"]
    assert found["a"].variants == [
        ServiceVariant("2.0", "linux", Artifact()),
        ServiceVariant("1.0", "linux"),
    ]
    assert (found["a"].latest_version, found["c"].latest_version) == ("2.0", "1.10")
    assert [service.service_id for service in merged(offered, held, 2)] == ["a", "c"]


def test_ac_82_pauses_grow_after_the_third_failure_in_a_row_up_to_a_bound() -> None:
    standing = Standing()
    pauses = []
    for _ in range(12):
        standing = standing.failed("hub_failed: x", None, 1)
        pauses.append(standing.pause_s(OPTIONS))
    assert pauses[:7] == [30, 30, 60, 120, 240, 300, 300]
    assert standing.answered(Catalogue(), "hub", 2).pause_s(OPTIONS) == 30
    assert Standing(fail_count=10**6).pause_s(ModelHubOptions(interval_s=400)) == 400


def test_a_failure_keeps_what_was_known_unless_the_local_index_has_something() -> None:
    good = Standing().answered(Catalogue((Service("a", "a", "1", []),)), "hub", 1000)
    failed = good.failed("hub_failed: gone", Catalogue(), 2000)
    assert (failed.catalogue, failed.source, failed.fetched_at_ms) == (good.catalogue, "hub", 1000)
    assert (failed.fail_count, failed.last_error) == (1, "hub_failed: gone")
    local = Catalogue((Service("b", "b", "1", []),))
    fell_back = failed.failed("hub_failed: gone", local, 3000)
    assert (fell_back.catalogue, fell_back.source, fell_back.fetched_at_ms) == (local, "local", 3000)
    assert (fell_back.fail_count, fell_back.last_success_at_ms) == (2, 1000)
    assert fell_back.last_error == "hub_failed: gone; used_local_index=true"
    back = fell_back.answered(Catalogue(), "hub", 4000)
    assert (back.fail_count, back.last_error, back.source) == (0, "", "hub")


@pytest.mark.parametrize(
    "base_url",
    [
        "hub:5000",
        "ftp://hub",
        "file:///etc",
        "http://",
        "http://user@hub",
        "http://user:secret@hub",
        "http://hub?x=1",
        "http://hub#x",
        "http://hub:port",
        "http://hub:99999",
        "http://hub\\@evil",
        "http://hub /x",
        "http://hub\n",
        "http://[::1",
    ],
)
def test_an_address_that_cannot_be_meant_is_refused_before_the_start(base_url: str) -> None:
    with pytest.raises(ValueError, match="base_url: expected") as refused:
        ModelHubOptions(base_url=base_url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "base_url", ["http://hub:5000", "https://hub.example.com/models/", "http://[::1]:5000"]
)
def test_the_services_are_below_the_address(base_url: str) -> None:
    assert ModelHubOptions(base_url=base_url).services_url == base_url.rstrip("/") + "/api/services"


def test_a_catalogue_can_be_shown_as_json() -> None:
    (service,) = read_answer(answer({"service_id": "x", "variants": [variant()]}), OPTIONS).services
    assert msgspec.to_builtins(service)["variants"][0]["artifact"] == {
        "type": "zip",
        "url": "/storage/x.zip",
        "sha256": "ab" * 32,
        "size_bytes": 7,
    }
