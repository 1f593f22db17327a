"""Export runs as OpenTelemetry spans, by the GenAI semantic conventions (extra `otel`).

A model call is a client span `chat <model>`, a tool `execute_tool <name>`, a retriever `retrieval <name>`; chains are
internal spans under their own name. Messages and values are recorded only with `capture_content`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, cast
from uuid import UUID

from foldline.callbacks._observers import RunObserver
from foldline.callbacks.base import BaseCallbackHandler
from foldline.callbacks.dispatch import inline
from foldline.callbacks.stdout import name_of
from foldline.exceptions import MissingExtraError, TracerException, UsageError
from foldline.tracers._columns import WAITING
from foldline.tracers._otel_attributes import (
    SCORE_EVENT,
    answer_attributes,
    content_attributes,
    open_span,
    score_attributes,
)
from foldline.tracers._records import INTERRUPT_CLASSES, questions_of
from foldline.tracers._redact import Redactor
from foldline.tracers.core import llm_outputs
from foldline.tracers.schemas import run_key, usage_of
from foldline.utils._options import check_options
from foldline.utils._trace_context import TRACE, TraceContext

try:
    from opentelemetry import trace
    from opentelemetry.trace import (
        NonRecordingSpan,
        SpanContext,
        SpanKind,
        Status,
        StatusCode,
        TraceFlags,
        TraceState,
    )
except ImportError as error:
    raise MissingExtraError(
        'OpenTelemetry is not installed: pip install "foldline[otel]"'
    ) from error

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, TracerProvider

    from foldline.outputs import LLMResult
    from foldline.protocol.events import Event

__all__ = ["OpenTelemetryTracer"]

REMEMBERED = 1_000
"""Ended runs that can still be scored."""


class _SpanRun:
    """A run that lasts, and its span."""

    __slots__ = (
        "extra", "id", "inputs", "is_streaming", "name", "outer", "outputs", "run_type", "serialized", "span", "start",
        "tags",
    )  # fmt: skip

    span: Span

    def __init__(
        self,
        run_type: str,
        serialized: dict[str, Any] | None,
        inputs: dict[str, Any],
        extra: dict[str, Any],
    ) -> None:
        self.id: UUID = extra["run_id"]
        self.run_type = run_type
        self.serialized = serialized
        self.inputs = inputs
        self.outputs: dict[str, Any] | None = None
        self.extra = extra
        self.tags: list[str] | None = extra.get("tags")
        self.name: str = extra.get("name") or name_of(serialized, {})
        self.start: int = time.time_ns()
        self.is_streaming: bool = False
        """Whether the first piece has arrived."""
        self.outer: _SpanRun | None = None
        """A run of the same id that this one interrupts: a parent may have the id of its child."""

    @property
    def usage(self) -> dict[str, Any] | None:
        """Tokens of a model run; None if its answers have none."""
        return usage_of(self.outputs)


def _remote_parent() -> Context | None:
    """Return the span of the client of a served run; None if a span is current here, or there is no client's."""
    served = TRACE.get()
    parent = served.parent if served is not None else None
    if parent is None or trace.get_current_span().get_span_context().is_valid:
        return None
    context = SpanContext(
        int(parent.trace_id, 16),
        int(parent.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(int(parent.flags, 16)),
        trace_state=TraceState.from_header([parent.state] if parent.state else []),
    )
    return trace.set_span_in_context(NonRecordingSpan(context))


class OpenTelemetryTracer(RunObserver, BaseCallbackHandler):
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

    @check_options()
    def __init__(
        self, *, tracer_provider: TracerProvider | None = None, capture_content: bool = False
    ) -> None:
        """Use a provider of spans, by default the global one; `capture_content` records messages and values."""
        super().__init__()
        if tracer_provider is not None and not hasattr(tracer_provider, "get_tracer"):
            raise UsageError(
                f"tracer_provider is a TracerProvider of OpenTelemetry, not {tracer_provider!r:.80}"
            )
        self._tracer = trace.get_tracer("foldline", tracer_provider=tracer_provider)
        self._capture_content = capture_content
        self._redactor = Redactor()
        self._runs: dict[UUID, _SpanRun] = {}
        """Runs that last, by id."""
        self._threads: dict[UUID, str] = {}
        """Threads that `configurable` names, of runs that are about to start."""
        self._ended: dict[str, SpanContext] = {}
        """Span contexts of the last runs that ended, by id, for scores."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # a config may be copied; the tracer in it stays the one the user holds

    def __copy__(self) -> Self:
        return self

    # -- a run starts

    def on_run_config(self, run_id: UUID, configurable: Mapping[str, Any]) -> None:
        """Keep the thread until the run starts."""
        if configurable.get("thread_id") is not None:
            self._threads[run_id] = str(configurable["thread_id"])

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[Any]], **kwargs: Any
    ) -> None:
        """Start a span."""
        self._start("llm", serialized, {"messages": messages}, kwargs)

    def on_llm_start(self, serialized: dict[str, Any], prompts: list[str], **kwargs: Any) -> None:
        """Start a span."""
        self._start("llm", serialized, {"prompts": prompts}, kwargs)

    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: object,
        *,
        run_type: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Start a span."""
        self._start(run_type or "chain", serialized, {"input": inputs}, kwargs)

    def on_tool_start(
        self, serialized: dict[str, Any], input_str: str, *, inputs: object = None, **kwargs: Any
    ) -> None:
        """Start a span."""
        self._start("tool", serialized, {"input": inputs}, kwargs)

    def on_retriever_start(self, serialized: dict[str, Any], query: str, **kwargs: Any) -> None:
        """Start a span."""
        self._start("retriever", serialized, {"query": query}, kwargs)

    def _start(
        self,
        run_type: str,
        serialized: dict[str, Any] | None,
        inputs: dict[str, Any],
        details: dict[str, Any],
    ) -> None:
        if self._threads and (thread := self._threads.pop(details["run_id"], None)) is not None:
            details["metadata"] = {"thread_id": thread, **(details.get("metadata") or {})}
        run = _SpanRun(run_type, serialized, inputs, details)
        parent_id: UUID | None = details.get("parent_run_id")
        parent = self._runs.get(parent_id) if parent_id is not None else None
        run.outer = self._runs.get(run.id)
        name, kind, attributes = open_span(run)
        run.span = self._tracer.start_span(
            name,
            context=_remote_parent() if parent is None else trace.set_span_in_context(parent.span),
            kind=SpanKind.CLIENT if kind == "client" else SpanKind.INTERNAL,
            attributes=attributes,
            start_time=run.start,
        )
        self._runs[run.id] = run

    def trace_context(self, run_id: UUID) -> TraceContext | None:
        """Return the span of a run that lasts."""
        run = self._runs.get(run_id)
        context = run.span.get_span_context() if run is not None else None
        if context is None or not context.is_valid:
            return None
        return TraceContext(
            f"{context.trace_id:032x}",
            f"{context.span_id:016x}",
            f"{context.trace_flags:02x}",
            context.trace_state.to_header(),
        )

    # -- a run ends

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: object) -> None:
        """End the span."""
        self._end(run_id, llm_outputs(response, dump=False))

    def on_chain_end(
        self, outputs: object, *, run_id: UUID, inputs: object = None, **kwargs: object
    ) -> None:
        """End the span."""
        self._end(run_id, {"output": outputs}, inputs)

    def on_tool_end(self, output: object, *, run_id: UUID, **kwargs: object) -> None:
        """End the span."""
        self._end(run_id, {"output": output})

    def on_retriever_end(self, documents: object, *, run_id: UUID, **kwargs: object) -> None:
        """End the span."""
        self._end(run_id, {"documents": documents})

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """End the span with an error, and with the partial answer."""
        response: LLMResult | None = kwargs.get("response")
        has_answer = response is not None and bool(response.generations)
        outputs = llm_outputs(cast("LLMResult", response), dump=False) if has_answer else None
        self._end(run_id, outputs, error=error)

    def on_chain_error(
        self, error: BaseException, *, run_id: UUID, inputs: object = None, **kwargs: object
    ) -> None:
        """End the span with an error."""
        self._end(run_id, None, inputs, error=error)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: object) -> None:
        """End the span with an error."""
        self._end(run_id, None, error=error)

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **kwargs: object) -> None:
        """End the span with an error."""
        self._end(run_id, None, error=error)

    def _end(
        self,
        run_id: UUID,
        outputs: dict[str, Any] | None,
        inputs: object = None,
        *,
        error: BaseException | None = None,
    ) -> None:
        end = time.time_ns()
        run = self._runs.pop(run_id, None)
        if run is None:
            raise TracerException(
                f"{type(self).__name__} was told of the run {run_id} but never of its start: attach it before the run"
            )
        if run.outer is not None:
            self._runs[run_id] = run.outer
        run.outputs = outputs
        if inputs is not None:
            run.inputs = {"input": inputs}
        span = run.span
        if run.run_type == "llm" and (attributes := answer_attributes(run)):
            span.set_attributes(attributes)
        if self._capture_content:
            span.set_attributes(content_attributes(run, self._redactor))
        if (
            type(error).__name__ in INTERRUPT_CLASSES
            or questions_of((outputs or {}).get("output")) is not None
        ):
            span.set_attribute("foldline.run.status", WAITING)
        elif error is not None:
            self._set_error(span, error)
        self._ended[run_key(run_id)] = span.get_span_context()
        if len(self._ended) > REMEMBERED:
            del self._ended[next(iter(self._ended))]
        span.end(end)

    def _set_error(self, span: Span, error: BaseException) -> None:
        try:
            text = repr(error)
        except Exception:  # noqa: BLE001  an error whose own text cannot be made still has a name
            text = repr(type(error))
        first_line = self._redactor.text(text.split("\n", 1)[0])
        span.set_attribute("error.type", first_line.split("(", 1)[0])
        span.set_status(Status(StatusCode.ERROR, first_line))

    # -- the first piece

    def on_llm_new_token(self, token: object, *, run_id: UUID, **kwargs: object) -> None:
        """Note the time of the first."""
        self._mark_first(run_id)

    @inline
    def on_stream_event(self, event: Event, *, run_id: UUID, **kwargs: object) -> None:
        """Note when the first content arrived."""
        if event.get("event") == "content-block-delta":
            self._mark_first(run_id)

    def _mark_first(self, run_id: UUID) -> None:
        run = self._runs.get(run_id)
        if run is None or run.is_streaming:
            return
        run.is_streaming = True
        at = time.time_ns()
        run.span.add_event("gen_ai.first_token", timestamp=at)
        run.span.set_attributes(
            {
                "gen_ai.request.stream": True,
                "gen_ai.response.time_to_first_chunk": (at - run.start) / 1_000_000_000,
            }
        )

    def add_score(
        self,
        run_id: UUID | str,
        name: str,
        value: float | None = None,
        *,
        comment: str | None = None,
    ) -> None:
        """Score a run: as an event of its span, or of a short child span if that has ended."""
        attributes = score_attributes(name, value, comment)
        key = str(run_id)
        run = next((run for run in self._runs.values() if run_key(run.id) == key), None)
        if run is not None:
            run.span.add_event(SCORE_EVENT, attributes)
            return
        if key not in self._ended:
            raise UsageError(f"there is no run {key!r} among the last {REMEMBERED} to score")
        parent = trace.set_span_in_context(trace.NonRecordingSpan(self._ended[key]))
        with self._tracer.start_span(SCORE_EVENT, context=parent, attributes=attributes) as late:
            late.add_event(SCORE_EVENT, attributes)
