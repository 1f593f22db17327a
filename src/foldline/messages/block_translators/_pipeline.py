"""Convert a message's content to standard blocks: the provider's translator is tried first, then all others.

Translators register here; nothing is specific to a vendor. Unknown blocks become `non_standard`, unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

from foldline.messages.block_translators import _common as common
from foldline.messages.block_translators._common import Block, Translator
from foldline.messages.block_translators._kwargs_blocks import (
    blocks_of_kwargs,
    items_of_kwargs,
    refusal_of_kwargs,
    with_item_ids,
)
from foldline.messages.block_translators._refusals import refusal_of_metadata, refusal_of_value
from foldline.protocol.blocks import ContentBlock
from foldline.protocol.merge import copy_json

__all__ = [
    "MessageLike",
]

TRANSLATORS: dict[str, Translator] = {}
"""Provider (`response_metadata["model_provider"]`) -> translator of its blocks."""
FALLBACK_TRANSLATORS: list[Translator] = [common.translate]
"""Tried in this order if the provider is unknown: for input messages, and answers without a provider."""
OLD_ITEM_KEYS = {"tool_outputs", "__openai_function_call_ids__"}
"""Keys of `additional_kwargs` in which LangChain 0.3 stores items of the Responses API."""
MetadataStep = Callable[[list[Block], Mapping[str, Any]], list[Block]]
METADATA_STEPS: dict[Translator, MetadataStep] = {}
"""Translator -> function that adds data of the response metadata to its blocks: Gemini's citations."""


class MessageLike(Protocol):
    """The fields of a message that a translator reads; the class itself cannot be imported here."""

    @property
    def content(self) -> Any: ...  # noqa: ANN401  content in any vendor's format
    @property
    def response_metadata(self) -> dict[Any, Any]: ...
    @property
    def additional_kwargs(self) -> dict[Any, Any]: ...


Translate: TypeAlias = Callable[[MessageLike], list[ContentBlock]]
"""Returns a message's content as standard blocks."""


def message_translator(translate: Translator) -> Translate:
    """Return a translator of messages from a translator of blocks."""

    def translate_content(message: MessageLike) -> list[ContentBlock]:
        """Return the content of a message as standard blocks."""
        calls = (getattr(message, name, None) for name in ("tool_calls", "invalid_tool_calls"))
        return standard_blocks(
            message.content,
            None,
            metadata=message.response_metadata,
            additional_kwargs=message.additional_kwargs,
            calls=[call for group in calls for call in group or []],
            translate=translate,
            message_id=getattr(message, "id", None),
        )

    return translate_content


def standard_blocks(
    content: str | Sequence[str | dict[Any, Any]],
    provider: str | None,
    *,
    metadata: Mapping[str, Any] | None = None,
    additional_kwargs: Mapping[str, Any] | None = None,
    calls: Sequence[Mapping[str, Any]] = (),
    translate: Translator | None = None,
    message_id: str | None = None,
) -> list[ContentBlock]:
    """Return content as standard blocks, including reasoning and tool calls that are stored outside it."""
    own_translator = translate or TRANSLATORS.get(provider or "")
    has_more = calls or additional_kwargs or own_translator in METADATA_STEPS
    if isinstance(content, str) and not has_more:  # as most messages are
        return [{"type": "text", "text": content}] if content else []
    items = [content] if isinstance(content, str) else content
    blocks: list[Block] = []
    metadata = metadata or {}
    is_standard = metadata.get("output_version") == "v1"
    translators = (
        (own_translator, *FALLBACK_TRANSLATORS) if own_translator else FALLBACK_TRANSLATORS
    )
    for item in items:
        if not isinstance(item, str):
            blocks += _translate_item(item, translators, is_standard=is_standard)
        elif item:
            blocks.append({"type": "text", "text": item})
    if own_translator in METADATA_STEPS:
        blocks = METADATA_STEPS[own_translator](blocks, metadata)
    if not additional_kwargs:
        return cast("list[ContentBlock]", _with_calls(blocks, calls))
    blocks = _with_old_fields(blocks, additional_kwargs, message_id)
    blocks = _with_calls(blocks, with_item_ids(calls, additional_kwargs))
    known_ids = {block.get("id") for block in blocks}
    for item in items_of_kwargs(additional_kwargs):
        if item.get("id") not in known_ids:
            blocks += _translate_item(item, translators, is_standard=is_standard)
    return cast("list[ContentBlock]", blocks)


def _with_old_fields(
    blocks: list[Block], additional_kwargs: Mapping[str, Any], message_id: str | None
) -> list[Block]:
    """Return blocks with the reasoning and the refusal that older messages have in `additional_kwargs`."""
    if message_id and OLD_ITEM_KEYS & additional_kwargs.keys():
        # The text is one item with the message's id.
        blocks = [
            {**block, "id": message_id} if block["type"] == "text" else block for block in blocks
        ]
    blocks = [*blocks_of_kwargs(additional_kwargs, blocks), *blocks]
    return blocks + refusal_of_kwargs(additional_kwargs, blocks)


def with_refusal(metadata: Mapping[str, Any], blocks: list[ContentBlock]) -> list[ContentBlock]:
    """Return the blocks of a complete message, with the refusal that only its metadata reports, if it does."""
    refusal = refusal_of_metadata(metadata, has_content=bool(blocks))
    if refusal is None or any(block.get("type") == "refusal" for block in blocks):
        return blocks
    return [*blocks, cast("ContentBlock", refusal)]


def _translate_item(
    item: Block, translators: Sequence[Translator], *, is_standard: bool
) -> list[Block]:
    kind = item.get("type")
    if kind == "non_standard" and (refusal := refusal_of_value(item)) is not None:
        return [copy_json(refusal)]
    if is_standard and kind in common.STANDARD_TYPES:
        return [copy_json(item)]
    for translate in translators:
        blocks = translate(item)
        if blocks is not None:
            return [common.with_index(copy_json(block), item) for block in blocks]
    return [common.non_standard(item)]


def _with_calls(blocks: list[Block], calls: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Return blocks with the message's calls: in place of the call blocks in the content, others at the end."""
    by_id = {call["id"]: call for call in calls if call.get("id")}
    slices = {
        call["index"]: call
        for call in calls
        if call.get("type") == "tool_call_chunk" and call.get("index") is not None
    }
    placed: set[int] = set()
    merged: list[Block] = []
    for block in blocks:
        call = None
        if block.get("type") in common.CLIENT_CALLS:
            name = block.get("id")
            call = by_id.get(name) if isinstance(name, str) else slices.get(block.get("index"))
        if call is not None:
            # The arguments are those of the parsed call; the extras are those of both.
            extras = common.with_extras(block, call.get("extras") or {}).get("extras")
            index_field = {key: block[key] for key in ("index",) if key in block}
            block = {**_as_block(call), **index_field, **({"extras": extras} if extras else {})}
            placed.add(id(call))
        merged.append(block)
    has_anonymous = any(b.get("type") in common.CLIENT_CALLS and not b.get("id") for b in blocks)
    merged += [
        _as_block(call)
        for call in calls
        if id(call) not in placed and not (has_anonymous and not call.get("id"))
    ]
    return merged


def _as_block(call: Mapping[str, Any]) -> Block:
    """Return a call of a message as a block, with its type first."""
    order = [key for key in ("type", "id", "name", "args") if key in call]
    return {key: copy_json(call[key]) for key in dict.fromkeys((*order, *call))}
