"""The parts of one candidate -> events: text, thoughts, calls, code and its results, pictures, each in its own block.

Parts have no index: text goes on where text was last said. A signature belongs to the part it came with; a part that
has one is the last of its block. Calls come whole, several at once, often without ids; then they get one here.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Final

from weft.messages.block_translators import google_genai as translator
from weft.protocol.events import Event
from weft.protocol.writer import EventWriter
from weft.providers.google.wire import CODE, MADE_ID, Part

__all__ = ["PartsDecoder"]

Json = Any

PATH: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]")
PLAIN: Final = frozenset({"text"})
VALUES: Final = ("stringValue", "numberValue", "boolValue", "nullValue")


class PartsDecoder:
    """Turns the parts of one candidate into events."""

    __slots__ = ("_base", "_calls", "_code", "_growing", "_sealed", "_spoken", "said", "writer")

    def __init__(self, writer: EventWriter) -> None:
        self.writer = writer
        self.said: list[str] = []
        """The text of the block of text that is open, for the offsets of citations."""
        self._base = ""
        self._calls = 0
        self._code = ""
        self._growing: dict[str, Json] | None = None
        self._sealed = False
        self._spoken: str | None = None

    def name(self, response_id: str | None) -> None:
        """Say what the ids that are made here are made of."""
        self._base = self._base or response_id or ""

    def feed(self, part: Part) -> list[Event]:
        """Take one part."""
        if (
            self._spoken == "text" and part.keys() == PLAIN and not self._sealed and part["text"]
        ):  # by far the most
            self.said.append(part["text"])
            return self.writer.text(part["text"])
        if part.get("functionCall") is not None:
            return self._function_call(part)
        if isinstance(part.get("text"), str) or part.keys() == {"thoughtSignature"}:
            return self._text(part)
        if "executableCode" in part or "codeExecutionResult" in part:
            return self._code_part(part)
        if "toolCall" in part or "toolResponse" in part:
            return self._server_tool(part)
        blocks = translator.translate(part) or [{"type": "non_standard", "value": part}]
        return [event for block in blocks for event in self._whole(block)]

    def has_open_text(self) -> bool:
        """Whether a citation can still be put on the text that was said last."""
        return self._spoken == "text"

    # -- what grows

    def _text(self, part: Part) -> list[Event]:
        kind = "reasoning" if part.get("thought") else "text"
        text, extras = part.get("text") or "", _extras(part, "text", "thought")
        events: list[Event] = []
        if self._spoken != kind or (self._sealed and text):
            events = self.writer.close() if self._spoken else []
            self.said = []
        if not text and not extras:
            return events
        self._spoken, self._sealed = kind, "thought_signature" in extras
        if kind == "reasoning":
            return events + self.writer.reasoning(text or None, extras=extras)
        self.said.append(text)
        return events + (
            self.writer.text(text, extras=extras) if extras else self.writer.text(text)
        )

    def _whole(self, block: dict[str, Json]) -> list[Event]:
        events = self.writer.close() if self._spoken else []
        self._spoken, self._sealed, self.said = None, False, []
        return events + self.writer.block(block, whole=True)

    # -- calls

    def _function_call(self, part: Part) -> list[Event]:
        call = part["functionCall"]
        if call.get("partialArgs") or call.get("willContinue") or self._growing is not None:
            return self._grow(part)
        return self._called(
            call.get("id"), call.get("name"), call.get("args"), _extras(part, "functionCall")
        )

    def _called(
        self, id: str | None, name: str | None, args: Json, extras: dict[str, Json]
    ) -> list[Event]:
        self._calls += 1
        block: dict[str, Json] = {
            "type": "tool_call",
            "id": id or self._made_id(),
            "name": name or "",
            "args": args if isinstance(args, dict) else {},
        }
        return self._whole({**block, "extras": extras} if extras else block)

    def _made_id(self) -> str:
        if not self._base:
            raise ValueError("the id of the answer was not told")
        return f"{MADE_ID}{self._base}-{self._calls}"

    def _grow(self, part: Part) -> list[Event]:
        """Collect a call whose arguments come one by one (Vertex, if asked to)."""
        call, extras = part["functionCall"], _extras(part, "functionCall")
        growing = self._growing or {"id": None, "name": None, "args": {}, "extras": {}}
        growing["id"] = growing["id"] or call.get("id")
        growing["name"] = growing["name"] or call.get("name")
        growing["extras"] |= extras
        for piece in call.get("partialArgs") or ():
            _put(growing["args"], piece)
        self._growing = growing if call.get("willContinue") else None
        if self._growing is not None:
            return []
        return self._called(growing["id"], growing["name"], growing["args"], growing["extras"])

    def finish(self) -> list[Event]:
        """Tell a call that was never finished: as it is."""
        growing, self._growing = self._growing, None
        if growing is None:
            return []
        return self._called(growing["id"], growing["name"], growing["args"], growing["extras"])

    # -- Gemini's own tools

    def _code_part(self, part: Part) -> list[Event]:
        if "executableCode" in part:
            code = part["executableCode"] or {}
            self._calls += 1
            self._code = code.get("id") or self._made_id()
            args = {name: code[name] for name in ("code", "language") if name in code}
            block = {"type": "server_tool_call", "id": self._code, "name": CODE, "args": args}
            return self._whole(_with(block, _extras(part, "executableCode")))
        result = part["codeExecutionResult"] or {}
        outcome = result.get("outcome")
        block = {
            "type": "server_tool_result",
            "tool_call_id": result.get("id") or self._code,
            "status": "success" if outcome == "OUTCOME_OK" else "error",
            "output": result.get("output") or "",
        }
        extras = {"block_type": "code_execution_result", "outcome": outcome}
        return self._whole(_with(block, {**extras, **_extras(part, "codeExecutionResult")}))

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
            return self._whole(_with(block, {"tool_type": kind, **_extras(part, "toolCall")}))
        result = part["toolResponse"] or {}
        block = {
            "type": "server_tool_result",
            "tool_call_id": result.get("id") or "",
            "status": "success",
            "output": result.get("response"),
        }
        extras = {"block_type": "tool_response", "tool_type": result.get("toolType")}
        return self._whole(_with(block, {**extras, **_extras(part, "toolResponse")}))


def _extras(part: Part, *known: str) -> dict[str, Json]:
    rest = {name: value for name, value in part.items() if name not in known and value is not None}
    return {translator.CAMEL.get(name, name): value for name, value in rest.items()}


def _with(block: dict[str, Json], extras: dict[str, Json]) -> dict[str, Json]:
    return {**block, "extras": extras} if extras else block


def _put(args: dict[str, Json], piece: dict[str, Json]) -> None:
    """Put one argument where its path says; text that is there already goes on."""
    steps = [
        name or quoted or int(index)
        for name, index, quoted in PATH.findall(piece.get("jsonPath") or "")
    ]
    if not steps:
        return
    place: Json = args
    for step, following in pairwise(steps):
        place = _inside(place, step, [] if isinstance(following, int) else {})
    name = next((name for name in VALUES if name in piece), None)
    value = None if name == "nullValue" or name is None else piece[name]
    old = _inside(place, steps[-1], value)
    if isinstance(value, str) and isinstance(old, str) and old is not value:
        place[steps[-1]] = old + value


def _inside(place: Json, step: str | int, otherwise: Json) -> Json:
    if isinstance(place, list) and isinstance(step, int):
        while len(place) <= step:
            place.append(otherwise)
        return place[step]
    return place.setdefault(step, otherwise)
