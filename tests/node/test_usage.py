"""Usage is measured, not made up: from `/proc` where there is one, from what the system tells otherwise."""

import os
from pathlib import Path

import pytest

from lingua_scheduler.node.usage import Machine

MEMINFO = "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    4000000 kB\n"


class Now:
    """A clock to move by hand."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.at


@pytest.fixture
def now() -> Now:
    return Now()


def proc(folder: Path, busy: int, idle: int) -> Path:
    """Lay out what Linux tells; a tenth of the idle time is waiting for a disk."""
    waiting = idle // 10
    (folder / "stat").write_text(
        f"cpu  {busy - 10} 4 6 {idle - waiting} {waiting} 0 0 0 99 99\ncpu0 1 1 1 1\n"
    )
    (folder / "meminfo").write_text(MEMINFO)
    return folder


def test_cpu_usage_is_the_share_since_the_last_look(tmp_path, now) -> None:
    machine = Machine(proc(tmp_path, 1000, 9000), now)
    assert machine.usage().cpu_percent == 10.0, "since the machine was started"
    now.at += 15
    proc(tmp_path, 1300, 9100)
    assert machine.usage().cpu_percent == 75.0
    now.at += 15
    proc(tmp_path, 1300, 9200)
    assert machine.usage().cpu_percent == 0.0


def test_a_look_too_soon_after_the_last_one_tells_the_same(tmp_path, now) -> None:
    machine = Machine(proc(tmp_path, 1000, 9000), now)
    proc(tmp_path, 1100, 9000)
    now.at += 0.5
    assert machine.usage().cpu_percent == 10.0
    now.at += 0.5
    assert machine.usage().cpu_percent == 100.0


def test_memory_usage_counts_what_programs_could_not_have(tmp_path, now) -> None:
    machine = Machine(proc(tmp_path, 1000, 9000), now)
    assert machine.usage().mem_percent == 75.0
    assert machine.memory_gb == 15


@pytest.mark.parametrize("stat", [None, "", "cpu  1 2", "cpu a b c d e f g h"])
def test_without_proc_the_load_average_counts(tmp_path, now, monkeypatch, stat) -> None:
    if stat is not None:
        (tmp_path / "stat").write_text(stat)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "getloadavg", lambda: (1.0, 4.0, 4.0))
    machine = Machine(tmp_path, now)
    now.at += 15
    assert machine.usage().cpu_percent == 25.0
    monkeypatch.setattr(os, "getloadavg", lambda: (9.0, 4.0, 4.0))
    now.at += 15
    assert machine.usage().cpu_percent == 100.0


def test_without_a_load_average_the_own_time_counts(tmp_path, now, monkeypatch) -> None:
    monkeypatch.delattr(os, "getloadavg")
    machine = Machine(tmp_path, now)
    now.at += 15
    assert 0 <= machine.usage().cpu_percent <= 100


@pytest.mark.parametrize("meminfo", [None, "MemTotal: 5 kB\n", "MemTotal:\n", "MemTotal: x kB\n"])
def test_without_proc_the_free_pages_count(tmp_path, now, monkeypatch, meminfo) -> None:
    if meminfo is not None:
        (tmp_path / "meminfo").write_text(meminfo)
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1_000_000, "SC_AVPHYS_PAGES": 250_000}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    assert Machine(tmp_path, now).usage().mem_percent == 75.0


def test_a_system_that_tells_nothing_is_not_guessed_at(tmp_path, now, monkeypatch) -> None:
    def unknown(_name: str) -> int:
        raise ValueError

    monkeypatch.setattr(os, "sysconf", unknown)
    machine = Machine(tmp_path, now)
    assert (machine.usage().mem_percent, machine.memory_gb) == (0.0, 0)


def test_this_machine_tells_believable_numbers() -> None:
    usage = Machine().usage()
    assert 0 <= usage.cpu_percent <= 100
    assert 0 < usage.mem_percent < 100
    assert usage.gpu_percent is None
