"""What a node still owes: an attempt is out until it is answered, cancelled or part of a later answer."""

from __future__ import annotations

from lingua_scheduler.flow.assignments import Assignments
from lingua_scheduler.wire.common import Pipeline
from lingua_scheduler.wire.node import JobAssign, JobCancel, JobResult


def assign(job_id: str, index: int = 0, session_id: str = "s-1", attempt: int = 1) -> JobAssign:
    return JobAssign(
        job_id=job_id,
        attempt_id=attempt,
        session_id=session_id,
        utterance_index=index,
        src_lang="zh",
        tgt_lang="en",
        pipeline=Pipeline(),
        audio=b"",
        audio_format="opus",
        sample_rate=16000,
        trace_id="t",
    )


def result(job_id: str, index: int = 0, session_id: str = "s-1") -> JobResult:
    return JobResult(
        job_id=job_id,
        attempt_id=1,
        node_id="n",
        session_id=session_id,
        utterance_index=index,
        success=True,
        trace_id="t",
    )


def test_an_attempt_is_out_until_its_answer():
    work = Assignments()
    work.given(assign("a"), 0)
    work.given(assign("b", 1), 0)
    work.answered(result("a"), in_order=False)
    assert len(work) == 1
    work.answered(result("a"), in_order=False)
    work.answered(result("b", 1), in_order=False)
    assert len(work) == 0


def test_an_answer_of_a_node_that_works_in_order_ends_what_came_before_it_in_its_session():
    work = Assignments()
    for job_id, index, session_id in (("a", 0, "s-1"), ("b", 1, "s-1"), ("c", 2, "s-1"), ("d", 0, "s-2")):
        work.given(assign(job_id, index, session_id), 0)
    work.answered(result("b", 1), in_order=True)
    assert len(work) == 2


def test_a_cancelled_attempt_is_not_out_but_a_newer_one_is():
    work = Assignments()
    work.given(assign("a", attempt=2), 0)
    work.cancelled(JobCancel(job_id="a", attempt_id=1, trace_id="t", reason="x"))
    assert len(work) == 1
    work.cancelled(JobCancel(job_id="a", attempt_id=2, trace_id="t", reason="x"))
    assert len(work) == 0


def test_what_is_older_than_any_job_is_forgotten():
    work = Assignments()
    work.given(assign("a"), 0)
    work.given(assign("b"), 601)
    assert len(work) == 1
