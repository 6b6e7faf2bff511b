"""Names of jobs and turns: unlike each other, in one process and in those it forks."""

from __future__ import annotations

import os

from lingua_scheduler.core.model import new_job_id, new_turn_id


def test_names_are_unlike():
    made = [new() for new in (new_job_id, new_turn_id) for _ in range(10_000)]
    assert len(set(made)) == len(made)
    assert {len(name.partition("-")[2]) for name in made} == {20}


def test_a_forked_process_makes_other_names():
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, new_job_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as told:
        os.close(write)
        assert told.read().decode() != new_job_id()
