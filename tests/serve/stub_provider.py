"""A provider on loopback that counts what it sends: chat completions, streamed or not, and embeddings.

What it does is in the text of the request: `words-40` is the length of the answer in tokens of four characters,
`pace-5` the milliseconds between two of them, `stall-9` after how many it waits until the client leaves or the test
lets it go on, and `label-x` where it is counted.
"""

from __future__ import annotations

import json
import re
import select
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

INPUT = 10
"""Tokens of every request, fewer than anybody estimates."""
PIECE = "abc "


@dataclass
class Count:
    """What was charged under one label."""

    requests: int = 0
    output: int = 0
    running: int = 0
    go_on: threading.Event = field(default_factory=threading.Event)
    """Ends a stall."""

    @property
    def tokens(self) -> int:
        return self.requests * INPUT + self.output


class StubProvider(ThreadingHTTPServer):
    """The provider; `counts` is its own account."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.counts: dict[str, Count] = defaultdict(Count)
        self.lock = threading.Lock()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients leave: that is no error."""

    def wait_until_quiet(self, label: str, seconds: float = 30) -> Count:
        """Wait until no request of a label runs; return its count."""
        end = time.monotonic() + seconds
        while self.counts[label].running:
            assert time.monotonic() < end, f"{label} still runs"
            time.sleep(0.01)
        return self.counts[label]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StubProvider
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        label = _word(body, "label", "none")
        with self.server.lock:
            # Under the lock: two first requests at once would make two counts, and one be lost.
            count = self.server.counts[label]
            count.requests += 1
            count.running += 1
        try:
            self._answer(json.loads(body), body, count)
        finally:
            with self.server.lock:
                count.running -= 1

    def _answer(self, request: Any, text: str, count: Count) -> None:
        if "fail-now" in text:
            self._send({"error": {"message": "broken", "type": "server_error"}}, 500)
            return
        if self.path.endswith("/embeddings"):
            vectors = [
                {"object": "embedding", "index": n, "embedding": [0.5]} for n, _ in enumerate(request["input"])
            ]  # fmt: skip
            self._send({"object": "list", "data": vectors, "usage": {"total_tokens": INPUT}}, 200)
            return
        wants_tool = request.get("tools") and '"tool_call_id"' not in text
        words = 1 if wants_tool else int(_word(text, "words", "5"))
        words = min(
            words, request.get("max_tokens") or request.get("max_completion_tokens") or words
        )
        delay = int(_word(text, "pace", "0")) / 1000
        pieces: list[dict[str, Any]] = [{"content": PIECE} for _ in range(words)]
        if wants_tool:
            function = {"name": "look", "arguments": "{}"}
            call = {"index": 0, "id": "call_1", "type": "function", "function": function}
            pieces = [{"tool_calls": [call]}]
        if request.get("stream"):
            stall = int(_word(text, "stall", "-1"))
            self._stream(pieces, delay, count, "tool_calls" if wants_tool else "stop", stall)
        else:
            time.sleep(delay * words)
            message: dict[str, Any] = {"role": "assistant", "content": PIECE * words}
            if wants_tool:
                message = {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": pieces[0]["tool_calls"],
                }
            choice = {
                "index": 0,
                "message": message,
                "finish_reason": "tool_calls" if wants_tool else "stop",
            }
            with self.server.lock:
                count.output += words
            self._send({"id": "c", "object": "chat.completion", "model": "stub", "choices": [choice],
                        "usage": usage(words)}, 200)  # fmt: skip

    def _stream(
        self, pieces: list[dict[str, Any]], delay: float, count: Count, reason: str, stall: int
    ) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for number, piece in enumerate(pieces):
            if number == stall and not self._may_go_on(count):
                return
            with self.server.lock:
                count.output += 1
            self._event({"choices": [{"index": 0, "delta": {"role": "assistant", **piece}}]})
            if delay:
                time.sleep(delay)
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        self._event({"choices": [], "usage": usage(len(pieces))})
        self.wfile.write(b"data: [DONE]\n\n")

    def _may_go_on(self, count: Count) -> bool:
        """Wait; return False if the client has left."""
        end = time.monotonic() + 60
        while time.monotonic() < end and not count.go_on.is_set():
            if select.select([self.connection], [], [], 0.01)[0]:
                return False
        return True

    def _event(self, data: dict[str, Any]) -> None:
        chunk = {"id": "c", "object": "chat.completion.chunk", "model": "stub", **data}
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self.wfile.flush()

    def _send(self, data: dict[str, Any], status: int) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def usage(words: int) -> dict[str, int]:
    return {"prompt_tokens": INPUT, "completion_tokens": words, "total_tokens": INPUT + words}


def _word(text: str, name: str, usual: str) -> str:
    match = re.search(rf"{name}-(\w+)", text)
    return match[1] if match else usual


@contextmanager
def stub_provider() -> Iterator[StubProvider]:
    """Run a provider in a thread."""
    with StubProvider() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
