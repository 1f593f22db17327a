"""Export runs as OpenTelemetry spans, by the GenAI semantic conventions (extra `otel`).

A model call is a client span `chat <model>`, a tool `execute_tool <name>`, a retriever `retrieval <name>`; chains are
internal spans under their own name. What was said is recorded only where `capture_content` asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from foldline.exceptions import MissingExtraError, UsageError
from foldline.tracers._otel_attributes import (
    SCORE_EVENT,
    answer_attributes,
    content_attributes,
    open_span,
    score_attributes,
)
from foldline.tracers._redact import Redactor
from foldline.tracers.base import BaseTracer
from foldline.tracers.schemas import Run

try:
    from opentelemetry import trace
    from opentelemetry.trace import SpanKind, Status, StatusCode
except ImportError as error:
    raise MissingExtraError(
        'OpenTelemetry is not installed: pip install "foldline[otel]"'
    ) from error

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext, TracerProvider

__all__ = ["OpenTelemetryTracer"]

REMEMBERED = 1_000
"""Ended runs that can still be scored."""


class OpenTelemetryTracer(BaseTracer):
    """Makes a span of every run, nested as the runs are; under the span that is current when the root begins.

    ```python
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from foldline.runnables import RunnableLambda
    from foldline.tracers import OpenTelemetryTracer

    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracer = OpenTelemetryTracer(tracer_provider=provider)
    RunnableLambda(lambda x: x + 1).with_config(run_name="add").invoke(1, {"callbacks": [tracer]})
    print([span.name for span in spans.get_finished_spans()])
    #> ['add']
    ```
    """

    run_inline = True
    keep_tokens = False

    def __init__(
        self, *, tracer_provider: TracerProvider | None = None, capture_content: bool = False
    ) -> None:
        """Use a provider of spans, or the process's own; `capture_content` records what was said."""
        super().__init__(_schema_format="streaming_events")
        self._tracer = trace.get_tracer("foldline", tracer_provider=tracer_provider)
        self._capture_content = capture_content
        self._redactor = Redactor()
        self._spans: dict[int, Span] = {}
        """Of each run that lasts, by the run's identity: two may have one id."""
        self._ended: dict[str, SpanContext] = {}
        """Of the last runs that ended, by id: somebody may score them."""

    def _persist_run(self, run: Run) -> None:
        """Spans are exported by their provider."""

    @staticmethod
    def _add_child_run(parent_run: Run, child_run: Run) -> None:
        """Spans know their parents."""

    # -- a run begins

    def _on_run_create(self, run: Run) -> None:
        parent = self._spans.get(id(run.parent_run))
        name, kind, attributes = open_span(run)
        self._spans[id(run)] = self._tracer.start_span(
            name,
            context=trace.set_span_in_context(parent) if parent is not None else None,
            kind=SpanKind.CLIENT if kind == "client" else SpanKind.INTERNAL,
            attributes=attributes,
            start_time=_nanoseconds(run.start_time),
        )

    # -- a run ends

    def _on_run_update(self, run: Run) -> None:
        span = self._spans.pop(id(run), None)
        if span is None:
            return
        if run.run_type == "llm":
            span.set_attributes(answer_attributes(run))
        if self._capture_content:
            span.set_attributes(content_attributes(run, self._redactor))
        if run.error is not None:
            first_line = self._redactor.text(run.error.split("\n", 1)[0])
            span.set_attribute("error.type", first_line.split("(", 1)[0])
            span.set_status(Status(StatusCode.ERROR, first_line))
        self._ended[str(run.id)] = span.get_span_context()
        while len(self._ended) > REMEMBERED:
            del self._ended[next(iter(self._ended))]
        span.end(_nanoseconds(run.end_time))

    def _on_llm_new_token(self, run: Run, token: object, chunk: object) -> None:
        self._mark_first(run)

    def _note_stream_event(self, event: dict[str, Any], run_id: UUID) -> None:
        super()._note_stream_event(event, run_id)
        run = self.run_map.get(str(run_id))
        if run is not None and run.first_token_time is not None:
            self._mark_first(run)

    def _mark_first(self, run: Run) -> None:
        span = self._spans.get(id(run))
        if span is None or run.extra.get("_marked"):
            return
        run.extra["_marked"] = True
        span.add_event("gen_ai.first_token", timestamp=_nanoseconds(run.first_token_time))
        span.set_attributes({"gen_ai.request.stream": True})
        if run.time_to_first_token is not None:
            span.set_attribute("gen_ai.response.time_to_first_chunk", run.time_to_first_token)

    def add_score(
        self,
        run_id: UUID | str,
        name: str,
        value: float | None = None,
        *,
        comment: str | None = None,
    ) -> None:
        """Say how good a run was: an event of its span, or of a short span below it where that has ended."""
        attributes = score_attributes(name, value, comment)
        key = str(run_id)
        run = self.run_map.get(key)
        span = self._spans.get(id(run)) if run is not None else None
        if span is not None:
            span.add_event(SCORE_EVENT, attributes)
            return
        if key not in self._ended:
            raise UsageError(f"there is no run {key!r} among the last {REMEMBERED} to score")
        parent = trace.set_span_in_context(trace.NonRecordingSpan(self._ended[key]))
        with self._tracer.start_span(SCORE_EVENT, context=parent, attributes=attributes) as late:
            late.add_event(SCORE_EVENT, attributes)


def _nanoseconds(time: Any) -> int | None:
    return None if time is None else int(time.timestamp() * 1_000_000) * 1_000
