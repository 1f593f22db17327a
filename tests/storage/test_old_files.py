"""Files and databases that foldline wrote before its tables had a prefix: each opens, and has all its data.

`data/*.sql` are dumps of what that version wrote, one per kind of store, and one of PostgreSQL.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from foldline import tracing
from foldline._storage import forget
from foldline._storage.workers import SCHEMA as WORKER_SCHEMA
from foldline.agents import create_agent
from foldline.batches import BatchJob
from foldline.caches import SQLiteCache
from foldline.chat_history import PostgresChatMessageHistory, SQLiteChatMessageHistory
from foldline.chat_history._table import SCHEMA as HISTORY_SCHEMA
from foldline.checkpoint._stored import SCHEMA as CHECKPOINT_SCHEMA, SNAPSHOTS as SNAPSHOT_SCHEMA
from foldline.checkpoint.base import BaseCheckpointSaver, Entry
from foldline.checkpoint.postgres import PostgresSaver
from foldline.checkpoint.sqlite import SqliteSaver
from foldline.embeddings import DeterministicFakeEmbedding
from foldline.exceptions import StoreError, UsageError
from foldline.graph.cache import SqliteCache
from foldline.graph.store.postgres import PostgresStore
from foldline.graph.store.sqlite import SqliteStore
from foldline.indexing import SQLiteRecordManager
from foldline.language_models import GenericFakeChatModel
from foldline.messages import AIMessage, HumanMessage
from foldline.outputs import Generation
from foldline.rate_limiters import SQLiteRateLimiter
from foldline.runnables import RunnableLambda
from foldline.serve._log.answers import SCHEMA as ANSWER_SCHEMA
from foldline.serve._log.events import decode_event
from foldline.serve._log.holds import SCHEMA as HOLD_SCHEMA
from foldline.serve._log.requests import SCHEMA as REQUEST_SCHEMA
from foldline.serve._log.run_log import ServerLog
from foldline.serve._log.schema import SCHEMA as SERVE_SCHEMA
from foldline.stores import SQLiteStore
from foldline.studio._datasets import DatasetRoutes
from foldline.studio.settings import StudioSettings
from foldline.tracers import TraceFilters, TraceStore
from foldline.vectorstores import PostgresVectorStore, SQLiteVectorStore

DATA = Path(__file__).parent / "data"


def restore(kind: str, folder: Path) -> Path:
    """Make a file from the dump of a kind."""
    path = folder / f"{kind}.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((DATA / f"{kind}.sql").read_text())
    return path


@pytest.fixture
def old_postgres(postgres_url: str) -> str:
    """A database with the tables of histories, checkpoints and items."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute((DATA / "postgres.sql").read_text())  # type: ignore[arg-type]
    return postgres_url


def check_histories(ada: Any, bob: Any) -> None:
    assert [message.text for message in ada.messages] == ["Hello", "Hi, Ada."]
    assert [message.text for message in bob.messages] == ["Bye"]
    ada.add_messages([HumanMessage("Again")])
    assert [message.text for message in ada.messages] == ["Hello", "Hi, Ada.", "Again"]
    names = [(session, count) for session, count, _ in ada.sessions()]
    assert names == [("ada", 3), ("bob", 1)]


def check_threads(saver: BaseCheckpointSaver) -> None:
    assert saver.read("raw", "") == [Entry("1", None, "{}"), Entry("2", "1", "{}")]
    model = GenericFakeChatModel(messages=iter([AIMessage("Still sunny.")]))
    agent = create_agent(model, [], checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "t-1"}}
    state: Any = agent.invoke({"messages": [HumanMessage("And now?")]}, config)
    texts = [message.text for message in state["messages"]]
    assert texts == ["How is the weather?", "It is sunny.", "And now?", "Still sunny."]


def test_an_old_file_of_histories_opens(tmp_path: Path):
    path = restore("history", tmp_path)
    check_histories(SQLiteChatMessageHistory("ada", path), SQLiteChatMessageHistory("bob", path))


def test_old_histories_in_postgres_open(old_postgres: str):
    check_histories(
        PostgresChatMessageHistory("ada", old_postgres),
        PostgresChatMessageHistory("bob", old_postgres),
    )


def test_an_old_file_of_checkpoints_opens_and_a_thread_goes_on(tmp_path: Path):
    check_threads(SqliteSaver(restore("checkpoints", tmp_path)))


def test_old_checkpoints_in_postgres_open_and_a_thread_goes_on(old_postgres: str):
    check_threads(PostgresSaver(old_postgres))


def test_an_old_file_of_a_cache_opens(tmp_path: Path):
    cache = SQLiteCache(restore("cache", tmp_path))
    assert cache.lookup("prompt", "model") == [Generation(text="kept")]
    cache.close()


