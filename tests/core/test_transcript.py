"""Transcripts as people and players read them: whatever was said, a file stays well-formed."""

from __future__ import annotations

import re
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lingua_scheduler.core import resume
from lingua_scheduler.core.model import SessionId
from lingua_scheduler.core.transcript import Line, Transcript, make_token, read_token
from lingua_scheduler.core.transcript_files import Format, Show, Wish, write
from lingua_scheduler.core.wrapping import is_right_to_left, one_line, width, wrapped

BEGAN_MS = 1_700_000_000_000
ANNA, BO = SessionId("s-anna"), SessionId("s-bo")


def line(index: int = 0, text: str = "你好", translation: str = "hello", **members) -> Line:
    plain = {
        "speaker": ANNA,
        "at_ms": BEGAN_MS + 1000 + 5000 * index,
        "duration_ms": 2000,
        "lang": "zh",
        "tgt_lang": "en",
    }
    return Line(index=index, text=text, translation=translation, **{**plain, **members})


def transcript(*lines: Line, dropped: int = 0) -> Transcript:
    return Transcript.of(lines, began_wall_ms=BEGAN_MS, dropped=dropped)


def written(made: Transcript, kind: str, show: str = "both", lang: str = "") -> str:
    return write(made, Wish(Format(kind), Show(show), lang), about="a session")


# Lines become utterances


def test_lines_of_one_utterance_become_one_entry_with_every_translation():
    made = transcript(line(1), line(0, tgt_lang="fr", translation="bonjour"), line(0))
    assert [entry.index for entry in made.entries] == [0, 1]
    first = made.entries[0]
    assert first.translations == {"en": "hello", "fr": "bonjour"}
    assert (first.began_ms, first.ended_ms, first.lang, first.text) == (1000, 3000, "zh", "你好")


def test_a_line_that_comes_twice_is_there_once_and_the_earlier_counts():
    later = line(translation="something else", at_ms=BEGAN_MS + 9000)
    for lines in ((line(), later), (later, line())):
        made = transcript(*lines)
        assert [entry.translations for entry in made.entries] == [{"en": "hello"}]
        assert made.entries[0].began_ms == 1000


def test_speakers_of_a_room_stand_in_the_order_in_which_they_spoke():
    made = transcript(line(0, at_ms=BEGAN_MS + 5), line(0, speaker=BO, at_ms=BEGAN_MS + 2))
    assert [entry.speaker for entry in made.entries] == [BO, ANNA]


def test_what_was_said_before_the_beginning_moves_the_beginning():
    made = transcript(line(at_ms=BEGAN_MS - 7))
    assert (made.began_wall_ms, made.entries[0].began_ms) == (BEGAN_MS - 7, 0)
    assert Transcript.of([line()], began_wall_ms=None).began_wall_ms == BEGAN_MS + 1000
    assert Transcript.of([], began_wall_ms=BEGAN_MS) == Transcript(BEGAN_MS, ())


# Which texts


@pytest.mark.parametrize(
    ("show", "lang", "texts"),
    [
        ("both", "", ["你好", "hello", "bonjour", "yes", "是"]),
        ("both", "fr", ["你好", "bonjour", "yes"]),
        ("source", "", ["你好", "yes"]),
        ("source", "zh", ["你好"]),
        ("translated", "", ["hello", "bonjour", "是"]),
        ("translated", "en", ["hello", "yes"]),
        ("translated", "fr", ["bonjour"]),
        ("translated", "xx", []),
    ],
)
def test_source_and_translations_are_chosen_by_language(show, lang, texts):
    """A language alone gives the whole conversation in it: what was said in it stands as it was said."""
    french = line(0, tgt_lang="fr", translation="bonjour")
    english = line(1, "yes", "是", lang="en", tgt_lang="zh")
    shown = written(transcript(line(0), french, english), "vtt", show, lang)
    said = [text for block in shown.strip().split("\n\n")[2:] for text in block.split("\n")[1:]]
    assert said == texts


# Files


def test_plain_text():
    made = transcript(line(name="Anna"), line(1, "再见", "bye\nbye"), dropped=3)
    assert written(made, "txt") == (
        "Transcript of a session\n"
        "Began at 2023-11-14T22:13:20.000Z\n"
        "The oldest lines are not kept any more: 3\n"
        "\n"
        "[00:00:01] Anna (zh) 你好\n"
        "           (en) hello\n"
        "[00:00:06] (zh) 再见\n"
        "           (en) bye bye\n"
    )


def test_plain_text_keeps_scripts_that_run_the_other_way_to_themselves():
    shown = written(transcript(line(text="שבת \u202e!", lang="he")), "txt", "source")
    assert "(he) \u2068שבת !\u2069\n" in shown


