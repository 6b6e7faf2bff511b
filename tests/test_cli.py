"""Commands: each parses, calls and prints; a refusal is one line and exit code 2."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lingua_scheduler
from lingua_scheduler import __version__
from lingua_scheduler.cli import _loaded, _parser, main
from lingua_scheduler.commands.check import steps
from lingua_scheduler.config import load

ROOT = Path(__file__).parent.parent
PACKAGE = Path(lingua_scheduler.__file__).parent

MINIATURE = """
[tool.ruff]
line-length = 110
[tool.ruff.lint]
select = ["F"]
[tool.mypy]
files = ["src/lingua_scheduler/errors.py"]
[tool.pytest.ini_options]
addopts = "-q -p no:cacheprovider"
[tool.importlinter]
root_package = "lingua_scheduler"
[[tool.importlinter.contracts]]
name = "errors know nobody"
type = "layers"
layers = ["lingua_scheduler.cli", "lingua_scheduler.errors"]
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch) -> None:
    """Run where no configuration file lies about and nothing is set by the environment."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("LINGUA_"):
            monkeypatch.delenv(name)


def miniature(folder: Path) -> Path:
    """Lay out a checkout small enough to run every step of `lingua test` on."""
    package = folder / "src" / "lingua_scheduler"
    (package / "commands").mkdir(parents=True)
    for name in (
        "__init__.py",
        "cli.py",
        "errors.py",
        "commands/__init__.py",
        "commands/check.py",
        "commands/flags.py",
        "commands/looking.py",
    ):
        shutil.copy(PACKAGE / name, package / name)
    (folder / "pyproject.toml").write_text(MINIATURE)
    (folder / "tests").mkdir()
    (folder / "tests" / "test_one.py").write_text("def test_one() -> None:\n    assert True\n")
    return folder


def lingua(*arguments: str, package: Path | None = None, **settings) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, if asked with another copy of the package."""
    environment = {**os.environ, "NO_COLOR": "1", **({"PYTHONPATH": str(package)} if package else {})}
    command = [sys.executable, "-m", "lingua_scheduler.cli", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, **settings)


def test_it_tells_its_version(capsys) -> None:
    assert main(["version"]) == 0
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"lingua {__version__}\n" * 2


@pytest.mark.parametrize(
    "arguments", [[], ["sing"], ["serve", "--prot", "1"], ["serve", "--port", "x"], ["speak"]]
)
def test_a_command_line_that_makes_no_sense_is_refused_with_its_usage(capsys, arguments) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: lingua" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["serve", "up"])
def test_a_start_with_an_unknown_key_is_refused_and_names_it(capsys, command, tmp_path) -> None:
    """AC-88."""
    file = tmp_path / "own.toml"
    file.write_text("[tracing]\nenable = true\n")
    assert main([command, "--config", str(file)]) == 2
    expected = f"lingua: {file}: unknown key tracing.enable (did you mean tracing.enabled?)\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("command", ["serve", "up"])
@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--port", "70000"], "lingua: --port: server.port: expected int <= 65535\n"),
        (["--instance-id", "a b"], "lingua: --instance-id: instance.id: expected str matching regex"),
        (["--config", "absent.toml"], "lingua: absent.toml: cannot be read: No such file or directory\n"),
    ],
)
def test_a_start_is_refused_with_one_line(capsys, command, flags, line) -> None:
    assert main([command, *flags]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(line)
    assert (captured.out, captured.err.count("\n")) == ("", 1)


def test_a_variable_can_refuse_a_start(capsys, monkeypatch) -> None:
    monkeypatch.setenv("LINGUA_SERVER__PRT", "1")
    assert main(["serve"]) == 2
    expected = "lingua: LINGUA_SERVER__PRT: unknown key server.prt (did you mean server.port?)\n"
    assert capsys.readouterr().err == expected


def test_the_flags_of_a_server_set_their_keys() -> None:
    flags = ["--host", "::1", "--port", "1", "--redis-url", "redis://h", "--instance-id", "i"]
    config = _loaded(_parser().parse_args(["serve", *flags])).config
    assert (config.server.host, config.server.port) == ("::1", 1)
    assert (config.redis.url, config.instance.id) == ("redis://h", "i")
    assert _loaded(_parser().parse_args(["up"])).config == load(environ={}).config


def test_config_show_prints_the_effective_configuration(capsys, tmp_path, monkeypatch) -> None:
    (tmp_path / "own.toml").write_text("[server]\nport = 1\n")
    monkeypatch.setenv("LINGUA_REDIS__URL", "redis://:hunter2@host")
    assert main(["config", "show", "--config", "own.toml"]) == 0
    out = capsys.readouterr().out
    assert "port = 1  # from own.toml\n" in out
    assert 'url = "redis://:***@host"  # from LINGUA_REDIS__URL\n' in out


def test_config_example_prints_the_committed_file(capsys) -> None:
    assert main(["config", "example"]) == 0
    assert capsys.readouterr().out == (ROOT / "lingua.example.toml").read_text()


def test_speak_and_node_know_where_the_scheduler_is() -> None:
    speak = _parser().parse_args(["speak", "a.wav", "--from", "en", "--to", "pt"])
    assert (speak.file, speak.src, speak.tgt, speak.url) == ("a.wav", "en", "pt", "ws://127.0.0.1:5010")
    node = _parser().parse_args(["node", "--capacity", "2"])
    assert (node.url, node.node_id, node.capacity, node.demo) == (None, None, 2, False)


def test_a_reader_who_has_seen_enough_is_no_failure_to_talk_about() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "lingua_scheduler.cli", "version"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_the_command_line_itself_loads_none_of_the_big_libraries() -> None:
    """`lingua version` and a refused flag answer at once."""
    loads = "import sys, lingua_scheduler.cli; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", loads], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"asyncio", "aiohttp", "redis", "msgspec", "structlog", "prometheus_client"} & set(loaded)


def test_arguments_after_two_dashes_go_to_pytest() -> None:
    given = _parser().parse_args(["test", "--", "-k", "x"])
    assert given.pytest[-2:] == ["-k", "x"]
    assert steps(["-k", "x"])[-1][1][-2:] == ("-k", "x")


def test_an_installed_package_says_that_the_tests_live_in_a_checkout(tmp_path) -> None:
    site = tmp_path / "site-packages"
    shutil.copytree(miniature(tmp_path / "checkout") / "src", site)
    done = lingua("test", package=site)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        "this is an installed package; the tests live in a checkout: run ./lingua test there" in done.stderr
    )


def test_every_step_runs_in_order_and_the_end_sums_up(tmp_path) -> None:
    root = miniature(tmp_path / "checkout")
    done = lingua("test", package=root / "src", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    headlines = [line for line in done.stdout.splitlines() if line.startswith("== ")]
    names = ["formatting", "lint", "types", "import contracts", "tests"]
    assert headlines[:-1] == [f"== {name}" for name in names]
    assert headlines[-1].startswith("== all passed in ")
    assert all(name in headlines[-1] for name in names)


def test_the_first_failing_step_ends_the_run(tmp_path) -> None:
    root = miniature(tmp_path / "checkout")
    (root / "tests" / "test_two.py").write_text("import os\n")
    done = lingua("test", package=root / "src")
    assert done.returncode == 1
    headlines = [line for line in done.stdout.splitlines() if line.startswith("== ")]
    assert headlines == [
        "== formatting",
        "== lint",
        "== lint failed with exit code 1; later steps did not run",
    ]
