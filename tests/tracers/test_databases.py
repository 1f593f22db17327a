"""Lists, searches, figures, scores and deletion: the same over a SQLite file and over PostgreSQL."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from foldline import tracing
from foldline.agents import create_agent
from foldline.chat_history import PostgresChatMessageHistory, SQLiteChatMessageHistory
from foldline.checkpoint import PostgresSaver, SqliteSaver
from foldline.checkpoint.base import Entry
from foldline.exceptions import UsageError
from foldline.language_models.fake_chat_models import GenericFakeChatModel
from foldline.messages import AIMessage
from foldline.runnables import RunnableLambda
from foldline.serve import create_app
from foldline.serve._log.records import ThreadInfo
from foldline.serve._log.run_log import ServerLog
from foldline.testing import ScriptedChatModel
from foldline.tracers import TraceStore
from foldline.tracers._export import all_runs
from foldline.tracers._open import open_tracer
from foldline.tracers.store import TraceFilters
from foldline.utils._data_places import TracePlace, is_url
from tests.servers.databases import postgres_server, postgres_url
from tests.studio.test_api import asking_agent
from tests.tracers.test_version2 import USAGE, ask

__all__ = ["postgres_server", "postgres_url"]

ECHO = RunnableLambda(lambda x: x, name="echo")


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> TracePlace:
    if request.param == "sqlite":
        return tmp_path / "traces.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


# -- lists and searches


def test_traces_are_found_by_what_any_of_their_runs_said(place: TracePlace):
    ask(place, "Why is the sky blue?", "Blue light is scattered more.", user_id="ada")
    ask(place, "Was ist die Größe?", "Sehr groß – naïve Schätzung.", thread_id="t-2")
    store = TraceStore(place)

    def find_questions(**filters: Any) -> list[str | None]:
        return [trace.question for trace in store.find(TraceFilters(**filters))]

    assert find_questions(text="short") == ["Was ist die Größe?", "Why is the sky blue?"]
    assert find_questions(text="scatt") == ["Why is the sky blue?"]
    assert find_questions(text="grosse naive") == []
    assert find_questions(text="größe naive") == ["Was ist die Größe?"]
    assert find_questions(text='"sky blue"') == ["Why is the sky blue?"]
    assert find_questions(text='"blue sky"') == []
    assert find_questions(text="AND OR NOT ( * ^ :") == []
    assert find_questions(text="'); DROP TABLE runs; --") == []
    assert find_questions(user_id="ada") == ["Why is the sky blue?"]
    assert find_questions(thread_id="t-2") == ["Was ist die Größe?"]
    assert find_questions(model="gpt-4o-mini", run_type="llm") == find_questions()
    assert find_questions(only_errors=True) == []
    assert find_questions(tag="t") == find_questions()
    assert find_questions(since=time.time() + 1) == []
    assert store.count() == store.count(TraceFilters(text="short")) == 2
    assert store.count(TraceFilters(text="scatt")) == 1
    assert [trace.question for trace in store.find(limit=1, offset=1)] == ["Why is the sky blue?"]
    assert store.values("model") == ["gpt-4o-mini"]


def test_what_ended_late_is_found(place: TracePlace):
    counts: list[int] = []

    def look(x: str) -> str:
        tracer.flush()
        counts.append(TraceStore(place).count(TraceFilters(text="zanzibar")))
        return "to zanzibar"

    with open_tracer(place) as tracer:
        RunnableLambda(look).invoke("where?", {"callbacks": [tracer]})

    assert counts == [0]
    assert TraceStore(place).count(TraceFilters(text="zanzibar")) == 1


def test_figures_count_the_calls_whose_cost_is_unknown(place: TracePlace):
    start = time.time() - 1
    ask(place, "a", "b")
    unpriced = {"model_provider": "openai", "model_name": "no-price"}
    answer = AIMessage("d", usage_metadata=USAGE, response_metadata=unpriced)
    with open_tracer(place) as tracer:
        GenericFakeChatModel(messages=iter([answer])).invoke("c", {"callbacks": [tracer]})
    (figure,) = TraceStore(place).figures(start, start + 60, 60)

    assert (figure["calls"], figure["unpriced"]) == (2, 1)
    assert figure["cost"] == pytest.approx(0.15)


def test_figures_over_time(place: TracePlace):
    start = time.time() - 1
    ask(place, "a", "b")
    ask(place, "c", "d")
    figures = TraceStore(place).figures(start, start + 120, 60)

    assert [step["calls"] for step in figures] == [2, 0]
    assert figures[0]["input_tokens"] == 2_000_000
    assert figures[0]["cost"] == pytest.approx(0.3)
    assert figures[0]["p95"] >= figures[0]["p50"] > 0
    assert figures[1]["p50"] is figures[1]["cost"] is None
    assert TraceStore(place).figures(start, start + 60, 60, model="other")[0]["calls"] == 0


def test_scores_are_kept_with_their_run(place: TracePlace):
    ask(place, "a", "b")
    store = TraceStore(place)
    [trace] = store.find()
    store.add_score(trace.id, "right", 1, comment="yes", author="ada")
    store.add_score(trace.id, "right", 0)

    assert store.find()[0].scores == {"right": 0.5}
    score = store.trace(trace.id).scores[0]
    assert (score["name"], score["value"], score["comment"]) == ("right", 1.0, "yes")
    assert score["author"] == "ada"
    with pytest.raises(UsageError, match="no run"):
        store.add_score("nobody", "right", 1)


def test_an_agent_that_waits_for_an_answer_has_not_failed(place: TracePlace):
    agent = asking_agent()
    with open_tracer(place) as tracer:
        config = {"configurable": {"thread_id": "trip"}, "callbacks": [tracer]}
        agent.invoke({"messages": "Book Rome"}, config)
    store = TraceStore(place)
    [trace] = store.find()
    [tool] = [run for run in all_runs(store.trace(trace.id)) if run.run_type == "tool"]

    assert (trace.failed_runs, trace.error_class) == (0, None)
    assert store.count(TraceFilters(only_errors=True)) == 0
    assert tool.end_time is not None
    assert (tool.error, tool.status) == (None, "waiting")


# -- deleting


def test_what_is_deleted_is_gone_from_the_file_and_the_index(place: TracePlace):
    ask(place, "Where is the xylophone?", "Here.", user_id="ada")
    ask(place, "Where is the piano?", "There.", user_id="bob")
    store = TraceStore(place)
    assert store.count(TraceFilters(text="xylophone")) == 1

    assert store.delete(user="ada") == 4

    assert store.count(TraceFilters(text="xylophone")) == 0
    assert store.count(TraceFilters(text="piano")) == 1
    assert len(store.by_tag("t")) == 4
    assert store._all("SELECT count(*) FROM foldline_run_tags") == [(7,)]
    store._database.shrink()
    if not is_url(place):
        folder = Path(place).parent
        assert all(b"xylophone" not in file.read_bytes() for file in folder.iterdir())
        store._all("INSERT INTO foldline_run_words (foldline_run_words) VALUES ('integrity-check')")
    else:
        assert store._all("SELECT count(*) FROM foldline_run_words") == [(4,)]
    with pytest.raises(UsageError, match="takes one of"):
        store.delete()


def test_a_run_is_found_that_is_written_after_the_newest_one_was_deleted(place: TracePlace):
    ask(place, "Where is the piano?", "There.")
    ask(place, "Where is the xylophone?", "Here.")
    store = TraceStore(place)
    assert store.count(TraceFilters(text="xylophone")) == 1
    store.delete(trace=store.find()[0].id)

    ask(place, "Where is the violin?", "Nowhere.")

    assert store.count(TraceFilters(text="violin")) == 1
    assert store.count(TraceFilters(text="piano")) == 1
    assert store.count(TraceFilters(text="xylophone")) == 0


def count_tags(store: TraceStore) -> int:
    return int(store._all("SELECT count(*) FROM foldline_run_tags")[0][0])


def test_tags_that_a_hook_changed_are_found_and_deleted_as_changed(place: TracePlace):
    def redact(run: dict[str, Any]) -> dict[str, Any]:
        return {**run, "tags": ["[a person]"]} if run.get("tags") else run

    with open_tracer(place, redact=redact) as tracer:
        ECHO.invoke(1, {"callbacks": [tracer], "tags": ["Ada"]})
    store = TraceStore(place)

    assert store.by_tag("Ada") == []
    assert len(store._all("SELECT id FROM foldline_runs WHERE tags IS NOT NULL")) == 1
    assert store._all("SELECT tag FROM foldline_run_tags") == [("[a person]",)]
    store.delete(before=time.time() + 1)
    assert count_tags(store) == 0


@pytest.mark.parametrize("tags", ["[", "5", '["t", {}]', '["t", "half \\ud83d a character"]'])
def test_a_run_whose_tags_are_odd_or_damaged_is_deleted_with_its_tags(place: TracePlace, tags: str):
    with open_tracer(place) as tracer:
        ECHO.invoke(1, {"callbacks": [tracer], "tags": ["t", "half \ud83d a character"]})
        ECHO.invoke(2, {"callbacks": [tracer], "tags": ["t"]})
    store = TraceStore(place)
    store._database.write(
        lambda connection: connection.run(
            "UPDATE foldline_runs SET tags = ? WHERE inputs LIKE '%1%'", (tags,)
        )
    )

    assert store.delete(before=time.time() + 1) == 2
    assert (store.count(), count_tags(store)) == (0, 0)


@pytest.mark.parametrize("column", ["extra", "config"])
@pytest.mark.parametrize("damage", ["{serve_run_id serve_key", '["serve_run_id", "serve_key"]'])
def test_a_user_is_forgotten_though_a_run_is_damaged(
    place: TracePlace, column: str, damage: str, caplog: pytest.LogCaptureFixture
):
    with open_tracer(place) as tracer:
        for thread in ("t-1", "t-2"):
            metadata = {"user_id": "ada", "session_id": "s", "thread_id": thread}
            ECHO.invoke(thread, {"callbacks": [tracer], "metadata": metadata})
    store = TraceStore(place)
    statement = f"UPDATE foldline_runs SET {column} = ? WHERE thread_id = 't-1'"
    store._database.write(lambda connection: connection.run(statement, (damage,)))

    names = store.names_of(user="ada")
    counts = tracing.forget(user="ada", traces=place, histories=(), run_logs=())

    assert (names.threads, names.sessions) == ({"t-1", "t-2"}, {"s"})
    assert counts["traces"] == 2
    assert "is damaged" in caplog.text


@pytest.mark.slow
def test_old_and_surplus_traces_are_pruned(place: TracePlace):
    for number in range(20):
        ask(place, f"question {number}", "".join(map(chr, range(200, 20_200))))
    store = TraceStore(place)

    assert store.prune(max_age=3600) == 0
    size = store._database.used_bytes()
    assert store.prune(max_bytes=size // 2) > 0
    assert store._database.used_bytes() <= size // 2
    assert is_url(place) or Path(place).stat().st_size <= size // 2
    assert store.recent(1)[0].question == "question 19"
    assert store.prune(max_age=-1) > 0
    assert store.recent() == []


def test_a_user_is_forgotten_in_sqlite_files(place: TracePlace, tmp_path: Path, monkeypatch: Any):
    monkeypatch.setenv("FOLDLINE_DATA_DIR", str(tmp_path))
    ask(place, "a", "b", thread_id="t-9", user_id="ada")
    ask(place, "c", "d", thread_id="t-8", user_id="bob")
    for session in ("t-9", "t-8"):
        SQLiteChatMessageHistory(session, tmp_path / "traces.db").add_user_message("hi")
        saver = SqliteSaver(tmp_path / "agents.db")
        saver.append(session, "", [Entry("1", None, "{}")], after=None)
        saver.close()

    counts = tracing.forget(user="ada", traces=place, checkpoints=[tmp_path / "agents.db"])

    assert counts == {"traces": 4, "histories": 1, "checkpoints": 1, "run_logs": 0}
    assert [trace.user_id for trace in TraceStore(place).find()] == ["bob"]
    assert SqliteSaver(tmp_path / "agents.db").read("t-9", "") == []
    assert len(SqliteSaver(tmp_path / "agents.db").read("t-8", "")) == 1
    with pytest.raises(UsageError, match="one of"):
        tracing.forget(user="ada", thread="t")


def test_a_user_is_forgotten_in_postgres(place: TracePlace, postgres_url: str):
    ask(place, "a", "b", thread_id="t-9", user_id="ada")
    ask(place, "c", "d", thread_id="t-8", user_id="bob")
    saver = PostgresSaver(postgres_url)
    for session in ("t-9", "t-8"):
        PostgresChatMessageHistory(session, postgres_url).add_user_message("hi")
        saver.append(session, "", [Entry("1", None, "{}")], after=None)
    places = [postgres_url]

    counts = tracing.forget(
        user="ada", traces=place, histories=places, checkpoints=places, run_logs=places
    )

    assert counts == {"traces": 4, "histories": 1, "checkpoints": 1, "run_logs": 0}
    assert saver.read("t-9", "") == []
    assert len(PostgresChatMessageHistory("t-8", postgres_url).messages) == 1


@pytest.mark.parametrize("log_kind", ["sqlite", "postgres"])
def test_a_served_run_is_forgotten_with_its_trace(
    log_kind: str, place: TracePlace, postgres_url: str, tmp_path: Path
):
    log = str(tmp_path / "serve.db") if log_kind == "sqlite" else postgres_url
    app = create_app({"shout": RunnableLambda(str.upper)}, log=log, traces=str(place))
    with TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 1)) as client:
        for user in ("ada", "bob", "ada"):
            config = {"metadata": {"user_id": user}}
            body = {"app": "shout", "input": "hello", "config": config, "wait": True}
            answer = client.post("/runs", json={**body, "thread_id": f"of-{user}"})
            assert answer.json().get("output") == "HELLO", answer.text
    runs = ServerLog(log)
    for user in ("ada", "bob"):
        runs.put_thread(ThreadInfo(f"of-{user}", "", "shout", time.time(), {}))
    before = [run.thread for run in runs.runs("")]

    counts = tracing.forget(user="ada", traces=place, histories=(), run_logs=[log])

    assert sorted(before) == ["of-ada", "of-ada", "of-bob"]
    assert counts["run_logs"] == 2
    [remaining_run] = runs.runs("")
    assert remaining_run.thread == "of-bob"
    assert runs.events(remaining_run.id, 0)
    assert {row[0] for row in runs.database.rows("SELECT run FROM serve_events")} == {
        remaining_run.id
    }
    assert [thread.id for thread in runs.threads("")] == ["of-bob"]
    runs.close()


@pytest.mark.parametrize("owner", [{"user": "ada"}, {"thread": "trip"}], ids=["user", "thread"])
def test_a_conversation_on_a_server_with_keys_is_forgotten_in_its_checkpoints(
    owner: Any, place: TracePlace, tmp_path: Path
):
    log, threads = str(tmp_path / "serve.db"), tmp_path / "agents.db"
    model = ScriptedChatModel(script=["Hello."], is_cyclic=True)
    agent = create_agent(model, [], checkpointer=SqliteSaver(threads), name="agent")
    app = create_app({"agent": agent}, log=log, traces=str(place))
    key, _ = app.server.keys.add("web")
    headers = {"authorization": f"Bearer {key}"}
    with TestClient(app, base_url="http://127.0.0.1", headers=headers) as client:
        for user, thread in (("ada", "trip"), ("bob", "work")):
            config = {"metadata": {"user_id": user}}
            body = {"input": "a secret", "config": config, "thread_id": thread, "wait": True}
            assert client.post("/runs", json=body).json()["status"] == "success"

    counts = tracing.forget(
        **owner, traces=place, histories=(), checkpoints=[threads], run_logs=[log]
    )

    assert counts["checkpoints"] > 0
    with closing(sqlite3.connect(threads)) as connection:
        rows = connection.execute("SELECT DISTINCT thread FROM foldline_checkpoints").fetchall()
    assert [row[0].partition(":")[2] for row in rows] == ["work"]
