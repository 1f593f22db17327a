"""Recorded answers for tests: read, decoded as a stream and as a whole, compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from foldline._sse import SSEDecoder
from foldline.exceptions import ModelError
from foldline.messages import AIMessage
from foldline.protocol.events import Event
from foldline.protocol.fold import fold

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
    return payloads_of(stream_bytes(folder, name))


def payloads_of(raw: bytes) -> list[tuple[str, Any]]:
    events = SSEDecoder().feed(raw)
    return [(event.event, json.loads(event.data)) for event in events if event.data != "[DONE]"]


def whole_answer(folder: str, name: str) -> Any:
    return json.loads((FOLDER / folder / f"{name}.json").read_text())


def fail(body: Any) -> ModelError:
    return ModelError(json.dumps(body))


def stream_events(
    decoder: Any, folder: str, name: str, *, is_marked: bool | None = None
) -> list[Event]:
    events: list[Event] = []
    for kind, data in payloads(folder, name):
        events += decoder.feed(data, kind)
    if is_marked is None:
        is_marked = b"[DONE]" in stream_bytes(folder, name)
    return events + decoder.end(marked=is_marked)


def message(events: list[Event]) -> AIMessage:
    return AIMessage.from_fold(fold(events))


def both_messages(make: Callable[[], Any], folder: str, name: str) -> tuple[AIMessage, AIMessage]:
    """The message of the stream and the message of the answer in one piece."""
    return message(stream_events(make(), folder, name)), message(
        make().decode_answer(whole_answer(folder, name))
    )


class Recorded:
    """The recordings of one vendor, and what its decoder makes of them."""

    def __init__(self, folder: str, make: Callable[..., Any], broken: Collection[str]) -> None:
        self._folder = folder
        self.decoder = make
        self.streams = [name for name in names(folder) if name not in broken]
        self.pairs = [name for name in names(folder, ending=".json") if name in names(folder)]

    def stream_of(self, name: str) -> bytes:
        return stream_bytes(self._folder, name)

    def whole_of(self, name: str) -> dict[str, Any]:
        return dict(whole_answer(self._folder, name))

    def decode_stream(self, raw: bytes, **options: Any) -> list[Any]:
        decoding = self.decoder(**options)
        events = [event for name, data in payloads_of(raw) for event in decoding.feed(data, name)]
        return events + decoding.end(marked=False)

    def decode_until_error(self, raw: bytes) -> tuple[list[Any], ModelError]:
        decoding, events = self.decoder(), []
        try:
            for name, data in payloads_of(raw):
                events += decoding.feed(data, name)
            events += decoding.end(marked=False)
        except ModelError as error:
            return events, error
        raise AssertionError("no error was raised")


def message_of(events: list[Any], version: str = "v1") -> AIMessage:
    return AIMessage.from_fold(fold(events), version)
