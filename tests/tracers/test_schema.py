"""Traces of older versions, in files and in PostgreSQL: they open with everything in them; tables of others stay."""

from __future__ import annotations

import json
import logging
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from foldline.exceptions import StoreError
from foldline.runnables import RunnableLambda
from foldline.tracers import TraceStore, _schema
from foldline.tracers._open import open_tracer
from foldline.tracers._schema import NEW_NAMES, SCHEMA
from foldline.tracers.store import TraceFilters
from foldline.utils._data_places import TracePlace, is_url
from tests.servers.databases import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

DATA = Path(__file__).parent / "data"
ECHO = RunnableLambda(lambda x: x, name="echo")
Run = Callable[..., Any]


@contextmanager
def raw(place: TracePlace) -> Iterator[Run]:
    """Yield what runs a statement in a place, as any other program would."""
    if is_url(place):
        with psycopg.connect(str(place), autocommit=True) as connection:
            yield connection.execute
    else:
        with closing(sqlite3.connect(place, isolation_level=None)) as connection:
            yield connection.execute


def rows(place: TracePlace, statement: str) -> list[tuple[Any, ...]]:
    with raw(place) as run:
        found: list[tuple[Any, ...]] = run(statement).fetchall()
        return found


def restore(name: str, place: TracePlace) -> None:
    text = (DATA / f"{name}.sql").read_text(encoding="utf-8")
    if is_url(place):
        with psycopg.connect(str(place), autocommit=True) as connection:
            connection.execute(text)  # type: ignore[arg-type]
    else:
        with closing(sqlite3.connect(place)) as connection:
            connection.executescript(text)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> TracePlace:
    if request.param == "sqlite":
        return tmp_path / "traces.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(params=["version2", "version3"])
