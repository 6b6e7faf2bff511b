"""Which languages a job is about, how one becomes another, and what a node may promise."""

import pytest

from lingua_scheduler.node.speech.direction import Direction, Offer, offer, route
from node.jobs import assign


def test_a_known_language_is_the_only_candidate() -> None:
    direction = Direction.of(assign(src_lang="en-US", tgt_lang="pt_BR"))
    assert direction == Direction(("en",), "pt")
    assert direction.target("en") == "pt"


@pytest.mark.parametrize(("heard", "wanted"), [("zh", "en"), ("en", "zh")])
@pytest.mark.parametrize("named", ["zh", "en"])
def test_in_a_two_way_talk_the_language_heard_decides(heard, wanted, named) -> None:
    direction = Direction.of(assign(src_lang="auto", tgt_lang=named, lang_a="zh", lang_b="en"))
    assert direction.spoken == ("zh", "en")
    assert direction.target(heard) == wanted


def test_a_listener_with_a_third_language_gets_that() -> None:
    direction = Direction.of(assign(src_lang="auto", tgt_lang="fr", lang_a="zh", lang_b="en"))
    assert {direction.target("zh"), direction.target("en")} == {"fr"}


def test_without_a_pair_the_list_of_languages_counts() -> None:
    direction = Direction.of(assign(src_lang="auto", tgt_lang="pt", auto_langs=("en", "es", "en-GB")))
    assert direction.spoken == ("en", "es")
    assert direction.target("es") == "pt"


PAIRS = {("en", "pt"), ("pt", "en"), ("pt", "es"), ("es", "pt"), ("es", "it"), ("it", "ca")}


def test_the_shortest_way_is_taken() -> None:
    assert route(PAIRS, "en", "en") == ("en",)
    assert route(PAIRS, "en", "pt") == ("en", "pt")
    assert route(PAIRS, "en", "es") == ("en", "pt", "es")
    assert route(PAIRS, "en", "it") == ("en", "pt", "es", "it")


def test_there_is_no_way_that_is_too_long_or_one_sided() -> None:
    assert route(PAIRS, "en", "ca") is None
    assert route(PAIRS, "it", "en") is None
    assert route(set(), "en", "pt") is None


def test_a_node_promises_what_every_language_it_hears_can_become() -> None:
    both = {("en", "pt"), ("pt", "en")}
    assert offer(["en"], both, ["en", "pt"]) == Offer(("en",), ("en", "pt"))
    assert offer(["en", "pt"], both, ["en", "pt"]) == Offer(("en", "pt"), ("en", "pt"))


def test_a_language_that_can_become_nothing_is_not_promised() -> None:
    """Hearing Chinese is of no use to a node that translates between English and Portuguese."""
    pairs = {("en", "pt"), ("pt", "en")}
    assert offer(["en", "pt", "zh"], pairs, ["en", "pt", "zh"]) == Offer(("en", "pt"), ("en", "pt"))


def test_a_target_without_a_voice_is_not_promised_unless_there_are_no_voices_at_all() -> None:
    pairs = {("en", "pt"), ("en", "es")}
    assert offer(["en"], pairs, ["en", "pt"]) == Offer(("en",), ("en", "pt"))
    assert offer(["en"], pairs, None) == Offer(("en",), ("en", "es", "pt"))


def test_nothing_heard_is_nothing_promised() -> None:
    assert offer([], PAIRS, ["en"]) == Offer((), ())
