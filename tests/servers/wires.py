"""One server on loopback that answers on every vendor's wire, always the same: the first tool offered is called, a
schema is filled, and anything else gets one sentence.

    python -m tests.servers.wires 8123
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.servers.vendors.anthropic import anthropic
from tests.servers.vendors.bedrock import converse, invoke_stream
from tests.servers.vendors.google import google
from tests.servers.vendors.openai import completions, embeddings, responses, text_completions
from tests.servers.vendors.replies import as_json

WIRES: dict[str, Callable[[dict[str, Any]], tuple[str, bytes]]] = {
    ":generateContent": lambda body: google(body, is_stream=False),
    ":streamGenerateContent": lambda body: google(body, is_stream=True),
    "/converse": lambda body: converse(body, is_stream=False),
    "/converse-stream": lambda body: converse(body, is_stream=True),
    "/invoke": anthropic,
    "/invoke-with-response-stream": invoke_stream,
    ":rawPredict": anthropic,
    ":streamRawPredict": lambda body: anthropic({**body, "stream": True}),
    "/count_tokens": lambda _: as_json({"input_tokens": 11}),
    "/usage/v1/chat/completions": lambda body: completions(body, tells_usage=True),
    "/chat/completions": completions,
    "/completions": text_completions,
    "/responses": responses,
    "/messages": anthropic,
    "/embeddings": embeddings,
}
"""End of a path -> the wire that answers there; the first that fits."""


def answer(path: str, body: dict[str, Any]) -> tuple[str, bytes] | None:
    """Return the type and the body of an answer; None at a path that no wire has."""
    path = path.partition("?")[0]
    wire = next((wire for end, wire in WIRES.items() if path.endswith(end)), None)
    return wire(body) if wire is not None else None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send(200, *as_json({"object": "list", "data": []}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"] or 0)) or b"{}")
        result = answer(self.path, body)
        if result is None:
            self._send(404, *as_json({"error": {"message": f"no wire at {self.path}"}}))
        else:
            self._send(200, *result)

    def _send(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serve_wires(port: int = 0) -> Iterator[str]:
    """Serve in a thread; yields the address."""
    server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    with serve_wires(int(sys.argv[1])) as address:
        print(address, flush=True)
        threading.Event().wait()
