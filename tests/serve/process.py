"""`foldline serve` as a process of its own, for the tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from tests.servers.databases import free_port

ROOT = Path(__file__).parent.parent.parent
APPS = [f"{name}=tests.serve.served:{name}" for name in (
    "chat", "priced", "agent", "graph", "chain", "double", "vectors",
)]  # fmt: skip


class ServeProcess:
    """A running `foldline serve`."""

    def __init__(
        self,
        folder: Path,
        *,
        apps: list[str] | None = None,
        log: str | None = None,
        options: tuple[str, ...] = (),
        port: int | None = None,
        program: str = "foldline",
    ) -> None:
        self.folder = folder
        self.program = program
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log or str(folder / "runs.db")
        self.command = [
            sys.executable, "-m", self.program, "serve", *(APPS if apps is None else apps),
            "--port", str(self.port), "--log", self.log, *options,
        ]  # fmt: skip
        self.environment = {
            **os.environ,
            "SERVED_FOLDER": str(folder),
            "FOLDLINE_DATA_DIR": str(folder / "data"),
            "PYTHONPATH": str(ROOT),
            "FOLDLINE_SERVE_DRAIN_DELAY": "0",  # no load balancer looks
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> ServeProcess:
        self.errors = open(self.folder / f"stderr-{self.port}", "ab")  # noqa: SIM115  closed by `stop`
        self.process = subprocess.Popen(
            self.command,
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=self.errors,
            start_new_session=True,
        )
        end = time.monotonic() + 60
        while not self._is_ready():
            assert self.process.poll() is None, self.stderr()
            assert time.monotonic() < end, self.stderr()
            time.sleep(0.05)
        return self

    def _is_ready(self) -> bool:
        try:
            # Nothing is verified on loopback; to read the certificates of the machine takes longer than the answer.
            return httpx.get(f"{self.url}/readyz", timeout=5, verify=False).status_code == 200
        except httpx.HTTPError:
            return False

    def stderr(self) -> str:
        return (self.folder / f"stderr-{self.port}").read_text()

    def stop(self, how: signal.Signals = signal.SIGTERM, wait: float = 45) -> None:
        if self.process is not None and self.process.poll() is None:
            if how == signal.SIGKILL:
                os.killpg(self.process.pid, how)
            else:
                self.process.send_signal(how)
            self.process.wait(wait)
        self.errors.close()

    def add_key(self, name: str, *options: str) -> str:
        command = [
            sys.executable, "-m", self.program, "serve", "keys", "add", name, "--log", self.log, *options,
        ]  # fmt: skip
        result = subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, check=True, text=True
        )
        return result.stdout.strip()

    def marks(self) -> dict[str, float]:
        file = self.folder / "marks"
        lines = file.read_text().splitlines() if file.exists() else []
        return {line.split()[0]: float(line.split()[1]) for line in lines}

    def count_marks(self, name: str) -> int:
        file = self.folder / "marks"
        lines = file.read_text().splitlines() if file.exists() else []
        return sum(line.split()[0] == name for line in lines)

    def wait_for_mark(self, name: str, seconds: float = 15) -> float:
        end = time.monotonic() + seconds
        while name not in self.marks():
            assert time.monotonic() < end, f"no mark {name}: {sorted(self.marks())}"
            time.sleep(0.02)
        return self.marks()[name]


def sse(text: str) -> list[tuple[str | None, Any]]:
    """The events of a stream, as (name, data)."""
    events: list[tuple[str | None, Any]] = []
    for part in text.replace("\r\n", "\n").split("\n\n"):
        name, data = None, []
        for line in part.splitlines():
            if line.startswith("event:"):
                name = line[6:].strip()
            elif line.startswith("data:"):
                data.append(line[5:].lstrip())
        if data:
            payload = "\n".join(data)
            events.append((name, payload if payload == "[DONE]" else json.loads(payload)))
    return events
