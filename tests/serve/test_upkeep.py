"""`foldline serve log`: backups under load, checks, versions and space, of SQLite files and PostgreSQL."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from foldline.exceptions import StoreError, UsageError
from foldline.serve._log.events import encode_event
from foldline.serve._log.records import OVER, EventsToKeep, RunRecord, make_event
from foldline.serve._log.run_log import ServerLog
from foldline.serve._log.upkeep import back_up, check_log, read_status, stored_versions, vacuum
from tests.serve.process import ROOT, ServeProcess
from tests.servers.databases import (  # noqa: F401  fixtures
    _postgres_programs,
    new_database,
    postgres_server,
    postgres_url,
)

OLD = Path(__file__).parents[1] / "storage" / "data"


def foldline(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "foldline", "serve", "log", *args],
        cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def write_run(log: ServerLog, id: str, status: str = "success", size: int = 3) -> None:
    run = RunRecord(id, "", "chat", "runs", None, "running", 1.0, log.worker, None)
    events = [encode_event(make_event("chunk", "x" * 50, number)) for number in range(size)]
    log.keep([EventsToKeep(run, 1, events, is_new=True)])
    run.status, run.finished, run.result = status, 2.0, {"output": "hi"}  # type: ignore[assignment]
    log.keep([EventsToKeep(run, size + 1, [encode_event(make_event("run", {}, 1))], is_over=True)])


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    return str(request.getfixturevalue("postgres_url"))


def rows_of(place: str, id: str) -> Any:
    """Return everything that the tables have of a run, as it is."""
    log = ServerLog(place)
    try:
        events = "SELECT run, seq, last, data FROM serve_events WHERE run = ? ORDER BY seq"
        return [
            log.database.rows("SELECT * FROM serve_runs WHERE id = ?", (id,)),
            log.database.rows(events, (id,)),
        ]
    finally:
        log.close()


def copy_of(place: str, tmp_path: Path, postgres_server: Any) -> str:
    """Back up and restore."""
    if "://" not in place:
        target = str(tmp_path / "copy.db")
        answer = foldline("backup", target, "--log", place)
        assert answer.returncode == 0, answer.stderr
        return target
    url = new_database(postgres_server)
    programs = _postgres_programs()
    dump = subprocess.run(
        [programs / "pg_dump", "--no-owner", place], capture_output=True, check=True
    )
    subprocess.run(
        [programs / "psql", "-q", "-v", "ON_ERROR_STOP=1", url],
        input=dump.stdout, capture_output=True, check=True,
    )  # fmt: skip
    return url


@pytest.mark.slow
def test_S44_a_backup_under_load_has_every_run_that_was_over_and_the_others_are_interrupted(
    place, tmp_path, postgres_server
):
    process = ServeProcess(tmp_path, log=place, options=("--no-trace",)).start()
    try:
        url = f"{process.url}/runs"
        say = {"app": "chat", "input": "count 40", "wait": True}
        over = [httpx.post(url, json=say, timeout=60).json()["run_id"] for _ in range(10)]
        slow = {"app": "chat", "input": "slow minute load"}
        open_runs = [httpx.post(url, json=slow, timeout=60).json()["run_id"] for _ in range(5)]
        process.wait_for_mark("begin-load", 60)

        copy = copy_of(place, tmp_path, postgres_server)

        before = {id: rows_of(place, id) for id in over}
    finally:
        process.stop(signal.SIGKILL)
    assert {id: rows_of(copy, id) for id in over} == before
    log = ServerLog(copy)
    log.mark_interrupted()
    found = [log.run(id) for id in open_runs]
    assert [run.status for run in found if run is not None] == ["interrupted"] * 5
    log.close()
    assert check_log(copy) == []


def test_S44_status_prints_versions_and_runs_and_changes_nothing(place):
    log = ServerLog(place)
    write_run(log, "a")
    write_run(log, "b", "error")
    log.close()

    found = json.loads(foldline("status", "--json", "--log", place).stdout)

    assert found["runs"] == {"error": 1, "success": 1}
    assert found["is_current"]
    assert found["versions"]["serve"][0] == found["versions"]["serve"][1] >= 1
    assert found["size"] > 0
    text = foldline("status", FOLDLINE_SERVE_LOG=place).stdout
    assert "success: 1 runs" in text


def old_place(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Return a log that an older version wrote."""
    if kind == "sqlite":
        path = tmp_path / "old.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript((OLD / "serve.sql").read_text())
        return str(path)
    url = str(request.getfixturevalue("postgres_url"))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute((OLD / "serve_postgres.sql").read_text())  # type: ignore[arg-type]
    return url


