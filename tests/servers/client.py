"""The client of the fault server: start it, script its answers, read its requests."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme

from tests.servers.script import Answer

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class SeenRequest:
    """A request as the server read it."""

    method: str
    target: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int
    port: str
    """Which of the server's ports: http, other, https, http2 or socks."""
    time: float

    def json(self) -> Any:
        """Return the body, parsed."""
        return json.loads(self.body)


class FaultServer:
    """A running fault server.

    ```python
    with FaultServer.start() as server:
        server.script("/v1/chat", sse_answer([{"a": 1}]), Answer(status=500))   # in turn; the last one repeats
        ...
        assert server.hits("/v1/chat") == 2
    ```
    """

    def __init__(
        self, process: subprocess.Popen[str], ports: dict[str, int], ca_pem: bytes
    ) -> None:
        self.process = process
        self.ports = ports
        self.ca_pem = ca_pem
        """The certificate authority that signed the https port."""
        self.url = f"http://127.0.0.1:{ports['http']}"
        self.other_url = f"http://127.0.0.1:{ports['other']}"
        """The same server on a second origin."""
        self.https_url = f"https://localhost:{ports['https']}"
        self.http2_url = f"https://localhost:{ports['http2']}"
        """A port with HTTP/2 only."""
        self.socks_url = f"socks5://127.0.0.1:{ports['socks']}"
        """A SOCKS5 proxy."""
        self._lock = threading.Lock()
        self._control = socket.create_connection(("127.0.0.1", ports["control"]))
        self._lines = self._control.makefile("rwb")

    @classmethod
    def start(cls) -> FaultServer:
        """Start the process; the certificate is made here and thrown away."""
        authority = trustme.CA()
        with tempfile.NamedTemporaryFile(suffix=".pem") as pem:
            pem.write(authority.issue_cert("localhost").private_key_and_cert_chain_pem.bytes())
            pem.flush()
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.servers.process", pem.name],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
            )  # fmt: skip
            assert process.stdout is not None
            ports = json.loads(process.stdout.readline())
        return cls(process, ports, authority.cert_pem.bytes())

    def script(self, path: str, *answers: Answer) -> str:
        """Teach a path its answers, in turn; the last one repeats. Gives the full URL."""
        self._tell(do="script", path=path, answers=[answer.to_json() for answer in answers])
        return self.url + path

    def script_all(self, paths: list[str], *answers: Answer) -> None:
        """Teach many paths the same answers."""
        self._tell(do="script", paths=paths, answers=[answer.to_json() for answer in answers])

    def requests(self, path: str | None = None) -> list[SeenRequest]:
        """Return every request read so far, of one path or of all."""
        return [
            SeenRequest(**{**record, "body": base64.b64decode(record["body"])})
            for record in self._tell(do="seen", path=path)
        ]

    def hits(self, path: str | None = None) -> int:
        """Count the requests read so far."""
        return len(self.requests(path))

    def used(self, paths: list[str]) -> dict[str, int]:
        """Count the answers that each path has given since it was last taught."""
        return dict(self._tell(do="used", paths=paths))

    def stats(self) -> dict[str, int]:
        """Return `open` connections now, connections `opened` ever, requests `seen`, HTTP/2 `resets`."""
        return dict(self._tell(do="stats"))

    def open_connections(self) -> int:
        """Count the connections open now, idle ones included."""
        return self.stats()["open"]

    def wait_for_open(self, at_most: int, timeout: float = 1.0) -> int:
        """Wait until at most this many connections are open; gives how many are."""
        until = time.monotonic() + timeout
        while (count := self.open_connections()) > at_most and time.monotonic() < until:
            time.sleep(0.005)
        return count

    def open_gate(self) -> None:
        """Let every answer go on that waits at a `("gate", None)` step."""
        self._tell(do="gate")

    def drop_all(self) -> None:
        """Abort every open connection."""
        self._tell(do="drop")

    def reset(self) -> None:
        """Forget scripts and requests."""
        self._tell(do="reset")

    def stop(self) -> None:
        """Stop the process."""
        self._lines.close()
        self._control.close()
        self.process.kill()
        self.process.communicate()

    def _tell(self, **order: Any) -> Any:
        with self._lock:
            self._lines.write(json.dumps(order).encode() + b"\n")
            self._lines.flush()
            return json.loads(self._lines.readline())

    def __enter__(self) -> FaultServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
