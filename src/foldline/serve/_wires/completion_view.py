"""The view of a run as one choice of a chat completion, as chunks or as one object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from foldline.serve._event_reader import Op
from foldline.serve._json_object import JsonObject
from foldline.serve._log.events import EncodedEvent
from foldline.serve._log.records import RunRecord
from foldline.serve._wires.answer_view import AnswerView, web_citations
from foldline.serve._wires.logprobs import completion_logprobs
from foldline.serve._wires.media import data_url
from foldline.serve._wires.usage import UsageTotal
from foldline.serve.apps import ServedApp
from foldline.serve.errors import ServeError

__all__ = [
    "FINISH_REASONS",
    "ChoiceView",
    "TextChoiceView",
    "completion_head",
    "completion_json",
    "usage_chunk",
]

FINISH_REASONS: Final = {
    "stop": "stop",
    "length": "length",
    "tool_use": "tool_calls",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}


def completion_head(info: RunRecord, app: ServedApp, *, is_text: bool = False) -> JsonObject:
    """Return the fields that all chunks of a completion share; the id is that of the first run."""
    return {
        "id": f"cmpl-{info.id}" if is_text else f"chatcmpl-{info.id}",
        "object": "text_completion" if is_text else "chat.completion.chunk",
        "created": int(info.created),
        "model": app.name,
    }


class ChoiceView(AnswerView):
    """Builds the message of one choice, and its chunks."""

    def __init__(self, head: JsonObject, app: ServedApp, index: int = 0) -> None:
        super().__init__(app)
        self._head = head
        self._index = index
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, JsonObject] = {}
        self._annotations: list[JsonObject] = []
        self._images: list[JsonObject] = []
        self._reason = "stop"
        self._logprobs: object = None
        self._has_begun = False
        self._separates = False

    def pieces(self, item: EncodedEvent) -> Iterator[JsonObject]:
        """Return the chunks of one event of the log."""
        for op in self.read(item):
            delta = self._delta(op)
            if delta is None:
                continue
            if not self._has_begun:
                self._has_begun = True
                delta = {"role": "assistant", **delta}
                has_other = "tool_calls" in delta or "refusal" in delta
                delta.setdefault("content", None if has_other else "")
            yield self._chunk(delta)

    def _delta(self, op: Op) -> JsonObject | None:
        match op.kind:
            case "text":
                return {"content": self._add_text(op.text)}
            case "reasoning":
                self._reasoning.append(op.text)
                return {"reasoning_content": op.text}
            case "refusal":
                self._refusal.append(op.text)
                return {"refusal": op.text}
            case "call-start" if not self.is_agent:
                return self._start_call(op)
            case "call-args" if not self.is_agent:
                call = self._calls[op.number]
                call["function"]["arguments"] += op.text
                return {
                    "tool_calls": [{"index": call["index"], "function": {"arguments": op.text}}]
                }
            case _:
                return self._note(op)

    def _note(self, op: Op) -> JsonObject | None:
        match op.kind:
            case "text-end":
                notes = [
                    {"type": "url_citation", "url_citation": note} for note in web_citations(op)
                ]
                self._annotations += notes
                return {"annotations": notes} if notes else None
            case "block" if op.text == "image":
                image = {"type": "image_url", "image_url": {"url": data_url(op.data)}}
                self._images.append(image)
                return {"images": [image]}
            case "message-end":
                self._separates = bool(self._text)
                # The API ends a refusal with "stop"; without words only the reason shows it.
                is_refusal = bool(self._refusal)
                reason = FINISH_REASONS.get(self.finish_reason(op), "stop")
                self._reason = "stop" if is_refusal else reason
                self._logprobs = completion_logprobs(op.data.get("metadata") or {})
            case "ask":
                self._error = ServeError("conflict", "asks a person")
            case _:
                pass
        return None

    def _add_text(self, text: str) -> str:
        """Add text; an empty line separates the messages of an agent."""
        if self._separates:
            self._separates = False
            text = f"\n\n{text}"
        self._text.append(text)
        return text

    def _start_call(self, op: Op) -> JsonObject:
        function = {"name": op.data["name"], "arguments": ""}
        call = {"index": len(self._calls), "id": op.text, "type": "function"}
        self._calls[op.number] = {**call, "function": dict(function)}
        return {"tool_calls": [{**call, "function": function}]}

    def _chunk(self, delta: JsonObject, reason: str | None = None) -> JsonObject:
        choice = {
            "index": self._index,
            "delta": delta,
            "logprobs": self._logprobs if reason is not None else None,
            "finish_reason": reason,
        }
        return {**self._head, "choices": [choice]}

    def tail(self) -> Iterator[JsonObject]:
        """Return the last chunks of the choice."""
        if not self._has_begun:
            yield self._chunk({"role": "assistant", "content": ""})
        yield self._chunk({}, self._reason)

    def choice(self, info: RunRecord) -> JsonObject:
        """Return the choice, or raise the run's error."""
        problem = self.problem(info)
        if problem is not None:
            raise problem
        has_content = bool(self._text) or not (self._calls or self._refusal)
        message: JsonObject = {
            "role": "assistant",
            "content": "".join(self._text) if has_content else None,
            "refusal": "".join(self._refusal) or None,
        }
        if self._reasoning:
            message["reasoning_content"] = "".join(self._reasoning)
        if self._calls:
            message["tool_calls"] = [
                {name: value for name, value in call.items() if name != "index"}
                for call in self._calls.values()
            ]
        if self._annotations:
            message["annotations"] = self._annotations
        if self._images:
            message["images"] = self._images
        return {
            "index": self._index,
            "message": message,
            "logprobs": self._logprobs,
            "finish_reason": self._reason,
        }


class TextChoiceView(ChoiceView):
    """One choice of a text completion: the text of the answer, and nothing else."""

    def pieces(self, item: EncodedEvent) -> Iterator[JsonObject]:
        """Return the chunks of one event of the log."""
        for op in self.read(item):
            text = (self._delta(op) or {}).get("content")
            if text:
                yield {**self._head, "choices": [self._choice(text, None)]}

    def tail(self) -> Iterator[JsonObject]:
        """Return the last chunk of the choice."""
        yield {**self._head, "choices": [self._choice("", self._reason)]}

    def choice(self, info: RunRecord) -> JsonObject:
        """Return the choice, or raise the run's error."""
        problem = self.problem(info)
        if problem is not None:
            raise problem
        return self._choice("".join(self._text), self._reason)

    def _choice(self, text: str, reason: str | None) -> JsonObject:
        return {"text": text, "index": self._index, "logprobs": None, "finish_reason": reason}


def _usage(views: Sequence[ChoiceView]) -> JsonObject:
    total = UsageTotal()
    for view in views:
        if view.usage is not None:
            total.add_total(view.usage)
    return total.as_completions()


def usage_chunk(head: JsonObject, views: Sequence[ChoiceView]) -> JsonObject:
    """Return the chunk with the usage of all choices."""
    return {**head, "choices": [], "usage": _usage(views)}


def completion_json(
    head: JsonObject, views: Sequence[ChoiceView], infos: Sequence[RunRecord]
) -> JsonObject:
    """Return the completion, or raise a run's error."""
    choices = [view.choice(info) for view, info in zip(views, infos, strict=True)]
    kind = str(head["object"]).removesuffix(".chunk")
    return {**head, "object": kind, "choices": choices, "usage": _usage(views)}
