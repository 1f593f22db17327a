"""The trace file, version 2: an old file is brought along whole; what lists, searches and figures say is right."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from foldline import tracing
from foldline.callbacks import hooks
from foldline.chat_history import SQLiteChatMessageHistory
from foldline.checkpoint import SqliteSaver
from foldline.checkpoint.base import Entry
from foldline.exceptions import UsageError
from foldline.language_models.fake_chat_models import GenericFakeChatModel
from foldline.load import dumpd
from foldline.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.output_parsers import StrOutputParser
from foldline.prompts import ChatPromptTemplate
from foldline.runnables import RunnableLambda
from foldline.tracers import SQLiteTracer, TraceStore
from foldline.tracers import _schema as schema
from foldline.tracers._rows import dump_message
from foldline.tracers.store import Filters

DATA = Path(__file__).parent / "data"
USAGE = {
    "input_tokens": 1_000_000,
    "output_tokens": 0,
    "total_tokens": 1_000_000,
    "input_token_details": {"cache_read": 0},
}
PROVIDER = {"model_provider": "openai", "model_name": "gpt-4o-mini"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traces.db"


def chain(*answers: str) -> Any:
    messages = [
        AIMessage(text, usage_metadata=USAGE, response_metadata=PROVIDER) for text in answers
    ]
    prompt = ChatPromptTemplate([("system", "Be short."), ("human", "{question}")])
    return prompt | GenericFakeChatModel(messages=iter(messages)) | StrOutputParser()


def ask(path: Path, question: str, answer: str, **metadata: Any) -> None:
    with SQLiteTracer(path) as tracer:
        chain(answer).invoke(
            {"question": question}, {"callbacks": [tracer], "metadata": metadata, "tags": ["t"]}
        )


# -- version 1


def version_1(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript((DATA / "version1.sql").read_text(encoding="utf-8"))
    connection.close()


def test_a_file_of_version_1_is_brought_along_without_loss(path: Path):
    version_1(path)
    before = sqlite3.connect(path)
    old = {
        row[0]: row[1:]
        for row in before.execute(
            "SELECT id, name, run_type, start_time, end_time, inputs, outputs, serialized, extra, tags, error FROM runs"
        )
    }
    before.close()
    store = TraceStore(path)

    failed, root = store.recent()
    tree = store.trace(root.id)

    assert failed.error_class == "ValueError"
    assert "no such thing: größe" in failed.error
    runs = [tree, *tree.child_runs, failed]
    assert {str(run.id) for run in runs} == set(old)
    for run in runs:
        name, kind, start, end, inputs, outputs, form, extra, tags, error = old[str(run.id)]
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
    assert [one.id for one in store.find(Filters(text="scattered"))] == [str(root.id)]
    assert [run.name for run in store.by_tag("seq:step:2")] == [model.name]


def test_a_file_of_version_1_is_written_on(path: Path):
    version_1(path)
    ask(path, "and red?", "It is not.")

    assert TraceStore(path).recent(1)[0].question == "and red?"
    assert len(TraceStore(path).recent()) == 3


def test_a_migration_that_fails_leaves_the_file_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    version_1(path)

    def fail(*args: Any) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(schema, "_row_from_version_1", fail)
        with pytest.raises(RuntimeError, match="killed"):
            TraceStore(path).recent()

    assert len(TraceStore(path).recent()) == 2


# -- what is written of a run


def test_a_run_knows_its_model_tokens_cost_session_and_first_words(path: Path):
    ask(path, "Why?", "Because.", session_id="s", thread_id="t", user_id="u")
    [one] = TraceStore(path).find()

    assert one.models == ["gpt-4o-mini"]
    assert (one.input_tokens, one.output_tokens, one.cost) == (1_000_000, 0, 0.15)
    assert (one.session_id, one.thread_id, one.user_id) == ("s", "t", "u")
    assert (one.question, one.answer) == ("Why?", "Because.")
    assert (one.runs, one.calls, one.failed_runs) == (4, 1, 0)
    with sqlite3.connect(path) as connection:
        [(usage,)] = connection.execute("SELECT usage FROM runs WHERE usage IS NOT NULL")
    connection.close()
    assert json.loads(usage) == USAGE


def test_the_request_is_kept_as_it_was_sent_without_its_key(path: Path):
    from foldline.providers.openai import ChatOpenAI
    from foldline.transports import Request

    with SQLiteTracer(path) as tracer:
        model = ChatOpenAI(
            model="gpt-5-mini",
            api_key="sk-abcdefghijklmnopqrst",
            base_url="http://127.0.0.1:9/v1",
            max_retries=0,
        )
        with pytest.raises(Exception, match=r"127\.0\.0\.1"):
            model.invoke("hello", {"callbacks": [tracer]})
    [run] = TraceStore(path).recent()

    assert Request is not None
    assert run.request["url"] == "http://127.0.0.1:9/v1/chat/completions"
    assert run.request["body"]["messages"] == [{"role": "user", "content": "hello"}]
    assert "headers" not in run.request
    assert b"sk-abcdef" not in path.read_bytes()
    assert run.error_class == "ModelConnectionError"


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage("x"),
        HumanMessage("x", name="ada", id="1"),
        SystemMessage("s", additional_kwargs={"a": 1}),
        AIMessage(""),
        AIMessage("y", usage_metadata=USAGE, response_metadata=PROVIDER, id="i"),
        AIMessage("", tool_calls=[{"name": "f", "args": {"lc": 1}, "id": "c"}]),
        AIMessage([{"type": "text", "text": "z"}]),
        ToolMessage("r", tool_call_id="c"),
        ToolMessage("r", tool_call_id="c", status="error", artifact={"n": 1}),
    ],
    ids=lambda message: type(message).__name__,
)
def test_the_quick_dump_of_a_message_is_the_dump(message: Any):
    assert dump_message(message) == dumpd(message)


def test_a_hook_sees_everything_before_it_is_written(path: Path):
    def redact(run: dict[str, Any]) -> dict[str, Any] | None:
        if run.get("name") == "secret":
            return None
        text = json.dumps(run).replace("Ada", "[a person]")
        return json.loads(text)

    with SQLiteTracer(path, redact=redact) as tracer:
        step = RunnableLambda(lambda x: x, name="open")
        step.invoke({"question": "Who is Ada?"}, {"callbacks": [tracer], "tags": ["Ada"]})
        RunnableLambda(lambda x: x, name="secret").invoke("Ada", {"callbacks": [tracer]})
    [run] = TraceStore(path).recent()

    assert run.inputs == {"question": "Who is [a person]?"}
    assert run.question == "Who is [a person]?"
    assert all(b"Who is Ada" not in file.read_bytes() for file in path.parent.iterdir())


def test_the_file_is_its_owners(path: Path):
    ask(path, "a", "b")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# -- lists and searches


def test_traces_are_found_by_what_any_of_their_runs_said(path: Path):
    ask(path, "Why is the sky blue?", "Blue light is scattered more.", user_id="ada")
    ask(path, "Was ist die Größe?", "Sehr groß – naïve Schätzung.", thread_id="t-2")
    store = TraceStore(path)

    def found(**filters: Any) -> list[str | None]:
        return [one.question for one in store.find(Filters(**filters))]

    assert found(text="short") == ["Was ist die Größe?", "Why is the sky blue?"]
    assert found(text="scatt") == ["Why is the sky blue?"]
    assert found(text="grosse naive") == []
    assert found(text="größe naive") == ["Was ist die Größe?"]
    assert found(text='"sky blue"') == ["Why is the sky blue?"]
    assert found(text='"blue sky"') == []
    assert found(text="AND OR NOT ( * ^ :") == []
    assert found(text="'); DROP TABLE runs; --") == []
    assert found(user_id="ada") == ["Why is the sky blue?"]
    assert found(thread_id="t-2") == ["Was ist die Größe?"]
    assert found(model="gpt-4o-mini", run_type="llm") == found()
    assert found(only_errors=True) == []
    assert found(tag="t") == found()
    assert found(since=time.time() + 1) == []
    assert store.count() == store.count(Filters(text="short")) == 2
    assert store.count(Filters(text="scatt")) == 1
    assert [one.question for one in store.find(limit=1, offset=1)] == ["Why is the sky blue?"]
    assert store.values("model") == ["gpt-4o-mini"]


def test_what_ended_late_is_found(path: Path):
    seen: list[int] = []

    def look(x: str) -> str:
        tracer.flush()
        seen.append(TraceStore(path).count(Filters(text="zanzibar")))
        return "to zanzibar"

    with SQLiteTracer(path) as tracer:
        RunnableLambda(look).invoke("where?", {"callbacks": [tracer]})

    assert seen == [0]
    assert TraceStore(path).count(Filters(text="zanzibar")) == 1


def test_figures_over_time(path: Path):
    start = time.time() - 1
    ask(path, "a", "b")
    ask(path, "c", "d")
    figures = TraceStore(path).figures(start, start + 120, 60)

    assert [step["calls"] for step in figures] == [2, 0]
    assert figures[0]["input_tokens"] == 2_000_000
    assert figures[0]["cost"] == pytest.approx(0.3)
    assert figures[0]["p95"] >= figures[0]["p50"] > 0
    assert figures[1]["p50"] is figures[1]["cost"] is None
    assert TraceStore(path).figures(start, start + 60, 60, model="other")[0]["calls"] == 0


def test_scores_are_kept_with_their_run(path: Path):
    ask(path, "a", "b")
    store = TraceStore(path)
    [one] = store.find()
    store.add_score(one.id, "right", 1, comment="yes", author="ada")
    store.add_score(one.id, "right", 0)

    assert store.find()[0].scores == {"right": 0.5}
    score = store.trace(one.id).scores[0]
    assert (score["name"], score["value"], score["comment"]) == ("right", 1.0, "yes")
    assert score["author"] == "ada"
    with pytest.raises(UsageError, match="no run"):
        store.add_score("nobody", "right", 1)


# -- deleting


def test_what_is_deleted_is_gone_from_the_file_and_the_index(path: Path):
    ask(path, "Where is the xylophone?", "Here.", user_id="ada")
    ask(path, "Where is the piano?", "There.", user_id="bob")
    store = TraceStore(path)
    assert store.count(Filters(text="xylophone")) == 1

    assert store.delete(user="ada") == 4

    assert store.count(Filters(text="xylophone")) == 0
    assert store.count(Filters(text="piano")) == 1
    store._database.shrink()
    assert all(b"xylophone" not in file.read_bytes() for file in path.parent.iterdir())
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM tags").fetchone()[0] == 7
        connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    connection.close()
    with pytest.raises(UsageError, match="takes one of"):
        store.delete()


def test_old_and_surplus_traces_are_pruned(path: Path):
    for number in range(20):
        ask(path, f"question {number}", "x" * 20_000)
    store = TraceStore(path)

    assert store.prune(max_age=3600) == 0
    size = path.stat().st_size
    assert store.prune(max_bytes=size // 2) > 0
    assert path.stat().st_size <= size // 2
    assert store.recent(1)[0].question == "question 19"
    assert store.prune(max_age=-1) > 0
    assert store.recent() == []


def test_a_user_is_forgotten_everywhere(path: Path, tmp_path: Path, monkeypatch: Any):
    monkeypatch.setenv("FOLDLINE_DATA_DIR", str(tmp_path))
    ask(path, "a", "b", thread_id="t-9", user_id="ada")
    ask(path, "c", "d", thread_id="t-8", user_id="bob")
    for session in ("t-9", "t-8"):
        SQLiteChatMessageHistory(session, tmp_path / "sessions.db").add_user_message("hi")
        saver = SqliteSaver(tmp_path / "agents.db")
        saver.append(session, "", [Entry("1", None, "{}")], after=None)
        saver.close()

    counts = tracing.forget(user="ada", traces=path, checkpoints=[tmp_path / "agents.db"])

    assert counts == {"traces": 4, "histories": 1, "checkpoints": 1, "run_logs": 0}
    assert [one.user_id for one in TraceStore(path).find()] == ["bob"]
    assert SqliteSaver(tmp_path / "agents.db").read("t-9", "") == []
    assert len(SqliteSaver(tmp_path / "agents.db").read("t-8", "")) == 1
    with pytest.raises(UsageError, match="one of"):
        tracing.forget(user="ada", thread="t")


# -- without a change to the code


PROGRAM = """
from foldline.runnables import RunnableLambda
print(RunnableLambda(lambda x: x + 1, name="add").invoke(1))
"""


@pytest.mark.parametrize(
    ("value", "file"), [("1", "traces.db"), ("mine/t.db", "mine/t.db"), ("0", None), ("", None)]
)
def test_a_variable_turns_tracing_on(tmp_path: Path, value: str, file: str | None):
    named = str(tmp_path / value) if "/" in value else value
    env = {**os.environ, "FOLDLINE_DATA_DIR": str(tmp_path), "FOLDLINE_TRACES": named}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("2\n", "")
    if file is None:
        assert list(tmp_path.iterdir()) == []
    else:
        assert [run.name for run in TraceStore(tmp_path / file).recent()] == ["add"]


def test_a_file_that_cannot_be_written_is_told_and_the_program_goes_on(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("hello " * 1000)
    env = {**os.environ, "FOLDLINE_TRACES": str(tmp_path / "notes.txt")}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True)

    assert done.stdout == "2\n"
    assert "FOLDLINE_TRACES is set, but no run is traced" in done.stderr


def test_tracing_is_enabled_and_disabled(call: Any, path: Path):
    step = RunnableLambda(lambda x: x, name="step")
    tracer = tracing.enable(path)
    assert tracing.enable(path) is tracer
    assert tracing.is_enabled()
    call.invoke(step, 1)
    tracing.flush()
    assert len(TraceStore(path).recent()) == 1
    tracing.disable()
    call.invoke(step, 2)

    assert len(TraceStore(path).recent()) == 1
    assert tracer not in hooks.EVERYWHERE
