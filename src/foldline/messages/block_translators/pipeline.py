"""How a message's content becomes standard blocks: one walk, with the provider's translator tried first.

Translators register here; this file knows no vendor. What nobody knows becomes `non_standard`, whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

from foldline.messages.block_translators import common
from foldline.messages.block_translators.common import Block, Translator
from foldline.messages.block_translators.kwargs_blocks import (
    blocks_of_kwargs,
    items_of_kwargs,
    refusal_of_kwargs,
    with_item_ids,
)
from foldline.protocol.blocks import ContentBlock
from foldline.protocol.merge import copy_json

__all__ = [
    "ANY_PROVIDER",
    "FINISHERS",
    "TRANSLATORS",
    "MessageLike",
    "of_message",
    "standard_blocks",
]

TRANSLATORS: dict[str, Translator] = {}
"""Provider name (`response_metadata["model_provider"]`) -> how its blocks are read."""
ANY_PROVIDER: list[Translator] = [common.translate]
"""Tried in this order when the provider is not known: input messages, and answers nobody signed."""
OLD_ITEMS = {"tool_outputs", "__openai_function_call_ids__"}
"""What LangChain 0.3 put beside the content of an answer of the responses interface."""
Finisher = Callable[[list[Block], Mapping[str, Any]], list[Block]]
FINISHERS: dict[Translator, Finisher] = {}
"""What a vendor adds to the blocks from response metadata: Gemini's sources."""


class MessageLike(Protocol):
    """What a translator reads of a message, whose class lives above this folder."""

    @property
    def content(self) -> Any: ...  # noqa: ANN401  content of a message in any vendor's form
    @property
    def response_metadata(self) -> dict[Any, Any]: ...
    @property
    def additional_kwargs(self) -> dict[Any, Any]: ...


Translate: TypeAlias = Callable[[MessageLike], list[ContentBlock]]
"""A message's content as standard blocks."""


def of_message(translate: Translator) -> Translate:
    """Make the translator of whole messages out of that of single blocks."""

    def translate_content(message: MessageLike) -> list[ContentBlock]:
        """Return the content of a message as standard blocks."""
        calls = (getattr(message, name, None) for name in ("tool_calls", "invalid_tool_calls"))
        return standard_blocks(
            message.content,
            None,
            metadata=message.response_metadata,
            additional_kwargs=message.additional_kwargs,
            calls=[call for some in calls for call in some or []],
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
    """Return content as standard blocks, with reasoning and tool calls that were said beside it."""
    known = translate or TRANSLATORS.get(provider or "")
    if isinstance(content, str) and not (calls or additional_kwargs or known in FINISHERS):
        return [{"type": "text", "text": content}] if content else []  # as most messages are
    items = [content] if isinstance(content, str) else content
    blocks: list[Block] = []
    metadata = metadata or {}
    is_standard = metadata.get("output_version") == "v1"
    translators = (known, *ANY_PROVIDER) if known else ANY_PROVIDER
    for item in items:
        if isinstance(item, str):
            blocks += [{"type": "text", "text": item}] if item else []
        else:
            blocks += _translated(item, translators, is_standard=is_standard)
    if known in FINISHERS:
        blocks = FINISHERS[known](blocks, metadata)
    if not additional_kwargs:
        return cast("list[ContentBlock]", _with_calls(blocks, calls))
    if (
        message_id and OLD_ITEMS & additional_kwargs.keys()
    ):  # its text is one item, whose id the message has
        blocks = [
            {**block, "id": message_id} if block["type"] == "text" else block for block in blocks
        ]
    blocks = [*blocks_of_kwargs(additional_kwargs, blocks), *blocks]
    blocks += refusal_of_kwargs(additional_kwargs, blocks)
    blocks = _with_calls(blocks, with_item_ids(calls, additional_kwargs))
    known_ids = {block.get("id") for block in blocks}
    for item in items_of_kwargs(additional_kwargs):
        if item.get("id") not in known_ids:
            blocks += _translated(item, translators, is_standard=is_standard)
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


def _with_calls(blocks: list[Block], calls: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Put the message's calls where its content has them, and the rest at the end."""
    by_id = {call["id"]: call for call in calls if call.get("id")}
    slices = {
        call["index"]: call
        for call in calls
        if call.get("type") == "tool_call_chunk" and call.get("index") is not None
    }
    placed: set[int] = set()
    whole: list[Block] = []
    for block in blocks:
        call = None
        if block.get("type") in common.CLIENT_CALLS:
            name = block.get("id")
            call = by_id.get(name) if isinstance(name, str) else slices.get(block.get("index"))
        if call is not None:
            # The parsed call knows its arguments best; the block knows what else the provider said.
            extras = common.with_extras(block, call.get("extras") or {}).get("extras")
            kept = {key: block[key] for key in ("index",) if key in block}
            block = {**_as_block(call), **kept, **({"extras": extras} if extras else {})}
            placed.add(id(call))
        whole.append(block)
    has_anonymous = any(b.get("type") in common.CLIENT_CALLS and not b.get("id") for b in blocks)
    whole += [
        _as_block(call)
        for call in calls
        if id(call) not in placed and not (has_anonymous and not call.get("id"))
    ]
    return whole


def _as_block(call: Mapping[str, Any]) -> Block:
    """Return a call of a message's fields as a block, whose type comes first."""
    order = [key for key in ("type", "id", "name", "args") if key in call]
    return {key: copy_json(call[key]) for key in dict.fromkeys((*order, *call))}
