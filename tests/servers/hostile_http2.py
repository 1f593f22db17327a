"""An HTTP/2 server whose behaviour is a function over raw frames, so that it can break every rule of the protocol.

```python
def refuse(peer: Peer) -> None:
    stream = peer.request()
    peer.send(RstStreamFrame(stream, error_code=7))
    peer.stay()

with HostileServer(refuse) as server: ...
```

The function is called in a thread of its own for each connection; the connection is closed when it returns.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Any

import hpack
import trustme
from hyperframe.frame import (
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
OK = ((":status", "200"),)
Headers = tuple[tuple[str, str], ...]
Behaviour = Callable[["Peer"], object]


class Gone(Exception):
    """The client has closed the connection, or the test is over."""


@dataclass(frozen=True)
class Asked:
    """A request that has arrived completely."""

    connection: int
    stream: int
    headers: dict[str, str]
    body: bytes


class Peer:
    """One connection, seen from the server."""

    def __init__(self, server: HostileServer, connection: ssl.SSLSocket, number: int) -> None:
        self.server = server
        self.number = number
        """1 for the first connection of the server."""
        self.connection = connection
        self.frames: list[Frame] = []
        """Every frame of the client, in order."""
        self.encoder = hpack.Encoder()
        self.grants_window = True
        self._decoder = hpack.Decoder()
        self._received = bytearray()
        self._partial: dict[int, Asked] = {}
        self._ended: set[int] = set()
        self._write_lock = threading.Lock()
        self._preface_seen = False

    def request(self, settings: dict[int, int] | None = None) -> int:
        """Return the stream of the next complete request; sends SETTINGS before the first."""
        while True:
            self.headers_of_request(settings)  # again, if the client has reset a call meanwhile
            for stream in sorted(self._partial):
                if stream in self._ended:
                    self.server.asked.append(self._partial.pop(stream))
                    return stream
            self.frame()

    def headers_of_request(self, settings: dict[int, int] | None = None) -> int:
        """Return the stream of the next request, when its headers have arrived."""
        if not self._preface_seen:
            self.greet(settings)
        while not self._partial:
            self.frame()
        return min(self._partial)

    def greet(self, settings: dict[int, int] | None = None) -> None:
        """Read the client's preface and send SETTINGS."""
        self.read_preface()
        self.send(SettingsFrame(0, settings=settings or {}))

    def read_preface(self) -> None:
        """Read the client's preface."""
        self._fill(len(PREFACE))
        assert self._received.startswith(PREFACE)
        del self._received[: len(PREFACE)]
        self._preface_seen = True

    def frame(self) -> Frame:
        """Return the client's next frame; raise `Gone` at the end."""
        self._fill(9)
        frame, length = Frame.parse_frame_header(memoryview(bytes(self._received[:9])))
        self._fill(9 + length)
        frame.parse_body(memoryview(bytes(self._received[9 : 9 + length])))
        del self._received[: 9 + length]
        self.frames.append(frame)
        self._note(frame)
        return frame

    def answer(self, stream: int, *pieces: bytes, headers: Headers = OK, end: bool = True) -> None:
        """Send headers, the pieces as DATA, and the end."""
        self.headers(stream, headers, end=end and not pieces)
        for number, piece in enumerate(pieces, 1):
            self.data(stream, piece, end=end and number == len(pieces))

    def headers(self, stream: int, headers: Headers = OK, *, end: bool = False) -> None:
        """Send a HEADERS frame."""
        flags = ["END_HEADERS", *(["END_STREAM"] if end else [])]
        block = self.encoder.encode(headers)
        self.send(HeadersFrame(stream, block, flags=flags))

    def data(self, stream: int, data: bytes, *, end: bool = False) -> None:
        """Send DATA frames of at most 16 KiB."""
        for start in range(0, max(len(data), 1), 16384):
            is_last = start + 16384 >= len(data)
            piece = data[start : start + 16384]
            self.send(DataFrame(stream, piece, flags=["END_STREAM"] if end and is_last else []))

    def send(self, *frames: Frame | bytes) -> None:
        """Send frames, or bytes that are none, in one write."""
        parts = [frame if isinstance(frame, bytes) else frame.serialize() for frame in frames]
        with self._write_lock, _as_gone():
            self.connection.sendall(b"".join(parts))

    def flood(self, *frames: Frame | bytes) -> None:
        """Send frames again and again until the client leaves; what the client sends is read."""
        parts = b"".join(f if isinstance(f, bytes) else f.serialize() for f in frames)
        batch = parts * max(1, 4096 // len(parts))
        while not self.server.stopping.is_set():
            self.send(batch)
            self.server.flooded += len(batch)
            time.sleep(0.001)
            self._drain()

    def stay(self, seconds: float = 30) -> None:
        """Read frames until the client leaves, at most the seconds; returns at the end of the test."""
        until = time.monotonic() + seconds
        with contextlib.suppress(Gone):
            while time.monotonic() < until:
                self.frame()

    def reset(self) -> None:
        """Close the connection with an RST."""
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()

    def resets(self) -> list[tuple[int, int]]:
        """Return the streams that the client has reset, with the code."""
        return [(f.stream_id, f.error_code) for f in self.frames if isinstance(f, RstStreamFrame)]

    def _note(self, frame: Frame) -> None:
        if isinstance(frame, (HeadersFrame, DataFrame)) and "END_STREAM" in frame.flags:
            self._ended.add(frame.stream_id)
        if isinstance(frame, HeadersFrame):
            pairs = self._decoder.decode(frame.data)
            self._partial[frame.stream_id] = Asked(
                self.number, frame.stream_id, {str(k): str(v) for k, v in pairs}, b""
            )
        elif isinstance(frame, DataFrame) and frame.stream_id in self._partial:
            asked = self._partial[frame.stream_id]
            body = asked.body + frame.data
            self._partial[frame.stream_id] = Asked(self.number, asked.stream, asked.headers, body)
            if self.grants_window and frame.flow_controlled_length:
                size = frame.flow_controlled_length
                self.send(
                    WindowUpdateFrame(0, window_increment=size),
                    WindowUpdateFrame(frame.stream_id, window_increment=size),
                )
        elif isinstance(frame, RstStreamFrame):
            self._partial.pop(frame.stream_id, None)
        elif isinstance(frame, SettingsFrame) and "ACK" not in frame.flags:
            self.send(SettingsFrame(0, flags=["ACK"]))
        elif isinstance(frame, PingFrame) and "ACK" not in frame.flags:
            self.send(PingFrame(0, frame.opaque_data, flags=["ACK"]))

    def _drain(self) -> None:
        self.connection.setblocking(False)
        try:
            with contextlib.suppress(ssl.SSLWantReadError):
                while self.connection.recv(65536):
                    pass
        except OSError as error:
            raise Gone from error
        finally:
            self.connection.settimeout(0.05)

    def _fill(self, size: int) -> None:
        while len(self._received) < size:
            if self.server.stopping.is_set():
                raise Gone
            try:
                data = self.connection.recv(65536)
            except TimeoutError:
                continue
            except OSError as error:
                raise Gone from error
            if not data:
                raise Gone
            self._received += data


class HostileServer:
    """Listens on loopback; calls a behaviour for each connection."""

    def __init__(self, behaviour: Behaviour, *, protocols: tuple[str, ...] = ("h2",)) -> None:
        self.behaviour = behaviour
        self.asked: list[Asked] = []
        """The requests that were read completely by `Peer.request`."""
        self.peers: list[Peer] = []
        self.flooded = 0
        self.faults: list[BaseException] = []
        """What went wrong in a behaviour; the end of the test raises it."""
        self.stopping = threading.Event()
        self.ca_pem, certificate = _certificate()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile(suffix=".pem") as pem:
            pem.write(certificate)
            pem.flush()
            self._context.load_cert_chain(pem.name)
        self._context.set_alpn_protocols(list(protocols))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self.url = f"https://localhost:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> HostileServer:
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stopping.set()
        for thread in self._threads:
            thread.join(5)
        self._listener.close()
        if self.faults and error is None:
            raise self.faults[0]

    def open_count(self) -> int:
        """Return how many connections are still served."""
        return sum(thread.is_alive() for thread in self._threads[1:])

    def wait(self, condition: Callable[[], Any], seconds: float = 3) -> bool:
        """Wait until the condition is true; return whether it is."""
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                return False
            time.sleep(0.005)
        return True

    def _accept(self) -> None:
        number = 0
        while not self.stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            number += 1
            thread = threading.Thread(target=self._serve, args=(connection, number), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        connection.settimeout(5)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            secured = self._context.wrap_socket(connection, server_side=True)
        except OSError:
            connection.close()
            return
        secured.settimeout(0.05)
        peer = Peer(self, secured, number)
        self.peers.append(peer)
        try:
            self.behaviour(peer)
        except Gone:
            pass
        except BaseException as error:  # noqa: BLE001  raised at the end of the test
            self.faults.append(error)
        finally:
            secured.close()


@contextlib.contextmanager
def _as_gone() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Gone from error


@cache
def _certificate() -> tuple[bytes, bytes]:
    """Return the authority and the certificate of localhost with its key; made once."""
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    return authority.cert_pem.bytes(), certificate.private_key_and_cert_chain_pem.bytes()
