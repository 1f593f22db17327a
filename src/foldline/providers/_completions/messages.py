"""Encode messages for chat completions. Pure.

What the API cannot represent (images in a tool's result, reasoning if the host refuses it) is moved or left out, and
noted.
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, assert_never

from foldline.exceptions import UsageError
from foldline.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.messages.openai import convert_to_openai_data_block, openai_role
from foldline.protocol.blocks import BlockKind
from foldline.providers._completions.host import Host
from foldline.providers._foreign_messages import (
    ForeignBlocks,
    add_note,
    blocks_for,
    note_title,
    plain_text,
)
from foldline.providers._wire import answered_ids, dump_text

__all__ = ["MessageEncoder"]

Body = dict[str, Any]
Block = dict[str, Any]

ALPHABET = string.ascii_letters + string.digits


class MessageEncoder:
    """Encodes a conversation for one host."""

    def __init__(
        self, host: Host, providers: frozenset[str], policy: ForeignBlocks, notes: list[str]
    ) -> None:
        self._host = host
        self._providers = providers
        self._policy = policy
        self._notes = notes
        self._answered: set[str] = set()
        """Ids of the calls that have a result."""

    def encode(self, messages: Sequence[BaseMessage]) -> list[Body]:
        """Return the messages of the body."""
        encoded: list[Body] = []
        self._answered = answered_ids(messages)
        media: list[Body] = []  # media of tool results: sent in a user message after all results
        for message in messages:
            is_human = type(message) is HumanMessage  # most messages, and fast to check
            if not is_human and isinstance(message, ToolMessage):
                encoded.append(self._tool(message, media))
                continue
            if media:
                encoded.append(_user_body(media))
                media = []
            if not is_human and isinstance(message, AIMessage):
                encoded.append(self._assistant(message))
            else:
                encoded.append(self._other(message))
        if media:
            encoded.append(_user_body(media))
        return encoded

    def _other(self, message: BaseMessage) -> Body:
        role = openai_role(message)
        if role == "system" and isinstance(message, SystemMessage):
            role = self._host.system_role
        body: Body = {"role": role}
        if message.name:
            body["name"] = message.name
        content = message.content
        if not isinstance(content, str):
            content = [self._part(dict(block)) for block in message.content_blocks]
        body["content"] = content
        return body

    def _part(self, block: Block) -> Body:  # noqa: C901  one case per kind
        kind: BlockKind = block["type"]
        match kind:
            case "text":
                return {"type": "text", "text": block["text"], **_cache_control(block)}
            case "refusal":
                return {"type": "text", "text": block["refusal"]}
            case "text-plain" if block.get("text") is not None:
                note_title(block, self._notes)
                return {"type": "text", "text": block["text"]}
            case "image" | "audio" | "file":
                return convert_to_openai_data_block(block)
            case "video" if block.get("url"):
                return {"type": "video_url", "video_url": {"url": block["url"]}}
            case "non_standard":
                return dict(block["value"])
            case "text-plain" | "video" | "reasoning" | "tool_call" | "invalid_tool_call":
                pass
            case "server_tool_call" | "server_tool_result":
                pass
            case "tool_call_chunk" | "server_tool_call_chunk":
                pass
            case _:
                if TYPE_CHECKING:
                    assert_never(kind)
        raise UsageError(
            f"chat completions have no place for a block of the type {kind!r} in this message"
        )

    def _tool(self, message: ToolMessage, media: list[Body]) -> Body:
        head = {"role": "tool", "tool_call_id": self._call_id(message.tool_call_id)}
        if isinstance(message.content, str):
            return {**head, "content": message.content}
        texts: list[Body] = []
        for block in message.content_blocks:
            part = self._part(dict(block))
            (texts if part["type"] == "text" else media).append(part)
        if len(texts) != len(message.content_blocks):
            add_note(self._notes, "what a tool showed was sent as a user's message")
            texts = texts or [{"type": "text", "text": "See the next message."}]
        return {**head, "content": texts}

    def _assistant(self, message: AIMessage) -> Body:
        body: Body = {"role": "assistant"}
        if message.name:
            body["name"] = message.name
        if (text := plain_text(message)) is None:
            return self._assistant_blocks(message, body)
        body["content"] = text
        return body

    def _assistant_blocks(self, message: AIMessage, body: Body) -> Body:  # noqa: C901  one case per kind
        blocks = blocks_for(message, self._providers, self._policy, self._notes)
        texts: list[str] = []
        calls: list[Body] = []
        for block in blocks:
            kind: BlockKind = block["type"]
            match kind:
                case "text":
                    texts.append(block["text"])
                case "invalid_tool_call" if block.get("id") not in self._answered:
                    add_note(self._notes, "a tool call that did not parse was left out")
                case "tool_call" | "invalid_tool_call":
                    calls.append(self._call(block))
                case "refusal" if not self._host.tells_nulls:
                    texts.append(block["refusal"])
                case "reasoning":
                    pass
                case (
                    ("image" | "audio" | "video" | "file" | "text-plain" | "non_standard")
                    | ("server_tool_call" | "server_tool_result")
                    | ("tool_call_chunk" | "server_tool_call_chunk" | "refusal")
                ):
                    self._encode_unknown(block, body)
                case _:
                    self._encode_unknown(block, body)
                    if TYPE_CHECKING:
                        assert_never(kind)
        body["content"] = "".join(texts) or None
        if calls:
            body["tool_calls"] = calls
        elif body["content"] is None and "refusal" not in body and "audio" not in body:
            body["content"] = ""
        self._reasoning(blocks, body)
        return body

    def _call(self, block: Block) -> Body:
        extras = block.get("extras") or {}
        id = self._call_id(str(block.get("id") or ""))
        args = block.get("args")
        if extras.get("type") == "custom" and isinstance(args, dict):
            return {
                "id": id,
                "type": "custom",
                "custom": {"name": block["name"], "input": args.get("__arg1", "")},
            }
        text = args if isinstance(args, str) else dump_text(args or {})
        call: Body = {
            "id": id,
            "type": "function",
            "function": {"name": block.get("name") or "", "arguments": text},
        }
        if extras.get("extra_content"):
            call["extra_content"] = extras["extra_content"]
        return call

    def _call_id(self, id: str) -> str:
        """Return an id of the length that the host requires, always the same for an id."""
        length = self._host.call_id_length
        if length is None or (len(id) == length and id.isascii() and id.isalnum()):
            return id
        digest = hashlib.sha256(id.encode("utf-8", "surrogatepass")).digest()
        return "".join(ALPHABET[byte % len(ALPHABET)] for byte in digest[:length])

    def _reasoning(self, blocks: list[Block], body: Body) -> None:
        """Add reasoning to a message that is sent back, if the host accepts it."""
        reasoning_blocks = [block for block in blocks if block["type"] == "reasoning"]
        if not reasoning_blocks:
            return
        host = self._host
        if not self._takes_reasoning("tool_calls" in body):
            add_note(self._notes, f"reasoning was not sent back: {host.name} has no place for it")
            return
        texts = [block["reasoning"] for block in reasoning_blocks if block.get("reasoning")]
        extras = [block.get("extras") or {} for block in reasoning_blocks]
        details = [detail for part in extras for detail in part.get("reasoning_details") or ()]
        if details:
            body["reasoning_details"] = details
        if host.reasoning_parts:
            thinking = [
                {"type": "thinking", "thinking": [{"type": "text", "text": text}]} for text in texts
            ]
            text_parts = [{"type": "text", "text": body["content"]}] if body["content"] else []
            body["content"] = [*thinking, *text_parts]
        elif texts and host.reasoning_field and not details:
            body[host.reasoning_field] = "".join(texts)

    def _takes_reasoning(self, has_calls: bool) -> bool:  # noqa: FBT001
        """Whether the host takes the reasoning of a message back, and has a place for it."""
        host = self._host
        if host.reasoning_field is None and not host.reasoning_parts:
            return False
        return host.reasoning_back == "always" or (
            host.reasoning_back == "tool_calls" and has_calls
        )

    def _encode_unknown(self, block: Block, body: Body) -> None:
        if block["type"] == "refusal":  # OpenAI's own field
            if block["refusal"]:
                body["refusal"] = body.get("refusal", "") + block["refusal"]
        elif block["type"] == "audio" and block.get("id"):
            body["audio"] = {"id": block["id"]}
        else:
            add_note(
                self._notes,
                f"{block['type']} has no place in an assistant message of chat completions",
            )


def _user_body(media: list[Body]) -> Body:
    return {"role": "user", "content": media}


def _cache_control(block: Block) -> Body:
    """Return the cache control of a block, for hosts that use it (OpenRouter, DashScope)."""
    control = block.get("cache_control") or (block.get("extras") or {}).get("cache_control")
    return {"cache_control": control} if control else {}
