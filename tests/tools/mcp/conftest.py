from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
OFFICIAL = str(HERE / "official_server.py")
FOLDLINE = str(HERE / "foldline_server.py")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class ServerProcess:
    """A server process that listens."""

    def __init__(self, script: str, *more: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.process = subprocess.Popen([sys.executable, script, "http", str(self.port), *more])
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert self.process.poll() is None, "the server did not start"
                assert time.monotonic() < deadline, "the server does not listen"
                time.sleep(0.05)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="session")
def official() -> Iterator[ServerProcess]:
    server = ServerProcess(OFFICIAL)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def woven() -> Iterator[ServerProcess]:
    server = ServerProcess(FOLDLINE)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def guarded() -> Iterator[ServerProcess]:
    server = ServerProcess(FOLDLINE, "sesame")
    yield server
    server.stop()
