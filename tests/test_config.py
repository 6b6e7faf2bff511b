"""One tree, four sources, and mistakes that are one line naming the key and where it was set."""

import importlib
import pkgutil
import re
from pathlib import Path

import msgspec
import pytest

import lingua_scheduler
from lingua_scheduler.commands.config_text import example, explained, shown
from lingua_scheduler.config import Config, Loaded, is_secret, load, record_of
from lingua_scheduler.errors import ConfigError
from lingua_scheduler.secret import Secret, SecretUrl, mask_url

ROOT = Path(__file__).parent.parent


def records(record: type[msgspec.Struct] = Config) -> list[type[msgspec.Struct]]:
    inner = [record_of(field.type) for field in msgspec.structs.fields(record)]
    return [record, *(found for one in inner if one is not None for found in records(one))]


@pytest.fixture
def write(tmp_path: Path):
    def written(text: str, mode: int = 0o600) -> Path:
        path = tmp_path / "lingua.toml"
        path.write_text(text)
        path.chmod(mode)
        return path

    return written


def refusal(file: Path | None = None, environ: dict[str, str] | None = None, **flags) -> str:
    with pytest.raises(ConfigError) as caught:
        load(file, environ=environ or {}, flags=flags)
    line = str(caught.value)
    assert line.isprintable(), "one line, nothing that moves a cursor"
    return line


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory, monkeypatch) -> None:
    """Run where no configuration file lies about."""
    monkeypatch.chdir(tmp_path_factory.mktemp("cwd"))


def test_nothing_set_is_the_defaults() -> None:
    assert load(environ={}) == Loaded(Config(), {})


def test_a_table_without_keys_is_the_same_as_no_table(write) -> None:
    """AC-88: nothing is switched on or off by a heading, whether or not the table has a key `enabled`."""
    tables = [field for field in msgspec.structs.fields(Config) if record_of(field.type)]
    assert load(write("".join(f"[{table.name}]\n" for table in tables)), environ={}).config == Config()
    switched = [table for table in tables if "enabled" in table.type.__struct_fields__]
    assert switched
    for table in switched:
        found = load(write(f"[{table.name}]\n"), environ={}).config
        assert getattr(found, table.name).enabled is getattr(Config(), table.name).enabled


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[tracing]\nendpoint = "collector:4318"', "[tracing] endpoint must look like"),
        ('[tracing]\nauthorization = "a"\nauthorization_file = "b"', "[tracing] set authorization or"),
        ("[tracing]\nsample_ratio = 1.5", "tracing.sample_ratio: expected float <= 1"),
    ],
)
def test_tracing_that_cannot_be_is_refused(write, text, named) -> None:
    assert named in refusal(write(text))


def test_flags_win_over_environment_over_file_over_defaults(write) -> None:
    file = write("[segmentation]\npause_ms = 1\nhangover_ms = 1\nshort_merge_ms = 1\n")
    environ = {"LINGUA_SEGMENTATION__PAUSE_MS": "2", "LINGUA_SEGMENTATION__HANGOVER_MS": "2"}
    flags = {"--pause": ("segmentation.pause_ms", 3), "--absent": ("segmentation.quiet_lead_ms", None)}
    loaded = load(file, environ=environ, flags=flags)
    options = loaded.config.segmentation
    assert (options.pause_ms, options.hangover_ms, options.short_merge_ms, options.quiet_lead_ms) == (
        3,
        2,
        1,
        300,
    )
    assert loaded.origins == {
        "segmentation.pause_ms": "--pause",
        "segmentation.hangover_ms": "LINGUA_SEGMENTATION__HANGOVER_MS",
        "segmentation.short_merge_ms": str(file),
    }


def test_the_hub_may_be_named_by_the_variable_of_the_first_generation() -> None:
    environ = {"MODEL_HUB_URL": "http://hub:5000"}
    loaded = load(environ=environ)
    assert loaded.config.model_hub.base_url == "http://hub:5000"
    assert loaded.origins == {"model_hub.base_url": "MODEL_HUB_URL"}
    own = load(environ={"LINGUA_MODEL_HUB__BASE_URL": "http://own", **environ})
    assert own.config.model_hub.base_url == "http://own"
    assert "secret" not in refusal(environ={"MODEL_HUB_URL": "http://me:secret@hub"})


