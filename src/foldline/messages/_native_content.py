"""Content in a provider's own format, as messages have it under "v0": `thinking`, `tool_use`, `reasoning_content`.

The inverse of `block_translators`: a block is encoded natively only if its translator returns the same block, so that
`content_blocks` loses nothing. A block without a native form stays a standard block. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, Final

from foldline.messages.block_translators._pipeline import standard_blocks

__all__ = ["has_calls_in_content", "is_native", "native_content"]

Block = dict[str, Any]
Writer = Callable[[Block], Block]
Content = str | list[Any]

CALLS: Final = frozenset({"tool_call", "invalid_tool_call"})
DOCUMENT_LOCATIONS: Final = frozenset({"char_location", "page_location", "content_block_location"})
"""Anthropic's citations of a document: these have a `document_title`, others a `title`."""
REASONING_IN_KWARGS: Final = frozenset(
    {
        "cerebras", "deepseek", "fireworks", "groq", "lmstudio", "moonshot", "nvidia", "ollama", "openrouter", "qwen",
        "sambanova", "together", "vllm", "xai",
    }
)  # fmt: skip
"""Providers whose content is text, with the reasoning in `additional_kwargs["reasoning_content"]`."""


def is_native(metadata: Mapping[str, Any]) -> bool:
    """Whether a message with this metadata has native content."""
    provider = metadata.get("model_provider")
    return isinstance(provider, str) and (provider in WRITERS or provider in REASONING_IN_KWARGS)


def has_calls_in_content(metadata: Mapping[str, Any]) -> bool:
    """Whether the provider's content includes tool calls."""
    provider = metadata.get("model_provider")
    return isinstance(provider, str) and provider in CALLS_IN_CONTENT


def native_content(
    blocks: list[Block], metadata: Mapping[str, Any]
) -> tuple[Content, dict[str, Any]] | None:
    """Return native content and `additional_kwargs`; None for a provider without native content.

    `blocks` are complete standard blocks, including calls.
    """
    provider = str(metadata.get("model_provider"))
    if provider in REASONING_IN_KWARGS:
        return _with_reasoning_in_kwargs(blocks, provider)
    writers = WRITERS.get(provider)
    if writers is None:
        return None
    includes_calls = provider in CALLS_IN_CONTENT or any(
        block["type"] in CALLS and block.get("extras") for block in blocks
    )
    content_blocks = (
        blocks if includes_calls else [block for block in blocks if block["type"] not in CALLS]
    )
    if all(_is_plain_text(block) for block in content_blocks) and len(content_blocks) < 2:
        return (content_blocks[0]["text"] if content_blocks else ""), {}
    return [
        item
        for group in _groups(content_blocks)
        for item in _encode_group(group, provider, writers)
    ], {}


def _is_plain_text(block: Block) -> bool:
    return isinstance(block.get("text"), str) and not any(
        value for key, value in block.items() if key not in ("type", "text", "index")
    )


def _groups(blocks: list[Block]) -> list[list[Block]]:
    """Return groups of blocks: the summaries of a reasoning item are one group."""
    groups: list[list[Block]] = []
    for key, group in groupby(
        blocks, lambda block: (block["type"] == "reasoning", block.get("id"))
    ):
        members = list(group)
        groups += [members] if key[0] and key[1] else [[block] for block in members]
    return groups


def _encode_group(group: list[Block], provider: str, writers: Mapping[str, Writer]) -> list[Block]:
    """Return blocks in native form if they translate back to the same blocks."""
    writer = writers.get(group[0]["type"])
    if writer is None:
        return group
    standard = [{key: value for key, value in block.items() if key != "index"} for block in group]
    native = writer(standard[0] if len(standard) == 1 else {**standard[0], "blocks": standard})
    if standard_blocks([native], provider) != standard:
        return (
            group
            if len(group) == 1
            else [item for block in group for item in _encode_group([block], provider, writers)]
        )
    return [{**native, "index": group[0]["index"]} if "index" in group[0] else native]


def _with_reasoning_in_kwargs(
    blocks: list[Block], provider: str
) -> tuple[Content, dict[str, Any]] | None:
    calls = [block for block in blocks if block["type"] in CALLS]
    reasoning = [block for block in blocks if block["type"] == "reasoning"]
    texts = [block for block in blocks if block["type"] == "text"]
    has_others = len(blocks) != len(calls) + len(reasoning) + len(texts)
    if not reasoning or has_others or len(texts) > 1 or not all(map(_is_plain_text, texts)):
        return None
    additional_kwargs: dict[str, Any] = {
        "reasoning_content": "".join(str(block.get("reasoning") or "") for block in reasoning)
    }
    details = (reasoning[0].get("extras") or {}).get("reasoning_details")
    if details:
        additional_kwargs["reasoning_details"] = details
    content = texts[0]["text"] if texts else ""
    translated = standard_blocks(
        content, provider, additional_kwargs=additional_kwargs, calls=calls
    )
    expected = [{key: value for key, value in block.items() if key != "index"} for block in blocks]
    return (content, additional_kwargs) if translated == expected else None