def test_json_has_the_texts_as_they_are():
    said = 'a "quoted"\nline --> <b>'
    told = msgspec.json.decode(written(transcript(line(text=said), dropped=1), "json"))
    assert (told["about"], told["dropped"], told["began_at"]) == (
        "a session",
        1,
        "2023-11-14T22:13:20.000Z",
    )
    assert told["entries"] == [
        {
            "speaker": "s-anna",
            "name": None,
            "index": 0,
            "said_at": "2023-11-14T22:13:21.000Z",
            "began_ms": 1000,
            "ended_ms": 3000,
            "lang": "zh",
            "text": said,
            "translations": {"en": "hello"},
        }
    ]
    only = msgspec.json.decode(written(transcript(line()), "json", "translated", "en"))["entries"][0]
    assert (only["text"], only["translations"]) == (None, {"en": "hello"})


def test_subrip():
    made = transcript(line(name="Anna"), line(1, "x <i>", "y {\\an8}"))
    assert written(made, "srt") == (
        "1\n00:00:01,000 --> 00:00:03,000\nAnna: 你好\nhello\n\n"
        "2\n00:00:06,000 --> 00:00:08,000\nx \u2039i\u203a\ny (\\an8)\n\n"
    )


def test_webvtt():
    made = transcript(line(name="A>n&a"), line(1, "x --> y", "<b>"), dropped=2)
    assert written(made, "vtt") == (
        "WEBVTT\n\n"
        "NOTE Transcript of a session, begun at 2023-11-14T22:13:20.000Z\n\n"
        "NOTE The oldest lines are not kept any more: 2\n\n"
        "00:00:01.000 --> 00:00:03.000\n<v A&gt;n&amp;a>你好\nhello\n\n"
        "00:00:06.000 --> 00:00:08.000\nx --&gt; y\n&lt;b&gt;\n"
    )


def test_a_subtitle_file_says_at_its_beginning_that_lines_have_left():
    first = written(transcript(line(), dropped=2), "srt").split("\n\n")[0]
    assert first == "1\n00:00:00,000 --> 00:00:01,000\nThe oldest lines are not kept any more: 2"


def test_a_long_utterance_becomes_several_subtitles_that_share_its_time():
    words = " ".join(["word"] * 40)
    blocks = written(transcript(line(text=words, translation="", duration_ms=6000)), "srt").split("\n\n")[:-1]
    assert len(blocks) == 3
    assert [block.split("\n")[1][:12] for block in blocks] == ["00:00:01,000", "00:00:03,000", "00:00:05,000"]
    assert " ".join(part for block in blocks for part in block.split("\n")[2:]) == words


def test_hours_may_have_more_than_two_digits():
    late = line(at_ms=BEGAN_MS + 100 * 3_600_000)
    assert "100:00:00,000 --> 100:00:02,000" in written(transcript(late), "srt")


def test_an_empty_transcript_is_a_whole_file():
    assert written(transcript(), "srt") == ""
    assert written(transcript(), "vtt").startswith("WEBVTT\n\nNOTE")
    assert written(transcript(), "txt").count("\n") == 3
    assert msgspec.json.decode(written(transcript(), "json"))["entries"] == []


# Whatever is said


NASTY = st.sampled_from(
    ["-->", "<", ">", "&", "\n\n", "\r\n", "\u2028", "\x85", "\x00", "\u202e", "{", "1\n"]
)
ANYTHING = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | NASTY, max_size=12).map(
    "".join
)
LINES = st.lists(
    st.builds(
        Line,
        speaker=st.sampled_from([ANNA, BO]),
        index=st.integers(0, 5),
        at_ms=st.integers(BEGAN_MS - 1000, BEGAN_MS + 20_000),
        duration_ms=st.integers(0, 40_000),
        lang=st.sampled_from(["", "zh", "ar"]),
        text=ANYTHING,
        tgt_lang=st.sampled_from(["en", "fr"]),
        translation=ANYTHING,
        name=st.sampled_from(["", "Anna", "-->", "a\n\nb", "<v x>"]),
    ),
    max_size=8,
)
CUE = re.compile(r"(\d{2,}):(\d\d):(\d\d)[.,](\d{3}) --> (\d{2,}):(\d\d):(\d\d)[.,](\d{3})")


def spans(times: list[str]) -> list[tuple[int, int]]:
    found = []
    for each in times:
        match = CUE.fullmatch(each)
        assert match, each
        hours, minutes, seconds, ms, *end = map(int, match.groups())
        began = ((hours * 60 + minutes) * 60 + seconds) * 1000 + ms
        found.append((began, ((end[0] * 60 + end[1]) * 60 + end[2]) * 1000 + end[3]))
    return found