def test_an_old_file_of_a_store_opens(tmp_path: Path):
    store = SQLiteStore(restore("store", tmp_path))
    assert store.mget(["a", "b/c", "none"]) == [b"1", b"\x00\xff", None]
    store.close()


def test_an_old_file_of_an_index_opens(tmp_path: Path):
    records = SQLiteRecordManager("docs", restore("index", tmp_path))
    assert records.exists(["one", "two", "three"]) == [True, True, False]
    assert sorted(records.list_keys(group_ids=["g"])) == ["one", "two"]
    records.close()


def test_an_old_file_of_items_opens(tmp_path: Path):
    store = SqliteStore(restore("items", tmp_path))
    item = store.get(("users", "ada"), "likes")
    assert item is not None
    assert item.value == {"food": "plums"}
    store.close()


def test_old_items_in_postgres_open(old_postgres: str):
    store = PostgresStore(old_postgres)
    item = store.get(("users", "ada"), "likes")
    assert item is not None
    assert item.value == {"food": "plums"}
    store.close()


def test_an_old_file_of_node_results_opens(tmp_path: Path):
    cache = SqliteCache(restore("node_results", tmp_path))
    assert cache.get(("node",), "key") == '"value"'
    cache.close()


def check_vectors(store: Any) -> None:
    [found] = store.similarity_search("plums are blue", k=1)
    assert (found.id, found.page_content, found.metadata) == ("d1", "plums are blue", {"n": 1})
    assert [each.page_content for each in store.get_by_ids(["d2"])] == ["snow is white"]
    store.add_texts(["grass is green"], ids=["d3"])
    assert [each.id for each in store.similarity_search("grass is green", k=1)] == ["d3"]
    store.embedding = DeterministicFakeEmbedding(size=3)
    with pytest.raises(UsageError, match="holds vectors of 4 numbers, got one of 3"):
        store.add_texts(["too short"])
    store.close()


def test_an_old_file_of_vectors_opens(tmp_path: Path):
    check_vectors(
        SQLiteVectorStore(DeterministicFakeEmbedding(size=4), restore("vectors", tmp_path))
    )


@pytest.mark.parametrize("has_pgvector", [False, True])
def test_old_vectors_in_postgres_open(has_pgvector: bool, request: pytest.FixtureRequest):
    url = request.getfixturevalue("pgvector_url" if has_pgvector else "postgres_url")
    dump = "postgres_pgvector.sql" if has_pgvector else "postgres_vectors.sql"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute((DATA / dump).read_text())  # type: ignore[arg-type]

    store = PostgresVectorStore(DeterministicFakeEmbedding(size=4), url)

    assert store.has_pgvector is has_pgvector
    check_vectors(store)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT * FROM foldline_schema").fetchall() == [("vectors", 1)]


def test_an_old_file_of_jobs_opens(tmp_path: Path):
    path = restore("jobs", tmp_path)
    with BatchJob.resume(path, RunnableLambda(str.upper), name="shout") as job:
        assert [answer.output for answer in job.answers()] == ["A", "B", "C"]


def test_an_old_file_of_a_run_log_opens(tmp_path: Path):
    log = ServerLog(str(restore("serve", tmp_path)))
    run = log.run("run-1")
    assert run is not None
    assert (run.status, run.result) == ("success", {"output": "HI"})
    events = [decode_event(event) for _, event in log.events("run-1", 0)]
    assert [event["method"] for event in events] == ["values"]
    thread = log.thread("", "of-ada")
    assert thread is not None
    assert thread.metadata == {"k": "v"}
    log.close()


def test_an_old_file_of_rate_limits_opens(tmp_path: Path):
    path = restore("rate_limits", tmp_path)
    limiter = SQLiteRateLimiter(path, requests_per_day=3)
    assert limiter.acquire(blocking=False)
    limiter.close()


def test_an_old_file_of_traces_opens(tmp_path: Path):
    store = TraceStore(restore("traces", tmp_path))
    [trace] = store.recent()
    assert trace.name == "shout"
    assert [each.name for each in store.find(TraceFilters(text="shout"))] == ["shout"]
    store.close()


def test_an_old_file_of_datasets_opens(tmp_path: Path):
    settings = StudioSettings(datasets=restore("datasets", tmp_path), traces=tmp_path / "traces.db")
    routes = DatasetRoutes(settings, TraceStore(settings.traces), None)  # type: ignore[arg-type]
    [case] = routes._read("weather")["cases"]
    assert case["expected"] == "hello"
    assert [result["answer"] for result in case["results"].values()] == ["hello"]


# -- forget


def texts(path: Path, query: str) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute(query)]


