"""The search for canaries finds them in every disguise; else it would prove nothing."""

import base64
import json
from urllib.parse import quote

import pytest

from canaries import audio_forms, forms, leaks

WORDS = "gelber kanarienvogel 金丝雀"
SOUND = bytes(range(30, 130)) * 2


@pytest.mark.parametrize(
    "line",
    [
        WORDS,
        json.dumps({"event": "x", "words": f"he said {WORDS}!"}),
        repr(f"before {WORDS}"),
        WORDS.encode().hex(),
        f"/path?q={quote(WORDS)}",
        base64.b64encode(WORDS.encode()).decode(),
        base64.b64encode(b"1" + WORDS.encode() + b"behind").decode(),
        base64.b64encode(b"12" + WORDS.encode() + b"behind").decode(),
        base64.urlsafe_b64encode(b"123" + WORDS.encode()).decode(),
        str(WORDS.encode()),
    ],
)
def test_a_text_is_found(line):
    assert leaks(f"a line\n{line}\nanother", forms(WORDS))


@pytest.mark.parametrize("begin", [0, 6, 60])
def test_a_piece_of_audio_is_found(begin):
    forbidden = audio_forms(SOUND)
    piece = SOUND[begin : begin + 60]
    for line in (repr(piece), piece.hex(), base64.b64encode(piece).decode(), str(list(piece))):
        assert leaks(f"payload={line}", forbidden), line


def test_an_innocent_line_is_left_alone():
    line = '{"event":"session_opened","session":"s-4bf92f3577b34da6a3ce","bytes":840}'
    assert leaks(line, forms(WORDS) | audio_forms(SOUND)) == []
