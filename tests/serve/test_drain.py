"""The end of a server in four steps, its probes, and workers that are replaced."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
import pytest

from foldline.exceptions import StoreError
from foldline.serve import create_app
from foldline.serve._log.run_log import ServerLog
from foldline.testing import ScriptedChatModel
from tests.serve.in_process import post_in_process
from tests.serve.process import ServeProcess, sse

CHAT = ["chat=tests.serve.served:chat"]


class Servers:
    """Starts servers with settings and kills what is left of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[ServeProcess] = []

    def start(self, *, apps: list[str] | None = None, **settings: Any) -> ServeProcess:
        self.configure(**settings)
        options = ("--config", str(self.folder / "serve.toml"), "--no-trace")
        process = ServeProcess(self.folder, apps=apps or CHAT, options=options)
        del process.environment["FOLDLINE_SERVE_DRAIN_DELAY"]  # the file says it
        self.started.append(process)
        return process.start()

    def configure(self, **settings: Any) -> None:
        values = {"studio": False, "drain_delay": 0.5, **settings}
        lines = [f"{name} = {str(value).lower()}" for name, value in values.items()]
        (self.folder / "serve.toml").write_text("\n".join(["[serve]", *lines]))

    def open_gate(self, name: str) -> None:
        (self.folder / f"open-{name}").touch()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    servers = Servers(tmp_path)
    yield servers
    for process in servers.started:
        assert process.process is not None
        for pid in workers_of(process):
            os.kill(pid, signal.SIGKILL)
        process.stop(signal.SIGKILL)


