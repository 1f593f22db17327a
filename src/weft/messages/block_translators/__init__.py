"""From a provider's own content to standard blocks, one file per vendor.

A translator is a function of one native block that gives standard blocks, or None for a block it does not know; then
the common shapes are tried, and what nobody knows becomes `non_standard`, whole. Standard blocks come back as they are,
so translating twice is translating once. Nothing here waits, and no file knows another vendor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from weft.messages.block_translators import anthropic, bedrock, common, google, openai, reasoning
from weft.messages.block_translators.common import Block, Translator
from weft.protocol.blocks import ContentBlock, Json
from weft.protocol.merge import copy_json

__all__ = ["TRANSLATORS", "register_translator", "standard_blocks"]

TRANSLATORS: dict[str, Translator] = {
    "anthropic": anthropic.translate,
    "bedrock": anthropic.translate,
    "bedrock_converse": bedrock.translate,
    "aws_bedrock": bedrock.translate,
    "openai": openai.translate,
    "azure": openai.translate,
    "azure_openai": openai.translate,
    "google": google.translate,
    "google_genai": google.translate,
    "google_vertexai": google.translate,
    "gemini": google.translate,
}
"""Provider name (`response_metadata["model_provider"]`) -> how its blocks are read."""

ANY_PROVIDER: tuple[Translator, ...] = (
    common.translate,
    openai.translate,
    anthropic.translate,
    google.translate,
    bedrock.translate,
)
"""Tried in this order when the provider is not known: input messages, and answers nobody signed."""


def register_translator(provider: str, translator: Translator) -> None:
    """Teach weft how a provider's content reads."""
    TRANSLATORS[provider] = translator


def standard_blocks(
    content: str | Sequence[str | dict[Any, Any]],
    provider: str | None,
    *,
    metadata: Mapping[str, Json] | None = None,
    additional_kwargs: Mapping[str, Json] | None = None,
    calls: Sequence[Mapping[str, Json]] = (),
) -> list[ContentBlock]:
    """Give content as standard blocks, with reasoning and tool calls that were said beside it."""
    items = [content] if isinstance(content, str) else content
    blocks: list[Block] = []
    metadata = metadata or {}
    is_standard = metadata.get("output_version") == "v1"
    known = TRANSLATORS.get(provider or "")
    translators = (known, *ANY_PROVIDER) if known else ANY_PROVIDER
    for item in items:
        if isinstance(item, str):
            blocks += [{"type": "text", "text": item}] if item else []
        else:
            blocks += _translated(item, translators, is_standard=is_standard)
    if known is google.translate:
        blocks = google.with_grounding(blocks, metadata.get("grounding_metadata"))
    if additional_kwargs:
        blocks = [*reasoning.said_beside(additional_kwargs, blocks), *blocks]
    blocks = _with_calls(blocks, calls)
    return cast("list[ContentBlock]", blocks)


def _translated(
    item: Block, translators: Sequence[Translator], *, is_standard: bool
) -> list[Block]:
    if is_standard and item.get("type") in common.STANDARD_TYPES:
        return [copy_json(item)]
    for translate in translators:
        blocks = translate(item)
        if blocks is not None:
            return [common.with_index(copy_json(block), item) for block in blocks]
    return [common.non_standard(item)]


def _with_calls(blocks: list[Block], calls: Sequence[Mapping[str, Json]]) -> list[Block]:
    """Put the message's calls where its content has them, and the rest at the end."""
    by_id = {call["id"]: call for call in calls if call.get("id")}
    placed: set[str] = set()
    whole: list[Block] = []
    for block in blocks:
        call = by_id.get(block.get("id")) if block.get("type") in common.CLIENT_CALLS else None
        if call is not None:
            # The parsed call knows its arguments best; the block knows what else the provider said.
            extras = {**(block.get("extras") or {}), **(call.get("extras") or {})}
            kept = {key: block[key] for key in ("index",) if key in block}
            block = {**copy_json(dict(call)), **kept, **({"extras": extras} if extras else {})}
            placed.add(block["id"])
        whole.append(block)
    has_anonymous = any(b.get("type") in common.CLIENT_CALLS and not b.get("id") for b in blocks)
    whole += [
        copy_json(dict(call))
        for call in calls
        if call.get("id") not in placed and not (has_anonymous and not call.get("id"))
    ]
    return whole