# -- Anthropic


def _thinking(block: Block) -> Block:
    return {
        "type": "thinking",
        **({"id": block["id"]} if "id" in block else {}),
        **({"thinking": block["reasoning"]} if "reasoning" in block else {}),
        **(block.get("extras") or {}),
    }


def _cited_text(block: Block) -> Block:
    fields = {key: value for key, value in block.items() if key != "annotations"}
    if not block.get("annotations"):
        return block
    return {**fields, "citations": [_citation(annotation) for annotation in block["annotations"]]}


def _citation(annotation: Block) -> Block:
    if annotation.get("type") != "citation":
        return annotation
    extras = dict(annotation.get("extras") or {})
    kind = extras.pop("citation_type", None)
    title = "document_title" if kind in DOCUMENT_LOCATIONS else "title"
    fields = {
        title if key == "title" else key: annotation[key]
        for key in ("url", "title", "cited_text")
        if key in annotation
    }
    return {**({"type": kind} if kind is not None else {}), **fields, **extras}


def _tool_use(block: Block) -> Block:
    return {
        "type": "tool_use",
        "id": block.get("id"),
        "name": block.get("name"),
        "input": block.get("args"),
        **(block.get("extras") or {}),
    }


def _server_tool_use(block: Block) -> Block:
    extras = dict(block.get("extras") or {})
    name = block["name"]
    kind = "server_tool_use"
    if name == "remote_mcp":
        kind, name = "mcp_tool_use", extras.pop("tool_name", None)
    return {"type": kind, "id": block.get("id"), "name": name, "input": block.get("args"), **extras}


def _server_tool_result(block: Block) -> Block:
    extras = dict(block.get("extras") or {})
    return {
        "type": extras.pop("block_type", "web_search_tool_result"),
        "tool_use_id": block.get("tool_call_id"),
        **({"content": block["output"]} if "output" in block else {}),
        **({"id": block["id"]} if "id" in block else {}),
        **extras,
    }


def _native_value(block: Block) -> Block:
    value = block.get("value")
    return dict(value) if isinstance(value, dict) else block


# -- Bedrock's Converse, OpenAI's Responses


def _reasoning_content(block: Block) -> Block:
    text = {"text": block["reasoning"]} if "reasoning" in block else {}
    return {
        "type": "reasoning_content",
        "reasoning_content": {**text, **(block.get("extras") or {})},
    }


def _reasoning_item(block: Block) -> Block:
    blocks = block.get("blocks") or [block]
    summary = [
        {"type": "summary_text", "text": part["reasoning"]}
        for part in blocks
        if "reasoning" in part
    ]
    return {
        "type": "reasoning",
        **({"id": block["id"]} if "id" in block else {}),
        "summary": summary,
        **(block.get("extras") or {}),
    }


def _function_call(block: Block) -> Block:
    extras = dict(block.get("extras") or {})
    item = extras.pop("item_id", None)
    return {
        "type": "function_call",
        **({"id": item} if item else {}),
        "call_id": block.get("id"),
        "name": block.get("name"),
        "arguments": json.dumps(block.get("args"), ensure_ascii=False, separators=(",", ":")),
        **extras,
    }


ANTHROPIC: Final[dict[str, Writer]] = {
    "reasoning": _thinking,
    "text": _cited_text,
    "tool_call": _tool_use,
    "server_tool_call": _server_tool_use,
    "server_tool_result": _server_tool_result,
    "non_standard": _native_value,
}
CONVERSE: Final[dict[str, Writer]] = {"reasoning": _reasoning_content, "tool_call": _tool_use}
RESPONSES: Final[dict[str, Writer]] = {
    "reasoning": _reasoning_item,
    "tool_call": _function_call,
}
GEMINI: Final[dict[str, Writer]] = {"reasoning": _thinking}
WRITERS: Final[dict[str, Mapping[str, Writer]]] = {
    "anthropic": ANTHROPIC,
    "aws_bedrock": CONVERSE,
    "bedrock": CONVERSE,
    "bedrock_converse": CONVERSE,
    "openai": RESPONSES,
    "azure": RESPONSES,
    "azure_openai": RESPONSES,
    "google": GEMINI,
    "google_genai": GEMINI,
    "google_vertexai": GEMINI,
    "gemini": GEMINI,
}
"""Provider -> block type -> encoder of the native form."""
CALLS_IN_CONTENT: Final = frozenset({"anthropic", "aws_bedrock", "bedrock", "bedrock_converse"})
"""Providers whose content includes tool calls."""
