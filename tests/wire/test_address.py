"""An address may leave out the path of the socket, and may be written as a page's address."""

import pytest

from lingua_scheduler.wire.address import NODE_PATH, SESSION_PATH, endpoint


@pytest.mark.parametrize(
    ("url", "path", "found"),
    [
        ("ws://127.0.0.1:5010", SESSION_PATH, "ws://127.0.0.1:5010/ws/session"),
        ("ws://127.0.0.1:5010/", NODE_PATH, "ws://127.0.0.1:5010/ws/node"),
        ("http://[::1]:5010", NODE_PATH, "ws://[::1]:5010/ws/node"),
        ("https://talk.example", SESSION_PATH, "wss://talk.example/ws/session"),
        (
            "wss://talk.example/behind/ws/session?key=1",
            SESSION_PATH,
            "wss://talk.example/behind/ws/session?key=1",
        ),
    ],
)
def test_the_socket_is_found(url, path, found) -> None:
    assert endpoint(url, path) == found


@pytest.mark.parametrize(
    "url", ["", "localhost:5010", "ftp://host", "ws://", "ws://host:port", "/ws/session"]
)
def test_anything_else_is_refused(url) -> None:
    with pytest.raises(ValueError, match=r"looks like|[Pp]ort"):
        endpoint(url, SESSION_PATH)
