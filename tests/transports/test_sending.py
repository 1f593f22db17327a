"""Sending: a request is written once, and an answer that comes before its end is read."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
import trustme

from foldline.exceptions import ModelConnectionError, ModelStatusError, ModelTimeoutError
from foldline.providers.openai import ChatOpenAI
from foldline.transports import HttpOptions, NativeTransport, Request, Timeouts, Transport
from tests.conftest import AsyncCalls, SyncCalls
from tests.servers import FaultServer
from tests.transports.conftest import QUICK, Caller

pytestmark = pytest.mark.timing

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
            request = Request(url=url, body=text, timeouts=QUICK)
            async with transport.open(request, blocking=blocking) as response:
                assert await response.read() == b"x"

    with serving(server) as url, pytest.raises(ModelConnectionError) as excinfo:
        caller.run(body(url))
    assert excinfo.value.is_retryable
    assert server.bodies == [b"1", b"2"]


@pytest.mark.parametrize("retries", [0, 1])
def test_F_Y07_the_retry_policy_decides_and_counts(
    call: SyncCalls | AsyncCalls, retries: int
) -> None:
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
            request = Request(url=url, body=b"{}", timeouts=QUICK)
            async with transport.open(request, blocking=blocking) as response:
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
            request = Request(url=url, body=b"{}", timeouts=QUICK)
            async with transport.open(request, blocking=blocking) as response:
                await response.read()
            time.sleep(pause)
        if not blocking:
            await transport.aclose()

    with serving(serve) as url:
        Caller(transport, blocking=blocking).run(body(url))
        transport.close()
    assert connections == 2


PAUSE = b"<pause>"
"""Where a server waits between two pieces of its answer."""


class RefuseEarly:
    """Reads a part of a request, answers, and closes at once, later, or never; reads no more of the body."""

    def __init__(self, ending: str, answer: bytes, tls: ssl.SSLContext | None = None) -> None:
        self.ending = ending
        self.answer = answer
        self.tls = tls
        self.connections = 0
        self.open: list[socket.socket] = []

    def __call__(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
            connection.recv(65536)
            for piece in self.answer.split(PAUSE):
                connection.sendall(piece)
                time.sleep(0.05)
            if self.ending == "never":
                self.open.append(connection)
                continue
            if self.ending == "later":
                time.sleep(0.2)
            connection.close()  # with the body unread: the client is sent an RST


REFUSAL = b"HTTP/1.1 413 Too Large\r\ncontent-length: 9\r\n%b\r\ntoo large"


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 10, 30], ids=["1 MB", "10 MB", "30 MB"])
@pytest.mark.parametrize("ending", ["now", "later"])
def test_F_Y06_an_answer_before_the_end_of_the_body_is_read(
    live: Make, blocking: bool, size: int, ending: str
) -> None:
    server = RefuseEarly(ending, REFUSAL % b"connection: close\r\n")
    caller = Caller(live(), blocking=blocking)
    with serving(server) as url:
        for _ in range(3):
            assert status_of(caller, url, b"x" * (size << 20)) == 413
    assert server.connections == 3


@pytest.mark.parametrize(
    "before",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" + PAUSE,
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + PAUSE + b"HTTP/1.1 100 \r\n\r\n" + PAUSE,
        b"",
    ],
    ids=["100", "103 and 100", "in pieces"],
)
def test_F_Y06_an_early_answer_may_come_in_pieces_and_after_interim_ones(
    live: Make, blocking: bool, before: bytes
) -> None:
    refusal = REFUSAL % b"connection: close\r\n"
    cut = refusal if before else refusal[:5] + PAUSE + refusal[5:11] + PAUSE + refusal[11:]
    server = RefuseEarly("now", before + cut)
    with serving(server) as url:
        assert status_of(Caller(live(), blocking=blocking), url, b"x" * (10 << 20)) == 413


@pytest.mark.parametrize("wire", ["http", "https"])
def test_F_Y06_a_server_that_stops_reading_and_stays_is_answered(blocking: bool, wire: str) -> None:
    """The rest of the body is not written, and the connection carries no other request."""
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    server = RefuseEarly("never", REFUSAL % b"", tls if wire == "https" else None)
    transport = NativeTransport(HttpOptions(ca=authority.cert_pem.bytes()))
    caller = Caller(transport, blocking=blocking)
    with serving(server) as url:
        url = url.replace("http:", f"{wire}:")
        for _ in range(2):
            start = time.monotonic()
            assert status_of(caller, url, b"x" * (10 << 20)) == 413
            assert time.monotonic() - start < 3
        transport.close()
    assert server.connections == 2
    for connection in server.open:
        connection.close()


def test_F_T09_interim_answers_while_a_body_is_written_do_not_outrun_the_clock(
    live: Make, blocking: bool
) -> None:
    def flood(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.recv(65536)
        with suppress(OSError), connection:
            ends = time.monotonic() + 4
            while time.monotonic() < ends:
                connection.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 3000)

    async def body(url: str) -> None:
        limits = Timeouts(first_byte=0.5)
        async with transport.open(
            Request(url=url, body=b"x" * (5 << 20), timeouts=limits), blocking=blocking
        ):
            pass

    transport = live()
    began = time.monotonic()
    with serving(flood) as url, pytest.raises(ModelTimeoutError) as caught:
        Caller(transport, blocking=blocking).run(body(url))
    assert caught.value.phase == "first_byte"
    assert time.monotonic() - began < 3


def test_F_Y06_a_model_raises_the_status_and_sends_nothing_again(
    call: SyncCalls | AsyncCalls,
) -> None:
    server = RefuseEarly("now", REFUSAL % b"connection: close\r\n")
    with serving(server) as url:
        transport = NativeTransport()
        model = ChatOpenAI(model="m", base_url=url, api_key="k", transport=transport)
        with pytest.raises(ModelStatusError) as excinfo:
            call.invoke(model, "x" * (10 << 20))
        transport.close()
    assert excinfo.value.status == 413
    assert server.connections == 1


@pytest.mark.slow
def test_a_large_body_arrives_whole(live: Make, blocking: bool, fault_server: FaultServer) -> None:
    text = bytes(range(97, 123)) * (3 << 16)
    for url in (fault_server.url, fault_server.https_url):
        caller = Caller(live(HttpOptions(ca=fault_server.ca_pem)), blocking=blocking)
        status, answer = caller.read(url + "/echo", body=text)
        assert status == 200
        assert json.loads(answer)["body"] == text.decode()


def test_a_server_that_reads_nothing_runs_into_the_clock(live: Make, blocking: bool) -> None:
    connections: list[socket.socket] = []

    def serve(listener: socket.socket) -> None:
        connections.append(listener.accept()[0])

    caller = Caller(live(), blocking=blocking)
    with serving(serve) as url:
        _, error = caller.stream(url, body=b"x" * (20 << 20), timeouts=Timeouts(first_byte=0.4))
        connections[0].close()
    assert isinstance(error, ModelTimeoutError)
    assert error.phase == "first_byte"


def status_of(caller: Caller, url: str, body: bytes) -> int:
    async def ask() -> int:
        request = Request(url=url, body=body, timeouts=QUICK)
        async with caller.open(request) as response:
            assert await response.read_error() in (b"too large", b"")
            return int(response.status)

    return caller.run(ask())
