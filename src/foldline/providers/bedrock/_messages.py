"""Encode messages for Converse: system prompt and turns. Pure.

Converse requires turns of two roles, no blank text, tool results first in a user turn, and reasoning with its
signature. What cannot be encoded is left out and noted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, assert_never

from foldline.exceptions import UsageError
from foldline.language_models._call.policies.prompt_caching import cache_control_of
from foldline.messages import AIMessage, BaseMessage, ToolMessage
from foldline.protocol.blocks import BlockKind
from foldline.providers._foreign_messages import ForeignBlocks, blocks_for
from foldline.providers._turns import TurnEncoder
from foldline.providers._wire import plain_id
from foldline.providers.bedrock._blocks import (
    cache_point,
    encode_citation,
    encode_document,
    encode_media,
    encode_native,
    with_cache_point,
)
from foldline.providers.bedrock._wire import SERVER_CALL, Block

__all__ = ["MessageEncoder", "encode_call_id", "guard_last_turn"]


INVALID_ID_CHARACTERS: Final = re.compile(r"[^a-zA-Z0-9_.:-]")
DOCUMENTS: Final = ("file", "text-plain")
GUARDED_IMAGES: Final = ("png", "jpeg")


class MessageEncoder(TurnEncoder):
    """Encodes a conversation."""

    vendor = "Bedrock"
    assistant = "assistant"
    content = "content"

    def __init__(self, providers: frozenset[str], policy: ForeignBlocks, notes: list[str]) -> None:
        super().__init__(providers, policy, notes)
        self._document_count = 0

    def encode(self, messages: Sequence[BaseMessage]) -> tuple[list[Block], list[Block]]:
        """Return the system prompt and the turns."""
        system, turns = self._conversation(messages)
        for turn in turns:
            if turn["role"] == "user":
                turn["content"].sort(key=_is_not_result)
        _trim_end(turns[-1])
        return system, turns

    # -- messages of users, systems and tools

    def _encode_user(self, message: BaseMessage) -> list[Block]:
        return self._encode_blocks(message) + _message_point(message)

    def _encode_blocks(self, message: BaseMessage) -> list[Block]:
        blocks: list[Block] = []
        for block in message.content_blocks:
            encoded = self._encode_input(dict(block))
            blocks += [] if encoded is None else with_cache_point(encoded, block)
        return blocks

    def _encode_input(self, block: Block) -> Block | None:
        kind: BlockKind = block["type"]
        match kind:
            case "text":
                return _encode_text(block)
            case "refusal":
                return _encode_text({"text": block["refusal"]})
            case "image" | "video" | "audio":
                return encode_media(block)
            case "file" | "text-plain":
                return self._encode_document(block)
            case "non_standard":
                return self._encode_native(block)
            case "reasoning" | "tool_call" | "invalid_tool_call" | "tool_call_chunk":
                pass
            case "server_tool_call" | "server_tool_call_chunk" | "server_tool_result":
                pass
            case _:
                if TYPE_CHECKING:
                    assert_never(kind)
        raise UsageError(
            f"Bedrock takes no {kind} in a message to it: send text, images, documents, video or audio"
        )

    def _encode_document(self, block: Block) -> Block:
        self._document_count += 1
        return encode_document(block, f"document-{self._document_count}")

    def _encode_native(self, block: Block) -> Block | None:
        encoded = encode_native(block.get("value"))
        if encoded is None:
            self._note("a block that says nothing in Bedrock's words was left out")
        return encoded

    def _result(self, message: ToolMessage) -> list[Block]:
        if isinstance(message.content, str):
            blocks: list[Block] = [{"text": message.content}] if message.content.strip() else []
        else:
            blocks = self._encode_blocks(message)
        # A cache point is not allowed inside a result: it follows it.
        points = [block for block in blocks if "cachePoint" in block] + _message_point(message)
        result: Block = {
            "toolUseId": encode_call_id(message.tool_call_id),
            "content": [block for block in blocks if "cachePoint" not in block],
        }
        if message.status == "error":
            result["status"] = "error"
        return [{"toolResult": result}, *points[-1:]]

    # -- messages of the model

    def _encode_assistant(self, message: AIMessage) -> list[Block]:
        is_signed = message.response_metadata.get("model_provider") in self._providers
        blocks: list[Block] = []
        for block in blocks_for(message, self._providers, self._policy, self._notes):
            encoded = self._encode_output(block, is_signed=is_signed)
            blocks += [] if encoded is None else with_cache_point(encoded, block)
        return blocks + (_message_point(message) if blocks else [])

    def _encode_output(self, block: Block, *, is_signed: bool) -> Block | None:
        kind: BlockKind = block["type"]
        match kind:
            case "reasoning":
                return self._encode_reasoning(block, is_signed=is_signed)
            case "text":
                return self._encode_cited_text(block)
            case "invalid_tool_call":
                return self._encode_broken_call(block)
            case "tool_call" | "server_tool_call" | "server_tool_result":
                return CALL_ENCODERS[kind](block)
            case "image" | "audio" | "video" | "file" | "text-plain" | "non_standard" | "refusal":
                pass
            case "tool_call_chunk" | "server_tool_call_chunk":
                pass
            case _:
                if TYPE_CHECKING:
                    assert_never(kind)
        return self._encode_input(block)

    def _encode_cited_text(self, block: Block) -> Block | None:
        text, annotations = _encode_text(block), block.get("annotations") or []
        citations = [
            citation
            for annotation in annotations
            if (citation := encode_citation(annotation)) is not None
        ]
        if len(citations) < len(annotations):
            self._note("citations that Bedrock did not write were left out")
        if text is None or not citations:
            return text
        return {"citationsContent": {"content": [text], "citations": citations}}

    def _encode_reasoning(self, block: Block, *, is_signed: bool) -> Block | None:
        extras = block.get("extras") or {}
        if extras.get("redactedContent"):
            return {"reasoningContent": {"redactedContent": extras["redactedContent"]}}
        text, signature = block.get("reasoning") or "", extras.get("signature")
        if signature is None and not (is_signed and text):
            self._note("reasoning without a signature was left out")
            return None
        signature_field = {"signature": signature} if signature is not None else {}
        return {"reasoningContent": {"reasoningText": {"text": text, **signature_field}}}

    def _encode_broken_call(self, block: Block) -> Block | None:
        """Return a call with invalid JSON, if it has a result."""
        if block.get("id") not in self._answered:
            self._note("a tool call that did not parse was left out")
            return None
        call = {
            "toolUseId": encode_call_id(str(block["id"])),
            "name": block.get("name") or "unknown",
        }
        return {"toolUse": {**call, "input": {"INVALID_JSON": block.get("args") or ""}}}


def encode_call_id(id: str) -> str:
    """Return a call's id in characters and a length that Bedrock accepts, always the same for an id."""
    return plain_id(id, INVALID_ID_CHARACTERS)


