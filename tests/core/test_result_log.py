"""What a client was told stays until it is acknowledged, within bounds, and is said again in order."""

from __future__ import annotations

from lingua_scheduler.core.result_log import ResultLog
from lingua_scheduler.core.resume import ResumeOptions
from lingua_scheduler.core.stored import Logged

OPTIONS = ResumeOptions(log_results=3, log_bytes=1024)


def entry(index: int, size: int = 10, tgt_lang: str = "en") -> Logged:
    return Logged(index, tgt_lang, b"%d" % index + b"." * size)


def told(log: ResultLog, *entries: Logged) -> ResultLog:
    for each in entries:
        log.keep(each)
        log.tell(each.name)
    return log


def indexes(log: ResultLog) -> list[int]:
    return [int(message.split(b".")[0]) for message in log.unheard()]


def test_only_what_was_told_is_said_again_and_in_order():
    log = told(ResultLog(OPTIONS), entry(2), entry(0))
    log.keep(entry(1))
    assert indexes(log) == [0, 2]


def test_what_is_acknowledged_is_forgotten_here_and_named_once_for_redis():
    log = told(ResultLog(OPTIONS), entry(0), entry(1), entry(2))
    log.acknowledge(1)
    assert indexes(log) == [2]
    assert sorted(log.forgotten()) == ["0:en", "1:en"]
    assert log.forgotten() == ()


def test_what_was_not_told_yet_cannot_be_acknowledged():
    log = ResultLog(OPTIONS)
    log.keep(entry(0))
    log.acknowledge(5)
    log.tell("0:en")
    assert indexes(log) == [0]


def test_an_older_acknowledgement_takes_nothing_back():
    log = told(ResultLog(OPTIONS), entry(0), entry(1))
    log.acknowledge(1)
    log.acknowledge(0)
    assert (log.received, indexes(log)) == (1, [])


def test_of_too_many_the_oldest_leave():
    log = told(ResultLog(OPTIONS), *(entry(index) for index in range(5)))
    assert indexes(log) == [2, 3, 4]
    assert log.forgotten() == ("0:en", "1:en")


def test_of_too_many_bytes_the_oldest_leave_but_never_the_newest():
    log = told(ResultLog(OPTIONS), entry(0, 500), entry(1, 500), entry(2, 500))
    assert indexes(log) == [1, 2]
    told(log, entry(3, 5000))
    assert indexes(log) == [3]
    told(log, entry(4))
    assert indexes(log) == [4]


def test_a_result_takes_the_place_of_what_was_reported_missing():
    log = told(ResultLog(OPTIONS), entry(0, 1))
    log.keep(Logged(0, "en", b"0.result"))
    assert log.unheard() == [b"0.result"]
    assert len(log) == 1


def test_languages_are_kept_apart():
    log = told(ResultLog(OPTIONS), entry(0), entry(0, tgt_lang="pt"))
    assert len(log.unheard()) == 2


def test_a_new_owner_starts_with_what_the_client_does_not_have():
    log = ResultLog(OPTIONS, [entry(0), entry(1), entry(2)], received=0)
    assert [each.index for each in log.entries()] == [1, 2]
    assert log.unheard() == []
    assert log.forgotten() == ("0:en",)
