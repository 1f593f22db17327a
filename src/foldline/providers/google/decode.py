"""`generateContent` -> events. Pure.

An answer that is not streamed is one chunk. The first candidate is the answer; others become separate messages. A
blocked prompt or answer ends with the reason `content_filter`, never with an ordinary stop.
"""

from __future__ import annotations

from typing import Any, Final, cast
from uuid import uuid4

from foldline.exceptions import MalformedStreamError, StreamTruncatedError
from foldline.messages import AIMessage
from foldline.messages.block_translators._refusals import refusal_of_metadata
from foldline.protocol.events import Event
from foldline.protocol.fold import fold
from foldline.protocol.folded_message import counts_of
from foldline.protocol.writer import EventWriter
from foldline.providers._readable import blocks_so_far
from foldline.providers._wire import Fail
from foldline.providers.google._citations import cite
from foldline.providers.google._parts import PartsDecoder
from foldline.providers.google._usage import decode_usage, grow_usage
from foldline.providers.google._wire import (
    CANDIDATE_FIELDS,
    CHUNK_FIELDS,
    Candidate,
    Chunk,
    UsageMetadata,
)

__all__ = ["GoogleDecoder", "decode_usage"]


FINISH_REASONS: Final = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "pause",
    **dict.fromkeys(
        (
            "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR", "JAILBREAK",
        ),
        "content_filter",
    ),
    **dict.fromkeys(
        ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"), "error"
    ),
    "OTHER": "unknown",
    "NO_IMAGE": "unknown",
    "IMAGE_OTHER": "unknown",
    "FINISH_REASON_UNSPECIFIED": "unknown",
}  # fmt: skip
METADATA_NAMES: Final = {
    "avgLogprobs": "avg_logprobs",
    "citationMetadata": "citation_metadata",
    "createTime": "create_time",
    "finishMessage": "finish_message",
    "groundingMetadata": "grounding_metadata",
    "logprobsResult": "logprobs",
    "modelStatus": "model_status",
    "promptFeedback": "prompt_feedback",
    "safetyRatings": "safety_ratings",
    "tokenCount": "token_count",
    "urlContextMetadata": "url_context_metadata",
}
"""Gemini's field -> its name in response metadata; the values keep Gemini's spelling."""


def _text_of(part: object) -> str:
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""


