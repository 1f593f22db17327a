"""The wire of Bedrock's Converse, whose streams are frames of AWS and no server-sent events."""

from __future__ import annotations

import json
from functools import cache
from struct import unpack
from typing import Any

from foldline.language_models import BaseChatModel
from foldline.providers.bedrock import ChatBedrockConverse
from tests.faults.wires import Wire
from tests.providers.bedrock.answers import ANSWERS, answer_of, call_parts
from tests.servers.event_stream import event, exception
from tests.servers.script import Answer

FRAMES = {"content-type": "application/vnd.amazon.eventstream"}
EXCEPTIONS = {
    "api": "internalServerException",
    "overloaded": "modelNotReadyException",
    "rate": "throttlingException",
    "quota": "serviceQuotaExceededException",
}
"""Kind of an error -> what AWS calls it inside a stream; for a wrong key it has no word there."""


class FrameWire(Wire):
    """A wire whose recordings are written in the tests, as pairs of an event's name and its payload."""

    def pieces(self, recording: str | None = None) -> list[bytes]:
        return _frames(recording or self.text)

    def payload(self, piece: bytes) -> Any:
        """The JSON of one frame, with the event's name as `kind`."""
        if piece[:1] not in (b"\0", b""):
            raise ValueError("no frame")
        size, headers = unpack(">II", piece[:8])
        name = piece[12 : 12 + headers].split(b":event-type\x07")[-1]
        data = json.loads(piece[12 + headers : size - 4])
        return {**data, "kind": name[2 : 2 + unpack(">H", name[:2])[0]].decode()}

    def whole(self, recording: str | None = None) -> Any:
        return ANSWERS[(recording or self.text).split("/")[1]][0]

    def data(self, recording: str) -> bytes:
        return b"".join(self.pieces(recording))

    def recordings(self) -> list[str]:
        return [f"bedrock/{name}" for name in ANSWERS]


@cache
def _frames(recording: str) -> list[bytes]:
    return [event(name, payload) for name, payload in ANSWERS[recording.split("/")[1]][1]]


def _make(base_url: str, **fields: Any) -> BaseChatModel:
    return ChatBedrockConverse(model="m", base_url=base_url, region_name="eu-central-1", **fields)


BEDROCK = FrameWire(
    "bedrock", _make, ("/model/m/converse", "/model/m/converse-stream"), "bedrock/text", "bedrock/tool-call",
    (), lambda data: str((data.get("delta") or {}).get("text") or ""), lambda data: data.get("kind") == "messageStop",
    FRAMES["content-type"],
)  # fmt: skip


def exception_frame(kind: str) -> bytes:
    """Return the error frame inside a stream; None where AWS has no such error."""
    return exception(EXCEPTIONS[kind], "it broke") if kind in EXCEPTIONS else b""


def call_frames(arguments: str, *, is_cut: bool, ends: bool) -> Answer:
    """An answer that calls `add` with these arguments as text."""
    half = len(arguments) // 2
    parts = call_parts("t_1", "add", arguments[:half], arguments[half:])
    _, events = answer_of([], [parts], "max_tokens" if is_cut else "tool_use")
    kept_events = events if ends else events[:-3]
    return Answer([event(*item) for item in kept_events], headers=FRAMES, framing="chunked")
