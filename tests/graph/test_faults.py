"""Graphs whose store fails under them: a typed error, nothing torn, and a thread that goes on."""

from __future__ import annotations

import json
import operator
import sqlite3
import time
from typing import Annotated, Any, TypedDict

import pytest

from foldline.checkpoint import InMemorySaver, PostgresSaver, SqliteSaver
from foldline.checkpoint.base import Entry
from foldline.exceptions import SchemaError, StoreError
from foldline.graph import START, Command, Send, StateGraph, interrupt
from foldline.workflows._thread_log import Log
from tests.servers.databases import _accepts, postgres_server, wait_until

pytestmark = pytest.mark.timing

__all__ = ["postgres_server"]

ONE = {"configurable": {"thread_id": "1"}}


class State(TypedDict, total=False):
    items: Annotated[list[Any], operator.add]


def chain(saver, *functions):
    builder = StateGraph(State)
    builder.add_sequence([(f"n{number}", function) for number, function in enumerate(functions)])
    builder.add_edge(START, "n0")
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize(
    ("body", "error_text"),
    [
        ("{", "damaged"),
        ("[]", "no version"),
        (json.dumps({"v": 99, "kind": "step"}), "another version"),
        (json.dumps({"v": 1, "kind": "flow"}), "kind 'flow'"),
        (json.dumps({"v": 1, "kind": "step", "at": "", "step": 1, "next": 5}), "damaged"),
        (json.dumps({"v": 1, "kind": "step", "at": "", "done": ["x"]}), "damaged"),
        (json.dumps({"v": 1, "kind": "stop", "at": "", "interrupts": 5}), "damaged"),
        (json.dumps({"v": 1, "kind": "fail", "at": "", "id": "x", "error": 5}), "damaged"),
        (json.dumps({"v": 1, "kind": "step", "at": "", "step": 1, "next": ["gone"]}), "'gone'"),
    ],
)
def test_a_damaged_thread_is_a_typed_error(call, body, error_text):
    saver = InMemorySaver()
    graph = chain(saver, lambda state: {"items": [1]})
    call.invoke(graph, {}, ONE)
    last = saver.read("1", "")[-1].id
    saver.append("1", "", [Entry("bad", last, body)], after=last)

    with pytest.raises(SchemaError, match=error_text):
        call.invoke(graph, {}, ONE)


def test_a_thread_with_a_missing_entry_is_a_typed_error(call):
    saver = InMemorySaver()
    graph = chain(saver, lambda state: {"items": [interrupt("?")]})
    call.invoke(graph, {}, ONE)
    del saver._threads["1"][""][0]

    with pytest.raises(SchemaError, match="which does not exist: the log is damaged"):
        call.invoke(graph, Command(resume=1), ONE)


def test_a_locked_file_is_a_store_error_and_the_thread_goes_on(call, tmp_path):
    saver, runs = SqliteSaver(tmp_path / "graph.db"), []
    other = sqlite3.connect(tmp_path / "graph.db", isolation_level=None, check_same_thread=False)

    def lock(state: State) -> State:
        runs.append(1)
        if len(runs) == 1:
            saver._database._patience = 0.1
            saver.close()
            other.execute("BEGIN IMMEDIATE")
        return {"items": [1]}

    graph = chain(saver, lambda state: {"items": [0]}, lock, lambda state: {"items": [2]})
    with pytest.raises(StoreError, match="another process held it"):
        call.invoke(graph, {}, ONE)
    other.execute("ROLLBACK")
    other.close()

    assert call.invoke(graph, None, ONE)["items"] == [0, 1, 2]
    assert len(runs) == 2  # it was not acknowledged
    saver.close()


@pytest.mark.slow
def test_postgres_restarted_between_nodes_is_not_noticed(call, postgres_server):
    saver, runs = PostgresSaver(postgres_server.url), []
    config = {"configurable": {"thread_id": f"graph-{id(call)}"}}
    saver.delete_thread(config["configurable"]["thread_id"])

    def restart(state: State) -> State:
        runs.append(1)
        postgres_server.stop()
        postgres_server.start()
        wait_until(lambda: _accepts(postgres_server.url), "postgres")
        return {"items": [1]}

    graph = chain(saver, lambda state: {"items": [0]}, restart, lambda state: {"items": [2]})

    assert call.invoke(graph, {}, config)["items"] == [0, 1, 2]
    assert runs == [1]
    assert call.run(graph, "get_state", config).values["items"] == [0, 1, 2]
    saver.close()


def test_records_of_tasks_in_threads_follow_one_another(monkeypatch):
    add = Log.add

    def add_slowly(self, body, parent):
        pending = add(self, body, parent)
        time.sleep(0.001)  # others come here meanwhile
        return pending

    monkeypatch.setattr(Log, "add", add_slowly)
    builder = StateGraph(State)
    builder.add_node("work", lambda state: {"items": [state["n"]]})
    builder.add_conditional_edges(
        START, lambda state: [Send("work", {"n": n}) for n in range(50)], ["work"]
    )
    saver = InMemorySaver()
    builder.compile(checkpointer=saver).invoke({}, {**ONE, "max_concurrency": 16})

    entries = saver.read("1", "")
    assert [entry.parent for entry in entries] == [None, *(entry.id for entry in entries[:-1])]
