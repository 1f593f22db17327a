"""Chat completions -> events. Pure.

Each choice has its own writer (`choice.py`): the events of the first are the answer, the others become separate
messages. An answer that is not streamed is one chunk whose deltas are complete messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foldline.exceptions import MalformedStreamError, StreamTruncatedError
from foldline.messages import AIMessage
from foldline.protocol.events import Event
from foldline.protocol.fold import fold
from foldline.providers._completions.choice import ChoiceDecoder
from foldline.providers._completions.host import Host
from foldline.providers._completions.wire import (
    LATE_FIELDS,
    READ_FIELDS,
    REPEATED_FIELDS,
    Choice,
    Chunk,
    decode_usage,
)
from foldline.providers._wire import Fail
from foldline.utils.json import to_jsonable

__all__ = ["CompletionsDecoder"]

UNIQUE_LENGTH = 20
"""How long an id is that no other answer of the host has; Ollama's are `chatcmpl-` and a number below a thousand."""


class CompletionsDecoder:
    """Decodes the chunks of one answer."""

    __slots__ = (
        "_audio_format", "_fail", "_finish", "_first", "_first_index", "_host", "_is_over", "_is_started",
        "_late_fields", "_metadata", "_model", "_other_choices", "_others",
    )  # fmt: skip

    def __init__(
        self,
        host: Host,
        fail: Fail,
        *,
        model: str | None = None,
        others: list[AIMessage] | None = None,
        audio_format: str | None = None,
    ) -> None:
        self._host = host
        self._fail = fail
        self._model = model
        self._others = others
        self._audio_format = audio_format
        self._first: ChoiceDecoder | None = None
        self._first_index: Any = ...
        """The index of the choice that was received first."""
        self._late_fields: list[str] = []
        """Fields that were null in the first chunk and may be set later."""
        self._other_choices: dict[Any, tuple[ChoiceDecoder, list[Event]]] = {}
        self._metadata: dict[str, Any] = {}
        self._is_started = False
        self._is_over = False

    def feed(self, data: Chunk, event: str = "message") -> list[Event]:
        """Return the events of one chunk."""
        if type(data) is not dict:
            raise MalformedStreamError(f"a chunk is a JSON object, not {type(data).__name__}")
        if self._is_over:
            return []
        if event == "error" or data.get("error"):
            raise self._fail(data)
        first = self._first
        if first is None:
            first = self._first = self._choice()
        is_repeated = self._is_started and data.keys() <= REPEATED_FIELDS
        events = [] if is_repeated else self._read_answer_fields(data, first)
        if self._late_fields:
            self._read_late_fields(data)
        for choice in data.get("choices") or ():
            if choice is not None:
                events += self._decode_choice(choice, first)
        if usage := data.get("usage"):
            self._usage(usage, first)
        return events

    def decode_answer(self, data: Chunk) -> list[Event]:
        """Return the events of an answer that is not streamed."""
        events = self.feed(_with_indexes(data))
        if not isinstance(data.get("choices"), list) or not data["choices"]:
            raise MalformedStreamError(
                "the answer has no choices: is this a chat-completions endpoint?"
            )
        return events + self.end(marked=True)

    def end(self, *, marked: bool) -> list[Event]:
        """Return the last events of every choice; raise if the answer is incomplete."""
        if self._is_over:
            return []
        first = self._first or self._choice()
        if not (marked or first.is_finished or self._host.may_end_silently):
            raise StreamTruncatedError("the stream ended without finish_reason and without [DONE]")
        self._is_over = True
        if "system_fingerprint" in self._late_fields:
            self._metadata["system_fingerprint"] = None
        for index in sorted(self._other_choices, key=str):
            choice, events = self._other_choices[index]
            self._add_other(events + choice.finish())
        return first.finish(self._metadata)

    def partial_state(self) -> dict[str, Any]:
        """Return usage and metadata so far, for the partial message of an interrupted stream."""
        if self._first is None:
            return {"usage": None, "metadata": {}}
        writer = self._first.writer
        return {
            "usage": writer.usage_so_far,
            "metadata": {**writer.metadata_so_far, **to_jsonable(self._metadata)},
        }

    def _decode_choice(self, choice: Choice, first: ChoiceDecoder) -> list[Event]:
        if choice.get("error"):  # OpenRouter
            raise self._fail({"error": choice["error"]})
        index = choice.get("index") or 0
        if self._first_index is ...:
            self._first_index = index
        if index is self._first_index or index == self._first_index:  # NaN is not equal to itself
            events = first.feed(choice)
        else:
            events = []
            self._feed_other(index, choice)
        if choice.get("usage"):  # Moonshot
            self._usage(choice["usage"], first)
        return events

    def _choice(self) -> ChoiceDecoder:
        return ChoiceDecoder(self._host, self._model, self._audio_format)

    def _read_answer_fields(self, data: Chunk, first: ChoiceDecoder) -> list[Event]:
        """Read the fields of a chunk that concern the answer as a whole; start the message."""
        fields = {
            name: value
            for name, value in data.items()
            if name not in READ_FIELDS and value is not None
        }
        if _is_failure(data):
            raise self._fail(data)
        groq = fields.get("x_groq")
        if isinstance(groq, dict) and isinstance(groq.get("usage"), dict):
            self._usage(groq["usage"], first)
        if isinstance(groq, dict) and groq.get("error"):
            raise self._fail({"error": groq["error"]})
        events: list[Event] = []
        if not self._is_started and (data.get("id") or data.get("model") or data.get("choices")):
            self._is_started = True
            self._late_fields = [
                name for name in LATE_FIELDS if name in data and data.get(name) is None
            ]
            if data.get("id"):
                fields["id"] = data["id"]
            events = first.start(_unique_id(data.get("id")), data.get("model"))
        self._metadata |= fields
        return events

    def _read_late_fields(self, data: Chunk) -> None:
        """Read fields that were null in the first chunk."""
        fields = {name: data[name] for name in self._late_fields if data.get(name) is not None}  # type: ignore[literal-required]
        self._metadata |= fields
        self._late_fields = [name for name in self._late_fields if name not in fields]

    def _usage(self, usage: object, first: ChoiceDecoder) -> None:
        if isinstance(usage, dict):  # malformed usage must not fail the answer
            first.writer.usage(decode_usage(usage))
        self._metadata["token_usage"] = usage

    def _feed_other(self, index: object, choice: Choice) -> None:
        if index not in self._other_choices:
            self._other_choices[index] = (self._choice(), [])
        decoder, events = self._other_choices[index]
        events += decoder.feed(choice)

    def _add_other(self, events: list[Event]) -> None:
        if self._others is not None:
            self._others.append(AIMessage.from_fold(fold(events)))


def _unique_id(id: str | None) -> str | None:
    """Return an id that no other answer has; a short one is drawn from few numbers, and the run names the message."""
    return id if isinstance(id, str) and len(id) >= UNIQUE_LENGTH else None


def _is_failure(data: Chunk) -> bool:
    """Whether a chunk is an error without an `error` field, as older servers send it inside a stream."""
    fields: Mapping[str, Any] = data
    if fields.get("object") == "error":
        return True
    return "choices" not in fields and bool(fields.get("message") or fields.get("detail"))


def _with_indexes(data: Chunk) -> Chunk:
    """Return an answer whose choices have distinct indexes: their positions, if they had none."""
    choices = data.get("choices") if type(data) is dict else None
    if not isinstance(choices, list) or len(choices) < 2:
        return data
    indexes = [choice.get("index") for choice in choices]
    if None not in indexes and len(set(indexes)) == len(indexes):
        return data
    indexed: list[Choice] = [
        {**choice, "index": position} for position, choice in enumerate(choices)
    ]
    return {**data, "choices": indexed}
