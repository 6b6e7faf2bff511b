"""Workers are processes: a hung engine is killed, a dead one replaced, and the others never notice."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

import pytest

from lingua_scheduler.clock import SystemClock, VirtualClock
from lingua_scheduler.node import JobFailed
from lingua_scheduler.node.speech import SpeechOptions
from lingua_scheduler.node.speech.crew import Crew, Worker
from lingua_scheduler.node.speech.errors import WorkerDied
from lingua_scheduler.node.speech.options import DeadlineOptions
from node.jobs import assign
from node.speech import tiny
from support import wait_until


def said(text: str, **members):
    return assign(audio=tiny.spoken(text), **members)


def exists(pid: int | None) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid or 0, 0)
        return True
    return False


async def recognising(worker: Worker) -> None:
    """Wait until the worker is asked to recognise."""

    def asked() -> bool:
        return worker._running is not None and worker._running.get_name() == "engine call asr"

    await wait_until(asked, description="the worker recognises")


async def test_a_hung_engine_is_killed_by_its_deadline_and_its_job_fails(desk) -> None:
    """The deadline is 15 s and half a second for each second of speech; here time is moved by hand."""
    clock = VirtualClock()
    async with desk(clock=clock, asr=tiny.choice(tiny.HungEars)) as hands:
        (worker,) = hands.crew.workers
        pid = worker.pid
        job = asyncio.create_task(hands.do(said("hang")))
        await recognising(worker)
        clock.advance(14.9)
        assert exists(pid)
        clock.advance(0.2)
        with pytest.raises(JobFailed, match="asr did not finish within 15") as failure:
            await job
        assert (failure.value.code, failure.value.details) == ("PROCESSING_ERROR", {"service_id": "asr"})
        assert not exists(pid)
        answer = await hands.do(said("hello"))
        assert answer.text_translated == "olá"
        assert worker.pid != pid


@pytest.mark.parametrize(
    ("text", "deadline", "code"), [("hang", "nmt_s", "NMT_TIMEOUT"), ("mudo", "tts_s", "TTS_TIMEOUT")]
)
async def test_the_code_names_the_step_that_hung(desk, text, deadline, code) -> None:
    async with desk(deadlines=DeadlineOptions(**{deadline: 0.05})) as hands:
        with pytest.raises(JobFailed) as failure:
            await hands.do(said(text))
        assert failure.value.code == code


async def test_a_worker_that_dies_fails_its_job_and_is_replaced(desk) -> None:
    async with desk(asr=tiny.choice(tiny.WeakEars)) as hands:
        with pytest.raises(JobFailed, match="the worker ended with code 7 during asr") as failure:
            await hands.do(said("crash"))
        assert failure.value.code == "PROCESSING_ERROR"
        assert (await hands.do(said("hello"))).text_translated == "olá"


async def test_an_engine_that_fails_fails_its_job_only_and_its_words_stay_secret(desk) -> None:
    async with desk(asr=tiny.choice(tiny.WeakEars)) as hands:
        pid = hands.crew.workers[0].pid
        with pytest.raises(JobFailed, match=r"asr failed: ValueError at tiny\.py:\d+$"):
            await hands.do(said("fail"))
        assert (await hands.do(said("hello"))).text_translated == "olá"
        assert hands.crew.workers[0].pid == pid


async def test_a_model_that_goes_away_later_is_reported_and_recovers_when_it_is_back(desk, tmp_path) -> None:
    model = tmp_path / "model"
    model.touch()
    async with desk(asr=tiny.choice(tiny.FragileEars, file=str(model))) as hands:
        model.unlink()
        with pytest.raises(JobFailed):
            await hands.do(said("crash"))
        with pytest.raises(
            JobFailed, match=r"nothing understands en: asr: .* is missing: put it back"
        ) as failure:
            await hands.do(said("hello"))
        assert failure.value.code == "MODEL_NOT_AVAILABLE"
        assert failure.value.details == {"service_id": "asr"}
        model.touch()
        hands.crew.workers[0].kill()
        await hands.crew.workers[0]._process.wait()
        assert (await hands.do(said("hello"))).text_translated == "olá"


async def test_a_cancelled_job_stops_after_its_step_and_its_worker_is_used_again(desk, tmp_path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with desk(asr=tiny.choice(tiny.GatedEars, file=str(gate))) as hands:
        (worker,) = hands.crew.workers
        pid = worker.pid
        job = asyncio.create_task(hands.do(said("wait")))
        await recognising(worker)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        follower = asyncio.create_task(hands.do(said("world")))
        await asyncio.to_thread(gate.write_bytes, b"go on")
        assert (await follower).text_translated == "mundo"
        assert worker.pid == pid


async def test_jobs_beyond_the_workers_wait_their_turn(desk) -> None:
    async with desk(workers=2) as hands:
        answers = await asyncio.gather(*(hands.do(said(word)) for word in tiny.WORDS))
        assert [answer.text_translated for answer in answers] == list(tiny.WORDS.values())


async def test_workers_end_with_the_crew_even_in_the_middle_of_a_call(desk) -> None:
    async with desk(asr=tiny.choice(tiny.HungEars)) as hands:
        (worker,) = hands.crew.workers
        job = asyncio.create_task(hands.do(said("hang")))
        await recognising(worker)
        pid = worker.pid
    with pytest.raises(JobFailed):
        await job
    assert not exists(pid)
    assert worker.pid == pid, "nobody replaces it any more"


async def test_a_worker_that_never_gets_ready_is_killed(monkeypatch) -> None:
    monkeypatch.setattr("lingua_scheduler.node.speech.crew._PROGRAM", "this")
    worker = Worker(SpeechOptions(), SystemClock())
    with pytest.raises(WorkerDied, match="during start"):
        await worker.start()
    assert not worker.alive
    await worker.stop()


async def test_a_crew_that_was_never_started_can_be_stopped() -> None:
    await Crew(SpeechOptions(), SystemClock()).stop()
