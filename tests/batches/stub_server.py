"""What the stubs of the three batch APIs share: a server, its files and batches, and everything that came.

Everything that came is in `requests`; `_fate` says what becomes of a request by a word in its prompt.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

Json = Any
Route = tuple[str, str, Callable[..., tuple[int, Json] | None]]
"""Method, pattern of the path, and the method of the stub that answers."""


class StubServer:
    """A server whose routes the vendors' parts add."""

    ROUTES: ClassVar[tuple[Route, ...]] = ()

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.live = 0
        self.looks_until_done = 1
        """How often a batch is asked for before it has ended."""
        self.ends_as = "completed"
        self.dies_after_create = False
        """Answer the next creation of a batch with a broken connection, though it was made."""
        self.broken_reads = 0
        self.broken_path = ""
        """How many requests to read such a path end with a broken connection."""
        self.answer_headers: dict[str, str] = {}
        """Headers of the answer that is made now."""
        self.lock = threading.Lock()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None: ...

            def _go(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                with stub.lock:
                    stub.requests.append((self.command, self.path))
                    stub.headers.append({k.lower(): v for k, v in self.headers.items()})
                    stub.answer_headers = {}
                    answer = stub.answer(self.command, self.path, body, self.headers)
                    headers = stub.answer_headers
                if answer is None:
                    self.close_connection = True
                    self.connection.close()
                    return
                status, content = answer
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                kind = "application/x-jsonl" if isinstance(content, bytes) else "application/json"
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(data)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = _go

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def count(self, method: str, pattern: str) -> int:
        return sum(
            verb == method and re.fullmatch(pattern, path) is not None
            for verb, path in self.requests
        )

    # -- routes

    def answer(
        self, method: str, target: str, body: bytes, headers: Any
    ) -> tuple[int, Json] | None:
        path = urlsplit(target).path
        if method == "GET" and self.broken_reads and re.search(self.broken_path, path):
            self.broken_reads -= 1
            return None
        query = {k: v[0] for k, v in parse_qs(urlsplit(target).query).items()}
        for verb, pattern, handler in self.ROUTES:
            match = re.fullmatch(pattern, path)
            if verb == method and match:
                return handler(self, body, headers, query, *match.groups())
        return 404, {"error": {"message": f"no route {method} {path}", "type": "not_found"}}

    def _add_batch(self, id: str, row: dict[str, Any], describe: Json) -> tuple[int, Json] | None:
        self.batches[id] = {"looks": 0, "cancelled": False, "at": time.time(), **row}
        if self.dies_after_create:
            self.dies_after_create = False
            return None
        return 200, describe(id)

    def _is_over(self, id: str) -> bool:
        row = self.batches[id]
        return row["cancelled"] or row["looks"] > self.looks_until_done

    def _fate(self, text: str) -> str:
        return next((word for word in ("missing", "expired") if word in text), "")
