"""Encode messages for the messages API. Pure.

Anthropic requires alternating turns, no empty text, tool results first in a user turn, and its own blocks unchanged,
signatures included. What cannot be encoded is left out and noted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, assert_never

from foldline.exceptions import UsageError
from foldline.language_models._call.policies.prompt_caching import cache_control_of
from foldline.messages import AIMessage, BaseMessage, ToolMessage
from foldline.protocol.blocks import BlockKind
from foldline.providers._foreign_messages import ForeignBlocks, blocks_for, plain_text
from foldline.providers._turns import TurnEncoder
from foldline.providers._wire import plain_id
from foldline.providers.anthropic._blocks import (
    encode_citation,
    encode_document,
    encode_image,
    keep_cache_control,
)
from foldline.providers.anthropic._wire import REMOTE_TOOL

__all__ = ["MessageEncoder", "encode_call_id"]

Block = dict[str, Any]

INVALID_ID_CHARACTERS: Final = re.compile(r"[^a-zA-Z0-9_-]")
CALL_EXTRAS: Final = ("caller", "toolset_name")


class MessageEncoder(TurnEncoder):
    """Encodes a conversation."""

    vendor = "Anthropic"
    assistant = "assistant"
    content = "content"

    def __init__(
        self,
        providers: frozenset[str],
        policy: ForeignBlocks,
        notes: list[str],
        *,
        takes_late_system: bool = False,
    ) -> None:
        super().__init__(providers, policy, notes)
        self._takes_late_system = takes_late_system

    def encode(self, messages: Sequence[BaseMessage]) -> tuple[str | list[Block], list[Block]]:
        """Return the system prompt and the turns."""
        system, turns = self._conversation(messages)
        for turn in turns:
            turn["content"].sort(key=_is_not_result)
        _trim_end(turns[-1])
        return _plain(system), [{**turn, "content": _plain(turn["content"])} for turn in turns]

    def _late_system(self, message: BaseMessage, after: str | None) -> tuple[str, list[Block]]:
        if self._takes_late_system and after in ("user", "system"):
            return "system", self._encode_user(message)  # the only place where the API accepts one
        return super()._late_system(message, after)

    # -- messages of users, systems and tools

    def _encode_user(self, message: BaseMessage) -> list[Block]:
        if (text := plain_text(message)) is not None:
            return _text_blocks(text)
        blocks = [self._input(dict(block)) for block in message.content_blocks]
        return _mark_last_block([block for block in blocks if block is not None], message)

    def _input(self, block: Block) -> Block | None:
        kind: BlockKind = block["type"]
        match kind:
            case "text":
                return self._text(block)
            case "refusal":
                return self._text({"text": block["refusal"]})
            case "image":
                return encode_image(block)
            case "file" | "text-plain":
                return encode_document(block)
            case "non_standard":
                return self._native_value(block)
            case "audio" | "video" | "reasoning" | "tool_call" | "invalid_tool_call":
                pass
            case "server_tool_call" | "server_tool_result":
                pass
            case "tool_call_chunk" | "server_tool_call_chunk":
                pass
            case _:
                if TYPE_CHECKING:
                    assert_never(kind)
        raise UsageError(
            f"Anthropic takes no {kind} in a message to it: send text, images or documents"
        )

    def _cited_text(self, block: Block) -> Block | None:
        text = self._text(block)
        if text and (cited := self._citations(block)):
            text["citations"] = cited
        return text

    def _text(self, block: Block) -> Block | None:
        if not block["text"].strip():
            return None  # refused by the API
        return keep_cache_control({"type": "text", "text": block["text"]}, block)

    def _result(self, message: ToolMessage) -> list[Block]:
        result: Block = {"type": "tool_result", "tool_use_id": encode_call_id(message.tool_call_id)}
        if isinstance(message.content, str):
            content: Any = message.content
        else:
            content = self._encode_user(message.model_copy(update={"additional_kwargs": {}}))
        if content:
            result["content"] = content
        if message.status == "error":
            result["is_error"] = True
        for name in CALL_EXTRAS[1:]:
            if message.additional_kwargs.get(name):
                result[name] = message.additional_kwargs[name]
        return _mark_last_block([result], message)

    # -- messages of the model

    def _encode_assistant(self, message: AIMessage) -> list[Block]:
        if (text := plain_text(message)) is not None:
            return _text_blocks(text)
        blocks = blocks_for(message, self._providers, self._policy, self._notes)
        is_signed = message.response_metadata.get("model_provider") in self._providers
        encoded = [self._encode_block(block, is_signed=is_signed) for block in blocks]
        return _mark_last_block([block for block in encoded if block is not None], message)

    def _encode_block(self, block: Block, *, is_signed: bool) -> Block | None:  # noqa: C901, PLR0911  one case per kind
        kind: BlockKind = block["type"]
        match kind:
            case "reasoning":
                return self._thinking(block, is_signed=is_signed)
            case "non_standard":
                return self._native_value(block)
            case "tool_call" | "server_tool_call" | "server_tool_result":
                return WRITERS[kind](block)
            case "text":
                return self._cited_text(block)
            case "refusal" if is_signed:
                return None  # Anthropic's comment on the answer, not a part of it
            case "refusal":
                return self._text({"text": block["refusal"]})
            case "invalid_tool_call":
                return self._broken_call(block)
            case "image" | "audio" | "video" | "file" | "text-plain":
                pass
            case "tool_call_chunk" | "server_tool_call_chunk":
                pass
            case _:
                if TYPE_CHECKING:
                    assert_never(kind)
        self._note(f"{kind} has no place in an assistant's message of Anthropic")
        return None

    def _citations(self, block: Block) -> list[Block]:
        annotations = block.get("annotations") or []
        citations = [
            citation
            for annotation in annotations
            if (citation := encode_citation(annotation)) is not None
        ]
        if len(citations) < len(annotations):
            self._note("citations that Anthropic did not write were left out")
        return citations

    def _thinking(self, block: Block, *, is_signed: bool) -> Block | None:
        extras = block.get("extras") or {}
        if "signature" not in extras and not is_signed:
            self._note("reasoning without a signature was left out")
            return None
        return {
            "type": "thinking",
            "thinking": block.get("reasoning") or "",
            "signature": extras.get("signature") or "",
        }

    def _native_value(self, block: Block) -> Block | None:
        value = block.get("value")
        if isinstance(value, dict) and isinstance(value.get("type"), str):
            return dict(value)
        self._note("a block that says nothing in Anthropic's words was left out")
        return None

    def _broken_call(self, block: Block) -> Block | None:
        """Return a call with invalid JSON in the form that Anthropic documents for it."""
        if block.get("id") not in self._answered:
            self._note("a tool call that did not parse was left out")
            return None
        return {
            "type": "tool_use",
            "id": encode_call_id(str(block["id"])),
            "name": block.get("name") or "unknown",
            "input": {"INVALID_JSON": block.get("args") or ""},
        }


def _text_blocks(text: str) -> list[Block]:
    return (
        [{"type": "text", "text": text}] if text.strip() else []
    )  # blank text is refused by the API


def encode_call_id(id: str) -> str:
    """Return a call's id in characters that Anthropic accepts, always the same for an id."""
    return plain_id(id, INVALID_ID_CHARACTERS)


