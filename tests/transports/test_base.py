"""Requests refused before anything is sent (F-H10), and secrets that a repr never shows."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from foldline.exceptions import FoldlineError, SecurityError, UsageError
from foldline.transports import HttpOptions, NativeTransport, Request, check_request
from foldline.transports._http1 import with_body, write_head
from foldline.transports.base import origin_of
from foldline.transports.httpx import HttpxTransport
from tests.servers import FaultServer
from tests.transports.conftest import Caller

pytestmark = pytest.mark.timing

GOOD = "https://api.example.com/v1/chat"


@pytest.mark.parametrize(
    "value", ["sk-1\r\nx: y", "sk-1\nb", "sk-1\rb", "sk-1\0b", "sk-1\n", "sk-1\x7fb", "sk-1\x01"]
)
def test_F_H10_a_header_that_says_more_than_one_line_is_refused(value: str) -> None:
    with pytest.raises(SecurityError) as excinfo:
        check_request(Request(url=GOOD, headers={"Authorization": value}))
    assert "'Authorization'" in str(excinfo.value)
    assert "sk-1" not in str(excinfo.value)


@pytest.mark.parametrize("name", ["a b", "a:b", "a\nb", "", "ä"])
def test_F_H10_a_header_name_is_a_token(name: str) -> None:
    with pytest.raises(SecurityError, match="not a header name"):
        check_request(Request(url=GOOD, headers={name: "x"}))


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "connection"])
def test_headers_that_frame_the_message_are_the_transports(name: str) -> None:
    with pytest.raises(UsageError, match="leave it out"):
        check_request(Request(url=GOOD, headers={name: "x"}))


@pytest.mark.parametrize(
    "url",
    [
        "https://h/v1/models/../../admin",
        "https://h/v1/%2e%2e/admin",
        "https://h/v1/%2E./admin",
        "https://h/a/..",
        "https://h/a b",
        "https://h/a\r\nb",
        "https://h/a\0b",
        "https://h/a\\b",
        "https://user:secret@h/a",
        "https://h/é",
    ],
)
def test_F_H10_a_url_that_climbs_or_breaks_the_line_is_refused(url: str) -> None:
    with pytest.raises(SecurityError):
        check_request(Request(url=url))


@pytest.mark.parametrize(
    "url", ["", "/v1/chat", "file:///etc/passwd", "ftp://h/a", "https://", "http://h:99999/"]
)
def test_a_url_is_whole_and_http(url: str) -> None:
    with pytest.raises(UsageError):
        check_request(Request(url=url))


@pytest.mark.parametrize(
    "url",
    [
        GOOD,
        "http://[::1]:8080/a?b=c",
        "https://h/v1/models/a..b",
        "https://h/ft:gpt-4o:x::y",
        "http://h",
    ],
)
def test_ordinary_urls_pass(url: str) -> None:
    check_request(Request(url=url))


@given(st.text(min_size=1), st.text())
def test_F_H10_no_header_ever_reaches_the_wire_with_a_line_break(name: str, value: str) -> None:
    headers = {name: value}
    with suppress(FoldlineError):
        check_request(Request(url=GOOD, headers=headers))
        data = with_body("POST", write_head("POST", GOOD, headers, absolute_url=False), b"")
        assert data.count(b"\r\n") == 5
        assert data.count(b"\n") == 5


@given(st.text())
def test_F_H10_no_url_ever_reaches_the_wire_with_a_space_or_a_climb(tail: str) -> None:
    url = GOOD + tail
    with suppress(FoldlineError):
        check_request(Request(url=url))
        line = write_head("POST", url, {}, absolute_url=False).split(b"\r\n")[0]
        assert line.count(b" ") == 2
        assert b"/../" not in line


def test_F_H10_nothing_is_sent_when_refused(caller: Caller, fault_server: FaultServer) -> None:
    _, error = caller.stream(fault_server.url + "/a/../b")
    assert isinstance(error, SecurityError)
    _, error = caller.stream(fault_server.url + "/a", headers={"x": "a\nb"})
    assert isinstance(error, SecurityError)
    assert fault_server.hits() == 0


def test_a_method_is_a_token() -> None:
    with pytest.raises(UsageError, match="not an HTTP method"):
        check_request(Request(url=GOOD, method="GET /x"))


def test_keys_do_not_show_in_a_repr() -> None:
    text = repr(Request(url=GOOD, headers={"Authorization": "Bearer sk-1"}, body=b"secret"))
    assert "sk-1" not in text
    assert "secret" not in text
    options = HttpOptions(headers={"api-key": "sk-2"}, proxy="http://ann:sk-2@proxy.example")
    for kind in (NativeTransport, HttpxTransport):
        assert "sk-2" not in repr(kind(options))


@pytest.mark.parametrize("kind", [NativeTransport, HttpxTransport])
def test_options_headers_are_checked_too(kind: type) -> None:
    with pytest.raises(SecurityError):
        kind(HttpOptions(headers={"x": "a\r\nb"}))


def test_a_key_in_a_query_never_shows_in_an_error(
    caller: Caller, fault_server: FaultServer
) -> None:
    canary = "canary-1234"
    for url in (f"http://127.0.0.1:1/x?key={canary}", f"{fault_server.https_url}/x?key={canary}"):
        _, error = caller.stream(url)
        cause: BaseException | None = error
        while cause is not None:
            assert canary not in f"{cause!r} {cause}"
            cause = cause.__cause__ or cause.__context__


def test_an_origin_is_all_that_is_shown() -> None:
    assert origin_of("https://h:8443/path?key=1") == "https://h:8443"
    assert origin_of("http://[::1") == "(not a URL)"
