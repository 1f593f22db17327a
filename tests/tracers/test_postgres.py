"""PostgreSQL only: URLs with passwords, many machines, servers that are down, read-only roles."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from foldline import tracing
from foldline._cli.app import app as command_line
from foldline.exceptions import StoreError, UsageError
from foldline.runnables import RunnableLambda
from foldline.tracers import PostgresTracer, SQLiteTracer, TraceStore
from foldline.tracers._text_index import write_lexemes
from foldline.tracers.store import TraceFilters
from foldline.utils._data_places import place_name
from tests.servers.databases import Server, _accepts, postgres_server, postgres_url, wait_until
from tests.tracers.test_version2 import PROGRAM, ask

__all__ = ["postgres_server", "postgres_url"]

INC = RunnableLambda(lambda x: x + 1, name="inc")
CHAIN = INC | RunnableLambda(lambda x: x * 2, name="twice")


@pytest.mark.slow
def test_a_trace_comes_back_as_a_tree(call: Any, postgres_url: str, no_leaks: Any):
    with PostgresTracer(postgres_url) as tracer:
        assert call.invoke(CHAIN, 1, {"callbacks": [tracer], "tags": ["demo"]}) == 4
    store = TraceStore(postgres_url)
    [root] = store.recent()
    tree = store.trace(root.id)
    store.close()

    assert (tree.inputs, tree.outputs) == ({"input": 1}, {"output": 4})
    assert [run.name for run in tree.child_runs] == ["inc", "twice"]
    assert "demo" in tree.tags
    assert tree.start_time <= tree.child_runs[0].start_time < tree.end_time


def test_what_postgres_cannot_hold_costs_no_row(postgres_url: str):
    with PostgresTracer(postgres_url) as tracer:
        step = RunnableLambda(lambda x: x, name="a\0b")
        step.invoke({"question": "nul \0 and half \ud83d a character"}, {"callbacks": [tracer]})
        step.invoke("word " * 30_000 + "x" * 300_000, {"callbacks": [tracer]})
    store = TraceStore(postgres_url)
    _, run = store.recent()

    assert tracer.dropped == 0
    assert run.inputs == {"question": "nul \0 and half \ud83d a character"}
    assert run.question == "nul \ufffd and half \\ud83d a character"
    assert store.count(TraceFilters(text="word")) == 1


@pytest.mark.parametrize(
    ("text", "lexemes"),
    [
        ("The sky, the SKY", "'the':1,3 'sky':2,4"),
        ("naïve Größe", "'naive':1 'große':2"),
        ("don't \\ 'quote' -- a_b", "'don':1 't':2 'quote':3 'a':4 'b':5"),
        ("", ""),
    ],
)
def test_words_as_postgres_reads_them(text: str, lexemes: str):
    assert write_lexemes(text) == lexemes


def test_programs_on_many_machines_write_at_once(postgres_url: str):
    def write(number: int) -> None:
        with PostgresTracer(postgres_url) as tracer:
            for count in range(25):
                CHAIN.invoke(number * 100 + count, {"callbacks": [tracer]})
            counts.append(tracer.dropped)

    counts: list[int] = []
    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert counts == [0] * 4
    assert TraceStore(postgres_url).count() == 100


def test_a_variable_traces_into_a_database(postgres_url: str):
    env = {**os.environ, "FOLDLINE_TRACES": postgres_url}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True
    )

    assert (result.stdout, result.stderr) == ("2\n", "")
    assert [run.name for run in TraceStore(postgres_url).recent()] == ["add"]


def test_tracing_is_enabled_with_a_url(postgres_url: str):
    tracer = tracing.enable(postgres_url)
    assert tracing.enable(postgres_url) is tracer
    INC.invoke(1)
    tracing.disable()

    assert isinstance(tracer, PostgresTracer)
    assert TraceStore(postgres_url).count() == 1
    assert tracing.prune(max_age=0, path=postgres_url) == 1
    assert TraceStore(postgres_url).count() == 0


def test_the_command_line_reads_a_database(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
):
    ask(postgres_url, "Why is the sky blue?", "Light is scattered.")
    for arguments in (["--file", postgres_url], []):
        monkeypatch.setenv("FOLDLINE_TRACES", postgres_url if not arguments else "0")
        command_line(["traces", *arguments], standalone_mode=False)
        assert "Light is scattered." in capsys.readouterr().out


GONE = "postgresql://ada:top-secret-word@127.0.0.1:9/traces?password=another-secret"


def test_a_database_that_is_not_there_is_an_error_without_its_password(tmp_path: Path):
    with pytest.raises(
        StoreError, match=r"postgresql://ada@127\.0\.0\.1:9/traces: .*refused"
    ) as excinfo:
        PostgresTracer(GONE)
    env = {**os.environ, "FOLDLINE_TRACES": GONE}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True
    )

    assert result.stdout == "2\n"
    assert "FOLDLINE_TRACES is set, but no run is traced" in result.stderr
    text = f"{excinfo.value} {TraceStore(GONE)!r} {result.stderr} {place_name(GONE)}"
    assert "secret" not in text
    with pytest.raises(UsageError, match=r"PostgresTracer\('postgresql://ada@127"):
        SQLiteTracer(GONE)
    with pytest.raises(UsageError, match="takes a URL"):
        PostgresTracer(str(tmp_path / "traces.db"))


def test_a_server_that_stops_costs_rows_and_not_the_run(
    postgres_server: Server, postgres_url: str, caplog: pytest.LogCaptureFixture
):
    tracer = PostgresTracer(postgres_url)
    CHAIN.invoke(1, {"callbacks": [tracer]})
    tracer.flush()
    postgres_server.stop()
    try:
        with caplog.at_level(logging.WARNING, "foldline.tracers"):
            assert CHAIN.invoke(2, {"callbacks": [tracer]}) == 6
            tracer.flush()
    finally:
        postgres_server.start()
        wait_until(lambda: _accepts(postgres_server.url), "postgres")
    assert tracer.dropped == 3
    assert "were not written" in caplog.text
    CHAIN.invoke(3, {"callbacks": [tracer]})
    tracer.close()

    assert [run.outputs for run in TraceStore(postgres_url).recent()] == [
        {"output": 8},
        {"output": 4},
    ]


def test_a_newer_schema_is_refused(postgres_url: str):
    PostgresTracer(postgres_url).close()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE foldline_schema SET version = 99 WHERE kind = 'traces'")

    with pytest.raises(StoreError, match=r"version 99 .* upgrade foldline"):
        TraceStore(postgres_url).recent()


def test_a_role_that_may_only_read_reads_and_searches(postgres_url: str):
    ask(postgres_url, "Why is the sky blue?", "Light is scattered.")
    with psycopg.connect(postgres_url) as connection:
        connection.execute(
            "DO $$ BEGIN CREATE ROLE reader LOGIN; EXCEPTION WHEN OTHERS THEN END $$"
        )
        connection.execute("GRANT USAGE ON SCHEMA public TO reader")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
        connection.execute("INSERT INTO foldline_unindexed_runs SELECT 1")
    store = TraceStore(postgres_url.replace("foldline@", "reader@"))

    assert [trace.question for trace in store.find()] == ["Why is the sky blue?"]
    assert store.count(TraceFilters(text="scattered")) == 1
    with pytest.raises(StoreError, match="permission denied"):
        store.delete(before=time.time())


@pytest.mark.slow
def test_a_forked_child_writes_on_a_connection_of_its_own(postgres_url: str):
    program = (
        "import os, sys\n"
        "from foldline.runnables import RunnableLambda\n"
        "from foldline.tracers import PostgresTracer\n"
        "step = RunnableLambda(lambda x: x)\n"
        "tracer = PostgresTracer(sys.argv[1])\n"
        "step.invoke('parent', {'callbacks': [tracer]}); tracer.flush()\n"
        "child = os.fork()\n"
        "step.invoke('child' if child == 0 else 'after', {'callbacks': [tracer]}); tracer.flush()\n"
        "if child: os.waitpid(child, 0)\n"
        "else: os._exit(0)\n"
        "print(tracer.dropped)\n"
    )
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, postgres_url],
        capture_output=True,
        text=True,
    )

    assert (result.stdout, result.stderr) == ("0\n", "")
    questions = {run.inputs["input"] for run in TraceStore(postgres_url).recent()}
    assert questions == {"parent", "child", "after"}