def workers_of(process: ServeProcess) -> list[int]:
    """Return the worker processes of a server: its children that run Python's spawned main."""
    assert process.process is not None
    children = Path(f"/proc/{process.process.pid}/task/{process.process.pid}/children")
    pids = [int(text) for text in children.read_text().split()] if children.exists() else []
    return [pid for pid in pids if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def send(process: ServeProcess, number: signal.Signals) -> None:
    assert process.process is not None
    process.process.send_signal(number)


def wait_for_end(process: ServeProcess) -> int:
    assert process.process is not None
    return process.process.wait(60)


def probe(port: int, path: str = "/readyz") -> str:
    """Return the status of a path on a new connection, or how the connection failed."""
    request = f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
    try:
        with socket.create_connection(("127.0.0.1", port), 20) as connection:
            connection.sendall(request)
            answer = connection.recv(65536)
    except ConnectionRefusedError:
        return "refused"
    except OSError as error:
        return type(error).__name__
    if not answer:
        return "closed"
    head = answer.partition(b"\r\n\r\n")[0].lower()
    is_last = b"connection: close" in head
    return head.split()[1].decode() + (" and close" if is_last else "")


def probe_until(port: int, end: str, seconds: float = 60) -> list[str]:
    """Probe again and again until an answer; return the different answers in order."""
    deadline = time.monotonic() + seconds
    answers = [probe(port)]
    while answers[-1] != end:
        assert time.monotonic() < deadline, answers[-20:]
        answers.append(probe(port))
    return [answer for answer, _ in groupby(answers)]


class GatedStream:
    """A stream whose second half comes when the test opens its gate."""

    def __init__(self, process: ServeProcess, name: str) -> None:
        self.texts: list[str] = []
        self._url = f"{process.url}/runs"
        self._name = name
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        process.wait_for_mark(f"gate-{name}", 60)

    def _read(self) -> None:
        body = {"app": "chat", "input": f"gate {self._name}", "stream": True}
        self.texts.append(httpx.post(self._url, json=body, timeout=120).text)

    def events(self) -> list[Any]:
        self._thread.join(120)
        return [data for _, data in sse(self.texts[0])]


def end_of(events: list[Any]) -> str:
    return str(events[-1]["params"]["data"]["event"])


@pytest.mark.parametrize("workers", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_S24_a_draining_server_is_not_ready_then_refuses_then_ends_its_streams_whole(
    servers: Servers, workers: int
):
    process = servers.start(workers=workers)
    streams = [GatedStream(process, f"d{number}") for number in range(workers)]
    send(process, signal.SIGTERM)
    answers = probe_until(process.port, "refused")
    for number in range(workers):
        servers.open_gate(f"d{number}")
    events = [stream.events() for stream in streams]

    assert wait_for_end(process) == 0
    assert answers[-2:] == ["503 and close", "refused"]
    assert set(answers[:-2]) <= {"200", "503", "503 and close"}  # until all workers know
    for each in events:
        assert end_of(each) == "success"
        assert "after" in str(each)


@pytest.mark.parametrize("workers", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_S24_runs_that_do_not_end_in_time_are_interrupted_and_their_streams_say_so(
    servers: Servers, workers: int
):
    process = servers.start(workers=workers, drain_delay=0, drain_seconds=0.2)
    stream = GatedStream(process, "late")
    send(process, signal.SIGTERM)
    events = stream.events()

    assert wait_for_end(process) == 0
    assert end_of(events) == "interrupted"
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert ServerLog(process.log).runs("")[0].status == "interrupted"


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_S24_a_second_signal_ends_the_runs_at_once(servers: Servers, workers: int):
    process = servers.start(workers=workers, drain_delay=600, drain_seconds=600)
    stream = GatedStream(process, "never")
    send(process, signal.SIGTERM)
    probe_until(process.port, "503 and close")
    send(process, signal.SIGTERM)

    assert wait_for_end(process) == 0
    assert end_of(stream.events()) == "interrupted"


def test_S24_an_interrupt_of_the_keyboard_waits_for_runs_and_not_for_load_balancers(
    servers: Servers,
):
    process = servers.start(drain_delay=600)
    stream = GatedStream(process, "key")
    send(process, signal.SIGINT)
    probe_until(process.port, "refused")
    servers.open_gate("key")

    assert end_of(stream.events()) == "success"
    assert wait_for_end(process) == 0


def test_S24_a_run_that_is_started_while_load_balancers_look_elsewhere_is_served(
    servers: Servers,
):
    process = servers.start(drain_delay=600)
    send(process, signal.SIGTERM)
    probe_until(process.port, "503 and close")
    body = {"app": "chat", "input": "hi", "wait": True}
    answer = httpx.post(f"{process.url}/runs", json=body, timeout=60)

    assert answer.json()["status"] == "success"
    assert answer.headers["connection"] == "close"


@pytest.mark.slow
def test_S25_probes_need_no_key_and_say_only_their_state(servers: Servers):
    process = servers.start(drain_delay=600)
    process.add_key("ada")
    states = {
        path: httpx.get(f"{process.url}{path}", timeout=60).json()
        for path in ("/healthz", "/readyz", "/startupz")
    }
    send(process, signal.SIGTERM)
    probe_until(process.port, "503 and close")
    draining = {
        path: httpx.get(f"{process.url}{path}", timeout=60)
        for path in ("/healthz", "/readyz", "/startupz")
    }

    assert states == {
        "/healthz": {"status": "ok"},
        "/readyz": {"status": "ready"},
        "/startupz": {"status": "started"},
    }
    assert draining["/readyz"].json() == {"status": "draining"}
    assert [each.status_code for each in draining.values()] == [200, 503, 200]


@pytest.mark.parametrize(
    ("path", "status"), [("/readyz", 503), ("/healthz", 200), ("/startupz", 200)]
)
def test_S25_a_log_that_fails_makes_a_server_unready_and_not_dead(path: str, status: int):
    app = create_app({"chat": ScriptedChatModel(script=["hi"])})
    rows = app.server.host.log.database.rows

    def fail(statement: str, values: Any = ()) -> Any:
        if statement == "SELECT 1":
            raise StoreError("the disk is gone")
        return rows(statement, values)

    app.server.host.log.database.rows = fail  # type: ignore[method-assign]

    assert post_in_process(app, path, None, "GET").status_code == status


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")


def wait_for_workers(process: ServeProcess, is_right: Any) -> list[int]:
    deadline = time.monotonic() + 90
    while not is_right(pids := workers_of(process)):
        assert time.monotonic() < deadline, (pids, process.stderr())
        time.sleep(0.05)
    return pids


@needs_proc
@pytest.mark.slow
def test_S26_a_worker_that_dies_is_replaced_and_the_third_death_ends_the_server(
    servers: Servers,
):
    process = servers.start(workers=2, drain_delay=0)
    for _ in range(2):
        pids = wait_for_workers(process, lambda pids: len(pids) == 2)
        os.kill(pids[0], signal.SIGKILL)
        victim = pids[0]
        wait_for_workers(process, lambda pids: victim not in pids and len(pids) == 2)  # noqa: B023
    os.kill(workers_of(process)[0], signal.SIGKILL)

    assert wait_for_end(process) == 1
    assert "3 workers died within 60 seconds" in process.stderr()
    assert probe(process.port) == "refused"


@needs_proc
@pytest.mark.slow
def test_S26_sighup_replaces_the_workers_with_the_new_configuration_and_keeps_their_streams(
    servers: Servers,
):
    process = servers.start(workers=2)
    old = workers_of(process)
    stream = GatedStream(process, "hup")
    servers.configure(workers=2, max_messages=1)
    send(process, signal.SIGHUP)
    wait_for_workers(process, lambda pids: len(set(pids) - set(old)) == 2)
    messages = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    body = {"model": "chat", "messages": messages}
    deadline = time.monotonic() + 60
    statuses = []
    while statuses[-8:] != [400] * 8 and statuses[-8:] != [413] * 8:
        assert time.monotonic() < deadline, statuses
        answer = httpx.post(f"{process.url}/v1/chat/completions", json=body, timeout=60)
        statuses.append(answer.status_code)
    servers.open_gate("hup")

    assert end_of(stream.events()) == "success"
    assert set(statuses) <= {200, 400, 413}
    wait_for_workers(process, lambda pids: len(pids) == 2 and not set(pids) & set(old))


@needs_proc
@pytest.mark.slow
def test_S26_a_configuration_that_cannot_be_read_leaves_the_workers_as_they_are(
    servers: Servers,
):
    process = servers.start(workers=2)
    old = workers_of(process)
    (servers.folder / "serve.toml").write_text("[serve")
    send(process, signal.SIGHUP)
    deadline = time.monotonic() + 60
    while "the new configuration is not used" not in process.stderr():
        assert time.monotonic() < deadline, process.stderr()
        time.sleep(0.05)

    assert workers_of(process) == old
    assert probe(process.port) == "200"


@needs_proc
@pytest.mark.slow
def test_S26_workers_whose_parent_was_killed_end(servers: Servers):
    process = servers.start(workers=2, drain_delay=0)
    assert process.process is not None
    process.process.kill()

    assert probe_until(process.port, "refused")[-1] == "refused"
