"""Few-shot examples of tool calls, as messages."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from foldline.exceptions import UsageError
from foldline.messages.ai_message import AIMessage
from foldline.messages.base import BaseMessage
from foldline.messages.human import HumanMessage
from foldline.messages.tool import ToolMessage
from foldline.utils.uuid import uuid7

__all__ = ["tool_example_to_messages"]

CALL_RECEIVED = "You have correctly called this tool."


def tool_example_to_messages(
    input: str,
    tool_calls: Sequence[BaseModel],
    tool_outputs: Sequence[str] | None = None,
    *,
    ai_response: str | None = None,
) -> list[BaseMessage]:
    """Return an example as messages: the question, the calls, their outputs and, if set, the answer.

    Each call is a model whose class is the tool and whose fields are the arguments. Many chat APIs refuse a call
    without an output, so missing outputs are replaced by a fixed sentence.
    """
    outputs = tool_outputs or [CALL_RECEIVED] * len(tool_calls)
    if len(outputs) != len(tool_calls):
        raise UsageError(
            f"the number of tool_outputs ({len(outputs)}) must match the number of tool_calls ({len(tool_calls)})"
        )
    calls = [
        {
            "id": str(uuid7()),
            "type": "function",
            "function": {"name": type(call).__name__, "arguments": call.model_dump_json()},
        }
        for call in tool_calls
    ]
    messages: list[BaseMessage] = [
        HumanMessage(input),
        AIMessage("", additional_kwargs={"tool_calls": calls}),
    ]
    messages += [
        ToolMessage(output, tool_call_id=str(call["id"]))
        for output, call in zip(outputs, calls, strict=True)
    ]
    return [*messages, AIMessage(ai_response)] if ai_response else messages
