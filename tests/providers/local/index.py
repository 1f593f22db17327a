"""A package index of one wheel, over HTTP: supports ranges, and can break off on request."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME = "small_model-1.0-py3-none-any.whl"


class Index:
    """The served content, and the requests for it."""

    def __init__(self, wheel: bytes, port: int) -> None:
        self.wheel = wheel
        self.url = f"http://127.0.0.1:{port}/simple/"
        self.takes_ranges = True
        self.cuts: list[int] = []
        """After how many bytes of the body each next answer breaks off."""
        self.ranges: list[str | None] = []
        """The Range header of every request for the wheel."""

    @classmethod
    @contextmanager
    def start(cls, wheel: bytes) -> Iterator[Index]:
        """Serve until the block ends."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        index = _Handler.index = cls(wheel, server.server_port)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield index
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def answer(self, byte_range: str | None) -> tuple[int, int, bytes]:
        """Return status, promised length and bytes for one request of the wheel."""
        self.ranges.append(byte_range)
        begin = int(byte_range.removeprefix("bytes=").removesuffix("-")) if byte_range else 0
        body = self.wheel[begin:] if self.takes_ranges else self.wheel
        content = body[: self.cuts.pop(0)] if self.cuts else body
        return 206 if byte_range and self.takes_ranges else 200, len(body), content


class _Handler(BaseHTTPRequestHandler):
    index: Index

    def do_GET(self) -> None:
        if self.path.endswith(".whl"):
            status, length, body = self.index.answer(self.headers.get("Range"))
        else:
            body = f'<a href="/files/{NAME}">{NAME}</a>'.encode()
            status, length = 200, len(body)
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if body[:1] == b"<" else "application/zip")
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Write no log."""
