"""F-D05: what a released version wrote, this version loads equal; and so with LangChain's own dumps."""

from __future__ import annotations

import json

import pytest

from foldline.documents import Document
from foldline.load import dumpd, load
from foldline.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from foldline.outputs import ChatGeneration, Generation
from foldline.outputs.agent import AgentAction, AgentActionMessageLog, AgentFinish
from foldline.prompt_values import ChatPromptValue, StringPromptValue
from tests.load.golden_values import FOLDER, VALUES
from tests.load.values import same

WRITTEN = {"0.1.0a0": len(VALUES), "0.1.0": len(VALUES)}
"""Version -> how many of VALUES its file holds."""


def read(name: str) -> list[object]:
    values: list[object] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return values


@pytest.mark.parametrize("version", WRITTEN)
def test_F_D05_files_of_released_versions_load_equal(version):
    records = read(version)

    assert len(records) == WRITTEN[version]
    for data, value in zip(records, VALUES, strict=False):
        loaded_value = load(data)
        assert type(loaded_value) is type(value)
        assert (
            same(loaded_value, value) if isinstance(value, tuple | dict) else loaded_value == value
        )


def test_this_version_still_writes_what_it_wrote():
    assert [json.loads(json.dumps(dumpd(value))) for value in VALUES] == read("0.1.0")


CALL = {"name": "add", "args": {"a": 1}, "id": "c1"}
FROM_LANGCHAIN: list[object] = [
    HumanMessage("hi", id="1", name="ann"),
    SystemMessage("s"),
    AIMessage(
        [{"type": "text", "text": "x"}],
        tool_calls=[CALL],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        response_metadata={"model_provider": "openai"},
    ),
    AIMessageChunk(
        content="x",
        tool_call_chunks=[
            {
                "name": "add",
                "args": '{"a": 1}',
                "id": "c",
                "index": 0,
                "type": "tool_call_chunk",
            }
        ],
    ),
    ToolMessage("r", tool_call_id="c1", artifact={"lc": 1, "type": "secret", "id": ["HOME"]}),
    ChatMessage("x", role="r"),
    FunctionMessage("x", name="f"),
    RemoveMessage("7"),
    HumanMessage(
        "x",
        additional_kwargs={
            "a": {"lc": 1, "b": {"__lc_escaped__": 1}},
            "b": {"__lc_escaped__": {"lc": 1}},
        },
    ),
    Document("x", metadata={"a": 1}, id="d"),
    ChatGeneration(message=AIMessage("q")),
    Generation(text="t"),
    StringPromptValue(text="x"),
    ChatPromptValue(messages=[HumanMessage("a")]),
    AgentAction("t", {"a": 1}, "l"),
    AgentFinish({"output": "x"}, "l"),
    AgentActionMessageLog(tool="t", tool_input="x", log="l", message_log=[AIMessage("q")]),
]


@pytest.mark.parametrize(
    ("data", "value"),
    list(zip(read("langchain-core-1.7.2"), FROM_LANGCHAIN, strict=True)),
    ids=lambda part: type(part).__name__,
)
def test_dumps_of_langchain_load_as_our_values(data, value):
    loaded_value = load(data)

    assert type(loaded_value) is type(value)
    assert loaded_value == value