def test_the_file_is_found_by_variable_or_in_the_working_directory(write, monkeypatch) -> None:
    file = write('[log]\nlevel = "debug"\n')
    assert load(environ={"LINGUA_CONFIG": str(file)}).config.log.level == "debug"
    assert load(environ={}).config.log.level == "info"
    monkeypatch.chdir(file.parent)
    assert load(environ={}).origins == {"log.level": "lingua.toml"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[segmentation]\npause = 1", "unknown key segmentation.pause (did you mean segmentation.pause_ms?)"),
        ("[segmentatoin]\npause_ms = 1", "unknown key segmentatoin (did you mean segmentation?)"),
        ("zebra = 1", "unknown key zebra"),
        ('"a\\nb\\u202e" = 1', r"unknown key a\nb\u202e"),
        ("segmentation = 1", "segmentation is a table: write [segmentation]"),
        ('[segmentation]\npause_ms = "2000"', "segmentation.pause_ms: expected int, got str"),
        ("[segmentation]\npause_ms = true", "segmentation.pause_ms: expected int, got bool"),
        ("[segmentation]\npause_ms = 1.5", "segmentation.pause_ms: expected int, got float"),
        ("[segmentation]\npause_ms = -1", "segmentation.pause_ms: expected int >= 0"),
        ("[affinity]\nttl_seconds = -5", "affinity.ttl_seconds: expected int >= 1"),
        ("[job_timeout]\nbase_s = nan", "job_timeout.base_s: expected float > 0.0"),
        ("[job_timeout]\nbase_s = inf", "job_timeout.base_s: expected a finite number"),
        ('[log]\nlevel = "loud"', "log.level: expected one of debug, info, warning, error"),
        ('[log.levels]\nstore = "loud"', "log.levels[...]: expected one of debug, info, warning, error"),
        ("[job_timeout]\nbase_s = 20\nmax_s = 18", "[job_timeout] max_s: expected at least base_s"),
        ("[segmentation", "not TOML: Expected ']'"),
        ("a = " + "[" * 100_000, "not TOML"),
        ("#" * (1 << 20) + "\n", "larger than 1048576 bytes"),
    ],
)
def test_a_mistake_in_the_file_is_one_line_naming_file_and_key(write, text: str, complaint: str) -> None:
    file = write(text)
    line = refusal(file)
    assert line.startswith(f"{file}: ")
    assert complaint in line


@pytest.mark.parametrize(
    ("variable", "text", "complaint"),
    [
        (
            "LINGUA_SEGMENTATION__PAUSE",
            "1",
            "unknown key segmentation.pause (did you mean segmentation.pause_ms?)",
        ),
        ("LINGUA_SEGMENTATION__PAUSE_MS", "soon", "segmentation.pause_ms: expected int, got str"),
        ("LINGUA_SEGMENTATION__PAUSE_MS", "", "segmentation.pause_ms: expected int, got str"),
        ("LINGUA_SEGMENTATION__PAUSE_MS", "-1", "segmentation.pause_ms: expected int >= 0"),
        ("LINGUA_SEGMENTATION__PAUSE_MS__X", "1", "unknown key segmentation.pause_ms.x"),
        ("LINGUA_ZEBRA__X", "1", "unknown key zebra"),
        ("LINGUA_LOG__LEVELS", "[1]", "log.levels: expected object, got array"),
        ("LINGUA_SEGMENTATION_PAUSE_MS", "1", "write two underscores between the table and the key"),
    ],
)
def test_a_mistake_in_a_variable_is_one_line_naming_variable_and_key(variable, text, complaint) -> None:
    line = refusal(environ={variable: text})
    assert line.startswith(f"{variable}: ")
    assert complaint in line