def add_runs(place: str) -> None:
    """Write a run of every status, as the older version did."""
    statement = (
        "INSERT INTO serve_runs (id, owner, app, wire, thread, status, created, worker, request, finished, last_seq, "
        "result, stop_asked) VALUES ('{0}', '', 'chat', 'runs', NULL, '{0}', 1.5, 'gone/1/a', 'null', {1}, 0, NULL, 0)"
    )
    script = ";".join(
        statement.format(status, "NULL" if status == "running" else 2.5)
        for status in [*sorted(OVER), "running"]
    )
    if "://" in place:
        with psycopg.connect(place, autocommit=True) as connection:
            connection.execute(script)  # type: ignore[arg-type]
        return
    with closing(sqlite3.connect(place)) as connection:
        connection.executescript(script)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_S45_a_log_of_an_older_version_is_shown_as_it_is_and_migrated_on_demand(
    kind, tmp_path, request
):
    place = old_place(kind, tmp_path, request)
    add_runs(place)

    before = foldline("status", "--log", place)
    assert "foldline serve log migrate" in before.stdout, before.stderr
    versions = stored_versions(place)
    assert stored_versions(place) == versions  # nothing was changed

    answer = foldline("migrate", "--log", place)

    assert "->" in answer.stdout
    status = read_status(place)
    assert status.is_current
    assert set(status.runs or {}) == OVER | {"running"}
    log = ServerLog(place)
    assert {id: run.status for id in OVER if (run := log.run(id)) is not None} == {
        status: status for status in OVER
    }
    log.mark_interrupted()
    running = log.run("running")
    assert running is not None
    assert (running.status, running.as_json()["request_id"]) == ("interrupted", None)
    log.close()
    assert "->" not in foldline("migrate", "--log", place).stdout
    assert foldline("verify", "--log", place).returncode == 0


def test_S44_verify_finds_gaps_wrong_counts_and_events_of_no_run(place):
    log = ServerLog(place)
    for id in ("fine", "gap", "short", "torn"):
        write_run(log, id)
    log.database.write(
        lambda connection: [
            connection.run("DELETE FROM serve_events WHERE run = 'gap' AND seq = 1"),
            connection.run("UPDATE serve_runs SET last_seq = 9 WHERE id = 'short'"),
            connection.run("UPDATE serve_events SET data = '[' WHERE run = 'torn' AND seq = 1"),
            connection.run("INSERT INTO serve_events (run, seq, last, data) VALUES ('no', 1, 1, '[]')"),
        ]
    )  # fmt: skip
    log.close()

    answer = foldline("verify", "--log", place)

    assert answer.returncode == 1
    assert "events of no run: no" in answer.stdout
    assert "run gap (success): after event 0 comes 4" in answer.stdout
    assert "run short (success): it has 4 events, and its record says 9" in answer.stdout
    assert "run torn (success): event 1 is not JSON" in answer.stdout
    assert "fine" not in answer.stdout


def test_S44_verify_finds_a_damaged_file(tmp_path):
    path = tmp_path / "runs.db"
    log = ServerLog(str(path))
    for number in range(40):
        write_run(log, f"run-{number}", size=60)
    log.close()
    vacuum(str(path))
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 6000] = b"\xff" * 6000
    path.write_bytes(data)

    answer = foldline("verify", "--log", str(path))

    assert answer.returncode != 0
    assert (
        "damaged" in answer.stdout + answer.stderr or "malformed" in answer.stdout + answer.stderr
    )


@pytest.mark.slow
def test_S44_vacuum_gives_the_space_of_deleted_runs_back(place):
    log = ServerLog(place)
    for number in range(100):
        write_run(log, f"run-{number}", size=200)
    for number in range(99):
        log.delete_run(f"run-{number}")
    log.close()
    before = read_status(place).size or 0

    answer = foldline("vacuum", "--log", place)

    assert answer.returncode == 0, answer.stderr
    after = read_status(place).size or 0
    if "://" not in place:
        assert after < before / 2
    else:  # the space is used again; the tables stay as large
        with psycopg.connect(place) as connection:
            vacuumed = "SELECT last_vacuum FROM pg_stat_user_tables WHERE relname = 'serve_events'"
            assert connection.execute(vacuumed).fetchone() != (None,)
    assert read_status(place).runs == {"success": 1}


def test_S44_a_backup_does_not_write_over_a_file_and_refuses_what_is_no_log(tmp_path, postgres_url):
    ServerLog(str(tmp_path / "runs.db")).close()
    (tmp_path / "there").write_text("mine")
    (tmp_path / "no.db").write_text("not a database at all, but a text of some length" * 50)

    with pytest.raises(UsageError, match="exists"):
        back_up(str(tmp_path / "runs.db"), tmp_path / "there")
    with pytest.raises(UsageError, match="pg_dump"):
        back_up(postgres_url, tmp_path / "new")
    with pytest.raises(UsageError, match="exists"):
        back_up(str(tmp_path / "runs.db"), tmp_path)
    with pytest.raises(UsageError, match="there is no folder"):
        back_up(str(tmp_path / "runs.db"), tmp_path / "nowhere" / "new")
    for name in ("no.db", "nothing.db"):
        with pytest.raises(StoreError, match="is no run log"):
            back_up(str(tmp_path / name), tmp_path / "new")
    assert (tmp_path / "there").read_text() == "mine"
    assert not (tmp_path / "new").exists()
    assert list(tmp_path.glob("*.part")) == []


def test_S44_the_copy_is_for_its_owner_alone(tmp_path):
    ServerLog(str(tmp_path / "runs.db")).close()

    back_up(str(tmp_path / "runs.db"), tmp_path / "copy.db")

    assert (tmp_path / "copy.db").stat().st_mode & 0o077 == 0
