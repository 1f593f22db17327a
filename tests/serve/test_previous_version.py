"""Workers of the previous version and of this one on one log, as while a server is updated worker by worker."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serve.process import ROOT, ServeProcess, sse
from tests.servers.databases import postgres_server, postgres_url, wait_until
from tests.servers.previous_version import previous_version

__all__ = ["postgres_server", "postgres_url", "previous_version"]

RUNS = 12
pytestmark = pytest.mark.slow


class Pair:
    """A worker of each version, on one log, with one key."""

    def __init__(self, old: ServeProcess, new: ServeProcess) -> None:
        self.old, self.new = old, new
        self.workers = {"old": old, "new": new}
        self.key = ""

    def request(
        self, method: str, worker: ServeProcess, path: str, **options: Any
    ) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.key}"}
        response = httpx.request(method, worker.url + path, headers=headers, timeout=30, **options)
        assert response.status_code < 400, response.text
        return response

    def start(self, worker: ServeProcess, text: str) -> str:
        """Start a run that both workers know: the old version named a run before its record was committed."""
        body = {"app": "chat", "input": text, "thread_id": "shared"}
        run = str(self.request("POST", worker, "/runs", json=body).json()["run_id"])
        if worker is self.old:
            wait_until(lambda: self.knows(self.new, run), "the record of the run")
        return run

    def knows(self, worker: ServeProcess, run: str) -> bool:
        headers = {"authorization": f"Bearer {self.key}"}
        return httpx.get(f"{worker.url}/runs/{run}", headers=headers, timeout=30).is_success

    def run(self, worker: ServeProcess, run: str) -> Any:
        return self.request("GET", worker, f"/runs/{run}").json()

    def events(self, worker: ServeProcess, run: str) -> list[Any]:
        """Follow a run to its end."""
        text = self.request("GET", worker, f"/runs/{run}/events").text
        return [data for _, data in sse(text)]


def make_worker(
    folder: Path, log: str, python_path: str, program: str = "foldline"
) -> ServeProcess:
    folder.mkdir()
    worker = ServeProcess(folder, apps=["chat=tests.serve.served:chat"], log=log, program=program)
    worker.environment["PYTHONPATH"] = python_path
    return worker


@pytest.fixture(params=["file", "postgres"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return str(tmp_path / "runs.db")
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(params=["old", "new"])
def pair(
    request: pytest.FixtureRequest, log: str, tmp_path: Path, previous_version: dict[str, str]
) -> Iterator[Pair]:
    """Both workers; the one that is started first makes the tables, and the key."""
    old_path = os.pathsep.join([previous_version["PYTHONPATH"], str(ROOT)])
    old = make_worker(tmp_path / "old", log, old_path, "foldline.cli")
    new = make_worker(tmp_path / "new", log, str(ROOT))
    pair = Pair(old, new)
    first, second = (old, new) if request.param == "old" else (new, old)
    pair.key = first.add_key("shared", "--rpm", "10000")
    first.start()
    try:
        second.start()
        yield pair
    finally:
        for worker in (old, new):
            if worker.process is not None:
                worker.stop(signal.SIGKILL)


def test_S43_old_and_new_workers_serve_one_log_at_once(pair: Pair) -> None:
    def serve(number: int) -> tuple[str, list[Any]]:
        here, there = list(pair.workers.values())[:: 1 if number % 2 else -1]
        run = pair.start(here, "hi")
        return run, pair.events(there, run)  # followed at the other worker while it runs

    with ThreadPoolExecutor(8) as pool:
        runs = dict(pool.map(serve, range(RUNS)))

    assert len(runs) == RUNS
    for run, events in runs.items():
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        assert events[-1]["params"]["data"]["event"] == "success"
        old, new = (pair.run(worker, run) for worker in pair.workers.values())
        assert old == {name: new[name] for name in old}
        assert old["status"] == "success"
        assert pair.events(pair.old, run) == pair.events(pair.new, run) == events
    listed = [
        sorted(
            run["run_id"] for run in pair.request("GET", worker, "/runs?limit=100").json()["runs"]
        )
        for worker in pair.workers.values()
    ]
    assert listed[0] == listed[1] == sorted(runs)
    for worker in pair.workers.values():
        assert "Traceback" not in worker.stderr()


@pytest.mark.parametrize("version", ["old", "new"])
def test_S43_a_run_of_one_version_is_stopped_and_missed_by_the_other(
    pair: Pair, version: str
) -> None:
    here = pair.workers[version]
    there = pair.workers["new" if version == "old" else "old"]
    run = pair.start(here, "slow stop")
    here.wait_for_mark("begin-stop")
    pair.request("POST", there, f"/runs/{run}/stop")
    here.wait_for_mark("cut-stop")
    wait_until(lambda: pair.run(there, run)["status"] == "stopped", "the end of the run")

    lost = pair.start(here, "slow lost")
    here.wait_for_mark("begin-lost")
    time.sleep(0.5)
    assert pair.run(there, lost)["status"] == "running"
    here.stop(signal.SIGKILL)

    wait_until(lambda: pair.run(there, lost)["status"] == "interrupted", "the notice of its death")
    assert "Traceback" not in there.stderr()
