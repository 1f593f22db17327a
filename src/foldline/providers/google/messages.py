"""Messages -> `contents`: who speaks, each block as a part. Pure.

Gemini has two roles that take turns, one system instruction, and wants its own parts back with their signatures. What
cannot be said is left out, and noted.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, assert_never

from foldline.exceptions import UsageError
from foldline.messages import AIMessage, BaseMessage, ToolMessage
from foldline.messages.block_translators.common import data_url
from foldline.protocol.blocks import BlockKind
from foldline.providers._foreign import ForeignBlocks, blocks_for, is_own, note_title
from foldline.providers._turns import TurnEncoder
from foldline.providers.google.wire import MADE_ID, Part, camel
from foldline.utils.media_types import media_type_of_block

__all__ = ["MessageEncoder", "encode_media"]

Block = dict[str, Any]

FILES: Final = "https://generativelanguage.googleapis.com/v1beta/"
MEDIA: Final = {
    "image": "image/jpeg",
    "audio": "audio/wav",
    "video": "video/mp4",
    "file": "application/pdf",
}
"""Blocks that are shown, and what they are taken for if they do not say."""
UNSIGNED: Final = "skip_thought_signature_validator"
"""What Google's documentation names for calls that Gemini did not write itself: models that insist on a signature
take it in place of one."""
TEXTS: Final = ("text", "text-plain")
SERVER: Final = ("server_tool_call", "server_tool_result")
PART_EXTRAS: Final = ("video_metadata", "media_resolution", "thought", "part_metadata")


class MessageEncoder(TurnEncoder):
    """Writes a conversation."""

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
        shows_in_results: bool = False,
    ) -> None:
        super().__init__(providers, policy, notes)
        self._needs_signatures = needs_signatures
        self._shows_in_results = shows_in_results
        self._names: dict[str, str] = {}
        self._own_ids: set[str] = set()

    def encode(self, messages: Sequence[BaseMessage]) -> tuple[list[Part], list[Block]]:
        """Return the parts of the system instruction and the turns."""
        return self._conversation(messages)

    # -- what a user, a system message or a tool says

    def _encode_user(self, message: BaseMessage) -> list[Part]:
        parts = [self._input(dict(block)) for block in message.content_blocks]
        return [part for part in parts if part is not None]

    def _input(self, block: Block) -> Part | None:
        kind: BlockKind = block["type"]
        match kind:
            case "text":
                return {"text": block["text"]} if block["text"] else None
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
        shown = [encode_media(block) for block in blocks if block["type"] in MEDIA]
        result: Block = {
            "name": name,
            "response": {"error" if message.status == "error" else "output": text},
        }
        if id in self._own_ids:
            result["id"] = id
        if shown and self._shows_in_results:
            result["parts"], shown = shown, []
        elif shown:
            self._note("what a tool showed was sent beside its result")
        return [{"functionResponse": result}, *shown]

    # -- what the model said

    def _encode_assistant(self, message: AIMessage) -> list[Part]:
        blocks = blocks_for(message, self._providers, self._policy, self._notes)
        own = is_own(message, self._providers)
        parts: list[Part] = []
        for block in blocks:
            part = self._encode_block(block, own=own)
            if part is not None:
                parts.append(part)
        calls = [part for part in parts if "functionCall" in part]
        if (
            calls
            and self._needs_signatures
            and not any("thoughtSignature" in part for part in calls)
        ):
            calls[0]["thoughtSignature"] = UNSIGNED
        return parts

    def _encode_block(self, block: Block, *, own: bool) -> Part | None:  # noqa: PLR0911  one case per kind
        kind: BlockKind = block["type"]
        extras = block.get("extras") or {}
        signed = _signature(extras)
        match kind:
            case "text":
                return {"text": block["text"], **signed} if block["text"] or signed else None
            case "reasoning":
                return self._thought(block, signed)
            case "tool_call" | "invalid_tool_call":
                return self._call(block, signed, own=own)
            case "non_standard":
                return dict(block["value"])
            case "server_tool_call" | "server_tool_result":
                return {**_server_part(block, extras), **signed}
            case "image" | "audio" | "video" | "file":
                return {**encode_media(block), **signed}
            case "text-plain" | "tool_call_chunk" | "server_tool_call_chunk":
                pass
            case _:
                if TYPE_CHECKING:
                    assert_never(kind)
        self._note(f"{kind} has no place in what Gemini said")
        return None

    def _thought(self, block: Block, signed: Part) -> Part | None:
        if not block.get("reasoning") and not signed:
            return None
        return {"text": block.get("reasoning") or "", "thought": True, **signed}

    def _call(self, block: Block, signed: Part, *, own: bool) -> Part | None:
        id, name, args = str(block.get("id") or ""), block.get("name") or "", block.get("args")
        if block["type"] == "invalid_tool_call":
            if id not in self._answered or not name:
                self._note("a tool call that did not parse was left out")
                return None
            args = {"INVALID_JSON": args or ""}
        self._names[id] = name
        call: Block = {"name": name, "args": args or {}}
        if own and id and not id.startswith(MADE_ID):
            self._own_ids.add(id)
            call["id"] = id
        return {"functionCall": call, **signed}


def _signature(extras: Block) -> Part:
    signature = extras.get("thought_signature") or extras.get("signature")
    return {"thoughtSignature": signature} if isinstance(signature, str) and signature else {}


def _server_part(block: Block, extras: Block) -> Part:
    """Return a call or result of one of Gemini's own tools."""
    is_call = block["type"] == "server_tool_call"
    id = str(block.get("id" if is_call else "tool_call_id") or "")
    given: Block = {"id": id} if id and not id.startswith(MADE_ID) else {}
    if is_call and "tool_type" in extras:
        return {
            "toolCall": {"toolType": extras["tool_type"], "args": block.get("args") or {}, **given}
        }
    if is_call:
        return {"executableCode": {**(block.get("args") or {}), **given}}
    if extras.get("block_type") == "tool_response":
        return {
            "toolResponse": {
                "toolType": extras.get("tool_type"),
                "response": block.get("output"),
                **given,
            }
        }
    outcome = extras.get("outcome") or (
        "OUTCOME_OK" if block.get("status") == "success" else "OUTCOME_FAILED"
    )
    return {
        "codeExecutionResult": {"outcome": outcome, "output": block.get("output") or "", **given}
    }


def encode_media(block: Block) -> Part:
    """Show a picture, sound, film or file: inline, or by its address."""
    extras = block.get("extras") or {}
    rest = {camel(name): extras[name] for name in PART_EXTRAS if name in extras}
    if block.get("url"):
        block = {**block, **data_url(str(block["url"]))}
    if block.get("base64"):
        mime = media_type_of_block(block) or MEDIA.get(block["type"], "text/plain")
        return {"inlineData": {"mimeType": mime, "data": block["base64"]}, **rest}
    address = block.get("url") or _file_address(block.get("file_id"))
    if not address:
        raise UsageError(
            f"a block of the type {block['type']!r} needs base64, url or file_id: {sorted(block)}"
        )
    file: Block = {"fileUri": address}
    guessed = block.get("mime_type") or mimetypes.guess_type(str(address).split("?")[0])[0]
    if guessed or block.get("url"):
        file["mimeType"] = guessed or MEDIA.get(block["type"], "text/plain")
    return {"fileData": file, **rest}


def _file_address(id: str | None) -> str | None:
    if not id or "://" in id:
        return id
    return FILES + (id if id.startswith("files/") else f"files/{id}")
