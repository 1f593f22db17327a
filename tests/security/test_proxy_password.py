"""The password of a proxy is in no error, however the proxy answers."""

from __future__ import annotations

import asyncio
import socket
import threading
import traceback
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from foldline.exceptions import ModelError, UsageError
from foldline.providers.openai import ChatOpenAI, OpenAIEmbeddings

SECRETS = ("pass-canary", b64encode(b"user:pass-canary").decode(), "sk-canary")

REPLIES: dict[str, Callable[[bytes], bytes]] = {
    "407": lambda request: b"HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n",
    "body": lambda request: (
        b"HTTP/1.1 403 No\r\ncontent-length: %d\r\n\r\n" % len(request) + request
    ),
    "not HTTP": lambda request: request,
    "reason": lambda request: b"HTTP/1.1 502 " + request.replace(b"\r\n", b" ") + b"\r\n\r\n",
    "header": lambda request: (
        b"HTTP/1.1 502 No\r\nx: " + request.replace(b"\r\n", b" ") + b"\r\n\r\n"
    ),
}


@contextmanager
def proxy(reply: Callable[[bytes], bytes]) -> Iterator[str]:
    """Serve a proxy that answers with the request it got."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(reply(connection.recv(65536)))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://user:pass-canary@127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


@pytest.mark.slow
@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("http2", [False, True], ids=["native", "httpx2"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("source", ["options", "environment"])
def test_a_proxy_that_says_its_password_back_is_not_quoted(
    monkeypatch, reply, scheme, http2, is_async, source
):
    with proxy(REPLIES[reply]) as url:
        http = {"http2": http2}
        if source == "options":
            http["proxy"] = url
        else:
            monkeypatch.setenv("http_proxy", url)
            monkeypatch.setenv("https_proxy", url)
            monkeypatch.delenv("no_proxy", raising=False)
            monkeypatch.delenv("NO_PROXY", raising=False)
        options = {"api_key": "sk-canary", "base_url": f"{scheme}://api.test/v1", "http": http}
        chat = ChatOpenAI(model="m", max_retries=0, **options)
        embeddings = OpenAIEmbeddings(max_retries=0, **options)

        for call, acall in (
            (lambda: chat.invoke("x"), lambda: chat.ainvoke("x")),
            (lambda: embeddings.embed_query("x"), lambda: embeddings.aembed_query("x")),
        ):
            with pytest.raises(ModelError) as excinfo:
                asyncio.run(acall()) if is_async else call()
            text = "".join(traceback.format_exception(excinfo.value))
            text += f"{excinfo.value!r} {excinfo.value.body} {vars(excinfo.value)}"
            assert [secret for secret in SECRETS if secret in text] == []


@pytest.mark.parametrize(
    "url",
    [
        "http://user:pass-canary@127.0.0.1:99999",
        "http://user:pass-canary@127.0.0.1:x",
        "http://user:pass-canary@127.0.0.1:0",
        "http://user:pass-canary@:80",
        "ftp://user:pass-canary@h:1",
        "user:pass-canary@h",
    ],
)
@pytest.mark.parametrize("http2", [False, True], ids=["native", "httpx2"])
def test_a_proxy_that_cannot_be_used_is_refused_without_its_password(url, http2):
    model = ChatOpenAI(model="m", api_key="k", http={"proxy": url, "http2": http2})

    with pytest.raises(UsageError, match="proxy") as excinfo:
        model.invoke("x")

    assert "pass-canary" not in "".join(traceback.format_exception(excinfo.value))
