"""Blocks from `additional_kwargs`: reasoning (DeepSeek, Groq, OpenRouter, Ollama), refusals, tools that Groq ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from foldline.messages.block_translators._common import Block, unread_fields, with_extras
from foldline.protocol.tool_call_parser import promote

__all__ = ["blocks_of_kwargs", "items_of_kwargs", "refusal_of_kwargs", "with_item_ids"]

REASONING_KEYS = ("reasoning_content", "reasoning")
GROQ_TOOLS = {"python": "code_interpreter", "search": "web_search"}


def blocks_of_kwargs(kwargs: Mapping[str, Any], blocks: list[Block]) -> list[Block]:
    """Return blocks for fields of `additional_kwargs` that are not in the content."""
    return [*_reasoning(kwargs, blocks), *_executed(kwargs.get("executed_tools"))]


def _reasoning(kwargs: Mapping[str, Any], blocks: list[Block]) -> list[Block]:
    if any(block.get("type") == "reasoning" for block in blocks):
        return []
    details = kwargs.get("reasoning_details")
    for key in REASONING_KEYS:
        value = kwargs.get(key)
        if isinstance(value, str) and value:
            reasoning_block: Block = {"type": "reasoning", "reasoning": value}
            return [with_extras(reasoning_block, {"reasoning_details": details} if details else {})]
        if isinstance(value, dict):  # an item of the Responses API, as LangChain 0.3 stores it
            return _summaries(value)
    if isinstance(details, list):
        texts = [
            str(part.get("text") or part.get("summary") or "")
            for part in details
            if isinstance(part, dict)
        ]
        summary_block: Block = {
            "type": "reasoning",
            **({"reasoning": "".join(texts)} if any(texts) else {}),
        }
        return [with_extras(summary_block, {"reasoning_details": details})] if details else []
    return []


def _summaries(item: Mapping[str, Any]) -> list[Block]:
    """Split a reasoning item of the Responses API into one block per summary."""
    texts = [part.get("text") or "" for part in item.get("summary") or [] if isinstance(part, dict)]
    base_block: Block = {"type": "reasoning", **({"id": item["id"]} if item.get("id") else {})}
    blocks = [{**base_block, "reasoning": text} for text in texts] or [base_block]
    return [with_extras(blocks[0], unread_fields(dict(item), ("id", "summary"))), *blocks[1:]]


def refusal_of_kwargs(kwargs: Mapping[str, Any], blocks: list[Block]) -> list[Block]:
    """Return the block of a refusal in `additional_kwargs`."""
    refusal = kwargs.get("refusal")
    if not isinstance(refusal, str) or not refusal:
        return []
    if any(block.get("type") == "refusal" for block in blocks):
        return []
    return [{"type": "refusal", "refusal": refusal}]


def items_of_kwargs(kwargs: Mapping[str, Any]) -> list[Block]:
    """Return the items of OpenAI's server tools, as LangChain 0.3 stores them."""
    items = kwargs.get("tool_outputs")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def with_item_ids(
    calls: Sequence[Mapping[str, Any]], kwargs: Mapping[str, Any]
) -> Sequence[Mapping[str, Any]]:
    """Return calls with their item ids of the Responses API, as LangChain 0.3 stores them."""
    ids = kwargs.get("__openai_function_call_ids__")
    if not isinstance(ids, dict) or not ids:
        return calls
    return [
        with_extras(dict(call), {"item_id": ids[call["id"]]}) if call.get("id") in ids else call
        for call in calls
    ]


def _executed(tools: object) -> list[Block]:
    """Return blocks for the tools that Groq ran."""
    blocks: list[Block] = []
    for position, tool in enumerate(tools if isinstance(tools, list) else []):
        if not isinstance(tool, dict):
            continue
        id = str(tool.get("id") or tool.get("index", position))
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
