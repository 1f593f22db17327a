"""Chat completions -> events. A decoder is fed chunks and gives events; it does no I/O.

Each choice has a writer of its own (`choice.py`): the events of the first are the answer, the others are folded apart.
An answer that came whole is one chunk whose deltas are whole messages; one that is a text and nothing else is told at
once (`plain.py`), and the decoder of its choice is never made.
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
from foldline.providers._completions.wire import HEAD, LATE, ROUTINE, Choice, Chunk, decode_usage
from foldline.providers._wire import Fail
from foldline.utils.json import to_jsonable

__all__ = ["CompletionsDecoder"]

UNIQUE_LENGTH = 20
"""How long an id is that no other answer of the host has; Ollama's are `chatcmpl-` and a number below a thousand."""


class CompletionsDecoder:
    """Turns the chunks of one answer into events."""

    __slots__ = (
        "_apart", "_audio_format", "_awaited", "_fail", "_finish", "_first", "_host", "_is_over", "_is_told", "_lead",
        "_metadata", "_model", "_others",
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
        self._lead: Any = ...
        """The index of the first choice: the one that comes first."""
        self._awaited: list[str] = []
        """What the first chunk named and left open."""
        self._apart: dict[Any, tuple[ChoiceDecoder, list[Event]]] = {}
        self._metadata: dict[str, Any] = {}
        self._is_told = False
        self._is_over = False

    def feed(self, data: Chunk, event: str = "message") -> list[Event]:
        """Take one chunk."""
        if type(data) is not dict:
            raise MalformedStreamError(f"a chunk is a JSON object, not {type(data).__name__}")
        if self._is_over:
            return []
        if event == "error" or data.get("error"):
            raise self._fail(data)
        first = self._first
        if first is None:
            first = self._first = self._choice()
        is_routine = self._is_told and data.keys() <= ROUTINE
        events = [] if is_routine else self._head(data, first)
        if self._awaited:
            self._read_late_fields(data)
        for choice in data.get("choices") or ():
            if choice is not None:
                events += self._decode_choice(choice, first)
        if usage := data.get("usage"):
            self._usage(usage, first)
        return events

    def whole(self, data: Chunk) -> list[Event]:
        """Take an answer that came in one piece."""
        events = self.feed(_numbered(data))
        if not isinstance(data.get("choices"), list) or not data["choices"]:
            raise MalformedStreamError(
                "the answer has no choices: is this a chat-completions endpoint?"
            )
        return events + self.end(marked=True)

    def end(self, *, marked: bool) -> list[Event]:
        """Finish every choice."""
        if self._is_over:
            return []
        first = self._first or self._choice()
        if not (marked or first.is_finished or self._host.may_end_silently):
            raise StreamTruncatedError("the stream ended without finish_reason and without [DONE]")
        self._is_over = True
        if "system_fingerprint" in self._awaited:
            self._metadata["system_fingerprint"] = None
        for index in sorted(self._apart, key=str):
            choice, events = self._apart[index]
            self._keep(events + choice.finish())
        return first.finish(self._metadata)

    def partial_state(self) -> dict[str, Any]:
        """Return what was said of usage and metadata so far: for the partial message of a stream that broke."""
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
        if self._lead is ...:
            self._lead = index
        if index == self._lead:
            events = first.feed(choice)
        else:
            events = []
            self._feed_apart(index, choice)
        if choice.get("usage"):  # Moonshot
            self._usage(choice["usage"], first)
        return events

    def _choice(self) -> ChoiceDecoder:
        return ChoiceDecoder(self._host, self._model, self._audio_format)

    def _head(self, data: Chunk, first: ChoiceDecoder) -> list[Event]:
        """Tell what a chunk says of the whole answer."""
        rest = {
            name: value for name, value in data.items() if name not in HEAD and value is not None
        }
        if _is_failure(data):
            raise self._fail(data)
        groq = rest.get("x_groq")
        if isinstance(groq, dict) and isinstance(groq.get("usage"), dict):
            self._usage(groq["usage"], first)
        if isinstance(groq, dict) and groq.get("error"):
            raise self._fail({"error": groq["error"]})
        events: list[Event] = []
        if not self._is_told and (data.get("id") or data.get("model") or data.get("choices")):
            self._is_told = True
            self._awaited = [name for name in LATE if name in data and data[name] is None]  # type: ignore[literal-required]
            if data.get("id"):
                rest["id"] = data["id"]
            events = first.start(_unique_id(data.get("id")), data.get("model"))
        self._metadata |= rest
        return events

    def _read_late_fields(self, data: Chunk) -> None:
        """Hear what the first chunk left open."""
        said = {name: data[name] for name in self._awaited if data.get(name) is not None}  # type: ignore[literal-required]
        self._metadata |= said
        self._awaited = [name for name in self._awaited if name not in said]

    def _usage(self, usage: object, first: ChoiceDecoder) -> None:
        if isinstance(usage, dict):  # or it counts nothing, which must not cost the answer
            first.writer.usage(decode_usage(usage))
        self._metadata["token_usage"] = usage

    def _feed_apart(self, index: object, choice: Choice) -> None:
        if index not in self._apart:
            self._apart[index] = (self._choice(), [])
        decoder, events = self._apart[index]
        events += decoder.feed(choice)

    def _keep(self, events: list[Event]) -> None:
        if self._others is not None:
            self._others.append(AIMessage.from_fold(fold(events)))


def _unique_id(id: str | None) -> str | None:
    """Return an id that no other answer has; a short one is drawn from few numbers, and the run names the message."""
    return id if isinstance(id, str) and len(id) >= UNIQUE_LENGTH else None


def _is_failure(data: Chunk) -> bool:
    """See an error that has no place of its own, as older servers send it in a stream that had begun well."""
    said: Mapping[str, Any] = data
    if said.get("object") == "error":
        return True
    return "choices" not in said and bool(said.get("message") or said.get("detail"))


def _numbered(data: Chunk) -> Chunk:
    """Return an answer whose choices can be told apart: by their places, where their indexes do not."""
    choices = data.get("choices") if type(data) is dict else None
    if not isinstance(choices, list) or len(choices) < 2:
        return data
    indexes = [choice.get("index") for choice in choices]
    if None not in indexes and len(set(indexes)) == len(indexes):
        return data
    placed: list[Choice] = [{**choice, "index": place} for place, choice in enumerate(choices)]
    return {**data, "choices": placed}
