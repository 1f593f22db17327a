"""The parts of one candidate -> events: text, thoughts, calls, code and its results, images, each in its own block.

Parts have no index: text continues the last text block. A signature belongs to its part; a part with a signature is the
last of its block. Calls are complete, may be several, and often have no id; then one is generated here. A text block
ends when another kind of part follows; the citations known by then are added before its end.
"""

from __future__ import annotations

import json
from typing import Any, Final

from foldline.messages.block_translators import google_genai as translator
from foldline.protocol.events import Event
from foldline.protocol.fold import UNFINISHED
from foldline.protocol.tool_call_parser import promote
from foldline.protocol.writer import EventWriter
from foldline.providers.google._citations import CitedText, cite, cite_finished
from foldline.providers.google._streamed_call import StreamedCall
from foldline.providers.google._wire import CODE, GENERATED_ID_PREFIX, Part

__all__ = ["PartsDecoder"]


TEXT_ONLY: Final = frozenset({"text"})


class PartsDecoder:
    """Decodes the parts of one candidate."""

    __slots__ = (
        "_base",
        "_calls",
        "_code",
        "_number",
        "_open_kind",
        "_sealed",
        "_streamed_call",
        "is_last_chunk",
        "sources",
        "texts",
        "upcoming",
        "writer",
    )  # fmt: skip

    def __init__(self, writer: EventWriter) -> None:
        self.writer: EventWriter = writer
        self.texts: list[CitedText] = []
        """The text blocks so far, for citations."""
        self.sources: dict[str, Any] = {}
        """The grounding and citation metadata so far."""
        self.is_last_chunk: bool = False
        self.upcoming: list[str] = []
        """Texts of the current chunk that are not read yet."""
        self._base = ""
        self._calls = 0
        self._code = ""
        self._streamed_call: StreamedCall | None = None
        self._number = -1
        """The number of the current part in the answer; streamed slices of a part count once."""
        self._sealed = False
        self._open_kind: str | None = None

    def set_id_base(self, response_id: str | None) -> None:
        """Set the base of generated ids."""
        self._base = self._base or response_id or ""

    def feed(self, part: Part, is_first: bool) -> list[Event]:  # noqa: FBT001  by name is slower
        """Return the events of one part; the first part of a chunk may continue the last one of the chunk before."""
        if (
            self._open_kind == "text"
            and is_first
            and part.keys() == TEXT_ONLY
            and not self._sealed
            and part["text"]
        ):  # the most frequent
            text = self.texts[-1]
            text.slices.append(part["text"])
            return self.writer.text(part["text"], text.key)
        if not (is_first and self._continues(part)):
            self._number += 1
        return self._read(part) if part else []

    def _continues(self, part: Part) -> bool:
        if "functionCall" in part:
            return self._streamed_call is not None
        return _is_text(part) and self._open_kind == _kind(part) and not self._sealed

    def _read(self, part: Part) -> list[Event]:
        if part.get("functionCall") is not None:
            return self._function_call(part)
        if _is_text(part):
            return self._text(part)
        if "executableCode" in part or "codeExecutionResult" in part:
            return self._code_part(part)
        if "toolCall" in part or "toolResponse" in part:
            return self._server_tool(part)
        blocks = translator.translate(part) or [{"type": "non_standard", "value": part}]
        return [event for block in blocks for event in self._write_block(block)]

    # -- streamed text

    def _text(self, part: Part) -> list[Event]:
        kind, text, extras = _kind(part), part.get("text") or "", _extras(part, "text", "thought")
        if not text and not extras:
            return []
        is_new = self._open_kind != kind or bool(self._sealed and text)
        events = self._close_text() if is_new else []
        self._open_kind, self._sealed = kind, "thought_signature" in extras
        if kind == "reasoning":
            return events + self.writer.reasoning(text or None, extras=extras)
        if is_new:
            self.texts.append(CitedText(len(self.texts)))
        block = self.texts[-1]
        block.starts.setdefault(self._number, len(block.slices))
        block.slices.append(text)
        if extras:
            return events + self.writer.text(text, block.key, extras=extras)
        return events + self.writer.text(text, block.key)

    def _close_text(self) -> list[Event]:
        """Return the events that end the open text or reasoning block."""
        kind, self._open_kind, self._sealed = self._open_kind, None, False
        if kind == "reasoning":
            return self.writer.close()
        if kind != "text":
            return []
        text = self.texts[-1]
        if self.sources and self.is_last_chunk and not any(self.upcoming):
            cite(self.texts, self.sources)  # no other text can follow
        elif self.sources:
            cite_finished(text, self.sources, self.upcoming)
        text.is_closed = True
        notes = text.take_new_notes()
        events = self.writer.text("", text.key, annotations=notes) if notes else []
        return events + self.writer.close(text.key, kind="text")

    def _write_block(self, block: dict[str, Any]) -> list[Event]:
        return self._close_text() + self.writer.block(block, is_complete=True)

    # -- calls

    def _function_call(self, part: Part) -> list[Event]:
        call = part["functionCall"]
        events = self.finish() if self._streamed_call and self._streamed_call.is_other(call) else []
        if call.get("partialArgs") or call.get("willContinue") or self._streamed_call is not None:
            return events + self._grow(part)
        block = self._call(
            call.get("id"), call.get("name"), call.get("args"), _extras(part, "functionCall")
        )
        return events + self._write_call(block)

    def _write_call(self, block: dict[str, Any]) -> list[Event]:
        self._calls += 1
        return self._write_block(block)

    def _call(
        self, id: str | None, name: str | None, args: object, extras: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the next call as a block."""
        block: dict[str, Any] = {
            "type": "tool_call",
            "id": id or self._new_id(self._calls + 1),
            "name": name or "",
            # Anything but an object as JSON text: the writer makes it an invalid call.
            "args": args if isinstance(args, dict) or args in (None, "") else json.dumps(args),
        }
        return _with_extras(block, extras)

    def _new_id(self, number: int) -> str:
        if not self._base:
            raise ValueError("the id of the answer is missing")
        return f"{GENERATED_ID_PREFIX}{self._base}-{number}"

    def _grow(self, part: Part) -> list[Event]:
        """Collect a call whose arguments are streamed."""
        call = part["functionCall"]
        call_so_far = self._streamed_call = self._streamed_call or StreamedCall()
        call_so_far.feed(call, _extras(part, "functionCall"))
        if call.get("willContinue"):
            return []
        self._streamed_call = None
        return self._write_call(
            self._call(call_so_far.id, call_so_far.name, call_so_far.args, call_so_far.extras)
        )

    def unfinished(self) -> list[dict[str, Any]]:
        """Return an unfinished call as an invalid call (F-U01)."""
        call = self._streamed_call
        if call is None:
            return []
        block = self._call(call.id, call.name, call.args, call.extras)
        return [promote(block, unfinished=UNFINISHED)]

    def finish(self) -> list[Event]:
        """Return the events of a call that was never finished."""
        blocks, self._streamed_call = self.unfinished(), None
        return [event for block in blocks for event in self._write_call(block)]

    # -- Gemini's server tools

    def _code_part(self, part: Part) -> list[Event]:
        if "executableCode" in part:
            code = part["executableCode"] or {}
            self._calls += 1
            self._code = code.get("id") or self._new_id(self._calls)
            args = {name: code[name] for name in ("code", "language") if name in code}
            block = {"type": "server_tool_call", "id": self._code, "name": CODE, "args": args}
            return self._write_block(_with_extras(block, _extras(part, "executableCode")))
        result = part["codeExecutionResult"] or {}
        outcome = result.get("outcome")
        block = {
            "type": "server_tool_result",
            "tool_call_id": result.get("id") or self._code,
            "status": "success" if outcome == "OUTCOME_OK" else "error",
            "output": result.get("output") or "",
        }
        extras = {"block_type": "code_execution_result", "outcome": outcome}
        return self._write_block(
            _with_extras(block, {**extras, **_extras(part, "codeExecutionResult")})
        )

    def _server_tool(self, part: Part) -> list[Event]:
        if "toolCall" in part:
            call = part["toolCall"] or {}
            kind = str(call.get("toolType") or "tool")
            block = {
                "type": "server_tool_call",
                "id": call.get("id") or "",
                "name": kind.lower(),
                "args": call.get("args") or {},
            }
            return self._write_block(
                _with_extras(block, {"tool_type": kind, **_extras(part, "toolCall")})
            )
        result = part["toolResponse"] or {}
        block = {
            "type": "server_tool_result",
            "tool_call_id": result.get("id") or "",
            "status": "success",
            "output": result.get("response"),
        }
        extras = {"block_type": "tool_response", "tool_type": result.get("toolType")}
        return self._write_block(_with_extras(block, {**extras, **_extras(part, "toolResponse")}))


def _is_text(part: Part) -> bool:
    return isinstance(part.get("text"), str) or part.keys() == {"thoughtSignature"}


def _kind(part: Part) -> str:
    return "reasoning" if part.get("thought") else "text"


def _extras(part: Part, *read_fields: str) -> dict[str, Any]:
    fields = {
        name: value for name, value in part.items() if name not in read_fields and value is not None
    }
    return {translator.CAMEL.get(name, name): value for name, value in fields.items()}


def _with_extras(block: dict[str, Any], extras: dict[str, Any]) -> dict[str, Any]:
    return {**block, "extras": extras} if extras else block
