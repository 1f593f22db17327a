"""Logs that the versions of foldline wrote, kept as dumps in `logs/`: a newer version opens and migrates each.

    python -m tests.serve.kept_logs NAME                 write the logs of this version
    python -m tests.serve.kept_logs NAME --source SRC    those of another one, from its source

`scripts/release` calls it with the version. A server of that version runs until the log has runs of every status, with
keys, spending, holds, answers and threads; then it is killed, and the tables are dumped.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from tests.serve.process import ROOT, ServeProcess
from tests.servers.databases import _postgres, _postgres_programs, new_database, wait_until

FOLDER: Path = Path(__file__).parent / "logs"
BUDGET = 1_000
QUEUE = ("--max-runs", "1", "--max-queued", "5", "--queue-seconds", "600")
"""The second run of such a server waits."""


class Writer:
    """Writes a log through the servers of one version."""

    def __init__(self, folder: Path, place: str, source: Path | None) -> None:
        self.folder, self.place, self.source = folder, place, source
        self.keys: dict[str, str] = {}
        """Who asks -> their key."""
        self.runs: dict[str, str] = {}
        """The name of a run -> its id."""
        self.servers: list[ServeProcess] = []

    def server(self, *options: str) -> ServeProcess:
        apps = [f"{name}=tests.serve.served:{name}" for name in ("chat", "priced", "agent")]
        folder = self.folder / str(len(self.servers))
        folder.mkdir(parents=True)
        server = ServeProcess(folder, apps=apps, log=self.place, options=options)
        # One folder of threads: a run that waits can be answered at the next server.
        server.environment["SERVED_FOLDER"] = str(self.folder)
        if self.source is not None:
            server.environment["PYTHONPATH"] = os.pathsep.join([str(self.source), str(ROOT)])
        self.servers.append(server)
        return server

    def headers(self, app: str) -> dict[str, str]:
        """Ada has a budget; Bob asks the agent, whose prices are unknown."""
        return {"authorization": f"Bearer {self.keys['bob' if app == 'agent' else 'ada']}"}

    def post(self, server: ServeProcess, path: str, body: Any, app: str = "") -> Any:
        headers = self.headers(app)
        answer = httpx.post(server.url + path, json=body, headers=headers, timeout=60)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def start(self, server: ServeProcess, name: str, app: str, text: str, **body: Any) -> str:
        value = {"messages": [["user", text]]} if app == "agent" else text
        run = self.post(server, "/runs", {"app": app, "input": value, **body}, app)["run_id"]
        self.runs[name] = str(run)
        return str(run)

    def wait_for(self, server: ServeProcess, name: str, status: str) -> None:
        url = f"{server.url}/runs/{self.runs[name]}"
        headers = self.headers("agent" if name in ("answered", "waiting") else "")

        def is_there() -> bool:
            answer = httpx.get(url, headers=headers, timeout=60)
            return answer.is_success and answer.json()["status"] == status

        wait_until(is_there, f"{status} of {name}", 60)

    def wait_for_mark(self, name: str) -> None:
        marks = self.folder / "marks"
        wait_until(lambda: marks.exists() and f"begin-{name} " in marks.read_text(), name, 60)

    def write(self) -> None:
        try:
            self._write()
        finally:
            for server in self.servers:
                if server.process is not None:
                    server.stop(signal.SIGKILL)

    def _write(self) -> None:
        first = self.server()
        limits = ("--budget", str(BUDGET), "--rpm", "1000", "--tpm", "1000000")
        self.keys = {"ada": first.add_key("ada", *limits), "bob": first.add_key("bob")}
        first.start()
        for name, text in {"success": "hi", "error": "crash"}.items():
            self.start(first, name, "priced", text)
            self.wait_for(first, name, name)
        self.start(first, "waiting", "agent", "delete", thread_id="t-delete")
        self.wait_for(first, "waiting", "waiting")
        self.start(first, "answered", "agent", "delete", thread_id="t-answered")
        self.wait_for(first, "answered", "waiting")
        self.answer(first, "answered")
        self.post(first, "/threads", {"thread_id": "t-named", "metadata": {"of": "ada"}})
        self.start(first, "stopped", "priced", "slow minute stopped")
        self.wait_for_mark("stopped")
        self.post(first, f"/runs/{self.runs['stopped']}/stop", {})
        self.wait_for(first, "stopped", "stopped")
        self.start(first, "interrupted", "priced", "slow minute lost")
        self.wait_for_mark("lost")
        self.wait_for(first, "interrupted", "running")
        first.stop(signal.SIGKILL)

        last = self.server(*(QUEUE if self.source is None else ())).start()
        self.wait_for(last, "interrupted", "interrupted")
        self.start(last, "running", "priced", "slow minute left")
        self.wait_for_mark("left")
        self.wait_for(last, "running", "running")
        if self.source is None:
            self.start(last, "queued", "priced", "hi")
            self.wait_for(last, "queued", "queued")
        last.stop(signal.SIGKILL)

    def answer(self, server: ServeProcess, name: str) -> None:
        """Answer the question of a run; the run that goes on is called `resumed`."""
        answers = {"decisions": [{"type": "approve"}] * 2}
        body = {"answers": answers, "wait": True}
        run = self.post(server, f"/runs/{self.runs[name]}/resume", body, "agent")
        assert run["status"] == "success"
        self.runs["resumed"] = run["run_id"]


def dump_sqlite(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return "\n".join(connection.iterdump()) + "\n"


def dump_postgres(url: str) -> str:
    command = [_postgres_programs() / "pg_dump", "--inserts", "--no-owner", "--no-privileges", url]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = [line for line in text.splitlines() if not line.startswith(("\\", "--"))]
    return re.sub(r"\n{2,}", "\n", "\n".join(lines)) + "\n"


def write_logs(name: str, target: Path, source: Path | None) -> None:
    """Write both logs of a version, and what a test has to know of them."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, running_postgres(Path(folder)) as new_url:
        for kind in ("sqlite", "postgres"):
            place = str(Path(folder) / "runs.db") if kind == "sqlite" else new_url()
            writer = Writer(Path(folder) / kind, place, source)
            writer.write()
            text = dump_sqlite(Path(place)) if kind == "sqlite" else dump_postgres(place)
            text = text.replace(socket.gethostname(), "machine")
            assert folder not in text, "the log names a folder of this machine"
            (target / f"{name}.{kind}.sql").write_text(text, encoding="utf-8")
            facts = {"runs": writer.runs, "keys": writer.keys}
            (target / f"{name}.{kind}.json").write_text(json.dumps(facts, indent=2) + "\n")


@contextmanager
def running_postgres(folder: Path) -> Iterator[Callable[[], str]]:
    with contextmanager(_postgres)(_postgres_programs()) as server:
        yield lambda: new_database(server)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the logs of a version for the tests.")
    parser.add_argument("name")
    parser.add_argument("--source", type=Path)
    parser.add_argument("--target", type=Path, default=FOLDER)
    options = parser.parse_args()
    write_logs(options.name, options.target, options.source)
    for file in sorted(options.target.glob(f"{options.name}.*")):
        with suppress(ValueError):
            file = file.relative_to(ROOT)
        print(file)


if __name__ == "__main__":
    main()