def _call(block: Block) -> Block:
    extras = block.get("extras") or {}
    call = {
        "type": "tool_use",
        "id": encode_call_id(str(block.get("id") or "")),
        "name": block["name"],
    }
    fields = {name: extras[name] for name in CALL_EXTRAS if name in extras}
    return keep_cache_control({**call, "input": block.get("args") or {}, **fields}, block)


def _server_call(block: Block) -> Block:
    call: Block = {"type": "server_tool_use", "id": block.get("id"), "name": block["name"]}
    extras = dict(block.get("extras") or {})
    if block["name"] == REMOTE_TOOL or "server_name" in extras:
        call |= {"type": "mcp_tool_use", "name": extras.pop("tool_name", block["name"])}
    return {**call, "input": block.get("args") or {}, **extras}


def _server_result(block: Block) -> Block:
    extras = block.get("extras") or {}
    fields = {name: value for name, value in extras.items() if name != "block_type"}
    kind = extras.get("block_type") or "web_search_tool_result"
    return {
        "type": kind,
        "tool_use_id": block["tool_call_id"],
        "content": block.get("output"),
        **fields,
    }


WRITERS: Final = {
    "tool_call": _call,
    "server_tool_call": _server_call,
    "server_tool_result": _server_result,
}
"""Encoders of blocks that are sent back unchanged."""


def _mark_last_block(blocks: list[Block], message: BaseMessage) -> list[Block]:
    """Put the cache control of a message on its last block."""
    control = cache_control_of(message)
    if control and blocks:
        blocks[-1] = {**blocks[-1], "cache_control": control}
    return blocks


def _is_not_result(block: Block) -> bool:
    """Whether a block is not a tool result. Used to sort: the API requires results first."""
    return block.get("type") != "tool_result"


def _trim_end(turn: Block) -> None:
    """Strip white space at the end of an answer that the model is to continue: the API refuses it."""
    last = turn["content"][-1]
    if turn["role"] == "assistant" and last.get("type") == "text":
        turn["content"][-1] = {**last, "text": last["text"].rstrip()}


def _plain(blocks: list[Block]) -> str | list[Block]:
    """Return a single text block as a string."""
    if len(blocks) == 1 and blocks[0].keys() == {"type", "text"} and blocks[0]["type"] == "text":
        text: str = blocks[0]["text"]
        return text
    return blocks
