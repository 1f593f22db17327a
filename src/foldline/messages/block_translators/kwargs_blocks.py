"""What vendors say beside the content: reasoning (DeepSeek, Groq, OpenRouter, Ollama), audio, tools that Groq ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from foldline.messages.block_translators.common import Block, unread_fields, with_extras
from foldline.protocol.promote import promote

__all__ = ["blocks_of_kwargs", "items_of_kwargs", "refusal_of_kwargs", "with_item_ids"]

REASONING_KEYS = ("reasoning_content", "reasoning")
GROQ_TOOLS = {"python": "code_interpreter", "search": "web_search"}


def blocks_of_kwargs(kwargs: Mapping[str, Any], blocks: list[Block]) -> list[Block]:
    """Return blocks for what stands in `additional_kwargs` and not in the content."""
    return [*_reasoning(kwargs, blocks), *_executed(kwargs.get("executed_tools"))]


def _reasoning(kwargs: Mapping[str, Any], blocks: list[Block]) -> list[Block]:
    if any(block.get("type") == "reasoning" for block in blocks):
        return []
    details = kwargs.get("reasoning_details")
    for key in REASONING_KEYS:
        said = kwargs.get(key)
        if isinstance(said, str) and said:
            new: Block = {"type": "reasoning", "reasoning": said}
            return [with_extras(new, {"reasoning_details": details} if details else {})]
        if isinstance(said, dict):  # an item of the responses interface, kept beside older content
            return _summaries(said)
    if isinstance(details, list):
        texts = [
            str(part.get("text") or part.get("summary") or "")
            for part in details
            if isinstance(part, dict)
        ]
        shown: Block = {
            "type": "reasoning",
            **({"reasoning": "".join(texts)} if any(texts) else {}),
        }
        return [with_extras(shown, {"reasoning_details": details})] if details else []
    return []


def _summaries(item: Mapping[str, Any]) -> list[Block]:
    """Part a reasoning item of the responses interface into one block per summary."""
    texts = [part.get("text") or "" for part in item.get("summary") or [] if isinstance(part, dict)]
    new: Block = {"type": "reasoning", **({"id": item["id"]} if item.get("id") else {})}
    blocks = [{**new, "reasoning": text} for text in texts] or [new]
    return [with_extras(blocks[0], unread_fields(dict(item), ("id", "summary"))), *blocks[1:]]


def refusal_of_kwargs(kwargs: Mapping[str, Any], blocks: list[Block]) -> list[Block]:
    """Return the block of a refusal that stands beside the content."""
    refusal = kwargs.get("refusal")
    if not isinstance(refusal, str) or not refusal:
        return []
    block: Block = {"type": "non_standard", "value": {"type": "refusal", "refusal": refusal}}
    return [] if block in blocks else [block]


def items_of_kwargs(kwargs: Mapping[str, Any]) -> list[Block]:
    """Return the items of tools that OpenAI ran itself, as LangChain 0.3 kept them."""
    items = kwargs.get("tool_outputs")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def with_item_ids(
    calls: Sequence[Mapping[str, Any]], kwargs: Mapping[str, Any]
) -> Sequence[Mapping[str, Any]]:
    """Add the ids that the responses interface gave to calls, as LangChain 0.3 kept them."""
    ids = kwargs.get("__openai_function_call_ids__")
    if not isinstance(ids, dict) or not ids:
        return calls
    return [
        with_extras(dict(call), {"item_id": ids[call["id"]]}) if call.get("id") in ids else call
        for call in calls
    ]


def _executed(tools: object) -> list[Block]:
    """Read the tools that Groq ran itself."""
    blocks: list[Block] = []
    for place, tool in enumerate(tools if isinstance(tools, list) else []):
        if not isinstance(tool, dict):
            continue
        id = str(tool.get("id") or tool.get("index", place))
        kind = str(tool.get("type") or "")
        parsed = promote(
            {"type": "tool_call_chunk", "name": "x", "args": tool.get("arguments") or ""}
        )
        args = (
            parsed["args"]
            if isinstance(parsed["args"], dict)
            else {"arguments": tool.get("arguments")}
        )
        name = GROQ_TOOLS.get(kind, kind or "tool")
        blocks.append({"type": "server_tool_call", "id": id, "name": name, "args": args})
        result: Block = {"type": "server_tool_result", "tool_call_id": id, "status": "success"}
        if tool.get("output") is not None:
            result["output"] = tool["output"]
        blocks.append(with_extras(result, unread_fields(tool, ("id", "arguments", "output"))))
    return blocks
