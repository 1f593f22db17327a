"""Errors of transports: always typed, retried only where that helps, and never with the key in them."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from foldline.exceptions import (
    FoldlineError,
    ModelConnectionError,
    UsageError,
)
from foldline.providers.openai import AzureChatOpenAI, ChatOpenAI
from foldline.transports import HttpOptions, Request, Transport, check_request
from tests.conftest import AsyncCalls, SyncCalls
from tests.servers import Answer, FaultServer
from tests.transports.conftest import QUICK, Caller

pytestmark = pytest.mark.timing

Make = Callable[..., Transport]
KEY = "sk-VICTIM-0123456789abcdefghijklmnopqrstuvwxyzABCDEF"

LABELS = ["", "a" * 64, "a..b", ".".join(["a" * 63] * 5)]


@pytest.mark.parametrize("host", [f"{label}.openai.example" for label in LABELS])
def test_F_Y09_a_host_that_no_lookup_takes_is_a_mistake(
    live: Make, blocking: bool, host: str
) -> None:
    _, error = Caller(live(), blocking=blocking).stream(f"https://{host}/v1")
    assert isinstance(error, UsageError)
    assert "host" in str(error)


@pytest.mark.parametrize(
    "url", ["http://a.example./", "http://[::1]/", f"http://{'a' * 63}.example/"]
)
def test_hosts_that_are_fine(url: str) -> None:
    check_request(Request(url=url))


def test_F_Y09_a_model_with_a_bad_host(call: SyncCalls | AsyncCalls) -> None:
    model = AzureChatOpenAI(
        azure_endpoint="https://.openai.example",
        azure_deployment="d",
        api_key="k",
        api_version="v",
    )
    with pytest.raises(UsageError):
        call.invoke(model, "Hi")


def test_a_proxy_with_a_bad_host(live: Make, blocking: bool) -> None:
    options = HttpOptions(proxy=f"http://{'a' * 64}.example:1")
    _, error = Caller(live(options), blocking=blocking).stream("http://model.example/")
    assert isinstance(error, FoldlineError)


def run_without_asyncio(body: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine as a loop that is not asyncio's does, up to its first wait."""
    try:
        body.send(None)
    finally:
        body.close()


def test_F_Y09_a_call_under_trio_is_a_mistake(live: Make) -> None:
    async def body() -> None:
        async with live().open(Request(url="http://model.example/"), blocking=False):
            pass

    with pytest.raises(UsageError, match="asyncio"):
        run_without_asyncio(body())


def test_F_Y09_a_model_under_trio_is_a_mistake() -> None:
    model = ChatOpenAI(model="m", api_key="k", base_url="http://model.example")
    with pytest.raises(FoldlineError, match="asyncio"):
        run_without_asyncio(model.ainvoke("Hi"))


def test_F_Y10_an_untrusted_certificate_is_not_retried(
    live: Make, call: SyncCalls | AsyncCalls, fault_server: FaultServer
) -> None:
    model = ChatOpenAI(
        model="m", base_url=fault_server.https_url, api_key="k", transport=live(), max_retries=3
    )
    with pytest.raises(ModelConnectionError) as excinfo:
        call.invoke(model, "Hi")
    assert not excinfo.value.is_retryable
    assert excinfo.value.attempts == 1
    assert "HttpOptions(ca=" in str(excinfo.value)
    assert "SSL_CERT_FILE" in str(excinfo.value)


def test_F_Y10_a_certificate_of_another_name_is_not_retried(
    live: Make, blocking: bool, fault_server: FaultServer
) -> None:
    caller = Caller(live(HttpOptions(ca=fault_server.ca_pem)), blocking=blocking)
    _, error = caller.stream(fault_server.https_url.replace("localhost", "127.0.0.1") + "/ok")
    assert isinstance(error, ModelConnectionError)
    assert not error.is_retryable
    assert "certificate" in str(error)


ECHOES = {
    "no HTTP": b"authorization: Bearer %b\r\n\r\n",
    "status line": b"HTTP/1.1 abc %b\r\n\r\n",
    "reason": b"HTTP/1.1 2000 %b\r\ncontent-length: 0\r\n\r\n",
    "header line": b"HTTP/1.1 200 OK\r\n%b\r\ncontent-length: 0\r\n\r\n",
    "header name": b"HTTP/1.1 200 OK\r\nx %b: y\r\n\r\n",
    "header value": b"HTTP/1.1 200 OK\r\nx: \0%b\r\n\r\n",
    "chunk size": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%b\r\n",
    "chunk end": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab%b\r\n",
    "trailer": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n%b\r\n\r\n",
    "transfer coding": b"HTTP/1.1 200 OK\r\ntransfer-encoding: %b\r\n\r\n",
    "content coding": b"HTTP/1.1 200 OK\r\ncontent-encoding: %b\r\ncontent-length: 1\r\n\r\nx",
    "length": b"HTTP/1.1 200 OK\r\ncontent-length: %b\r\n\r\n",
    "redirect": b"HTTP/1.1 302 Found\r\nlocation: https://%b.example/\r\ncontent-length: 0\r\n\r\n",
    "cut": b"%b",
}


def everything_shown(error: BaseException) -> str:
    """Return the text that a log or a debugger shows of an error and its causes."""
    return "\n".join(
        [
            *traceback.format_exception(error),
            *map(repr, chain_of(error)),
            *map(str, chain_of(error)),
        ]
    )


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@pytest.mark.slow
@pytest.mark.parametrize("shape", ECHOES)
@pytest.mark.parametrize("source", ["header", "option", "query"])
def test_F_Y11_the_key_is_masked_in_malformed_http(
    live: Make, blocking: bool, fault_server: FaultServer, shape: str, source: str
) -> None:
    echo = ECHOES[shape] % KEY.encode()
    url = fault_server.script("/a", Answer([echo, ("fin", None)], framing="raw"))
    headers = {"Authorization": f"Bearer {KEY}"}
    options = HttpOptions(headers=headers if source == "option" else {})
    _, error = Caller(live(options), blocking=blocking).stream(
        f"{url}?key={KEY}" if source == "query" else url,
        headers=headers if source == "header" else {},
        timeouts=QUICK,
    )
    if error is None:
        assert live.kind == "httpx"  # type: ignore[attr-defined]
        return
    assert isinstance(error, FoldlineError)
    text = everything_shown(error)
    for part in (KEY, KEY.lower(), KEY[:20], KEY.lower()[:20]):
        assert part not in text
