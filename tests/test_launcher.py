"""The launcher: finds Python, keeps .venv in step with the lock, and starts the command at once when it is.

Most tests give it an environment that is a stamp and two programs. One story runs the real installation, of a
project that needs nothing from the network.
"""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PYTHON_VERSION = "Python " + sys.version.split()[0]
TOOLS = ("cat", "cksum", "dirname", "readlink", "sh")

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""

BACKEND = '''
"""Builds an editable wheel whose only content is the command `lingua`."""
import zipfile

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    name, info = "sample-1-py3-none-any.whl", "sample-1.dist-info"
    with zipfile.ZipFile(f"{wheel_directory}/{name}", "w") as wheel:
        wheel.writestr("sample.py", "def main():\\n    print('it runs')\\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: sample\\nVersion: 1\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/entry_points.txt", "[console_scripts]\\nlingua = sample:main\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
'''


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Lay out a checkout without an environment, in a place with a space in its name."""
    root = tmp_path / "a checkout"
    (root / "requirements").mkdir(parents=True)
    shutil.copy(ROOT / "lingua", root)
    shutil.copy(ROOT / "requirements" / "install.py", root / "requirements")
    for name, text in (
        ("run.txt", ""),
        ("test.txt", "# more\n"),
        ("speech.txt", "# engines\n"),
        ("speech-test.txt", "# recordings\n"),
        ("tracing.txt", "# spans\n"),
    ):
        (root / "requirements" / name).write_text(text)
    (root / "pyproject.toml").write_text(PYPROJECT)
    (root / "backend.py").write_text(BACKEND)
    return root


@pytest.fixture(autouse=True)
def _asked_for_nothing_more(monkeypatch) -> None:
    monkeypatch.delenv("LINGUA_WITH", raising=False)


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + textwrap.dedent(text))
    path.chmod(0o755)
    return path


def prepared(root: Path, wants: str = "run") -> Path:
    """Give the checkout an environment that looks complete; its command prints what it was given."""
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / ".venv" / "bin" / "python").symlink_to(sys.executable)
    program(root / ".venv" / "bin" / "lingua", 'pwd; for word in "$@"; do echo "<$word>"; done; exit 7')
    files = {
        "run+speech": ("run", "speech"),
        "run+tracing": ("run", "tracing"),
        "run+speech+tracing": ("run", "speech", "tracing"),
        "test+speech": ("test", "speech", "speech-test"),
    }.get(wants, (wants,))
    names = (*(f"requirements/{name}.txt" for name in files), "pyproject.toml")
    lock = b"".join((root / name).read_bytes() for name in names)
    checksum = subprocess.run(["cksum"], input=lock, capture_output=True, check=True).stdout.decode().strip()
    (root / ".venv" / "lingua-stamp").write_text(f"{wants} {checksum} {root} {PYTHON_VERSION}\n")
    (root / "requirements" / "install.py").write_text("import sys\nprint('INSTALL', sys.argv[1])\n")
    return root


def run(command: Path, *arguments: str, **settings) -> tuple[int, str, str]:
    settings.setdefault("env", {**os.environ, "PATH": f"{sys.base_prefix}/bin:{os.environ['PATH']}"})
    done = subprocess.run([command, *arguments], capture_output=True, text=True, check=False, **settings)
    return done.returncode, done.stdout, done.stderr


def installs(root: Path, *arguments: str, **settings) -> Sequence[str]:
    """List what the launcher asked to be installed before it ran the command."""
    _, out, _ = run(root / "lingua", *arguments, **settings)
    return [line.removeprefix("INSTALL ") for line in out.splitlines() if line.startswith("INSTALL")]


def test_a_prepared_checkout_runs_the_command_with_its_arguments_exit_code_and_directory(
    checkout, tmp_path
) -> None:
    root = prepared(checkout)
    code, out, err = run(root / "lingua", "serve", "two words", "", "*", cwd=tmp_path)
    assert (code, err) == (7, "")
    assert out.splitlines() == [str(tmp_path), "<serve>", "<two words>", "<>", "<*>"]


@pytest.mark.parametrize("relative", [False, True])
def test_it_finds_its_checkout_through_symbolic_links(checkout, tmp_path, relative) -> None:
    root = prepared(checkout)
    (tmp_path / "bin").mkdir()
    first, second = tmp_path / "bin" / "first", tmp_path / "bin" / "lingua"
    first.symlink_to(Path("..") / root.name / "lingua" if relative else root / "lingua")
    second.symlink_to("first")
    code, out, _ = run(second, "version", cwd="/")
    assert (code, out.splitlines()) == (7, ["/", "<version>"])
    found_on_path = {**os.environ, "PATH": f"{second.parent}:{os.environ['PATH']}"}
    assert run(Path("lingua"), "version", cwd="/", env=found_on_path)[0] == 7


def test_a_directory_search_path_does_not_mislead_it(checkout, tmp_path) -> None:
    root = prepared(checkout)
    (tmp_path / "elsewhere" / root.name).mkdir(parents=True)
    environment = {**os.environ, "CDPATH": str(tmp_path / "elsewhere")}
    code, out, _ = run(Path(root.name) / "lingua", cwd=tmp_path, env=environment)
    assert (code, out.splitlines()) == (7, [str(tmp_path)])


def test_an_unchanged_checkout_installs_nothing(checkout) -> None:
    assert installs(prepared(checkout), "serve") == []


@pytest.mark.parametrize("changed", ["requirements/run.txt", "pyproject.toml"])
def test_a_changed_lock_or_project_is_installed(checkout, changed) -> None:
    root = prepared(checkout)
    with (root / changed).open("a") as file:
        file.write("# changed\n")
    assert installs(root, "serve") == ["run"]


def test_a_moved_checkout_is_installed_anew(checkout, tmp_path) -> None:
    root = prepared(checkout).rename(tmp_path / "moved")
    assert installs(root, "serve") == ["run"]


def test_an_environment_without_stamp_or_command_is_installed(checkout) -> None:
    root = prepared(checkout)
    (root / ".venv" / "lingua-stamp").unlink()
    assert installs(root, "serve") == ["run"]


def test_another_version_of_python_is_installed_for(checkout, tmp_path) -> None:
    root = prepared(checkout)
    newer = program(
        tmp_path / "newer", f'[ "$1" != -V ] || {{ echo Python 9.9.9; exit; }}; exec {sys.executable} "$@"'
    )
    assert installs(root, "serve", env={**os.environ, "LINGUA_PYTHON": str(newer)}) == ["run"]


def test_tests_get_their_tools_and_keep_them(checkout, tmp_path) -> None:
    assert installs(prepared(checkout), "test") == ["test"]
    shutil.rmtree(checkout / ".venv")
    root = prepared(checkout, wants="test")
    assert installs(root, "test") == []
    assert installs(root, "serve") == []
    with (root / "requirements" / "test.txt").open("a") as file:
        file.write("# changed\n")
    assert installs(root, "serve") == ["test"]


def test_without_a_suitable_python_it_says_what_is_needed(checkout, tmp_path) -> None:
    for tool in TOOLS:
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    program(tmp_path / "bin" / "python3", "exit 1")  # too old
    code, out, err = run(checkout / "lingua", "serve", env={"PATH": str(tmp_path / "bin")})
    assert (code, out) == (2, "")
    assert "needs Python 3.11 or later and found none" in err
    assert "LINGUA_PYTHON=" in err


def test_a_python_without_venv_is_named_with_the_way_out(checkout, tmp_path) -> None:
    (tmp_path / "ensurepip.py").write_text("raise ImportError\n")
    code, out, err = run(checkout / "lingua", "serve", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert (code, out) == (2, "")
    assert "comes without venv or pip" in err
    assert "apt install python3-venv" in err


def test_the_lock_of_the_tests_contains_the_other_one() -> None:
    run_lock, test_lock = ((ROOT / "requirements" / name).read_text() for name in ("run.txt", "test.txt"))
    pinned = {line.split(" ")[0] for line in run_lock.splitlines() if "==" in line}
    assert pinned
    assert pinned <= {line.split(" ")[0] for line in test_lock.splitlines() if "==" in line}
    assert "://" not in run_lock + test_lock


def test_a_run_that_waits_takes_over_from_an_interrupted_one_and_the_next_starts_at_once(checkout) -> None:
    """The first run is killed while it prepares .venv; the second has waited, makes it anew and runs."""
    command = [checkout / "lingua"]
    environment = {**os.environ, "LINGUA_PYTHON": sys.executable, "PIP_NO_INDEX": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment}
    with subprocess.Popen(command, start_new_session=True, **pipes) as first:
        assert "preparing .venv" in first.stderr.readline()
        with subprocess.Popen(command, **pipes) as second:
            assert "waiting for another run" in second.stderr.readline()
            os.killpg(first.pid, signal.SIGKILL)
            out, err = second.communicate()
        first.communicate()
    assert (second.returncode, out) == (0, "it runs\n"), err
    assert "preparing .venv" in err
    assert "ready after" in err
    assert run(checkout / "lingua", env=environment) == (0, "it runs\n", "")


@pytest.mark.parametrize("command", ["up", "node"])
def test_what_runs_the_reference_node_installs_its_engines(checkout, command) -> None:
    root = prepared(checkout)
    assert installs(root, command) == ["run+speech"]
    assert installs(root, command, "--demo") == []


def test_a_scheduler_without_a_node_needs_no_engines(checkout) -> None:
    assert installs(prepared(checkout), "up", "--no-node") == []


def test_engines_that_are_there_are_not_taken_away(checkout) -> None:
    root = prepared(checkout, "run+speech")
    assert installs(root, "serve") == []
    assert installs(root, "test") == ["test+speech"]


def test_the_engines_can_be_asked_for(checkout) -> None:
    environment = {**os.environ, "LINGUA_WITH": "speech"}
    assert installs(prepared(checkout, "test"), "test", env=environment) == ["test+speech"]
    assert installs(prepared_anew(checkout, "test+speech"), "test", env=environment) == []


def test_tracing_can_be_asked_for_by_the_environment_and_stays(checkout) -> None:
    """The lock for tests contains it; nothing is installed for it there."""
    both = {**os.environ, "LINGUA_WITH": "speech,tracing"}
    assert installs(prepared(checkout), "serve", env={**os.environ, "LINGUA_WITH": "tracing"}) == [
        "run+tracing"
    ]
    root = prepared_anew(checkout, "run+tracing")
    assert installs(root, "serve") == []
    assert installs(root, "serve", env=both) == ["run+speech+tracing"]
    assert installs(prepared_anew(checkout, "run+speech+tracing"), "serve") == []
    root = prepared_anew(checkout, "test")
    assert installs(root, "test", env={**os.environ, "LINGUA_WITH": "tracing"}) == []


def prepared_anew(root: Path, wants: str) -> Path:
    shutil.rmtree(root / ".venv")
    return prepared(root, wants)


def test_engines_that_cannot_be_installed_leave_a_way_out(checkout) -> None:
    (checkout / "requirements" / "speech.txt").write_text("there-is-no-such-package==0 --hash=sha256:0\n")
    code, _, err = run(checkout / "lingua", "up", env={**os.environ, "PIP_NO_INDEX": "1"})
    assert code == 2
    assert "./lingua up --demo" in err.splitlines()[-1]