def test_a_table_cannot_be_set_by_a_variable() -> None:
    assert "unknown key log." in refusal(environ={"LINGUA_LOG__": "1"})


def test_a_mistake_on_the_command_line_names_the_flag() -> None:
    line = refusal(**{"--pause": ("segmentation.pause_ms", -1)})
    assert line == "--pause: segmentation.pause_ms: expected int >= 0"


def test_instances_that_live_are_not_taken_for_dead_between_two_beats(write) -> None:
    short = "[peers]\nsettle_ms = 2499\n"
    assert refusal(write(short)) == (
        f"{write(short)}: peers.settle_ms: expected at least 2500, a quarter of company.presence_ttl_s:"
        " living instances renew their presence that often, and would be taken for dead"
    )
    assert "LINGUA_COMPANY__PRESENCE_TTL_S: peers.settle_ms: expected at least 7500" in refusal(
        environ={"LINGUA_COMPANY__PRESENCE_TTL_S": "30"}
    )
    load(write("[peers]\nsettle_ms = 500\n[company]\npresence_ttl_s = 2\n"), environ={})


def test_variables_of_other_programs_are_left_alone() -> None:
    assert load(environ={"LINGUA_TEST_REDIS_URL": "x", "LINGUAL": "y", "PATH": "z"}).origins == {}


def test_variables_are_read_by_the_type_of_their_key() -> None:
    environ = {
        "LINGUA_REDIS__KEY_PREFIX": "123",
        "LINGUA_REDIS__COMMAND_TIMEOUT_S": "2",
        "LINGUA_RESULTS__REPORT_NO_TEXT": "true",
        "LINGUA_LOG__LEVELS": '{store = "debug"}',
    }
    config = load(environ=environ).config
    assert (config.redis.key_prefix, config.redis.command_timeout_s) == ("123", 2.0)
    assert config.results.report_no_text is True
    assert config.log.levels == {"store": "debug"}


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda path: path.unlink(), "cannot be read: No such file"),
        (lambda path: (path.unlink(), path.mkdir()), "cannot be read: Is a directory"),
        (lambda path: path.write_bytes(b"# \xff"), "not UTF-8 at byte 2"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(write, spoil, complaint) -> None:
    file = write("")
    spoil(file)
    assert refusal(file).startswith(f"{file}: {complaint}")


def test_a_secret_in_a_file_that_everybody_can_read_is_refused(write) -> None:
    text = '[redis]\nurl = "redis://:hunter2@host"\n'
    line = refusal(write(text, mode=0o644))
    assert "redis.url is a secret and everybody can read this file: chmod 600 it" in line
    assert "hunter2" not in line
    assert load(write(text, mode=0o640), environ={}).config.redis.url


def test_a_file_without_secrets_may_be_read_by_everybody(write) -> None:
    file = write('[redis]\nurl = "redis://host"\n', mode=0o644)
    environ = {"LINGUA_REDIS__URL": "redis://:hunter2@host"}
    assert load(file, environ={}).config.redis.url == "redis://host"
    assert load(file, environ=environ).config.redis.url == "redis://:hunter2@host"


def test_no_repr_of_the_tree_shows_a_password() -> None:
    config = load(environ={"LINGUA_REDIS__URL": "redis://user:hunter2@host:1/0"}).config
    assert "hunter2" not in repr(config)


class Sample(msgspec.Struct, frozen=True):
    """What a record with secrets looks like from outside."""

    token: Secret = Secret("hunter2")
    url: SecretUrl = SecretUrl("redis://:hunter2@host/1")
    unset: Secret = Secret()


def test_a_marked_field_is_masked_in_its_records_repr_and_usable_as_text() -> None:
    assert repr(Sample()) == "Sample(token='***', url='redis://:***@host/1', unset='')"
    assert "Bearer " + Sample().token == "Bearer hunter2"


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("anything", Secret("x"), True),
        ("anything", Secret("a://b"), True),
        ("anything", Secret(""), False),
        ("admin_token", "x", True),
        ("url", "redis://:x@host", True),
        ("url", SecretUrl("redis://host"), False),
        ("key_prefix", "lingua", False),
        ("port", 5010, False),
    ],
)
def test_secrets_are_known_by_mark_name_or_content(name, value, secret) -> None:
    assert is_secret(name, value) is secret


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://:pw@host", "redis://:***@host"),
        ("redis://user:p@ss/w@host", "redis://user:***@host"),
        ("redis://:a@one,redis://:b@two", "redis://:***@one,redis://:***@two"),
        ("unix:///run/redis.sock?db=1&password=pw", "unix:///run/redis.sock?db=1&password=***"),
    ],
)
def test_only_the_password_of_an_address_is_masked(url, masked) -> None:
    assert mask_url(url) == masked


