"""The upkeep of a run log: versions and sizes, a backup while it is in use, a check, and space that is given back."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from foldline._storage.database import Connection, Database
from foldline._storage.open_database import open_database
from foldline._storage.postgres import PostgresServer
from foldline._storage.postgres_database import stored_version
from foldline._storage.schema import Schema
from foldline._storage.sqlite import create_privately
from foldline.exceptions import StoreError, UsageError
from foldline.serve._log.schema import SCHEMA
from foldline.utils._data_places import is_url, place_name

__all__ = ["LogStatus", "back_up", "check_log", "read_status", "stored_versions", "vacuum"]

PAGES: Final = 1024
"""Pages of a SQLite file that are copied at a time: writers go on in between."""
COUNT: Final = "SELECT status, count(*) FROM serve_runs GROUP BY status ORDER BY status"
BOUNDS: Final = "SELECT min(created), max(created) FROM serve_runs"
RUNS: Final = "SELECT id, status, last_seq FROM serve_runs ORDER BY id"
EVENTS: Final = "SELECT seq, last, data FROM serve_events WHERE run = ? ORDER BY seq"
ORPHANS: Final = (
    "SELECT DISTINCT run FROM serve_events WHERE run NOT IN (SELECT id FROM serve_runs) LIMIT 20"
)
POSTGRES_SIZE: Final = (
    "SELECT coalesce(sum(pg_total_relation_size(relid)), 0) FROM pg_stat_user_tables "
    "WHERE relname LIKE 'serve_%'"
)
MOST_PROBLEMS: Final = 20


@dataclass(frozen=True, slots=True)
class LogStatus:
    """What is in a log."""

    where: str
    versions: dict[str, tuple[int, int]]
    """Per kind of tables: the version in the log, 0 if there is none, and the newest."""
    size: int | None = None
    """Bytes; None if the tables are not of this version."""
    runs: dict[str, int] | None = None
    """Runs by status."""
    first: float | None = None
    last: float | None = None

    @property
    def is_current(self) -> bool:
        """Whether the tables are of this version."""
        return all(stored == newest for stored, newest in self.versions.values())


def _schemas(schema: Schema = SCHEMA) -> Iterator[Schema]:
    yield schema
    for needed in schema.needs:
        yield from _schemas(needed)


def stored_versions(place: str) -> dict[str, tuple[int, int]]:
    """Return the versions of a log's tables and the newest ones; nothing is changed."""
    schemas = {schema.kind: schema for schema in _schemas()}
    if is_url(place):
        server = PostgresServer(place)
        try:
            return {
                kind: (stored_version(server, schema), schema.version)
                for kind, schema in schemas.items()
            }
        finally:
            server.close()
    with _open_to_read(place) as connection:
        try:
            rows = dict(connection.execute("SELECT kind, version FROM foldline_schema"))
        except sqlite3.OperationalError:
            rows = {}
        except sqlite3.DatabaseError as error:
            raise _no_log(place, error) from error
    return {kind: (int(rows.get(kind, 0)), schema.version) for kind, schema in schemas.items()}


def _open_to_read(place: str) -> closing[sqlite3.Connection]:
    try:
        uri = f"{Path(place).resolve().as_uri()}?mode=ro"
        return closing(sqlite3.connect(uri, uri=True, timeout=30))
    except sqlite3.Error as error:
        raise _no_log(place, error) from error


def _no_log(place: str, error: Exception) -> StoreError:
    return StoreError(f"{place_name(place)} is no run log: {error}; name one with --log")


def read_status(place: str) -> LogStatus:
    """Return what is in a log; nothing is changed."""
    versions = stored_versions(place)
    status = LogStatus(place_name(place), versions)
    if not status.is_current:
        return status
    database = open_database(place, SCHEMA)
    try:
        first, last = database.rows(BOUNDS)[0]
        counts = {str(name): int(count) for name, count in database.rows(COUNT)}
        return LogStatus(status.where, versions, _size(database, place), counts, first, last)
    finally:
        database.close()


def _size(database: Database, place: str) -> int:
    if database.dialect == "postgres":
        return int(database.rows(POSTGRES_SIZE)[0][0])
    files = (Path(f"{place}{end}") for end in ("", "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def back_up(place: str, target: Path) -> int:
    """Copy a SQLite log while servers write to it; return its size. All of the copy is of one moment."""
    if is_url(place):
        raise UsageError(
            "a log in PostgreSQL is backed up with pg_dump, or continuously with its write-ahead log: see "
            "docs/serve-deployment.md"
        )
    if target.exists():
        raise UsageError(f"{target} exists: name a new file")
    if not target.parent.is_dir():
        raise UsageError(
            f"{target}: there is no folder {target.parent}: make it, or name a file in another one"
        )
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    create_privately(part)
    try:
        with _open_to_read(place) as source, closing(sqlite3.connect(part)) as copy:
            source.backup(copy, pages=PAGES)
            problems = [str(row[0]) for row in copy.execute("PRAGMA integrity_check")]
            if problems != ["ok"]:
                raise StoreError(f"the copy of {place_name(place)} is damaged: {problems[0]}")
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        part.replace(target)
    except sqlite3.Error as error:
        raise _no_log(place, error) from error
    finally:
        part.unlink(missing_ok=True)
    return target.stat().st_size


def check_log(place: str) -> list[str]:
    """Return what is wrong with a log: damage of the file, runs with gaps, events of no run."""
    database = open_database(place, SCHEMA)
    try:
        problems = [] if database.dialect == "postgres" else _damage(database)
        return problems or database.read(_gaps)
    finally:
        database.close()


def _damage(database: Database) -> list[str]:
    found = [str(row[0]) for row in database.rows("PRAGMA integrity_check")]
    return [] if found == ["ok"] else [f"the file is damaged: {text}" for text in found]


def _gaps(connection: Connection) -> list[str]:
    problems = [f"events of no run: {run}" for (run,) in connection.rows(ORPHANS)]
    for page in connection.pages(RUNS):
        for id, status, last_seq in page:
            problem = _gap_of(connection, id, last_seq)
            if problem is not None:
                problems.append(f"run {id} ({status}): {problem}")
            if len(problems) >= MOST_PROBLEMS:
                return problems
    return problems


def _gap_of(connection: Connection, id: str, last_seq: int) -> str | None:
    place = 0
    for seq, last, data in connection.rows(EVENTS, (id,)):
        if seq != place + 1:
            return f"after event {place} comes {seq}"
        try:
            events = json.loads(data)
        except ValueError:
            return f"event {seq} is not JSON"
        if len(events) != last - seq + 1:
            return f"events {seq} to {last} are {len(events)}"
        place = last
    return None if place == last_seq else f"it has {place} events, and its record says {last_seq}"


def vacuum(place: str) -> None:
    """Give the space of deleted runs back to the disk."""
    database = open_database(place, SCHEMA)
    try:
        if database.dialect == "postgres":
            database.maintain(*(f"VACUUM (ANALYZE) {table}" for table in SCHEMA.tables))
        else:
            database.maintain("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        database.close()
