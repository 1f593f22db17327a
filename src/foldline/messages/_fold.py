"""From folded events to the fields of an `AIMessage`. Nothing is checked: the fold made it.

Under "v1" the content is the list of blocks. Under "v0" it is plain text where the message is plain text and tool
calls; anything richer stays a list of standard blocks, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from foldline.messages._calls import split_calls
from foldline.messages.usage import whole_usage
from foldline.protocol.blocks import Json
from foldline.protocol.fold import FoldedMessage
from foldline.protocol.merge import copy_json
from foldline.protocol.promote import is_server_call

__all__ = ["ALWAYS_FOLDED", "CALL_TYPES", "client_calls", "fields_of_fold", "is_plain"]

CALL_TYPES = frozenset({"tool_call", "invalid_tool_call"})
ALWAYS_FOLDED = frozenset(
    {"additional_kwargs", "response_metadata", "tool_calls", "invalid_tool_calls"}
)
"""Fields with a default that every folded message says."""
TEXT_KEYS = frozenset({"type", "text"})
PLAIN_TEXT_KEYS = frozenset({"type", "text", "index"})


def fields_of_fold(folded: FoldedMessage, output_version: str) -> dict[str, Json]:
    """Give the fields that a folded message says."""
    blocks: list[dict[str, Json]] = folded.blocks  # type: ignore[assignment]
    is_text = len(blocks) == 1 and blocks[0].keys() == TEXT_KEYS and blocks[0]["type"] == "text"
    called = [] if is_text else client_calls(blocks)
    calls, invalid = split_calls(copy_json(called)) if called else ([], [])
    metadata = dict(folded.metadata)
    if output_version == "v1":
        metadata["output_version"] = "v1"
    fields: dict[str, Json] = {
        "content": blocks[0]["text"]
        if is_text and output_version == "v0"
        else _content(blocks, output_version),
        "additional_kwargs": folded.additional_kwargs,
        "response_metadata": metadata,
        "id": folded.id,
        "tool_calls": calls,
        "invalid_tool_calls": invalid,
        "status": folded.status,
    }
    if folded.usage is not None:
        fields["usage_metadata"] = whole_usage(folded.usage)
    if folded.finish_reason is not None:
        fields["finish_reason"] = folded.finish_reason
    if folded.fields.get("name"):
        fields["name"] = folded.fields["name"]
    return fields


def client_calls(blocks: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
    """Give the calls among blocks that the program, not the provider, should run."""
    return [
        dict(block)
        for block in blocks
        if block.get("type") in CALL_TYPES and not is_server_call(dict(block))
    ]


def is_plain(blocks: Sequence[Mapping[str, Json]]) -> bool:
    """Say whether blocks are one plain text at most, and tool calls without extras."""
    texts = 0
    for block in blocks:
        if block.get("type") == "text":
            texts += 1
            if texts > 1 or any(
                value for key, value in block.items() if key not in PLAIN_TEXT_KEYS
            ):
                return False
        elif block.get("type") not in CALL_TYPES or block.get("extras"):
            return False
    return True


def _content(blocks: list[dict[str, Json]], output_version: str) -> str | list[dict[str, Json]]:
    if output_version == "v1" or not is_plain(blocks):
        return blocks
    return "".join(block["text"] for block in blocks if block.get("type") == "text")
