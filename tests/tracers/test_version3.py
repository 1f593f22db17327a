"""Version 3 of the traces: runs that wait, config, values that are read back, steps."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import TypedDict

from foldline._cli.app import app as command_line
from foldline.agents import create_agent
from foldline.checkpoint import InMemorySaver
from foldline.exceptions import FlowInterruptedError
from foldline.graph import START, StateGraph
from foldline.graph.store.memory import InMemoryStore
from foldline.runnables import RunnableLambda
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from foldline.tracers import SQLiteTracer, TraceStore
from foldline.tracers._export import all_runs, export_trace
from foldline.tracers._open import open_tracer
from foldline.tracers._revision import find_revision
from foldline.tracers._rows import StoredRun
from foldline.tracers.store import TraceFilters
from foldline.utils._data_places import TracePlace
from foldline.workflows import Command, interrupt, now, random, step, uuid, workflow
from foldline.workflows.interrupts import Interrupt
from foldline.workflows.values import unpack
from tests.servers.databases import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

DATA = Path(__file__).parent / "data"
ECHO = RunnableLambda(lambda x: x, name="echo")


@dataclass
class Order:
    number: int
    when: datetime
    parts: tuple[str, ...]


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> TracePlace:
    if request.param == "sqlite":
        return tmp_path / "traces.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traces.db"


@tool
def ask(question: str) -> str:
    """Ask a person."""
    return str(interrupt({"question": question}))


def asking_agent() -> Any:
    model = ScriptedChatModel(script=[[Call("ask", {"question": "Really?"})], "Done."])
    return create_agent(model, [ask], checkpointer=InMemorySaver(), name="asker")


def only(store: TraceStore) -> StoredRun:
    [root] = store.recent()
    run = store.trace(root.id)
    assert run is not None
    return run


def children(run: StoredRun) -> Iterator[StoredRun]:
    return (child for child in all_runs(run) if child is not run)


# -- threads and config


def test_the_thread_of_an_agent_is_that_of_its_config(call: Any, place: TracePlace):
    with open_tracer(place) as tracer:
        config: Any = {"configurable": {"thread_id": 7, "token": "t0ken-value"}}
        call.invoke(asking_agent(), {"messages": "hi"}, {**config, "callbacks": [tracer]})
    store = TraceStore(place)
    root = only(store)

    assert {run.thread_id for run in all_runs(root)} == {"7"}
    assert root.config == {"thread_id": "7"}
    assert store.newest_threads(10) == ["7"]
    assert [trace.id for trace in store.find(TraceFilters(thread_id="7"))] == [str(root.id)]
    assert "t0ken" not in export_trace(root, "jsonl")


def test_the_thread_in_the_metadata_counts_before_that_of_the_config(call: Any, path: Path):
    with SQLiteTracer(path) as tracer:
        config: Any = {"configurable": {"thread_id": "a"}, "callbacks": [tracer]}
        call.invoke(ECHO, 1, {**config, "metadata": {"thread_id": "b"}})
        call.invoke(ECHO, 1, {**config, "metadata": {"conversation_id": "c"}})
        call.invoke(ECHO, 1, {"callbacks": [tracer], "metadata": {"conversation_id": "c"}})

    assert [run.thread_id for run in TraceStore(path).recent()] == ["c", "a", "b"]


def test_only_chosen_keys_of_the_config_with_json_values_are_recorded(call: Any, path: Path):
    values: dict[str, Any] = {
        "thread_id": "t",
        "checkpoint_id": "c",
        "checkpoint_ns": "n",
        "tenant": {"name": "acme", "sizes": [1, 2]},
        "client": object(),
        "nan": float("nan"),
        "large": "x" * 5_000,
        "secret": "s3cret",
    }
    keys = ("tenant", "client", "nan", "large")
    with SQLiteTracer(path, config_keys=keys) as tracer:
        call.invoke(ECHO, 1, {"callbacks": [tracer], "configurable": values})

    assert only(TraceStore(path)).config == {
        "thread_id": "t",
        "checkpoint_id": "c",
        "checkpoint_ns": "n",
        "tenant": {"name": "acme", "sizes": [1, 2]},
    }
    assert b"s3cret" not in path.read_bytes()


# -- runs that wait


def test_a_run_that_waits_for_a_person_says_so_and_what_it_asks(call: Any, place: TracePlace):
    agent = asking_agent()
    with open_tracer(place) as tracer:
        config: Any = {"configurable": {"thread_id": "t"}, "callbacks": [tracer]}
        call.invoke(agent, {"messages": "hi"}, config)
        tracer.flush()
        store = TraceStore(place)
        [waiting] = store.find(TraceFilters(only_waiting=True))
        root = store.trace(waiting.id)
        time.sleep(0.01)
        call.invoke(agent, Command(resume="yes"), config)

    assert root is not None
    assert (waiting.status, waiting.asks, waiting.error) == ("waiting", "Really?", None)
    assert root.interrupts is not None
    assert [question["value"] for question in root.interrupts] == [{"question": "Really?"}]
    assert [run.name for run in all_runs(root) if run.status == "waiting"] == [
        "asker",
        "tools",
        "ask",
    ]
    assert not any(run.error for run in all_runs(root))
    [recorded] = (root.outputs or {})["__interrupt__"]
    question = unpack(recorded, "a question", Interrupt)
    assert question == Interrupt({"question": "Really?"}, root.interrupts[0]["id"])
    answered, first = store.find()
    assert (answered.status, first.status) == ("done", "answered")
    assert store.count(TraceFilters(only_waiting=True)) == 0
    answer_run = store.trace(answered.id)
    assert answer_run is not None
    answer = unpack(answer_run.inputs["input"], "an answer", Command)
    assert answer == Command(resume="yes")


def test_the_command_line_shows_what_waits(
    path: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    with SQLiteTracer(path) as tracer:
        config: Any = {"configurable": {"thread_id": "t"}, "callbacks": [tracer]}
        asking_agent().invoke({"messages": "hi"}, config)
        ECHO.invoke("over", {"callbacks": [tracer]})
    arguments = ["--file", str(path)]

    command_line(["traces", "--waiting", *arguments], standalone_mode=False)
    listed = capsys.readouterr().out
    [waiting] = TraceStore(path).find(TraceFilters(only_waiting=True))
    command_line(["traces", waiting.id, *arguments], standalone_mode=False)
    tree = capsys.readouterr().out

    assert "WAITS FOR AN ANSWER Really?" in listed
    assert "over" not in listed
    assert 'WAITS for an answer to: {"question": "Really?"}' in tree
    assert "ERROR" not in tree
    root = TraceStore(path).trace(waiting.id)
    assert root is not None
    spans = json.loads(export_trace(root, "otel"))["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert not any("status" in span for span in spans)
    assert '"status": "waiting"' in export_trace(root, "jsonl")


@pytest.mark.parametrize("where", ["interrupt_before", "interrupt_after"])
def test_a_graph_that_stops_at_a_node_waits(call: Any, path: Path, where: str):
    class State(TypedDict):
        count: int

    builder = StateGraph(State)
    builder.add_node("first", lambda state: {"count": state["count"] + 1})
    builder.add_node("second", lambda state: {"count": state["count"] + 1})
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    node = "second" if where == "interrupt_before" else "first"
    graph = builder.compile(checkpointer=InMemorySaver(), **{where: [node]})
    config: Any = {"configurable": {"thread_id": "t"}}
    with SQLiteTracer(path) as tracer:
        call.invoke(graph, {"count": 0}, {**config, "callbacks": [tracer]})
        tracer.flush()
        [waiting] = TraceStore(path).find()
        time.sleep(0.01)
        call.invoke(graph, None, {**config, "callbacks": [tracer]})

    assert waiting.status == "waiting"
    root = TraceStore(path).trace(waiting.id)
    assert root is not None
    assert root.interrupts == [{"id": None, "value": {"stopped_before": ["second"]}}]
    assert [trace.status for trace in TraceStore(path).find()] == ["done", "answered"]


def test_a_flow_called_as_a_function_is_a_run_and_waits(call: Any, path: Path):
    @workflow(checkpointer=InMemorySaver())
    def book(city: str) -> str:
        return f"{city}: {interrupt('Really?')}"

    with SQLiteTracer(path) as tracer:
        traced = book.with_config(
            callbacks=[tracer]
        )  # `invoke` of a binding; a call has the same runs
        call.invoke(traced, "Rome", {"configurable": {"thread_id": "t"}})
        tracing_call(book, tracer)

    roots = TraceStore(path).recent()
    assert [(run.status, run.interrupts[0]["value"]) for run in roots if run.interrupts] == [
        ("waiting", "Really?")
    ] * 2
    assert roots[0].inputs == {"city": "Oslo"}


def tracing_call(flow: Any, tracer: SQLiteTracer) -> None:
    def outer(_: object) -> None:
        with pytest.raises(FlowInterruptedError):
            flow("Oslo")

    from foldline.callbacks import hooks

    hooks.EVERYWHERE.append(tracer)
    try:
        outer(None)
    finally:
        hooks.EVERYWHERE.remove(tracer)


# -- values that are read back


def test_results_of_tools_that_are_no_messages_are_read_back(call: Any, place: TracePlace):
    order = Order(3, datetime(2026, 11, 18, tzinfo=UTC), ("a", "b"))

    @tool
    def find(number: int) -> Any:
        """Find an order."""
        return order

    @tool
    def jump(where: str) -> Any:
        """Go elsewhere."""
        return Command(update={"seen": {1, 2}}, goto=where)

    with open_tracer(place) as tracer:
        call.invoke(find, {"number": 3}, {"callbacks": [tracer]})
        call.invoke(jump, {"where": "end"}, {"callbacks": [tracer]})
    command, found = TraceStore(place).recent()

    assert unpack((found.outputs or {})["output"], "it", Order) == order
    assert unpack((command.outputs or {})["output"], "it", Command) == Command(
        update={"seen": {1, 2}}, goto="end"
    )


def test_steps_of_a_flow_are_runs_with_what_they_drew(call: Any, place: TracePlace):
    drawn: list[Any] = []

    @step
    def add(a: int, *, b: Order) -> Order:
        drawn.extend([now(), random(), uuid()])
        return Order(a + b.number, b.when, b.parts)

    order = Order(1, datetime(2026, 11, 18, tzinfo=UTC), ("x",))

    @workflow
    def flow(a: int) -> int:
        drawn.append(now())
        return add(a, b=order).number

    with open_tracer(place) as tracer:
        assert call.invoke(flow, 2, {"callbacks": [tracer]}) == 3
    root = only(TraceStore(place))
    [run] = root.child_runs
    assert isinstance(run, StoredRun)

    assert (run.name, run.run_type) == ("add", "step")
    assert unpack(run.inputs["args"], "args") == [2]
    assert unpack(run.inputs["kwargs"]["b"], "b", Order) == order
    assert unpack((run.outputs or {})["output"], "it", Order) == Order(3, order.when, ("x",))
    events = [(event["name"], event["kwargs"]) for event in run.events if "kwargs" in event]
    assert [name for name, _ in events] == ["now", "random", "uuid"]
    assert [unpack(details["value"], "it") for _, details in events] == drawn[1:]
    [event] = [event for event in root.events if event["name"] == "now"]
    assert unpack(event["kwargs"]["value"], "it") == drawn[0]


def test_a_step_is_a_chain_in_a_stream_of_events():
    @step
    def add(a: int) -> int:
        return a + 1

    @workflow
    def flow(a: int) -> int:
        return add(a)

    events = flow.stream_events(2)
    assert [(event["event"], event["name"]) for event in events if event["name"] == "add"] == [
        ("on_chain_start", "add"),
        ("on_chain_end", "add"),
    ]


def test_what_a_run_reads_from_a_store_is_an_event_of_it(call: Any, path: Path):
    store = InMemoryStore()
    store.put(("users",), "ada", {"likes": "tea"})

    def read(_: object) -> Any:
        item = store.get(("users",), "ada")
        return item and item.value, len(store.search(("users",)))

    with SQLiteTracer(path) as tracer:
        call.invoke(RunnableLambda(read), 1, {"callbacks": [tracer]})
    events = {event["name"]: event.get("kwargs") for event in only(TraceStore(path)).events}

    assert events["store-get"] == {
        "namespace": ["users"],
        "key": "ada",
        "value": {"likes": "tea"},
    }
    assert [item["key"] for item in events["store-search"]["items"]] == ["ada"]


# -- errors, and which code ran


def test_the_message_of_an_error_is_apart_from_where_it_arose(call: Any, place: TracePlace):
    def fail(_: object) -> None:
        raise ValueError("no key sk-abcdefghijklmnopqrstuv")

    with open_tracer(place, revision="v1.2") as tracer, pytest.raises(ValueError, match="no key"):
        call.invoke(ECHO | RunnableLambda(fail), 1, {"callbacks": [tracer]})
    root = only(TraceStore(place))

    assert (root.error_class, root.error_message) == ("ValueError", "no key [redacted]")
    assert root.revision == "v1.2"
    assert [run.revision for run in children(root)] == [None, None]


def test_the_form_of_an_agent_shows_what_changed(call: Any, path: Path):
    def form(prompt: str, description: str) -> dict[str, Any]:
        @tool(description=description)
        def look(place: str) -> str:
            return place

        model = ScriptedChatModel(script=["Hi."])
        agent = create_agent(model, [look], system_prompt=prompt)
        with SQLiteTracer(path) as tracer:
            call.invoke(agent, {"messages": "hi"}, {"callbacks": [tracer]})
        [root] = TraceStore(path).recent(1)
        assert root.serialized is not None
        return root.serialized

    first, same = form("Be short.", "Look."), form("Be short.", "Look.")
    other_prompt, other_tool = form("Be long.", "Look."), form("Be short.", "Look there.")

    assert first == same
    assert "Be short" not in str(first)
    assert changed(first, other_prompt) == ["system_prompt"]
    assert changed(first, other_tool) == ["tools"]


def changed(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    return [key for key in first if first[key] != second[key]]


def test_the_revision_is_that_of_the_environment_or_the_commit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.delenv("FOLDLINE_REVISION", raising=False)
    git = tmp_path / "repository" / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    inner = tmp_path / "repository" / "src"
    inner.mkdir()
    monkeypatch.chdir(inner)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "packed-refs").write_text(f"# pack-refs\n{'b' * 40} refs/heads/main\n")

    assert find_revision() == "b" * 40
    monkeypatch.setenv("FOLDLINE_REVISION", "build 7")
    assert find_revision() == "build 7"
    monkeypatch.delenv("FOLDLINE_REVISION")
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    (other / ".git").write_text(f"gitdir: {git}\n")  # no file is opened that another file names
    assert find_revision() is None


@pytest.mark.parametrize(
    "head", ["", "ref: refs/heads/../../../secret", "ref: /etc/passwd", "x" * 40]
)
def test_an_odd_repository_has_no_revision(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, head: str
):
    monkeypatch.delenv("FOLDLINE_REVISION", raising=False)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(head)
    (tmp_path.parent / "secret").write_text("c" * 40)
    monkeypatch.chdir(tmp_path)

    assert find_revision() is None


# -- more than 20,000


def test_counts_and_lists_do_not_stop_at_many_runs(path: Path):
    TraceStore(path).count()
    connection = sqlite3.connect(path)
    connection.executemany(
        "INSERT INTO foldline_runs (id, trace_id, parent_run_id, name, run_type, start_time, user_id, extra, inputs) "
        "VALUES (?, ?, ?, 'n', 'chain', ?, 'ada', '{}', '{}')",
        (
            (f"{trace}-{run}", f"{trace}-0", None if run == 0 else f"{trace}-0", float(trace))
            for trace in range(6_000)
            for run in range(4)
        ),
    )
    connection.commit()
    connection.close()
    store = TraceStore(path)
    filters = TraceFilters(user_id="ada")

    assert store.count(filters) == 6_000
    assert [trace.id for trace in store.find(filters, limit=2, offset=5_998)] == ["1-0", "0-0"]
    assert store.find(filters, limit=2, offset=6_000) == []
