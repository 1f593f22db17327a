"""What vendors say beside the content: reasoning (DeepSeek, Groq, OpenRouter, Ollama), audio, tools that Groq ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foldline.messages.block_translators.common import Block, rest_of, with_extras
from foldline.protocol.promote import promote

__all__ = ["said_beside"]

REASONING_KEYS = ("reasoning_content", "reasoning")
GROQ_TOOLS = {"python": "code_interpreter", "search": "web_search"}


def said_beside(kwargs: Mapping[str, Any], blocks: list[Block]) -> list[Block]:
    """Give blocks for what stands in `additional_kwargs` and not in the content."""
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
            texts = [
                part.get("text") or ""
                for part in said.get("summary") or []
                if isinstance(part, dict)
            ]
            item: Block = {"type": "reasoning", **({"id": said["id"]} if said.get("id") else {})}
            item |= {"reasoning": "".join(texts)} if texts else {}
            return [with_extras(item, rest_of(said, ("id", "summary")))]
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
        blocks.append(with_extras(result, rest_of(tool, ("id", "arguments", "output"))))
    return blocks