def guard_last_turn(turns: list[Block]) -> None:
    """Mark the content of the last user turn for the guardrail, which then ignores all other turns."""
    last = turns[-1]
    if last["role"] == "user":
        last["content"] = [_guard_block(block) for block in last["content"]]


def _guard_block(block: Block) -> Block:
    if "text" in block:
        return {"guardContent": {"text": {"text": block["text"]}}}
    image = block.get("image")
    if image and image.get("format") in GUARDED_IMAGES and "bytes" in image["source"]:
        return {"guardContent": {"image": image}}
    return block


def _encode_text(block: Block) -> Block | None:
    return {"text": block["text"]} if block["text"].strip() else None  # blank text is refused


def _encode_call(block: Block) -> Block:
    call = {"toolUseId": encode_call_id(str(block.get("id") or "")), "name": block["name"]}
    return {"toolUse": {**call, "input": block.get("args") or {}}}


def _encode_server_call(block: Block) -> Block:
    call = _encode_call(block)
    call["toolUse"]["type"] = SERVER_CALL
    return call


def _encode_server_result(block: Block) -> Block:
    output = block.get("output")
    content = output if isinstance(output, list) else [{"text": str(output or "")}]
    result: Block = {"toolUseId": encode_call_id(block["tool_call_id"]), "content": content}
    if block.get("status"):
        result["status"] = block["status"]
    return {"toolResult": {**result, **(block.get("extras") or {})}}


CALL_ENCODERS: Final = {
    "tool_call": _encode_call,
    "server_tool_call": _encode_server_call,
    "server_tool_result": _encode_server_result,
}


def _message_point(message: BaseMessage) -> list[Block]:
    """Return the cache point of a message that has a `cache_control` itself."""
    control = cache_control_of(message)
    return [cache_point(control)] if control else []


def _is_not_result(block: Block) -> bool:
    """Whether a block is not a tool result. Used to sort: the API requires results first."""
    return "toolResult" not in block


def _trim_end(turn: Block) -> None:
    """Strip white space at the end of an answer that the model is to continue: models refuse it."""
    last = turn["content"][-1]
    if turn["role"] == "assistant" and "text" in last:
        last["text"] = last["text"].rstrip()
