"""One choice of a chat completion -> events: text, reasoning, refusal, calls, audio, images, each in its own block.

Text and reasoning have no index in this API: a block ends when another kind begins. Calls have their own indexes.
"""

from __future__ import annotations

import json
from typing import Any, Final

from foldline.exceptions import MalformedStreamError
from foldline.messages.block_translators import openai as translator
from foldline.messages.block_translators._kwargs_blocks import blocks_of_kwargs
from foldline.messages.block_translators._refusals import refusal_of_metadata
from foldline.protocol.events import Event
from foldline.protocol.tool_call_parser import parse_tool_args
from foldline.protocol.writer import EventWriter
from foldline.providers._completions.host import Host
from foldline.providers._completions.wire import (
    CHOICE_FIELDS,
    DELTA_FIELDS,
    FINISH_REASONS,
    AudioDelta,
    CallDelta,
    Choice,
    Delta,
    is_plain,
)

__all__ = ["ChoiceDecoder"]


REASONING_FIELDS: Final = ("reasoning_content", "reasoning")
AUDIO_KEY: Final = "audio"
FUNCTION_KEY: Final = "function_call"
REFUSAL_KEY: Final = "refusal"
USUAL_REASONS: Final = frozenset({"stop", "length", "tool_calls", "function_call"})
"""Finish reasons of answers that nobody refused."""