def test_what_is_shown_is_toml_without_secrets_and_with_origins(write) -> None:
    file = write('[log]\nlevel = "debug"\nlevels = {"a b" = "error"}\n[segmentation]\npause_ms = 2000\n')
    loaded = load(file, environ={"LINGUA_REDIS__URL": 'redis://:hunter2@host/"\n\\'})
    text = shown(loaded)
    assert f'level = "debug"  # from {file}\n' in text
    assert "pause_ms = 2000\n" in text, "a value equal to its default needs no origin"
    assert 'url = "redis://:***@host/\\"\\U0000000A\\\\"  # from LINGUA_REDIS__URL\n' in text
    assert "hunter2" not in text
    again = load(write(text), environ={}).config
    assert again.log == loaded.config.log
    assert again.redis.url == mask_url(loaded.config.redis.url)


def test_the_example_is_the_committed_file_and_loads_to_the_defaults(write) -> None:
    committed = ROOT / "lingua.example.toml"
    assert committed.read_text() == example(), "run: lingua config example > lingua.example.toml"
    loaded = load(committed, environ={})
    assert loaded.config == Config()
    settable = [field for record in records() for field in msgspec.structs.fields(record)]
    plain = [field for field in settable if record_of(field.type) is None]
    unset = example().count(" is not set\n")
    assert len(loaded.origins) + unset == len(plain), "every option is in the example"


@pytest.mark.parametrize("record", records()[1:], ids=lambda record: record.__name__)
def test_every_record_is_frozen_strict_and_explains_each_field(record: type[msgspec.Struct]) -> None:
    assert record.__struct_config__.frozen
    assert record.__struct_config__.forbid_unknown_fields
    assert record.__doc__
    for field in msgspec.structs.fields(record):
        if record_of(field.type) is None:
            sentence = explained(record)[field.name]
            assert re.search(r"[.)]$", sentence), field.name


def test_no_option_record_is_left_out_of_the_tree() -> None:
    """What tunes the server is in the tree; clients and nodes are programs of their own."""
    rooms = ("core", "wire", "store", "flow", "edge")
    modules = [
        module.name for module in pkgutil.walk_packages(lingua_scheduler.__path__, "lingua_scheduler.")
    ]
    for name in (name for name in modules if name.split(".")[1] in rooms):
        importlib.import_module(name)
    known = {base for record in records() for base in record.__mro__}
    served = tuple(f"lingua_scheduler.{room}." for room in rooms)
    option_records = {
        record
        for record in msgspec.Struct.__subclasses__()
        if record.__name__.endswith("Options") and record.__module__.startswith(served)
    }
    assert option_records
    assert option_records <= known


def test_lists_of_tables_are_checked_and_shown(tmp_path: Path) -> None:
    file = tmp_path / "lingua.toml"
    file.write_text('[[pools.by_capability]]\npool_id = 2\nname = "core"\nrequired_services = ["a"]\n')
    loaded = load(file, environ={})
    assert loaded.config.pools.by_capability[0].required_services == ("a",)
    assert 'by_capability = [{pool_id = 2, name = "core", required_services = ["a"]}]' in shown(loaded)
    file.write_text('[[pools.by_capability]]\npool_id = "x"\n')
    with pytest.raises(ConfigError, match=r"pools\.by_capability\[0\]\.pool_id"):
        load(file, environ={})