def test_forget_reaches_files_of_the_old_names_and_of_the_new(tmp_path: Path):
    histories, threads = restore("history", tmp_path), restore("checkpoints", tmp_path)

    assert forget.delete_messages(histories, ["ada"]) == 2
    assert texts(histories, "SELECT session FROM messages") == ["bob"]
    assert forget.delete_checkpoints(threads, ["raw"]) == 2
    SQLiteChatMessageHistory("ada", histories).add_messages([HumanMessage("back")])
    SqliteSaver(threads).append("raw", "", [Entry("1", None, "{}")], after=None)
    assert forget.delete_messages(histories, ["ada"]) == 1
    assert texts(histories, "SELECT session FROM foldline_messages") == ["bob"]
    assert forget.delete_checkpoints(threads, ["raw"]) == 1
    assert SqliteSaver(threads).read("raw", "") == []


def test_forget_reaches_old_and_new_tables_in_postgres(old_postgres: str):
    assert forget.delete_messages(old_postgres, ["ada"]) == 2
    assert forget.delete_checkpoints(old_postgres, ["raw"]) == 2
    PostgresChatMessageHistory("ada", old_postgres).add_messages([HumanMessage("back")])
    assert forget.delete_messages(old_postgres, ["ada"]) == 1
    assert forget.delete_messages(old_postgres, ["ada"]) == 0
    assert len(PostgresChatMessageHistory("bob", old_postgres).messages) == 1


@pytest.mark.parametrize("with_ours", [False, True])
def test_forget_leaves_a_programs_own_tables_alone(with_ours: bool, tmp_path: Path):
    path = tmp_path / "program.db"
    own = {"messages": "session", "checkpoints": "thread", "serve_runs": "id"}
    with closing(sqlite3.connect(path)) as connection:
        for table, column in own.items():
            connection.execute(f"CREATE TABLE {table} ({column} TEXT, thread TEXT, body TEXT)" if column != "thread"
                               else f"CREATE TABLE {table} (thread TEXT, body TEXT)")  # fmt: skip
            connection.execute(f"INSERT INTO {table} ({column}, body) VALUES ('ada', 'mine')")
        connection.commit()
    if with_ours:
        SQLiteChatMessageHistory("ada", path).add_messages([HumanMessage("ours")])
        SqliteSaver(path).append("ada", "", [Entry("1", None, "{}")], after=None)

    counts = [
        forget.delete_messages(path, ["ada"]),
        forget.delete_checkpoints(path, ["ada"]),
        forget.delete_served_runs(path, ["ada"], ["ada"]),
    ]

    assert counts == ([1, 1, 0] if with_ours else [0, 0, 0])
    for table in own:
        assert texts(path, f"SELECT body FROM {table}") == ["mine"]


def test_forget_says_so_where_our_table_is_called_otherwise(tmp_path: Path):
    path = restore("history", tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE messages RENAME TO foldline_texts")
        connection.execute("UPDATE foldline_schema SET version = 9")
        connection.commit()

    with pytest.raises(forget.StoreError, match=r"version 9 of 'history', this one"):
        forget.delete_messages(path, ["ada"])


def test_forget_knows_the_versions_of_the_schemas():
    schemas = [
        HISTORY_SCHEMA, CHECKPOINT_SCHEMA, SNAPSHOT_SCHEMA, WORKER_SCHEMA, SERVE_SCHEMA, ANSWER_SCHEMA,
        REQUEST_SCHEMA, HOLD_SCHEMA,
    ]  # fmt: skip
    assert {kind.name: kind.version for kind in forget.KINDS} == {
        schema.kind: schema.version for schema in schemas
    }


def test_forget_refuses_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(StoreError, match=r"histroy\.db: there is no such file"):
        forget.delete_messages(tmp_path / "histroy.db", ["ada"])


def test_forget_refuses_a_file_of_a_newer_version_and_deletes_nothing(tmp_path: Path):
    path = tmp_path / "history.db"
    SQLiteChatMessageHistory("ada", path).add_messages([HumanMessage("hi")])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE foldline_schema SET version = 99 WHERE kind = 'history'")

    with pytest.raises(StoreError, match="version 99 of 'history', this one knows version 2"):
        forget.delete_messages(path, ["ada"])
    assert texts(path, "SELECT session FROM foldline_messages") == ["ada"]


def test_forget_deletes_nothing_anywhere_if_one_of_its_files_is_not_there(tmp_path: Path):
    histories = tmp_path / "history.db"
    SQLiteChatMessageHistory("ada", histories).add_messages([HumanMessage("hi")])

    with pytest.raises(StoreError, match=r"agnets\.db: there is no such file"):
        tracing.forget(user="ada", histories=[histories], checkpoints=[tmp_path / "agnets.db"])
    assert texts(histories, "SELECT session FROM foldline_messages") == ["ada"]
