"""The ways to show an exchange: text as it streams, raw events, or nothing until the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from foldline._cli.markdown import MarkdownWriter
from foldline._cli.terminal import echo, is_terminal, note, terminal_width
from foldline.messages import AIMessage, ToolMessage
from foldline.messages._refusal import refusal_of
from foldline.protocol.blocks import MEDIA_TYPES
from foldline.protocol.events import Event

__all__ = ["EventShow", "NoShow", "TextShow", "answer_to_json"]

LONGEST_RESULT = 300
"""Characters of a tool's result that a terminal shows."""


class NoShow:
    """Shows nothing."""

    def event(self, event: Event) -> None:
        """Show nothing."""

    def result(self, message: ToolMessage) -> None:
        """Show nothing."""

    def end(self, message: AIMessage | None) -> None:
        """Show nothing."""


class EventShow(NoShow):
    """Prints every event of the protocol as a line of JSON."""

    def event(self, event: Event) -> None:
        """Print an event."""
        sys.stdout.write(json.dumps(event, ensure_ascii=False, default=str) + "\n")
        sys.stdout.flush()


class TextShow(NoShow):
    """Prints text as it comes; on a terminal also reasoning, dimmed, and tool calls.

    Elsewhere stdout has only the answer, and tool calls go to stderr.
    """

    def __init__(self, *, is_styled: bool = True) -> None:
        self._is_live = is_terminal(sys.stdout)
        self._markdown = (
            MarkdownWriter(_write_piece, terminal_width) if self._is_live and is_styled else None
        )
        self._kind = ""
        self._at_line_start = True
        self._streamed_blocks: set[int] = set()

    def event(self, event: Event) -> None:
        """Show the text that an event adds."""
        if event["event"] == "message-start":
            self._streamed_blocks.clear()
        elif event["event"] == "content-block-delta":
            self._streamed_blocks.add(event["index"])
            delta: Any = event["delta"]
            if delta["type"] == "text-delta":
                self._write("text", delta["text"])
            elif delta["type"] == "refusal-delta":
                self._write("refusal", delta["refusal"])
            elif delta["type"] == "reasoning-delta" and self._is_live:
                self._write("reasoning", delta.get("reasoning", ""))
        elif event["event"] == "content-block-finish":
            self._finish(event["content"], is_streamed=event["index"] in self._streamed_blocks)

    def _finish(self, block: Mapping[str, Any], *, is_streamed: bool) -> None:
        kind = block["type"]
        if kind == "text" and not is_streamed:
            self._write("text", block["text"])
        elif kind == "refusal" and not is_streamed:
            self._write("refusal", block["refusal"])
        elif kind == "reasoning" and not is_streamed and self._is_live:
            self._write("reasoning", block.get("reasoning", ""))
        elif kind in ("tool_call", "server_tool_call", "invalid_tool_call"):
            args = block.get("args")
            arguments = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
            self._line(f"-> {block.get('name')}({arguments})", "cyan")
        elif kind in MEDIA_TYPES:
            self._show_media(block)

    def _show_media(self, block: Mapping[str, Any]) -> None:
        """Show the transcript of audio, and one line about a picture, a video or a file."""
        if transcript := (block.get("extras") or {}).get("transcript"):
            self._write("text", transcript)
        data = block.get("base64") or ""
        size = f"{len(data) * 3 // 4 - data.count('='):,} bytes" if data else ""
        facts = [fact for fact in (block.get("mime_type"), size, block.get("url")) if fact]
        self._line(f"[{', '.join([block['type'], *facts])}; --json gives it]", "magenta")

    def result(self, message: ToolMessage) -> None:
        """Show the result of a tool, in short."""
        text = " ".join(str(message.text).split())
        excerpt = text if len(text) <= LONGEST_RESULT else f"{text[:LONGEST_RESULT]}..."
        self._line(f"<- {excerpt}", "red" if message.status == "error" else "green")

    def end(self, message: AIMessage | None) -> None:
        """End the line."""
        self._end_line()
        self._kind = ""
        if message is None or message.tool_calls:
            return
        if message.finish_reason == "length":
            note("(cut: the answer reached its maximum length; -o max_tokens=... allows more)")
        elif (refusal := refusal_of(message)) is not None:
            reasons = ", ".join(f"{k}: {v}" for k, v in (refusal.get("extras") or {}).items())
            note(f"(the model refused{f'; {reasons}' if reasons else ''})")
        elif not str(message.text).strip() and not self._has_media(message):
            note(f"(the model's answer is empty; it stopped because: {message.finish_reason})")

    def _has_media(self, message: AIMessage) -> bool:
        return any(block["type"] in MEDIA_TYPES for block in message.content_blocks)

    def _write(self, kind: str, text: str) -> None:
        if not text:
            return
        if self._kind and kind != self._kind:
            self._end_line()
        self._kind = kind
        if kind == "text" and self._markdown is not None:
            self._markdown.feed(text)
        else:
            echo(text, end="", style="dim italic" if kind == "reasoning" else None)
        self._at_line_start = text.endswith("\n")

    def _end_line(self) -> None:
        if self._markdown is not None:
            self._markdown.close()
        if not self._at_line_start:
            echo()
            self._at_line_start = True

    def _line(self, text: str, style: str) -> None:
        if not self._is_live:
            note(text)
            return
        self._end_line()
        echo(text, style=style)
        self._kind = ""


def _write_piece(text: str, style: str | None) -> None:
    echo(text, end="", style=style)


def answer_to_json(message: AIMessage) -> dict[str, Any]:
    """Return an answer as `--json` prints it."""
    blocks: list[Any] = list(message.content_blocks)
    reasoning = [block.get("reasoning", "") for block in blocks if block["type"] == "reasoning"]
    return {
        "text": str(message.text),
        "reasoning": "".join(reasoning) or None,
        "tool_calls": [
            {"name": call["name"], "args": call["args"], "id": call["id"]}
            for call in message.tool_calls
        ],
        "finish_reason": message.finish_reason,
        "status": message.status,
        "usage": message.usage_metadata,
        "provider": message.response_metadata.get("model_provider"),
        "model": message.response_metadata.get("model_name"),
        "id": message.id,
        "content": blocks,
    }
