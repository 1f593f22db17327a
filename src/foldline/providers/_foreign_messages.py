"""How the messages of another provider are converted: one policy, the same for every provider.

Text, images, files and tool calls are portable. Reasoning (with its signatures), server-side tools and blocks in a
provider's own format are not: they are converted to text, dropped or refused, and every loss is noted. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, assert_never

from foldline.exceptions import UsageError
from foldline.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from foldline.messages.dicts import finished_blocks
from foldline.protocol.blocks import BLOCK_KINDS, BlockKind

__all__ = ["ForeignBlocks", "add_note", "blocks_for", "is_own", "note_title", "plain_text"]

ForeignBlocks: TypeAlias = Literal["convert", "drop", "refuse"]
Block: TypeAlias = dict[str, Any]


def _is_shared(kind: BlockKind) -> bool:
    """Whether all vendors have this kind of block."""
    match kind:
        case "text" | "image" | "audio" | "video" | "file" | "text-plain":
            return True
        case "tool_call" | "invalid_tool_call":
            return True
        case "reasoning" | "server_tool_call" | "server_tool_result" | "non_standard":
            return False
        case "refusal":
            return True
        case "tool_call_chunk" | "server_tool_call_chunk":
            return False
        case _:
            assert_never(kind)


SHARED: Final = frozenset(kind for kind in BLOCK_KINDS if _is_shared(kind))
"""Blocks that mean the same to every provider."""
CALLS: Final = ("tool_call", "invalid_tool_call")
OWN_FIELDS: Final = ("id", "index", "extras")
"""Fields that only the provider that wrote a block understands: ids and signatures. Ids of calls are kept."""


def is_own(message: BaseMessage, providers: Collection[str]) -> bool:
    """Whether a message was written by one of these providers; a message without a provider counts as one."""
    writer = message.response_metadata.get("model_provider")
    return writer is None or writer in providers


def plain_text(message: BaseMessage) -> str | None:
    """Return the text of a message that says nothing else, else None.

    Most messages of a long history are such. Their blocks would be one text, whoever wrote them: they need not be made.
    """
    kind, fields = type(message), message.__dict__
    if kind is AIMessage:
        provider = fields["response_metadata"].get("model_provider")
        if fields["tool_calls"] or fields["invalid_tool_calls"]:
            return None
        if provider is not None and _translates_text(provider):
            return None
    elif kind is not HumanMessage and kind is not SystemMessage:
        return None
    content = fields["content"]
    return content if type(content) is str and not fields["additional_kwargs"] else None


def _translates_text(provider: str) -> bool:
    from foldline.messages.block_translators import translates_text  # noqa: PLC0415  as in `content_blocks`

    return translates_text(provider)


def blocks_for(
    message: BaseMessage, providers: Collection[str], policy: ForeignBlocks, notes: list[str]
) -> list[Block]:
    """Return the blocks of a message converted for `providers`; losses are added to `notes`."""
    blocks: list[Block] = [dict(block) for block in finished_blocks(message)]
    if not isinstance(message, AIMessage) or is_own(message, providers):
        return blocks
    writer = str(message.response_metadata.get("model_provider"))
    if policy == "refuse" and (
        foreign := sorted({b["type"] for b in blocks if b["type"] not in SHARED})
    ):
        raise UsageError(
            f"the message {message.id!r} was written by {writer} and holds {', '.join(foreign)}, which "
            f"{sorted(providers)[0]} cannot take back: pass foreign_blocks='convert' or 'drop', or remove them"
        )
    converted: list[Block] = []
    for block in blocks:
        new_block = _convert_block(block, writer, policy, notes)
        if new_block is not None:
            converted.append(new_block)
    return converted


def _convert_block(
    block: Block, writer: str, policy: ForeignBlocks, notes: list[str]
) -> Block | None:
    kind = block["type"]
    if kind == "refusal":  # its words are an answer; without them there is nothing to send
        return {"type": "text", "text": block["refusal"]} if block["refusal"] else None
    if kind in SHARED:
        return _portable_block(block, writer, notes)
    text = _describe(block) if policy == "convert" else None
    if text is None:
        add_note(notes, f"{kind} by {writer} was left out")
        return None
    add_note(notes, f"{kind} by {writer} was told as text")
    return {"type": "text", "text": text}


def _portable_block(block: Block, writer: str, notes: list[str]) -> Block:
    """Return a block without the fields that only its provider understands."""
    is_call = block["type"] in CALLS
    private = [name for name in OWN_FIELDS if name in block and not (is_call and name == "id")]
    if block.get("extras"):
        add_note(
            notes,
            f"{'signatures or ' if is_call else ''}extras of {block['type']} by {writer} were left out",
        )
    if block.get("annotations"):
        add_note(notes, f"citations by {writer} were left out")
    if block.get("file_id"):
        add_note(notes, f"a {block['type']} by {writer} is known only by its file_id there")
    return {name: value for name, value in block.items() if name not in (*private, "annotations")}


def _describe(block: Block) -> str | None:  # noqa: PLR0911  one case per kind
    """Return a block as text, or None if it has no text form."""
    kind: BlockKind = block["type"]
    match kind:
        case "reasoning":
            reasoning = block.get("reasoning")
            return f"<thinking>\n{reasoning}\n</thinking>" if reasoning else None
        case "server_tool_call":
            return f"[called {block.get('name')} with {_json(block.get('args'))}]"
        case "server_tool_result":
            output = block.get("output")
            text = output if isinstance(output, str) else _json(output)
            return f"[it returned: {text}]" if output else None
        case "non_standard" | "tool_call_chunk" | "server_tool_call_chunk":
            return None
        case "text" | "refusal" | "image" | "audio" | "video" | "file" | "text-plain":
            return None  # portable, never described
        case "tool_call" | "invalid_tool_call":
            return None
        case _:
            if TYPE_CHECKING:
                assert_never(kind)
            return None


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def add_note(notes: list[str], note: str) -> None:
    """Add a note unless it is already there."""
    if note not in notes:
        notes.append(note)


def note_title(block: Block, notes: list[str]) -> None:
    """Note that the title of a plain-text document is not sent, for APIs that take text and no documents."""
    if block["type"] == "text-plain" and (
        block.get("title") or (block.get("extras") or {}).get("title")
    ):
        add_note(notes, "the title of a text-plain block was not sent: write it into the text")
