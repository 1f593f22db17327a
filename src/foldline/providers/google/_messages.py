"""Encode messages as `contents`: roles, and each block as a part. Pure.

Gemini has two alternating roles and one system instruction, and requires its own parts back with their signatures.
What cannot be encoded is left out and noted.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, assert_never

from foldline.exceptions import UsageError
from foldline.messages import AIMessage, BaseMessage, ToolMessage
from foldline.messages.block_translators._common import data_url
from foldline.protocol.blocks import BlockKind
from foldline.providers._foreign_messages import ForeignBlocks, blocks_for, is_own, note_title
from foldline.providers._turns import TurnEncoder
from foldline.providers.google._wire import GENERATED_ID_PREFIX, Part, camel
from foldline.utils._media_types import media_type_of_block

__all__ = ["MessageEncoder", "encode_media"]

Block = dict[str, Any]

FILES_URL: Final = "https://generativelanguage.googleapis.com/v1beta/"
DEFAULT_MEDIA_TYPES: Final = {
    "image": "image/jpeg",
    "audio": "audio/wav",
    "video": "video/mp4",
    "file": "application/pdf",
}
"""Media blocks -> the media type if a block has none."""
PLACEHOLDER_SIGNATURE: Final = "skip_thought_signature_validator"
"""The value that Google documents for calls that Gemini did not write: models that require a signature accept it."""
TEXTS: Final = ("text", "text-plain")
SERVER: Final = ("server_tool_call", "server_tool_result")
PART_EXTRAS: Final = ("video_metadata", "media_resolution", "thought", "part_metadata")


class MessageEncoder(TurnEncoder):
    """Encodes a conversation."""

    vendor = "Gemini"
    assistant = "model"
    content = "parts"

    def __init__(
        self,
        providers: frozenset[str],
        policy: ForeignBlocks,
        notes: list[str],
        *,
        needs_signatures: bool = False,
        media_in_results: bool = False,
    ) -> None:
        super().__init__(providers, policy, notes)
        self._needs_signatures = needs_signatures
        self._media_in_results = media_in_results
        self._names: dict[str, str] = {}
        self._own_ids: set[str] = set()

    def encode(self, messages: Sequence[BaseMessage]) -> tuple[list[Part], list[Block]]:
        """Return the parts of the system instruction and the turns."""
        return self._conversation(messages)

    # -- messages of users, systems and tools

    def _encode_user(self, message: BaseMessage) -> list[Part]:
        parts = [self._input(dict(block)) for block in message.content_blocks]
        return [part for part in parts if part is not None]

    def _input(self, block: Block) -> Part | None:
        kind: BlockKind = block["type"]
        match kind:
            case "text":
                return {"text": block["text"]} if block["text"] else None
            case "refusal":
                return {"text": block["refusal"]} if block["refusal"] else None
            case "text-plain" if block.get("text") is not None:
                note_title(block, self._notes)
                return {"text": block["text"]}
            case "image" | "audio" | "video" | "file" | "text-plain":
                return encode_media(block)
            case "non_standard":
                return dict(block["value"])
            case "reasoning" | "tool_call" | "invalid_tool_call" | "tool_call_chunk":
                pass
            case "server_tool_call" | "server_tool_call_chunk" | "server_tool_result":
                pass
            case _:
                if TYPE_CHECKING:
                    assert_never(kind)
        raise UsageError(
            f"Gemini takes no {kind} in a message to it: send text, images, audio, video or files"
        )

    def _result(self, message: ToolMessage) -> list[Part]:
        id = message.tool_call_id
        name = message.name or self._names.get(id)
        if not name:
            raise UsageError(
                f"the result of {id!r} needs the tool's name: set ToolMessage(name=...)"
            )
        blocks = [dict(block) for block in message.content_blocks]
        text = "".join(str(block.get("text") or "") for block in blocks if block["type"] in TEXTS)
        media = [encode_media(block) for block in blocks if block["type"] in DEFAULT_MEDIA_TYPES]
        result: Block = {
            "name": name,
            "response": {"error" if message.status == "error" else "output": text},
        }
        if id in self._own_ids:
            result["id"] = id
        if media and self._media_in_results:
            result["parts"], media = media, []
        elif media:
            self._note("what a tool showed was sent beside its result")
        return [{"functionResponse": result}, *media]

    # -- messages of the model

    def _encode_assistant(self, message: AIMessage) -> list[Part]:
        blocks = blocks_for(message, self._providers, self._policy, self._notes)
        is_own_message = is_own(message, self._providers)
        parts: list[Part] = []
        for block in blocks:
            part = self._encode_block(block, is_own_message=is_own_message)
            if part is not None:
                parts.append(part)
        calls = [part for part in parts if "functionCall" in part]
        if (
            calls
            and self._needs_signatures
            and not any("thoughtSignature" in part for part in calls)
        ):
            calls[0]["thoughtSignature"] = PLACEHOLDER_SIGNATURE
        return parts

    def _encode_block(self, block: Block, *, is_own_message: bool) -> Part | None:  # noqa: C901, PLR0911  one case per kind
        kind: BlockKind = block["type"]
        extras = block.get("extras") or {}
        signature = _signature(extras)
        match kind:
            case "text":
                return {"text": block["text"], **signature} if block["text"] or signature else None
            case "refusal" if not block["refusal"] or extras:
                return None  # Gemini's comment on the answer, not a part of it
            case "refusal":
                return {"text": block["refusal"]}
            case "reasoning":
                return self._thought(block, signature)
            case "tool_call" | "invalid_tool_call":
                return self._call(block, signature, is_own_message=is_own_message)
            case "non_standard":
                return dict(block["value"])
            case "server_tool_call" | "server_tool_result":
                return {**_server_part(block, extras), **signature}
            case "image" | "audio" | "video" | "file":
                return {**encode_media(block), **signature}
            case "text-plain" | "tool_call_chunk" | "server_tool_call_chunk":
                pass
            case _:
                if TYPE_CHECKING:
                    assert_never(kind)
        self._note(f"{kind} has no place in what Gemini said")
        return None

    def _thought(self, block: Block, signature: Part) -> Part | None:
        if not block.get("reasoning") and not signature:
            return None
        return {"text": block.get("reasoning") or "", "thought": True, **signature}

    def _call(self, block: Block, signature: Part, *, is_own_message: bool) -> Part | None:
        id, name, args = str(block.get("id") or ""), block.get("name") or "", block.get("args")
        if block["type"] == "invalid_tool_call":
            if id not in self._answered or not name:
                self._note("a tool call that did not parse was left out")
                return None
            args = {"INVALID_JSON": args or ""}
        self._names[id] = name
        call: Block = {"name": name, "args": args or {}}
        if is_own_message and id and not id.startswith(GENERATED_ID_PREFIX):
            self._own_ids.add(id)
            call["id"] = id
        return {"functionCall": call, **signature}


def _signature(extras: Block) -> Part:
    signature = extras.get("thought_signature") or extras.get("signature")
    return {"thoughtSignature": signature} if isinstance(signature, str) and signature else {}


def _server_part(block: Block, extras: Block) -> Part:
    """Return a call or result of one of Gemini's server tools."""
    is_call = block["type"] == "server_tool_call"
    id = str(block.get("id" if is_call else "tool_call_id") or "")
    id_field: Block = {"id": id} if id and not id.startswith(GENERATED_ID_PREFIX) else {}
    if is_call and "tool_type" in extras:
        return {
            "toolCall": {
                "toolType": extras["tool_type"],
                "args": block.get("args") or {},
                **id_field,
            }
        }
    if is_call:
        return {"executableCode": {**(block.get("args") or {}), **id_field}}
    if extras.get("block_type") == "tool_response":
        return {
            "toolResponse": {
                "toolType": extras.get("tool_type"),
                "response": block.get("output"),
                **id_field,
            }
        }
    outcome = extras.get("outcome") or (
        "OUTCOME_OK" if block.get("status") == "success" else "OUTCOME_FAILED"
    )
    return {
        "codeExecutionResult": {"outcome": outcome, "output": block.get("output") or "", **id_field}
    }


def encode_media(block: Block) -> Part:
    """Return an image, audio, video or file as a part: inline, or by its URL."""
    extras = block.get("extras") or {}
    fields = {camel(name): extras[name] for name in PART_EXTRAS if name in extras}
    if block.get("url"):
        block = {**block, **data_url(str(block["url"]))}
    if block.get("base64"):
        mime = media_type_of_block(block) or DEFAULT_MEDIA_TYPES.get(block["type"], "text/plain")
        return {"inlineData": {"mimeType": mime, "data": block["base64"]}, **fields}
    address = block.get("url") or _file_address(block.get("file_id"))
    if not address:
        raise UsageError(
            f"a block of the type {block['type']!r} needs base64, url or file_id: {sorted(block)}"
        )
    file: Block = {"fileUri": address}
    media_type = block.get("mime_type") or mimetypes.guess_type(str(address).split("?")[0])[0]
    if media_type or block.get("url"):
        file["mimeType"] = media_type or DEFAULT_MEDIA_TYPES.get(block["type"], "text/plain")
    return {"fileData": file, **fields}


def _file_address(id: str | None) -> str | None:
    if not id or "://" in id:
        return id
    return FILES_URL + (id if id.startswith("files/") else f"files/{id}")
