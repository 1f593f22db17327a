"""Sending: a request is written once, and an answer that comes before its end is read."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from foldline.exceptions import ModelConnectionError
from foldline.providers.openai import ChatOpenAI
from foldline.transports import NativeTransport, Request, Transport
from tests.conftest import Async, Blocking
from tests.transports.conftest import QUICK, Caller

Make = Callable[..., Transport]
CHAT_BODY = (
    b'{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}'
)
CHAT_ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
    % (len(CHAT_BODY), CHAT_BODY)
)
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx"


@contextmanager
def serving(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve on a thread; the URL of the server."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
    thread.join(5)


def read_request(connection: socket.socket) -> bytes:
    """Read one request with a short body, or nothing."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (piece := connection.recv(65536)):
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return body


class CloseOnSecond:
    """Answers the first request of a connection; reads the second, works, and closes without an answer."""

    def __init__(self, work: float = 0.0, answer: bytes = OK) -> None:
        self.bodies: list[bytes] = []
        self.work = work
        self.answer = answer

    def __call__(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                self.bodies.append(read_request(connection))
                connection.sendall(self.answer)
                if body := read_request(connection):
                    self.bodies.append(body)
                    time.sleep(self.work)


@pytest.mark.parametrize("work", [0.0, 0.3], ids=["at once", "after work"])
def test_F_Y07_a_request_that_the_server_may_have_read_is_not_sent_again(
    live: Make, blocking: bool, work: float
) -> None:
    server = CloseOnSecond(work)
    transport = live()
    caller = Caller(transport, blocking=blocking)

    async def body(url: str) -> None:
        for text in (b"1", b"2"):
            sent = Request(url=url, body=text, timeouts=QUICK)
            async with transport.open(sent, blocking=blocking) as response:
                assert await response.read() == b"x"

    with serving(server) as url, pytest.raises(ModelConnectionError) as caught:
        caller.run(body(url))
    assert caught.value.is_retryable
    assert server.bodies == [b"1", b"2"]


@pytest.mark.parametrize("retries", [0, 1])
def test_F_Y07_the_retry_policy_decides_and_counts(call: Blocking | Async, retries: int) -> None:
    server = CloseOnSecond(answer=CHAT_ANSWER)
    with serving(server) as url:
        transport = NativeTransport()
        model = ChatOpenAI(
            model="m", base_url=url, api_key="k", max_retries=retries, transport=transport
        )
        results = call.batch(model, ["1", "2"], {"max_concurrency": 1}, return_exceptions=True)
        transport.close()
    assert len(server.bodies) == 2 + retries
    assert results[0].text == "Hi"
    if retries:
        assert results[1].text == "Hi"
    else:
        assert (type(results[1]), results[1].attempts) == (ModelConnectionError, 1)


def test_F_H07_a_close_that_waits_in_the_socket_is_seen_before_sending(blocking: bool) -> None:
    """The loop has not run since the server closed: the socket knows, the protocol does not."""

    def serve(listener: socket.socket) -> None:
        for _ in range(3):
            connection, _ = listener.accept()
            with connection:
                read_request(connection)
                connection.sendall(OK)

    transport = NativeTransport()

    async def body(url: str) -> list[bytes]:
        bodies = []
        for _ in range(3):
            sent = Request(url=url, body=b"{}", timeouts=QUICK)
            async with transport.open(sent, blocking=blocking) as response:
                bodies.append(await response.read())
            time.sleep(0.05)
        if not blocking:
            await transport.aclose()
        return bodies

    with serving(serve) as url:
        assert Caller(transport, blocking=blocking).run(body(url)) == [b"x"] * 3
        transport.close()


def test_F_H07_a_connection_is_not_kept_longer_than_the_server_promises(blocking: bool) -> None:
    connections = 0

    def serve(listener: socket.socket) -> None:
        nonlocal connections
        for _ in range(2):
            connection, _ = listener.accept()
            connections += 1
            with connection:
                while read_request(connection):
                    connection.sendall(
                        OK.replace(b"\r\n\r\n", b"\r\nKeep-Alive: timeout=1\r\n\r\n")
                    )

    transport = NativeTransport()

    async def body(url: str) -> None:
        for pause in (0.0, 0.9, 0.0):
            sent = Request(url=url, body=b"{}", timeouts=QUICK)
            async with transport.open(sent, blocking=blocking) as response:
                await response.read()
            time.sleep(pause)
        if not blocking:
            await transport.aclose()

    with serving(serve) as url:
        Caller(transport, blocking=blocking).run(body(url))
        transport.close()
    assert connections == 2
