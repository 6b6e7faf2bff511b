"""Which node a job should go to: pieces of one speech belong together, strangers do not stick."""

from __future__ import annotations

import pytest

from lingua_scheduler.core.affinity import Affinity, AffinityOptions, Wish
from lingua_scheduler.core.model import CutReason, NodeId, TurnId

NOW = 1000.0
TTL_S = 300
X, Y = NodeId("node-X"), NodeId("node-Y")
TURN, NEXT_TURN = TurnId("turn-1"), TurnId("turn-2")

RECORDING = [CutReason.SILENCE, CutReason.MAX_DURATION, CutReason.MAX_LENGTH]
CLEARING = [CutReason.MANUAL, CutReason.GAP, CutReason.CLOSE]
CONTINUING = [CutReason.MAX_DURATION, CutReason.MAX_LENGTH]


def wish(
    affinity: Affinity,
    reason: CutReason = CutReason.SILENCE,
    turn_id: TurnId = NEXT_TURN,
    now: float = NOW,
    tgt_lang: str = "en",
) -> Wish | None:
    return affinity.wish(tgt_lang, reason=reason, turn_id=turn_id, now=now)


def after(reason: CutReason, node_id: NodeId = X, *, now: float = NOW, turn_id: TurnId = TURN) -> Affinity:
    affinity = Affinity(AffinityOptions())
    affinity.placed("en", node_id, reason=reason, turn_id=turn_id, now=now)
    return affinity


def test_a_new_session_has_no_wish():
    assert wish(Affinity(AffinityOptions())) is None


@pytest.mark.parametrize("reason", RECORDING)
def test_cuts_by_the_clock_and_by_size_record_their_node(reason):
    affinity = after(reason)
    assert affinity.recorded("en") == X
    assert wish(affinity) == Wish(X, bound=False)


@pytest.mark.parametrize("reason", CLEARING)
def test_cuts_that_end_a_sentence_record_nothing(reason):
    affinity = after(CutReason.SILENCE)
    affinity.placed("en", Y, reason=reason, turn_id=NEXT_TURN, now=NOW)
    assert affinity.recorded("en") is None
    assert wish(affinity) is None


@pytest.mark.parametrize("reason", CLEARING)
@pytest.mark.parametrize("before", RECORDING)
def test_cuts_that_end_a_sentence_forget_before_their_job_is_placed(before, reason):
    affinity = after(before)
    assert wish(affinity, reason) is None
    assert affinity.recorded("en") is None


@pytest.mark.parametrize("reason", list(CutReason))
@pytest.mark.parametrize("before", CONTINUING)
def test_an_open_turn_binds_every_piece_also_the_one_that_ends_it(before, reason):
    affinity = after(before)
    assert wish(affinity, reason, TURN) == Wish(X, bound=True)
    assert affinity.recorded("en") == X, "asking changes nothing inside a turn"


def test_a_turn_that_moved_stays_with_its_new_node():
    affinity = after(CutReason.MAX_DURATION)
    affinity.placed("en", Y, reason=CutReason.MAX_DURATION, turn_id=TURN, now=NOW)
    assert wish(affinity, turn_id=TURN) == Wish(Y, bound=True)


def test_the_end_of_a_turn_by_silence_leaves_a_preference():
    affinity = after(CutReason.MAX_DURATION)
    affinity.placed("en", X, reason=CutReason.SILENCE, turn_id=TURN, now=NOW)
    assert wish(affinity) == Wish(X, bound=False)
    assert wish(affinity, turn_id=TURN) == Wish(X, bound=False), "the turn is over"


def test_the_end_of_a_turn_by_the_client_leaves_nothing():
    affinity = after(CutReason.MAX_DURATION)
    affinity.placed("en", X, reason=CutReason.MANUAL, turn_id=TURN, now=NOW)
    assert wish(affinity) is None


@pytest.mark.parametrize(
    ("later_s", "expected"), [(TTL_S - 0.1, Wish(X, bound=False)), (TTL_S, None), (TTL_S + 1, None)]
)
def test_a_record_lives_as_long_as_configured(later_s, expected):
    assert wish(after(CutReason.SILENCE), now=NOW + later_s) == expected


def test_a_record_that_is_over_is_gone():
    affinity = after(CutReason.SILENCE)
    assert wish(affinity, now=NOW + TTL_S) is None
    assert affinity.recorded("en") is None


def test_recording_again_refreshes_the_life():
    affinity = after(CutReason.SILENCE)
    affinity.placed("en", X, reason=CutReason.SILENCE, turn_id=NEXT_TURN, now=NOW + 200)
    assert wish(affinity, now=NOW + TTL_S + 199) == Wish(X, bound=False)


def test_asking_does_not_refresh_the_life():
    affinity = after(CutReason.SILENCE)
    wish(affinity, now=NOW + 200)
    assert wish(affinity, now=NOW + TTL_S) is None


def test_each_language_has_its_own_node():
    affinity = after(CutReason.MAX_DURATION)
    affinity.placed("ja", Y, reason=CutReason.MAX_DURATION, turn_id=TURN, now=NOW)
    assert wish(affinity, turn_id=TURN) == Wish(X, bound=True)
    assert wish(affinity, turn_id=TURN, tgt_lang="ja") == Wish(Y, bound=True)
    assert wish(affinity, CutReason.MANUAL, tgt_lang="ja") is None
    assert affinity.recorded("en") == X


def test_the_end_of_the_session_forgets_everything():
    affinity = after(CutReason.MAX_DURATION)
    affinity.placed("ja", Y, reason=CutReason.SILENCE, turn_id=TURN, now=NOW)
    affinity.clear()
    assert (affinity.recorded("en"), affinity.recorded("ja")) == (None, None)
