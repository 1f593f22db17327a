"""Logs that older versions wrote, with runs of every status, keys, spending and threads: each opens and is migrated."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from foldline.serve._keys import KeyStore
from foldline.serve._log.run_log import ServerLog
from foldline.serve._log.upkeep import check_log, read_status
from tests.serve.kept_logs import BUDGET, FOLDER, write_logs
from tests.servers.databases import postgres_server, postgres_url, wait_until

__all__ = ["postgres_server", "postgres_url"]

STATUSES = {
    "success": "success",
    "error": "error",
    "waiting": "waiting",
    "answered": "waiting",
    "resumed": "success",
    "stopped": "stopped",
    "interrupted": "interrupted",
    "running": "interrupted",
    "queued": "interrupted",
}
"""The name of a run -> its status after the log was opened: the workers of that version are dead."""
KEPT = sorted({path.name.split(".sqlite.")[0] for path in FOLDER.glob("*.sqlite.sql")})


def restore(dump: Path, place: str) -> None:
    if "://" in place:
        with psycopg.connect(place, autocommit=True) as connection:
            connection.execute(dump.read_text())  # type: ignore[arg-type]
        return
    with closing(sqlite3.connect(place)) as connection:
        connection.executescript(dump.read_text())


def check(folder: Path, name: str, kind: str, place: str) -> set[str]:
    """Open the log of a version, look at all that is in it, and return the names of its runs."""
    facts: Any = json.loads((folder / f"{name}.{kind}.json").read_text())
    runs: dict[str, str] = facts["runs"]
    restore(folder / f"{name}.{kind}.sql", place)
    log = ServerLog(place)
    try:
        wait_until(lambda: not log.mark_interrupted() and is_left(log, runs["running"]), "deaths")
        found = {each: log.run(id) for each, id in runs.items()}
        assert {each: run.status for each, run in found.items() if run} == {
            each: STATUSES[each] for each in runs
        }
        for each, run in found.items():
            assert run is not None
            numbers = [number for number, _ in log.events(run.id, 0, limit=10_000)]
            assert numbers == list(range(1, run.last_seq + 1))
            assert numbers or each == "queued"
        check_accounts(log, facts["keys"])
        ada = KeyStore(log.database).find(facts["keys"]["ada"])
        assert ada is not None
        thread = log.thread(ada.id, "t-named")
        assert thread is not None
        assert thread.metadata == {"of": "ada"}
    finally:
        log.close()
    assert read_status(place).is_current
    assert check_log(place) == []
    return set(runs)


def is_left(log: ServerLog, run: str) -> bool:
    """Whether a run is known to have lost its worker."""
    found = log.run(run)
    return found is not None and found.is_over


def check_accounts(log: ServerLog, texts: dict[str, str]) -> None:
    keys = {name: KeyStore(log.database).find(text) for name, text in texts.items()}
    assert all(key is not None and key.name == name for name, key in keys.items())
    ada, bob = keys["ada"], keys["bob"]
    assert ada is not None
    assert bob is not None
    assert (ada.budget, ada.rpm, ada.tpm) == (BUDGET, 1_000, 1_000_000)
    assert bob.budget is None
    statement = "SELECT kind, SUM(amount) FROM serve_spending WHERE owner = ? GROUP BY kind"
    spent = {str(kind): float(amount) for kind, amount in log.database.rows(statement, (ada.id,))}  # type: ignore[arg-type]
    assert spent["tokens"] > 0
    assert 0 < spent["cost"] < BUDGET
    assert log.database.rows("SELECT * FROM serve_holds") == []


def place_of(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if kind == "sqlite":
        return str(tmp_path / "old.db")
    return str(request.getfixturevalue("postgres_url"))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("name", KEPT)
def test_S45_the_log_of_an_older_version_opens_with_all_that_is_in_it(
    name: str, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    runs = check(FOLDER, name, kind, place_of(kind, tmp_path, request))

    assert runs >= STATUSES.keys() - {"queued"}  # the first version had none


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_S45_the_logs_of_this_version_can_be_kept(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    write_logs("now", tmp_path / "logs", None)

    for kind in ("sqlite", "postgres"):
        place = place_of(kind, tmp_path, request)
        assert check(tmp_path / "logs", "now", kind, place) == STATUSES.keys()


def test_S45_a_release_keeps_its_logs() -> None:
    script = (Path(__file__).parents[2] / "scripts" / "release").read_text(encoding="utf-8")

    assert '-m tests.serve.kept_logs "$version"' in script
    assert script.index("tests.serve.kept_logs") < script.index("git tag --annotate")