class ChoiceDecoder:
    """Decodes the deltas of one choice."""

    __slots__ = (
        "_args",
        "_audio_format",
        "_call",
        "_customs",
        "_executed",
        "_extra",
        "_finish_reason",
        "_has_refused",
        "_logprobs",
        "_refusal_text",
        "_tells_nulls",
        "_transcript",
        "_written_executed",
        "is_finished",
        "writer",
    )

    def __init__(self, host: Host, model: str | None, audio_format: str | None = None) -> None:
        metadata = {"provider": host.name}
        if model:
            metadata["model"] = model
        self.writer = EventWriter(metadata=metadata, usage_mode=host.usage_mode)
        self.is_finished = False
        """Whether a finish reason was received."""
        self._audio_format = audio_format
        self._args: dict[int | str, list[str]] = {}
        self._call: int | str | None = None
        self._customs: dict[int | str | None, dict[str, Any]] = {}
        """Calls of custom tools by index, until the choice ends."""
        self._extra: dict[int | str, Any] = {}
        self._logprobs: dict[str, list[Any]] = {}
        self._transcript: list[str] = []
        self._executed: dict[str, dict[str, Any]] = {}
        """Tools that the host ran, by id, as far as received."""
        self._written_executed: set[tuple[str, str]] = set()
        self._has_refused = False
        self._refusal_text: str | None = None
        self._tells_nulls = host.tells_nulls
        self._finish_reason: Any = None

    def start(self, id: str | None, model: str | None) -> list[Event]:
        """Return the events that start the message."""
        return self.writer.start(id, {"model": model} if model else None)

    def feed(self, choice: Choice) -> list[Event]:
        """Return the events of a delta, or of a complete message."""
        delta = choice.get("delta")
        if delta is None:  # Perplexity sends the complete message in addition to its delta
            delta = choice.get("message") or {}
        content = delta.get("content")
        if type(content) is str and content and (len(delta) == 1 or is_plain(delta)):
            events = self._close_call() if self._call is not None else []
            events += self.writer.text(content)
        else:
            events = self._read_delta(delta)
        logprobs = choice.get("logprobs")
        if logprobs and isinstance(logprobs, dict):
            for name, tokens in logprobs.items():
                if isinstance(tokens, list):
                    self._logprobs.setdefault(name, []).extend(tokens)
        if not choice.keys() <= CHOICE_FIELDS:
            self._keep_host_fields(choice)
        reason = choice.get("finish_reason")
        return events + self._end(reason) if reason else events

    def _end(self, reason: object) -> list[Event]:
        """Read why the host stopped."""
        text = reason if isinstance(reason, str) else json.dumps(reason)
        self.is_finished = True
        self._finish_reason = text
        self.writer.reason("refusal" if self._has_refused else FINISH_REASONS.get(text, text))
        events: list[Event] = []
        if self._transcript:
            events += self._close_audio()
        if self._customs:
            events += self._close_customs()
        return events

    def _keep_host_fields(self, choice: Choice) -> None:
        """Keep host-specific fields of a choice as metadata, such as Azure's filters and vLLM's stop reason."""
        host_fields: dict[str, Any] = {
            name: value
            for name, value in choice.items()
            if name not in CHOICE_FIELDS and value is not None
        }
        self.writer.metadata(host_fields)

    def finish(self, metadata: dict[str, Any] | None = None) -> list[Event]:
        """Return the events that end the message."""
        events = self._close_audio() if self._transcript else []
        events += self._write_executed(is_last=True)
        if self._finish_reason is not None:
            if not self._has_refused and self._finish_reason not in USUAL_REASONS:
                events += self._refusal_of_reason(self._finish_reason)
            metadata = {**(metadata or {}), "finish_reason": self._finish_reason}
        if self._logprobs:
            self.writer.metadata({"logprobs": self._logprobs})
        elif self._tells_nulls:
            metadata = {**(metadata or {}), "logprobs": None}
        if self._has_refused:
            self.writer.reason("refusal")
        has_word = self._tells_nulls or self._has_refused
        kwargs = {"refusal": self._refusal_text} if has_word else None
        return events + self.writer.finish(metadata=metadata, additional_kwargs=kwargs)

    def _read_delta(self, delta: Delta) -> list[Event]:
        events = self._reasoning(delta)
        if not delta.keys() <= DELTA_FIELDS:
            events += self._keep_unknown(delta)
        events += self._content(delta)
        for call in delta.get("tool_calls") or ():
            if call is not None:
                events += self._tool_call(call)
        if function := delta.get("function_call"):
            events += self.writer.tool_call(
                FUNCTION_KEY, None, function.get("name"), function.get("arguments")
            )
        if audio := delta.get("audio"):
            events += self._audio(audio)
        return events

    def _content(self, delta: Delta) -> list[Event]:
        """Return the events of visible content: text, annotations, refusal, images."""
        content, annotations = delta.get("content"), delta.get("annotations")
        refusal, images = delta.get("refusal"), delta.get("images")
        if not (content or annotations or refusal or images):
            return []
        events = self._close_call()
        if isinstance(content, str):
            events += self.writer.text(content)
        elif isinstance(content, list):
            for part in content:
                events += self._part(part)
        elif content is not None:
            raise MalformedStreamError(f"content is text or parts, not {type(content).__name__}")
        if annotations:
            (text,) = translator.translate(
                {"type": "text", "text": "", "annotations": annotations}
            ) or [{}]
            events += self.writer.text("", annotations=text["annotations"])
        for image in images or ():
            events += self._write_native(image)
        return events + self._refusal(refusal)

    def _write_native(self, native: dict[str, Any]) -> list[Event]:
        events: list[Event] = []
        for block in translator.translate(native) or [{"type": "non_standard", "value": native}]:
            events += self.writer.block(block, is_complete=True)
        return events

    def _keep_unknown(self, delta: Delta) -> list[Event]:
        """Keep host-specific fields of a delta."""
        events: list[Event] = []
        host_fields = {
            name: value
            for name, value in delta.items()
            if name not in DELTA_FIELDS and name != "executed_tools" and value is not None
        }
        if host_fields:
            self.writer.additional_kwargs(host_fields)
        if executed := delta.get("executed_tools"):
            events += self._executed_tools(executed)
        return events

    def _executed_tools(self, tools: object) -> list[Event]:
        """Return the events of tools that the host ran: each call and result once, even if the host repeats a tool."""
        for position, tool in enumerate(tools if isinstance(tools, list) else ()):
            if isinstance(tool, dict):
                id = str(tool.get("id") or tool.get("index", position))
                fields = {name: value for name, value in tool.items() if value is not None}
                self._executed[id] = {**self._executed.get(id, {}), **fields}
        return self._write_executed(is_last=False)

    def _write_executed(self, *, is_last: bool) -> list[Event]:
        events: list[Event] = []
        for id, tool in self._executed.items():
            call, result = blocks_of_kwargs({"executed_tools": [{"id": id, **tool}]}, [])
            is_complete = not isinstance(parse_tool_args(tool.get("arguments") or ""), str)
            has_output = "output" in tool or is_last
            if ("call", id) not in self._written_executed and (is_complete or has_output):
                self._written_executed.add(("call", id))
                events += self.writer.block(call, is_complete=True)
            if ("result", id) not in self._written_executed and has_output:
                self._written_executed.add(("result", id))
                events += self.writer.block(result, is_complete=True)
        return events

    def _reasoning(self, delta: Delta) -> list[Event]:
        text = next(
            (value for name in REASONING_FIELDS if (value := _texts(delta.get(name)))), None
        )
        details: Any = delta.get("reasoning_details")
        details = [details] if isinstance(details, dict) else details
        if text is None and not details:
            return []
        events = self._close_call()
        if isinstance(details, list) and details:
            if text is None:
                text = _texts(details)
            return events + self.writer.reasoning(
                text or None, extras={"reasoning_details": details}
            )
        return events + self.writer.reasoning(text)

    def _part(self, part: str | dict[str, Any]) -> list[Event]:
        """Return the events of a content part: text, images, Mistral's thinking and references."""
        if isinstance(part, str):
            return self.writer.text(part)
        if part.get("type") == "thinking":
            thinking = part.get("thinking")
            texts = (
                [piece.get("text") or "" for piece in thinking]
                if isinstance(thinking, list)
                else [thinking or ""]
            )
            return self.writer.reasoning("".join(texts))
        if part.get("type") == "text" and isinstance(part.get("text"), str):
            return self.writer.text(part["text"])
        return self._write_native(part)

    def _refusal(self, refusal: str | None) -> list[Event]:
        if not refusal:
            return []
        self._has_refused = True
        self._refusal_text = (self._refusal_text or "") + refusal
        return self.writer.refusal(refusal, REFUSAL_KEY)

    def _refusal_of_reason(self, reason: str) -> list[Event]:
        """Return the block of an answer that a filter left empty, or that the host calls a refusal."""
        refusal = refusal_of_metadata({"finish_reason": reason}, has_content=self.writer.has_blocks)
        return [] if refusal is None else self.writer.block(refusal, is_complete=True)

    def _tool_call(self, call: CallDelta) -> list[Event]:
        index = call.get("index")
        key = index if index is not None else None
        name_and_args = call.get("function") or {}
        args = name_and_args.get("arguments")
        extras: dict[str, Any] = {}
        if custom := call.get("custom"):
            return self._custom(call, custom.get("name"), custom.get("input"))
        if args is not None and not isinstance(args, (str, dict)):
            args = json.dumps(args)  # the writer reports it as invalid
        extra_content = call.get("extra_content")
        if extra_content and (
            key is None or self._extra.get(key) != extra_content
        ):  # some repeat it
            extras["extra_content"] = extra_content
            if key is not None:
                self._extra[key] = extra_content
        events = self._close_call() if key != self._call else []
        if key is not None:
            self._call = key
            if isinstance(args, str):
                self._args.setdefault(key, []).append(args)
        id = call.get("id") or None
        return events + self.writer.tool_call(key, id, name_and_args.get("name"), args, extras)

    def _custom(self, call: CallDelta, name: str | None, text: str | None) -> list[Event]:
        """Collect a call of a custom tool; with an index it is streamed, and complete only at the end."""
        block = self._customs.get(call.get("index")) or {
            "type": "tool_call",
            "id": None,
            "name": None,
            "args": {"__arg1": ""},
            "extras": {"type": "custom"},
        }
        block["id"], block["name"] = block["id"] or call.get("id"), block["name"] or name
        block["args"]["__arg1"] += text or ""
        if call.get("index") is None:
            return self.writer.block(block, is_complete=True)
        self._customs[call.get("index")] = block
        return []

    def _close_customs(self) -> list[Event]:
        events: list[Event] = []
        for block in self._customs.values():
            events += self.writer.block(block, is_complete=True)
        self._customs = {}
        return events

    def _close_call(self) -> list[Event]:
        """End the open call, if its arguments are complete, because another block begins."""
        key, self._call = self._call, None
        if key is None:
            return []
        args = "".join(self._args.get(key, ()))
        self._args[key] = [args]
        if not args or isinstance(parse_tool_args(args), str):
            return []
        return self.writer.close(key, kind="tool_call")

    def _audio(self, audio: AudioDelta) -> list[Event]:
        fields: dict[str, Any] = {}
        if self._audio_format:
            fields["mime_type"] = f"audio/{self._audio_format}"
        if audio.get("expires_at"):
            fields["extras"] = {"expires_at": audio["expires_at"]}
        if transcript := audio.get("transcript"):
            self._transcript.append(transcript)
        return self.writer.data(
            audio.get("data") or "", "audio", AUDIO_KEY, audio.get("id"), **fields
        )

    def _close_audio(self) -> list[Event]:
        transcript, self._transcript = "".join(self._transcript), []
        events = self.writer.fields({"extras": {"transcript": transcript}}, AUDIO_KEY, kind="audio")
        return events + self.writer.close(AUDIO_KEY, kind="audio")


def _texts(value: object) -> str | None:
    """Return the text of reasoning, in any of the hosts' formats."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, dict):
        value = value.get("text") or value.get("summary") or value.get("content")
        return _texts(value)
    if isinstance(value, list):
        return "".join(_texts(part) or "" for part in value) or None
    return None
