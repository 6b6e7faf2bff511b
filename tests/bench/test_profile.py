"""A profile is read completely or refused in one line that says where the mistake is."""

from __future__ import annotations

from pathlib import Path

import pytest

from lingua_scheduler.bench import profile
from lingua_scheduler.bench.profile import Profile, load, shipped
from lingua_scheduler.config import load as load_config
from lingua_scheduler.errors import ConfigError


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_profile_can_be_read_and_says_what_it_shows(name: str) -> None:
    assert load(name).about


@pytest.mark.parametrize("name", shipped())
def test_the_settings_of_every_shipped_profile_are_options(name: str) -> None:
    load_config(environ=load(name).environment())


def test_the_profiles_of_the_issue_are_shipped() -> None:
    named = {"smoke", "standard", "ingest", "idle", "cross", "rooms", "storm", "overload", "cycles"}
    assert named <= set(shipped())


def test_a_file_is_read_by_its_path_and_changed_by_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('seed = 7\n[fleet]\nnodes = 3\nat = "first"\n')
    read = load(str(file), ["fleet.nodes=5", "fleet.at=last", 'settings.redis.key_prefix="x"'])
    assert (read.seed, read.fleet.nodes, read.fleet.at) == (7, 5, "last")
    assert read.environment() == {"LINGUA_REDIS__KEY_PREFIX": "x"}
    assert read.speech == Profile().speech


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (["fleet.nodes=-1"], "smoke: Expected int >= 0 at fleet.nodes"),
        (["fleet.at=here"], "smoke: Invalid enum value 'here' at fleet.at"),
        (["fleet.node=3"], "smoke: Object contains unknown field node at fleet"),
        (["rooms.most=2", "rooms.fewest=3"], "most must not be smaller than fewest"),
        (["formats.opus=0", "formats.pcm=0", "formats.binary=0"], "some form of audio must have a part"),
        (["seed.x=1"], "smoke: Expected int, got object at seed"),
        (["nonsense"], "--set: write key=value, not nonsense"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_key(changes: list[str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as refused:
        load("smoke", changes)
    assert "\n" not in str(refused.value)


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="one of cross, cycles"):
        load("smok")


def test_files_that_are_no_profiles_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(str(tmp_path / "none.toml"))
    (tmp_path / "bad.toml").write_text("a = [")
    with pytest.raises(ConfigError, match="not TOML"):
        load(str(tmp_path / "bad.toml"))
    (tmp_path / "latin.toml").write_bytes(b'about = "\xe9"')
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(str(tmp_path / "latin.toml"))


def test_every_value_of_a_profile_is_explained() -> None:
    source = Path(profile.__file__).read_text()
    tables = [
        each for each in vars(profile).values() if isinstance(each, type) and issubclass(each, profile.Table)
    ]
    assert len(tables) > 8
    for table in tables:
        for name in table.__struct_fields__:
            if not isinstance(getattr(table(), name), profile.Table):
                after = source.split(f"    {name}: ", 1)[1].split("\n", 2)[1]
                assert after.strip().startswith('"""'), f"{table.__name__}.{name}"
