"""Graphs as generic classes, and copies of graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import pytest

from foldline.checkpoint import InMemorySaver
from foldline.exceptions import UsageError
from foldline.graph import START, Command, CompiledStateGraph, Interrupt, Runtime, StateGraph
from tests.graph.lines import Log, line


@dataclass
class Person:
    name: str


def test_G44_graphs_and_their_data_can_be_subscripted_at_run_time(call):
    builder = StateGraph[Log, Person, Log, Log](Log, Person)
    builder.add_node("a", lambda state, runtime: {"log": [runtime.context.name]})
    builder.add_edge(START, "a")

    app: CompiledStateGraph[Log, Person, Log, Log] = builder.compile()

    assert call.invoke(app, {"log": []}, context={"name": "ann"}) == {"log": ["ann"]}
    assert get_args(CompiledStateGraph[Log, Person, Log, Log]) == (Log, Person, Log, Log)
    assert get_args(StateGraph[Log])[0] is Log
    for generic in (Interrupt, Command, Runtime):
        assert get_args(generic[int]) == (int,)


def test_G44_the_schema_of_the_context_is_json():
    with_context = StateGraph(Log, Person).add_node("a", lambda _: None).add_edge(START, "a")

    assert with_context.compile().get_context_jsonschema()["required"] == ["name"]
    assert line("a").get_context_jsonschema() is None


def test_G44_a_copy_has_other_options_and_the_original_keeps_its_own(call, saver, thread):
    graph = line("a")

    copy = graph.copy({"checkpointer": saver, "name": "kept"})
    call.invoke(copy, {"log": []}, thread)

    assert call.run(copy, "get_state", thread).values == {"log": ["a"]}
    assert (graph.checkpointer, copy.get_name()) == (None, "kept")
    with pytest.raises(UsageError, match="checkpointer"):
        graph.copy({"checkpointr": InMemorySaver()})
