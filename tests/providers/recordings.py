"""Recorded answers for tests: read, decoded as a stream and as a whole, compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft._sse import SSEDecoder
from weft.exceptions import ModelError
from weft.messages import AIMessage
from weft.protocol.events import Event
from weft.protocol.fold import fold

FOLDER = Path(__file__).parents[1] / "recordings"


def names(folder: str, beginning: str = "", ending: str = ".sse") -> list[str]:
    """The cases of a folder."""
    return sorted(
        p.name.removesuffix(ending) for p in (FOLDER / folder).glob(f"{beginning}*{ending}")
    )


def stream_bytes(folder: str, name: str) -> bytes:
    return (FOLDER / folder / f"{name}.sse").read_bytes()


def payloads(folder: str, name: str) -> list[tuple[str, Any]]:
    """The events of a recorded stream: (name, JSON); the end marker is left out."""
    events = SSEDecoder().feed(stream_bytes(folder, name))
    return [(event.event, json.loads(event.data)) for event in events if event.data != "[DONE]"]


def whole(folder: str, name: str) -> Any:
    return json.loads((FOLDER / folder / f"{name}.json").read_text())


def fail(body: Any) -> ModelError:
    return ModelError(json.dumps(body))


def stream_events(
    decoder: Any, folder: str, name: str, *, marked: bool | None = None
) -> list[Event]:
    events: list[Event] = []
    for kind, data in payloads(folder, name):
        events += decoder.feed(data, kind)
    if marked is None:
        marked = b"[DONE]" in stream_bytes(folder, name)
    return events + decoder.end(marked=marked)


def message(events: list[Event]) -> AIMessage:
    return AIMessage.from_fold(fold(events))


def both(make: Callable[[], Any], folder: str, name: str) -> tuple[AIMessage, AIMessage]:
    """The message of the stream and the message of the answer in one piece."""
    return message(stream_events(make(), folder, name)), message(make().whole(whole(folder, name)))
