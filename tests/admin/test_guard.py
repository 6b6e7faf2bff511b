"""Orders over HTTP are for operators: by token, or from this machine and not through a browser or a proxy."""

from __future__ import annotations

from unittest.mock import Mock

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from lingua_scheduler.admin.guard import AdminOptions, Guard, json_answer
from lingua_scheduler.secret import Secret

HOST = "127.0.0.1:5010"


async def ask(
    token: str = "",
    *,
    method: str = "DELETE",
    remote: str = "127.0.0.1",
    headers: dict[str, str] | list[tuple[str, str]] | None = None,
) -> web.Response:
    """Send a request from somewhere through the guard."""

    async def order(_request: web.Request) -> web.Response:
        return json_answer({"done": True})

    transport = Mock(**{"get_extra_info.side_effect": {"peername": (remote, 40000)}.get})
    given = [("Host", HOST), *(headers.items() if isinstance(headers, dict) else headers or [])]
    request = make_mocked_request(method, "/api/v1/drain", headers=given, transport=transport)
    answer = await Guard(AdminOptions(token=Secret(token))).only(order)(request)
    assert isinstance(answer, web.Response)
    return answer


@pytest.mark.parametrize("remote", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
async def test_without_a_token_programs_of_this_machine_may_give_orders(remote):
    assert (await ask(remote=remote)).status == 200


@pytest.mark.parametrize("remote", ["10.0.0.7", "::ffff:10.0.0.7", "2001:db8::1", ""])
async def test_without_a_token_nobody_else_may(remote):
    answer = await ask(remote=remote)
    assert (answer.status, answer.content_type) == (403, "application/problem+json")
    said = msgspec.json.decode(answer.body)
    assert (said["title"], said["status"]) == ("Forbidden", 403)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:80"},
        [("Origin", f"http://{HOST}"), ("Origin", "https://evil.example")],
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"X-Forwarded-For": "127.0.0.1"},
        {"Forwarded": "for=127.0.0.1"},
        {"X-Real-IP": "127.0.0.1"},
        {"Via": "1.1 proxy"},
    ],
)
async def test_pages_of_other_sites_and_proxies_are_not_programs_of_this_machine(headers):
    assert (await ask(headers=headers)).status == 403


@pytest.mark.parametrize("host", ["rebound.example:5010", "127.0.0.1.evil.example", "[bad", ""])
async def test_a_foreign_name_that_points_here_is_refused(host):
    async def order(_request: web.Request) -> web.Response:
        return json_answer({})

    transport = Mock(**{"get_extra_info.side_effect": {"peername": ("127.0.0.1", 40000)}.get})
    request = make_mocked_request("GET", "/api/v1/drain", headers={"Host": host}, transport=transport)
    assert (await Guard(AdminOptions()).only(order)(request)).status == 403


async def test_the_own_page_may_give_orders():
    headers = {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "same-origin"}
    assert (await ask(headers=headers)).status == 200


async def test_with_a_token_it_is_needed_from_everywhere_and_enough_from_anywhere():
    assert (await ask("right")).status == 401
    good = {"Authorization": "Bearer right"}
    assert (await ask("right", headers=good)).status == 200
    assert (await ask("right", headers=good, remote="10.0.0.7")).status == 200
    assert (await ask("right", headers={"Authorization": "bearer  right "})).status == 200


@pytest.mark.parametrize(
    "said", ["Bearer wrong", "Bearer", "Basic right", "right", "Bearer righ\u00e9", "Bearer right2"]
)
async def test_a_wrong_token_is_refused_and_says_what_is_expected(said):
    answer = await ask("right", headers={"Authorization": said})
    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


async def test_two_tokens_are_one_too_many():
    twice = [("Authorization", "Bearer right"), ("Authorization", "Bearer right")]
    assert (await ask("right", headers=twice)).status == 401


async def test_a_form_of_a_web_page_cannot_post_orders():
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert (await ask(method="POST", headers={"Content-Type": kind})).status == 415
    assert (await ask(method="POST")).status == 415
    assert (
        await ask(method="POST", headers={"Content-Type": "application/json; charset=utf-8"})
    ).status == 200
