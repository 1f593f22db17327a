"""`foldline replay`: a recorded stream, played back at its speed.

Three kinds of file are known: events as `foldline chat --events` prints them, calls as `RecordingTransport` writes
them, and the server-sent events of a provider. The last two go through the provider's own decoder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from foldline._cli.exchange import ChatExchange, Show
from foldline._cli.shows import EventShow, TextShow
from foldline._io import BLOCKING
from foldline._io.drive import drive
from foldline.exceptions import UsageError
from foldline.messages import AIMessage, HumanMessage
from foldline.protocol.fold import MessageBuilder
from foldline.providers import find_provider
from foldline.testing.replay import ReplayTransport

__all__ = ["replay"]

PACE = 0.02
"""Seconds between two events of a file without times."""
WIRES = {
    "/chat/completions": "openai_compatible",
    "/responses": "openai",
    "/messages": "anthropic",
    "GenerateContent": "google",
}
"""Part of the URL of a recorded call -> the provider whose decoder reads it."""
MARKS = {
    '"chat.completion': "openai_compatible",
    "response.": "openai",
    "message_start": "anthropic",
    "candidates": "google",
}
"""Part of the text of a stream -> the provider whose decoder reads it."""
NOWHERE = "http://127.0.0.1:9"
"""The URL of the models that replay: nothing is sent to it."""
SETTINGS: dict[str, dict[str, Any]] = {"openai": {"use_responses_api": True}}


def replay(file: Path, *, speed: float, events: bool, provider: str | None) -> int:
    """Play a file back."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"{file}: cannot be read: {reason}; check the path") from error
    show: Show = EventShow() if events else TextShow()
    first = _first_object(text)
    if first is not None and "event" in first:
        _play_events(_objects(text, file), show, speed)
    elif first is not None and "request" in first:
        lines = list(_objects(text, file))
        _play_calls(
            file,
            lines,
            provider or _guess(first["request"].get("url", ""), WIRES, file),
            show,
            speed,
        )
    elif text.lstrip().startswith(("data:", "event:", ":")):
        lines = [_call_of_sse(text)]
        _play_calls(file, lines, provider or _guess(text, MARKS, file), show, speed)
    else:
        raise UsageError(
            f"{file}: neither events (foldline chat --events), nor recorded calls, nor server-sent events: "
            "record with `foldline chat --events > FILE`"
        )
    return 0


def _first_object(text: str) -> dict[str, Any] | None:
    try:
        first = json.loads(text.lstrip().split("\n", 1)[0])
    except ValueError:
        return None
    return first if isinstance(first, dict) else None


def _objects(text: str, file: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                raise UsageError(
                    f"{file}: line {number} is not JSON: {error}; record it anew, or delete the line"
                ) from error


def _play_events(events: Iterable[dict[str, Any]], show: Show, speed: float) -> None:
    builder = MessageBuilder()
    for event in events:
        if event.get("event") == "message-start":
            builder = MessageBuilder()
        builder.feed(event)
        show.event(event)  # type: ignore[arg-type]
        if event.get("event") == "message-finish":
            show.end(AIMessage.from_fold(builder.result()))
        elif speed:
            drive(BLOCKING.sleep(PACE / speed))
    if not builder.is_finished:
        show.end(None)


def _guess(text: str, table: dict[str, str], file: Path) -> str:
    for mark, provider in table.items():
        if mark in text:
            return provider
    raise UsageError(f"{file}: the provider of this stream is not known: pass --provider")


def _call_of_sse(text: str) -> dict[str, Any]:
    pieces = [f"{piece}\n\n" for piece in text.replace("\r\n", "\n").split("\n\n") if piece.strip()]
    chunks = [[at * PACE, piece] for at, piece in enumerate(pieces)]
    headers = {"content-type": "text/event-stream"}
    return {"request": {}, "response": {"status": 200, "headers": headers, "chunks": chunks}}


class _Player(ReplayTransport):
    """Answers every request with one recorded call."""

    def __init__(self, file: Path, line: dict[str, Any], pace: float) -> None:
        self.path, self.requests, self._pace = file, [], pace
        self._line = line

    def _find(self, request: object) -> dict[str, Any]:
        return dict(self._line["response"])


def _play_calls(
    file: Path, lines: list[dict[str, Any]], provider: str, show: Show, speed: float
) -> None:
    for line in lines:
        player = _Player(file, line, 1 / speed if speed else 0.0)
        model = find_provider(provider)(
            model="recorded",
            api_key="none",
            base_url=NOWHERE,
            transport=player,
            max_retries=0,
            **SETTINGS.get(provider, {}),
        )
        ChatExchange(model, [], show).run([HumanMessage("(recorded)")])
