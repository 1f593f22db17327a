"""Streams of a flow: every mode, with a checkpointer and without."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args
from uuid import uuid4

import pytest

from foldline.agents import create_agent
from foldline.checkpoint import InMemorySaver
from foldline.testing import FakeChatModel, ScriptedChatModel
from foldline.workflows import interrupt, step, workflow
from foldline.workflows.views import StreamMode

ONE = {"configurable": {"thread_id": "1"}}


@step
def double(number: int) -> int:
    return number * 2


def make_flow(saver):
    @workflow(checkpointer=saver)
    def flow(number: int) -> int:
        return double(number)

    return flow


@pytest.mark.parametrize("saver", [None, InMemorySaver()], ids=["plain", "kept"])
def test_updates_values_and_tasks_are_streamed(call, saver):
    config = {"configurable": {"thread_id": uuid4().hex}}

    pieces = call.stream(make_flow(saver), 2, config, stream_mode=["updates", "values", "tasks"])

    assert [piece for mode, piece in pieces if mode == "updates"] == [{"double": 4}, {"flow": 4}]
    assert [piece for mode, piece in pieces if mode == "values"] == [4]
    tasks = [piece for mode, piece in pieces if mode == "tasks"]
    assert [task["name"] for task in tasks] == ["flow", "double", "double", "flow"]
    assert tasks[1]["input"] == ((2,), {})
    assert [task.get("result") for task in tasks] == [None, None, {"__return__": 4}, {"__end__": 4}]
    assert tasks[1]["id"] == tasks[2]["id"] != tasks[0]["id"] == tasks[3]["id"]


def test_checkpoints_name_records_that_the_thread_can_be_forked_from(call):
    saver = InMemorySaver()
    flow = make_flow(saver)

    pieces = call.stream(flow, 2, ONE, stream_mode=["checkpoints", "debug"])

    checkpoints = [piece for mode, piece in pieces if mode == "checkpoints"]
    assert [checkpoint["metadata"]["source"] for checkpoint in checkpoints] == [
        "flow",
        "step",
        "end",
    ]
    assert [checkpoint["values"] for checkpoint in checkpoints] == [None, 4, 4]
    kinds = [piece["type"] for mode, piece in pieces if mode == "debug"]
    assert kinds == [
        "checkpoint", "task", "task", "task_result", "checkpoint", "checkpoint", "task_result"
    ]  # fmt: skip
    at = checkpoints[1]["config"]["configurable"]["checkpoint_id"]
    assert flow.thread("1").fork(at=at, to=f"f{id(call)}").state().steps == {"double#0": 4}


def test_words_of_models_are_streamed_as_they_come(call):
    model = FakeChatModel(script=["one two", "three"])

    @step
    def ask(question: str) -> str:
        return model.invoke(question).text

    @workflow
    def flow(question: str) -> str:
        return ask(question) + model.invoke(question).text

    pieces = call.stream(flow, "?", stream_mode="messages")

    texts = [(chunk.text, metadata["langgraph_node"]) for chunk, metadata in pieces if chunk.text]
    assert texts == [("one", "ask"), (" two", "ask"), ("three", "flow")]


def test_words_of_an_agent_inside_a_flow_are_streamed_once(call):
    agent = create_agent(ScriptedChatModel(script=lambda request: "hello there"))

    @workflow(checkpointer=InMemorySaver())
    def flow(question: str) -> str:
        return agent.invoke(question)["messages"][-1].text

    pieces = call.stream(flow, "?", ONE, stream_mode="messages")

    assert "".join(chunk.text for chunk, _ in pieces) == "hello there"


def test_a_question_and_a_failure_are_told_in_every_mode(call):
    @step
    def ask(number: int) -> int:
        if number:
            raise ValueError("no")
        return interrupt("?")

    @workflow(checkpointer=InMemorySaver())
    def flow(number: int) -> int:
        return ask(number)

    pieces = call.stream(flow, 0, ONE, stream_mode=["updates", "values", "tasks"])
    assert [mode for mode, piece in pieces if "__interrupt__" in piece] == ["updates", "values"]
    results = [piece for mode, piece in pieces if mode == "tasks" and "result" in piece]
    assert [result["name"] for result in results] == ["ask", "flow"]
    assert [result["interrupts"][0]["value"] for result in results] == ["?", "?"]

    pieces, tasks = flow.stream(1, {"configurable": {"thread_id": "2"}}, stream_mode="tasks"), []
    with pytest.raises(ValueError, match="no"):
        tasks.extend(pieces)
    assert [repr(task.get("error")) for task in tasks if "result" in task] == [
        "ValueError('no')"
    ] * 2


def test_the_page_of_flows_names_every_stream_mode():
    text = " ".join((Path(__file__).parents[2] / "docs" / "flows.md").read_text("utf-8").split())
    sentence = text.partition("`stream_mode` is one of these")[2].partition("## ")[0]

    modes = re.findall(r"`([a-z]+)`(?: \(|, |\.)", sentence)

    assert set(modes) - {"write"} == set(get_args(StreamMode))