def old(request: pytest.FixtureRequest, place: TracePlace) -> TracePlace:
    """Traces of a version that both databases have."""
    restore(f"{request.param}-postgres" if is_url(place) else request.param, place)
    return place


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A file of version 1."""
    restore("version1", tmp_path / "traces.db")
    return tmp_path / "traces.db"


def columns(place: TracePlace, table: str) -> list[str]:
    if is_url(place):
        schema, _, name = table.rpartition(".")
        query = (
            "SELECT column_name FROM information_schema.columns "
            f"WHERE table_schema = '{schema or 'public'}' AND table_name = '{name}'"
        )
        return [row[0] for row in rows(place, query)]
    return [row[1] for row in rows(place, f"PRAGMA table_info({table})")]


def names(place: TracePlace) -> set[str]:
    """Return the names of tables, indexes and sequences."""
    query = "SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
    if is_url(place):
        query = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    return {row[0] for row in rows(place, query)}


# -- everything is kept


def test_an_older_version_is_brought_along_without_loss(old: TracePlace):
    schema = "foldline_traces." if is_url(old) else ""
    before = {}
    for table in NEW_NAMES:
        shown = columns(old, f"{schema}{table}")
        is_text = table == "words" and not is_url(old)  # FTS5 keeps no texts of its own
        if shown and not is_text:
            selected = ", ".join(shown)
            before[table] = (
                selected,
                sorted(rows(old, f"SELECT {selected} FROM {schema}{table}"), key=repr),
            )
    TraceStore(old).count()

    assert len(before) >= 6
    assert len(before["runs"][1]) >= 4
    for table, (selected, kept) in before.items():
        found = rows(old, f"SELECT {selected} FROM {NEW_NAMES[table]}")
        assert sorted(found, key=repr) == kept


def test_what_an_older_version_wrote_is_listed_searched_and_written_on(old: TracePlace):
    store = TraceStore(old)
    [root] = store.find(TraceFilters(text="scattered"))
    [scored] = [trace for trace in store.find() if trace.scores]

    assert root.question == "Why is the sky blue?"
    assert (scored.status, scored.scores) == ("failed", {"helpful": 1.0})
    assert (root.status, root.thread_id, root.user_id) == ("done", "t-1", "ada")
    tree = store.trace(root.id)
    assert tree is not None
    assert len(tree.child_runs) >= 2
    assert [run.name for run in store.by_tag("seq:step:1")] == [tree.child_runs[0].name]
    assert store.losses() == []
    with open_tracer(old) as tracer:
        ECHO.invoke("plum", {"callbacks": [tracer], "configurable": {"thread_id": "new"}})
    assert store.recent(1)[0].thread_id == "new"
    assert [trace.name for trace in store.find(TraceFilters(text="plum"))] == ["echo"]


def test_an_older_version_gets_the_schema_of_a_new_one(old: TracePlace, tmp_path: Path):
    new: TracePlace = tmp_path / "new.db"
    if is_url(old):
        new = f"{old}_new"
        with raw(old) as run:
            run(f"CREATE DATABASE {new.rpartition('/')[2]}")
    for each in (old, new):
        TraceStore(each).count()

    assert names(old) == names(new)
    assert not names(old) & set(NEW_NAMES)
    for table in NEW_NAMES.values():
        assert set(columns(old, table)) == set(columns(new, table))
    assert rows(old, "SELECT * FROM foldline_schema") == [("traces", SCHEMA.version)]


def test_many_that_open_an_older_version_at_once_find_everything(old: TracePlace):
    with ThreadPoolExecutor(6) as pool:
        counts = list(
            pool.map(lambda _: TraceStore(old).count(TraceFilters(text="scattered")), range(6))
        )

    assert counts == [1] * 6


def test_everything_of_an_older_version_can_be_deleted(old: TracePlace):
    store = TraceStore(old)
    store.count(TraceFilters(text="scattered"))  # indexes what is not indexed yet
    store.prune(max_age=-1)

    for table in NEW_NAMES.values():
        if is_url(old) or table != "foldline_run_words":
            expected = [(0,)] if table != "foldline_indexed_to" else [(1,)]
            assert rows(old, f"SELECT count(*) FROM {table}") == expected
    assert store.count(TraceFilters(text="scattered")) == 0


# -- version 1, which only files have


def test_a_file_of_version_1_is_brought_along_without_loss(first: Path):
    query = (
        "SELECT id, name, run_type, start_time, end_time, inputs, outputs, serialized, extra, tags, "
        "error FROM runs"
    )
    kept = {row[0]: row[1:] for row in rows(first, query)}
    store = TraceStore(first)

    failed, root = store.recent()
    tree: Any = store.trace(root.id)

    assert failed.error_class == "ValueError"
    assert "no such thing: größe" in str(failed.error)
    runs = [tree, *tree.child_runs, failed]
    assert {str(run.id) for run in runs} == set(kept)
    for run in runs:
        name, kind, start, end, inputs, outputs, form, extra, tags, error = kept[str(run.id)]
        assert (run.name, run.run_type, run.error) == (name, kind, error)
        assert (run.start_time.timestamp(), run.end_time.timestamp()) == (start, end)
        assert run.inputs == json.loads(inputs)
        assert run.outputs == (None if outputs is None else json.loads(outputs))
        assert run.serialized == (None if form is None else json.loads(form))
        assert run.extra == json.loads(extra)
        assert run.tags == json.loads(tags)
    model = tree.child_runs[1]
    assert (model.provider, model.model) == ("openai", "gpt-4o-mini")
    assert model.cost is not None
    assert (tree.thread_id, tree.user_id) == ("t-1", "ada")
    assert (tree.question, tree.answer) == ("Why is the sky blue?", "Blue light is scattered more.")
    assert [trace.id for trace in store.find(TraceFilters(text="scattered"))] == [str(root.id)]
    assert [run.name for run in store.by_tag("seq:step:2")] == [model.name]


def test_a_file_of_version_1_gets_the_schema_of_a_new_one_and_is_written_on(
    first: Path, tmp_path: Path
):
    TraceStore(tmp_path / "new.db").count()
    with open_tracer(first) as tracer:
        ECHO.invoke("and red?", {"callbacks": [tracer]})

    assert [run.name for run in TraceStore(first).recent(1)] == ["echo"]
    assert len(TraceStore(first).recent()) == 3
    assert names(first) == names(tmp_path / "new.db")


def test_a_migration_that_fails_leaves_the_file_as_it_was(
    first: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise RuntimeError("killed")

    before = names(first)
    with monkeypatch.context() as patch:
        patch.setattr(_schema, "_row_from_version_1", fail)
        with pytest.raises(RuntimeError, match="killed"):
            TraceStore(first).recent()

    assert names(first) == before
    assert len(TraceStore(first).recent()) == 2


# -- all or nothing


KILLED = """
import os, signal, sys
from foldline.tracers import TraceStore, _schema

run_script = _schema.run_script

def kill(connection, script):
    run_script(connection, script)
    if "foldline_runs_by_trace" in script:
        os.kill(os.getpid(), signal.SIGKILL)