class CandidateDecoder:
    """Decodes one candidate, chunk by chunk."""

    __slots__ = ("_metadata", "is_finished", "parts", "reason", "writer")

    def __init__(self, metadata: dict[str, Any]) -> None:
        self.writer: EventWriter = EventWriter(metadata=metadata, usage_mode="last")
        self.parts: PartsDecoder = PartsDecoder(self.writer)
        self.is_finished: bool = False
        """Whether a finish reason was received."""
        self.reason: str | None = None
        self._metadata: dict[str, Any] = {}

    def feed(self, candidate: Candidate) -> list[Event]:
        """Return the events of the candidate in one chunk."""
        content = candidate.get("content") or {}
        events: list[Event] = []
        is_first = True
        parts = content.get("parts") or ()
        if not candidate.keys() <= CANDIDATE_FIELDS or "logprobsResult" in candidate:
            self._note(candidate)
            self.parts.sources = self._metadata
            self.parts.is_last_chunk = bool(candidate.get("finishReason"))
            self.parts.upcoming = [_text_of(part) for part in parts]
        for part in parts:
            if self.parts.upcoming:
                self.parts.upcoming.pop(0)
            events += self.parts.feed(part, is_first)
            is_first = False
        if reason := candidate.get("finishReason"):
            self.stop(reason)
        return events

    def stop(self, reason: str) -> None:
        """Record the finish reason."""
        self.is_finished, self.reason = True, reason
        self.writer.metadata({"finish_reason": reason})
        self.writer.reason(FINISH_REASONS.get(reason, reason))

    def finish(self, metadata: dict[str, Any]) -> list[Event]:
        """Return the last events, including the citations of the text."""
        events = self.parts.finish()
        if self._metadata:
            cite(self.parts.texts, self._metadata)
        late_citations: list[Any] = []
        texts = [text for text in self.parts.texts if any(text.slices)]
        for index, text in enumerate(texts):
            notes = text.take_new_notes()
            if text.is_closed:
                late_citations += [{"text_block": index, **note} for note in notes]
            elif notes:
                events += self.writer.text("", text.key, annotations=notes)
        if late_citations:
            self._metadata["late_citations"] = late_citations
        metadata = {**metadata, **self._metadata}
        return events + self._refusal(metadata) + self.writer.finish(metadata=metadata)

    def _refusal(self, metadata: dict[str, Any]) -> list[Event]:
        """Return the block of a blocked prompt or answer; text before it stays."""
        refusal = refusal_of_metadata(
            {**metadata, "finish_reason": self.reason}, has_content=self.writer.has_blocks
        )
        return [] if refusal is None else self.writer.block(refusal, is_complete=True)

    def _note(self, candidate: Candidate) -> None:
        for name, value in candidate.items():
            if name in CANDIDATE_FIELDS or value is None:
                continue
            old = self._metadata.get(METADATA_NAMES.get(name, name))
            merged = (
                {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
            )
            self._metadata[METADATA_NAMES.get(name, name)] = merged
        for name, value in (candidate.get("logprobsResult") or {}).items():
            logprobs = self._metadata.setdefault("logprobs", {})
            logprobs[name] = [*logprobs.get(name, ()), *value] if isinstance(value, list) else value


class GoogleDecoder:
    """Decodes the chunks of one answer."""

    def __init__(
        self,
        fail: Fail,
        *,
        model: str | None = None,
        provider: str = "google_genai",
        others: list[AIMessage] | None = None,
        retries_malformed_calls: bool = False,
    ) -> None:
        self._fail = fail
        self._base_metadata = {"provider": provider, **({"model": model} if model else {})}
        self._first = CandidateDecoder(self._base_metadata)
        self._other_candidates: dict[int, tuple[CandidateDecoder, list[Event]]] = {}
        self._others = others
        self._retries_malformed_calls = retries_malformed_calls
        self._id: str | None = None
        self._metadata: dict[str, Any] = {}
        self._usage: UsageMetadata = {}
        self._buffered_events: list[Event] = []
        """Events of an answer that is not streamed, returned once it is known to be complete."""
        self._has_candidates = False
        self._is_over = False

    def feed(self, data: Chunk, event: str = "message") -> list[Event]:
        """Return the events of one chunk."""
        if type(data) is not dict:
            raise MalformedStreamError(f"a chunk is a JSON object, not {type(data).__name__}")
        if self._is_over:
            return []
        if event == "error" or data.get("error"):
            raise self._fail(data)
        events = self._start(data) if self._id is None or not data.keys() <= CHUNK_FIELDS else []
        for candidate in data.get("candidates") or ():
            self._has_candidates = True
            index = candidate.get("index") or 0
            if index == 0:
                events += self._first.feed(candidate)
                self._check_call(candidate)
            else:
                self._feed_other(index, candidate)
        if usage := data.get("usageMetadata"):
            self._count(usage)
        return events

    def decode_answer(self, data: Chunk | list[Chunk]) -> list[Event]:
        """Return the events of an answer that is not streamed, or of a stream sent as a list."""
        for chunk in data if isinstance(data, list) else [data]:
            self._buffered_events += self.feed(chunk)
        if not self._has_candidates and not self._first.is_finished:
            raise MalformedStreamError(
                "the answer has no candidates: is this a generateContent endpoint?"
            )
        if not self._first.is_finished:
            raise StreamTruncatedError("the answer came without finishReason")
        events, self._buffered_events = self._buffered_events + self._finish(), []
        return events

    def end(self, *, marked: bool) -> list[Event]:
        """Return the last events; raise if the answer is incomplete."""
        if self._is_over:
            return []
        if not self._first.is_finished:
            raise StreamTruncatedError("the stream ended without finishReason")
        return self._finish()

    def partial_state(self) -> dict[str, Any]:
        """Return usage, metadata and unfinished blocks, for the partial message of an interrupted stream."""
        raw = {"usage_metadata": dict(self._usage)} if self._usage else {}
        return {
            "usage": counts_of(decode_usage(self._usage)) or None,
            "metadata": {**self._metadata, **raw},
            "blocks": blocks_so_far(self._buffered_events) + self._first.parts.unfinished(),
        }

    def _count(self, usage: object) -> None:
        """Update the running totals; malformed usage is kept unchanged in the metadata (E1)."""
        if isinstance(usage, dict):
            grow_usage(cast("dict[str, Any]", self._usage), usage)
        else:
            self._metadata["usage_metadata"] = usage

    def _start(self, data: Chunk) -> list[Event]:
        self._metadata |= {
            METADATA_NAMES.get(name, name): value
            for name, value in data.items()
            if name not in CHUNK_FIELDS and value is not None
        }
        block_reason = (data.get("promptFeedback") or {}).get("blockReason")
        if block_reason and not data.get("candidates"):
            self._first.stop(block_reason)
            self._first.writer.reason("content_filter")
        if self._id is not None:
            return []
        self._id = data.get("responseId") or uuid4().hex
        self._first.parts.set_id_base(self._id)
        if data.get("responseId"):
            self._metadata["response_id"] = self._id
        version = data.get("modelVersion")
        return self._first.writer.start(
            data.get("responseId"), {"model": version} if version else None
        )

    def _check_call(self, candidate: Candidate) -> None:
        if (
            self._retries_malformed_calls
            and candidate.get("finishReason") == "MALFORMED_FUNCTION_CALL"
        ):
            reason = candidate.get("finishMessage") or "the model wrote a call that does not parse"
            raise MalformedStreamError(f"MALFORMED_FUNCTION_CALL: {reason}", is_retryable=True)

    def _feed_other(self, index: int, candidate: Candidate) -> None:
        if index not in self._other_candidates:
            decoder = CandidateDecoder(self._base_metadata)
            decoder.parts.set_id_base(f"{self._id}-{index}")
            self._other_candidates[index] = (decoder, [])
        decoder, events = self._other_candidates[index]
        events += decoder.feed(candidate)

    def _finish(self) -> list[Event]:
        self._is_over = True
        for index in sorted(self._other_candidates):
            decoder, events = self._other_candidates[index]
            message_events = events + decoder.finish({})
            if self._others is not None:
                self._others.append(AIMessage.from_fold(fold(message_events), "v0"))
        if self._usage:
            self._first.writer.usage(decode_usage(self._usage))
            self._metadata["usage_metadata"] = dict(self._usage)
        return self._first.finish(self._metadata)
