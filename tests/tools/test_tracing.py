from __future__ import annotations

import pytest
from pydantic import ValidationError

from foldline.messages import ToolMessage
from foldline.runnables import RunnableLambda
from foldline.tools import (
    tool,
)
from tests.tools.helpers import Recorder, add, calling

# -- traces


def test_a_call_is_told_as_langchain_tells_it(call):
    recorder = Recorder()

    call.invoke(
        add,
        calling("add", {"a": 1}),
        {"callbacks": [recorder], "tags": ["t"], "metadata": {"m": 1}},
    )

    (_, start_arguments, start), (_, output, end) = recorder.records
    assert start_arguments == ({"name": "add", "description": "Add two numbers."}, "{'a': 1}")
    assert {
        key: start[key] for key in ("inputs", "tool_call_id", "color", "name", "tags", "metadata")
    } == {
        "inputs": {"a": 1},
        "tool_call_id": "call_1",
        "color": "green",
        "name": None,
        "tags": ["t"],
        "metadata": {"m": 1},
    }
    assert output == ToolMessage("3", name="add", tool_call_id="call_1")
    assert (end["name"], end["run_id"]) == ("add", start["run_id"])


def test_a_tools_own_callbacks_tags_and_metadata_are_for_its_runs(call):
    recorder = Recorder()
    inner = RunnableLambda(lambda x: x)

    @tool(callbacks=[recorder], tags=["own"], metadata={"own": 1})
    def nest(a: int) -> int:
        """Nest."""
        return inner.invoke(a)

    call.invoke(nest, "1", {"run_name": "named"})

    assert recorder.events == ["start", "end"]
    assert recorder.records[0][2]["tags"] == ["own"]
    assert recorder.records[0][2]["metadata"]["own"] == 1
    assert recorder.records[0][2]["name"] == "named"
    assert recorder.records[0][2]["inputs"] is None


def test_runnables_called_inside_are_children_of_the_tool(call):
    recorder = Recorder()
    inner = RunnableLambda(lambda x: x)

    @tool
    def nest(a: int) -> int:
        """Nest."""
        return inner.invoke(a)

    call.invoke(nest, {"a": 1}, {"callbacks": [recorder]})

    assert recorder.events == ["start", "chain", "end"]
    assert recorder.records[1][2]["parent_run_id"] == recorder.records[0][2]["run_id"]


def test_invalid_arguments_are_told_as_an_error(call):
    recorder = Recorder()

    with pytest.raises(ValidationError):
        call.invoke(add, calling("add", {"a": "x"}), {"callbacks": [recorder]})

    assert recorder.events == ["start", "error"]
    assert recorder.records[1][2]["tool_call_id"] == "call_1"


def test_verbose_prints_the_run(call, capsys):
    call.run(add, "run", {"a": 1}, verbose=True)

    assert "3" in capsys.readouterr().out