_schema.run_script = kill
TraceStore(sys.argv[1]).count()
"""


@pytest.mark.parametrize("name", ["version1", "version2", "version3"])
def test_a_migration_that_is_killed_leaves_the_old_file(name: str, tmp_path: Path):
    path = tmp_path / "traces.db"
    restore(name, path)
    before = names(path), rows(path, "SELECT * FROM runs")
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)

    assert ended.returncode == -signal.SIGKILL
    assert (names(path), rows(path, "SELECT * FROM runs")) == before
    assert TraceStore(path).count() >= 2


def test_a_table_in_the_way_of_a_migration_is_an_error_and_nothing_is_changed(old: TracePlace):
    schema = "foldline_traces." if is_url(old) else ""
    with raw(old) as run:
        run("CREATE TABLE foldline_run_scores (mine TEXT)")
        run("INSERT INTO foldline_run_scores VALUES ('own')")
    before = names(old), rows(old, f"SELECT id FROM {schema}runs")

    with pytest.raises(StoreError, match="foldline_run_scores"):
        TraceStore(old).count()

    assert (names(old), rows(old, f"SELECT id FROM {schema}runs")) == before
    assert rows(old, "SELECT * FROM foldline_run_scores") == [("own",)]
    with raw(old) as run:
        run("DROP TABLE foldline_run_scores")
    assert TraceStore(old).count(TraceFilters(text="scattered")) == 1


# -- newer versions, and programs that have the place open meanwhile


def test_a_newer_version_is_refused(place: TracePlace):
    TraceStore(place).count()
    with raw(place) as run:
        run("UPDATE foldline_schema SET version = 99 WHERE kind = 'traces'")

    for use in (lambda: TraceStore(place).count(), lambda: open_tracer(place)):
        with pytest.raises(StoreError, match="version 99 of 'traces', this one knows version 4"):
            use()


def test_a_program_that_has_the_traces_open_gets_both_versions_after_an_upgrade(
    place: TracePlace, caplog: pytest.LogCaptureFixture
):
    store = TraceStore(place)
    with open_tracer(place) as tracer:
        ECHO.invoke(1, {"callbacks": [tracer]})
        tracer.flush()
        assert store.count() == 1
        with raw(place) as run:
            run("ALTER TABLE foldline_run_tags RENAME TO foldline_tags_of_runs")
            run("UPDATE foldline_schema SET version = 5 WHERE kind = 'traces'")

        with pytest.raises(StoreError, match="version 5 of 'traces', this one knows version 4"):
            store.by_tag("t")
        with caplog.at_level(logging.WARNING, "foldline.tracers"):
            ECHO.invoke(2, {"callbacks": [tracer], "tags": ["t"]})
            tracer.flush()

    assert tracer.dropped == 1
    assert "version 5" in caplog.text
    assert rows(place, "SELECT count(*) FROM foldline_runs") == [(1,)]


def test_an_older_foldline_finds_the_version_of_moved_tables_where_it_looks(postgres_url: str):
    restore("version2-postgres", postgres_url)
    TraceStore(postgres_url).count()

    assert rows(postgres_url, "SELECT version FROM foldline_traces.foldline_schema") == [(4,)]
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'foldline_traces'"
    assert rows(postgres_url, tables) == [("foldline_schema",)]


def test_tables_of_another_schema_are_not_taken_for_ours(postgres_url: str):
    restore("version2-postgres", postgres_url)
    TraceStore(postgres_url).count()
    with raw(postgres_url) as run:
        run("CREATE SCHEMA other")
    other = TraceStore(f"{postgres_url}?options=-csearch_path%3Dother")

    assert not other.exists()
    assert other.count() == 0
    assert TraceStore(postgres_url).count() > 0


def test_a_place_without_traces_does_not_exist_and_stays_empty(place: TracePlace):
    assert not TraceStore(place).exists()

    if is_url(place):
        assert names(place) == set()
    else:
        assert not Path(place).exists()
    TraceStore(place).count()
    assert TraceStore(place).exists()


def test_traces_of_an_older_version_exist(old: TracePlace):
    assert TraceStore(old).exists()


# -- a program's own tables


def test_a_programs_own_tables_with_the_old_names_are_left_alone(place: TracePlace):
    with raw(place) as run:
        for table in NEW_NAMES:
            run(f"CREATE TABLE {table} (mine TEXT)")
            run(f"INSERT INTO {table} VALUES ('own')")
        for index in _schema.OLD_INDEXES:
            run(f"CREATE INDEX {index} ON runs (mine)")
    with open_tracer(place) as tracer:
        ECHO.invoke("plum", {"callbacks": [tracer], "tags": ["t"]})
    store = TraceStore(place)
    assert store.count(TraceFilters(text="plum")) == 1
    store.add_score(store.recent()[0].id, "good", 1)
    store.prune(max_age=-1)

    for table in NEW_NAMES:
        assert rows(place, f"SELECT * FROM {table}") == [("own",)]
    assert set(_schema.OLD_INDEXES) < names(place)


def test_a_programs_own_tables_made_after_the_upgrade_are_left_alone(old: TracePlace):
    TraceStore(old).count()
    with raw(old) as run:
        for table in NEW_NAMES:
            run(f"CREATE TABLE {table} (mine TEXT)")
            run(f"INSERT INTO {table} VALUES ('own')")

    assert TraceStore(old).count(TraceFilters(text="scattered")) == 1
    TraceStore(old).prune(max_age=-1)
    for table in NEW_NAMES:
        assert rows(old, f"SELECT * FROM {table}") == [("own",)]


def test_a_programs_own_tables_in_the_schema_to_which_ours_move_are_left_alone(postgres_url: str):
    restore("version2-postgres", postgres_url)
    with raw(postgres_url) as run:
        for table in NEW_NAMES:
            run(f"CREATE TABLE {table} (mine TEXT)")
            run(f"INSERT INTO {table} VALUES ('own')")
        for index in (*_schema.OLD_INDEXES, "words_by_lexeme"):
            run(f"CREATE INDEX {index} ON runs (mine)")

    assert TraceStore(postgres_url).count(TraceFilters(text="scattered")) == 1
    for table in NEW_NAMES:
        assert rows(postgres_url, f"SELECT * FROM public.{table}") == [("own",)]