def letters(text: str) -> str:
    return re.sub(r"[\s\u200f]", "", one_line(text))


@settings(max_examples=150, deadline=None)
@given(LINES, st.sampled_from(list(Show)), st.sampled_from(["", "en", "zh"]), st.integers(0, 2))
def test_subtitles_can_be_read_back_and_follow_each_other(lines, show, lang, dropped):
    """No text makes a blank line, an arrow or markup; times rise and never overlap."""
    made = transcript(*lines, dropped=dropped)
    subrip = write(made, Wish(Format.SRT, show, lang), about="a room")
    blocks = subrip.split("\n\n")
    assert blocks.pop() == ""
    parts = [block.split("\n") for block in blocks]
    assert [part[0] for part in parts] == [str(number) for number in range(1, len(parts) + 1)]
    assert subrip.count("-->") == len(parts)
    assert "<" not in subrip
    vtt = write(made, Wish(Format.VTT, show, lang), about="a room")
    cues = [block.split("\n") for block in vtt.rstrip("\n").split("\n\n") if "-->" in block]
    assert len(cues) == len(parts) - bool(dropped)
    assert vtt.count("-->") == len(cues)
    assert not re.search(r"<(?!v )", vtt)
    for rows, at in ((parts, 1), (cues, 0)):
        times = spans([row[at] for row in rows])
        assert all(began < ended for began, ended in times)
        assert all(one[1] <= other[0] for one, other in pairwise(times))
        assert all(row[at + 1 :] and all(each.strip() for each in row[at + 1 :]) for row in rows)


@settings(max_examples=100, deadline=None)
@given(LINES)
def test_subtitles_lose_no_word(lines):
    """All lines of an entry's subtitles together are its text, in WebVTT with everything quoted back."""
    made = transcript(*lines)
    for entry in made.entries:
        alone = Transcript(BEGAN_MS, (entry,))
        vtt = write(alone, Wish(Format.VTT, Show.SOURCE), about="a room").rstrip("\n")
        shown = "".join("".join(block.split("\n")[1:]) for block in vtt.split("\n\n")[2:])
        plain = re.sub(r"<v [^>]*>", "", shown)
        for quoted, char in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
            plain = plain.replace(quoted, char)
        assert letters(plain) == letters(entry.text)


@settings(max_examples=100, deadline=None)
@given(LINES, st.sampled_from(list(Show)))
def test_plain_text_has_one_row_for_each_text(lines, show):
    made = transcript(*lines)
    rows = write(made, Wish(Format.TXT, show), about="a room").split("\n")[3:-1]
    assert all(re.match(r"\[\d{2,}:\d\d:\d\d\] | {11}\(", row) for row in rows)


@settings(max_examples=100, deadline=None)
@given(ANYTHING, st.integers(2, 50))
def test_no_line_is_wider_than_it_may_be_and_none_is_blank(text, columns):
    lines = wrapped(text, columns)
    assert all(width(each) <= columns or width(each[0]) > columns for each in lines)
    assert all(each.strip() == each != "" for each in lines)
    assert letters("".join(lines)) == letters(text)


def test_lines_break_between_words_and_between_wide_characters():
    assert wrapped("one two three", 7) == ["one two", "three"]
    assert wrapped("你好世界。再见", 8) == ["你好世", "界。再见"]
    assert wrapped("abcdefghij", 4) == ["abcd", "efgh", "ij"]
    assert wrapped("e\u0301" * 4, 2) == ["e\u0301e\u0301", "e\u0301e\u0301"]
    assert wrapped(" \n ", 4) == []


def test_each_row_of_a_text_that_runs_the_other_way_says_so():
    text = "שבת " * 15
    assert is_right_to_left(text)
    shown = written(transcript(line(text=text, translation="")), "vtt").rstrip("\n").split("\n\n")[2]
    assert all(row.startswith("\u200f") for row in shown.split("\n")[1:])


# Tokens


def test_a_token_names_its_session_and_nothing_else_does():
    token = make_token(b"secret", ANNA)
    assert read_token(b"secret", token) == ANNA
    assert read_token(b"other", token) is None
    forged = ("", ".", "t1.s-anna.", token + "x", token[:-1], token.replace("anna", "bo"), "\ud800", "t1..")
    assert [read_token(b"secret", each) for each in forged] == [None] * len(forged)


def test_a_resume_token_is_no_transcript_token():
    assert read_token(b"secret", resume.make(b"secret", ANNA, 1)) is None
    assert resume.read(b"secret", make_token(b"secret", ANNA)) is None
