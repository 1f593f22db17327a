"""Values that every release writes to its golden file, and LangChain's dumps of the same kinds.

`python -m tests.load.golden_values` writes the file of this release; released files are never changed (F-D05).
"""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from uuid import UUID

import foldline
from foldline.documents import Document
from foldline.load import dumpd
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
from foldline.outputs import (
    ChatGeneration,
    ChatGenerationChunk,
    ChatResult,
    Generation,
    GenerationChunk,
    LLMResult,
    RunInfo,
)
from foldline.outputs.agent import AgentAction, AgentActionMessageLog, AgentFinish, AgentStep
from foldline.prompt_values import (
    ChatPromptValue,
    ChatPromptValueConcrete,
    ImagePromptValue,
    StringPromptValue,
)
from foldline.structured_query import Comparator, Comparison, Operation, Operator, StructuredQuery

FOLDER = Path(__file__).parent / "golden"

CALL = {"name": "add", "args": {"a": 1, "lc": 1}, "id": "call_1", "type": "tool_call"}
WRONG = {"name": "add", "args": "{", "id": "call_2", "error": "cut", "type": "invalid_tool_call"}
USAGE = {
    "input_tokens": 5,
    "output_tokens": 7,
    "total_tokens": 12,
    "input_token_details": {"cache_read": 3},
}
ANSWER = AIMessage(
    [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "Grüße"}],
    id="msg_1",
    tool_calls=[CALL],
    invalid_tool_calls=[WRONG],
    usage_metadata=USAGE,
    response_metadata={"model_provider": "acme", "model_name": "anvil-1"},
    finish_reason="tool_use",
    status="incomplete",
)

VALUES: list[object] = [
    HumanMessage("hello", id="1", name="ann", mood="good"),
    HumanMessage([{"type": "image", "url": "https://example.com/a.png"}]),
    SystemMessage("be brief", additional_kwargs={"lc": {"__lc_escaped__": 1}}),
    ANSWER,
    AIMessageChunk(content="a", chunk_position="last"),
    ToolMessage("3", tool_call_id="call_1", artifact={"raw": [1]}, status="error"),
    ChatMessage("hello", role="critic"),
    FunctionMessage("3", name="add"),
    RemoveMessage("1"),
    Document("text", metadata={"page": 1, "at": datetime.date(2026, 11, 15)}, id="d1"),
    Generation(text="a", generation_info={"stop": "end"}),
    GenerationChunk(text="a"),
    ChatGeneration(message=ANSWER),
    ChatGenerationChunk(message=AIMessageChunk(content="a")),
    ChatResult(generations=[ChatGeneration(message=AIMessage("a"))], llm_output={"a": 1}),
    LLMResult(generations=[[Generation(text="a")]], run=[RunInfo(run_id=UUID(int=1))]),
    StringPromptValue(text="hello"),
    ChatPromptValue(messages=[HumanMessage("a")]),
    ChatPromptValueConcrete(messages=[HumanMessage("a"), AIMessage("b")]),
    ImagePromptValue(image_url={"url": "https://example.com/a.png", "detail": "low"}),
    AgentAction("search", {"query": "foldline"}, "look"),
    AgentActionMessageLog(tool="t", tool_input="x", log="l", message_log=[AIMessage("q")]),
    AgentStep(action=AgentAction("t", "x", "l"), observation=("found", 1)),
    AgentFinish({"output": "x"}, "done"),
    StructuredQuery(
        "weaving",
        Operation(Operator.AND, [Comparison(Comparator.EQ, "author", "ann")]),
        limit=3,
    ),
    (1, {2, 3}, b"\x00", {1: "a"}, float("inf"), UUID(int=5), datetime.timedelta(seconds=1)),
    {"lc": 1, "type": "secret", "id": ["OPENAI_API_KEY"]},
]
"""What version 0.1.0 could write. Later kinds go at the end, under the version that brought them."""


def write() -> Path:
    """Write the golden file of this version."""
    path = FOLDER / f"{foldline.__version__}.json"
    text = json.dumps([dumpd(value) for value in VALUES], indent=1)
    path.write_text(text + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    sys.stdout.write(f"{write()}\n")
