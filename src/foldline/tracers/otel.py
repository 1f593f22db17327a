"""Export runs as OpenTelemetry spans, by the GenAI semantic conventions (extra `otel`).

A model call is a client span `chat <model>`, a tool `execute_tool <name>`, a retriever `retrieval <name>`; chains are
internal spans under their own name. What was said is recorded only where `capture_content` asks for it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

from foldline.exceptions import MissingExtraError
from foldline.tracers._otel_content import input_messages, output_messages, plain_content
from foldline.tracers._redact import Redactor
from foldline.tracers.base import BaseTracer
from foldline.tracers.schemas import Run
from foldline.utils.json import to_jsonable

try:
    from opentelemetry import trace
    from opentelemetry.trace import SpanKind, Status, StatusCode
except ImportError as error:
    raise MissingExtraError(
        'OpenTelemetry is not installed: pip install "foldline[otel]"'
    ) from error

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

__all__ = ["OpenTelemetryTracer"]

PARAMETERS = {
    "temperature": ("gen_ai.request.temperature", float),
    "top_p": ("gen_ai.request.top_p", float),
    "top_k": ("gen_ai.request.top_k", float),
    "max_tokens": ("gen_ai.request.max_tokens", int),
    "max_completion_tokens": ("gen_ai.request.max_tokens", int),
    "max_output_tokens": ("gen_ai.request.max_tokens", int),
    "frequency_penalty": ("gen_ai.request.frequency_penalty", float),
    "presence_penalty": ("gen_ai.request.presence_penalty", float),
    "seed": ("gen_ai.request.seed", int),
    "n": ("gen_ai.request.choice.count", int),
}
"""A model's parameter -> the attribute, and its type."""
PROVIDERS = {
    "google": "gcp.gemini",
    "google_genai": "gcp.gemini",
    "google_vertexai": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
    "bedrock_converse": "aws.bedrock",
    "azure": "azure.ai.openai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""Our name of a provider -> the conventions', where they differ."""
USAGE = {
    ("input_tokens",): "gen_ai.usage.input_tokens",
    ("output_tokens",): "gen_ai.usage.output_tokens",
    ("input_token_details", "cache_read"): "gen_ai.usage.cache_read.input_tokens",
    ("input_token_details", "cache_creation"): "gen_ai.usage.cache_creation.input_tokens",
    ("output_token_details", "reasoning"): "gen_ai.usage.reasoning.output_tokens",
}


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

    def _persist_run(self, run: Run) -> None:
        """Spans are exported by their provider."""

    @staticmethod
    def _add_child_run(parent_run: Run, child_run: Run) -> None:
        """Spans know their parents."""

    # -- a run begins

    def _on_run_create(self, run: Run) -> None:
        parent = self._spans.get(id(run.parent_run))
        name, kind, attributes = _opening(run)
        self._spans[id(run)] = self._tracer.start_span(
            name,
            context=trace.set_span_in_context(parent) if parent is not None else None,
            kind=kind,
            attributes=attributes,
            start_time=_nanoseconds(run.start_time),
        )

    # -- a run ends

    def _on_run_update(self, run: Run) -> None:
        span = self._spans.pop(id(run), None)
        if span is None:
            return
        if run.run_type == "llm":
            span.set_attributes(_answered(run))
        if self._capture_content:
            self._capture(span, run)
        if run.error is not None:
            first_line = self._redactor.text(run.error.split("\n", 1)[0])
            span.set_attribute("error.type", first_line.split("(", 1)[0])
            span.set_status(Status(StatusCode.ERROR, first_line))
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

    def _capture(self, span: Span, run: Run) -> None:
        said: dict[str, Any] = {}
        if run.run_type == "llm":
            said["gen_ai.input.messages"] = input_messages(run.inputs)
            said["gen_ai.output.messages"] = output_messages(run.outputs)
        elif run.run_type == "tool":
            said["gen_ai.tool.call.arguments"] = run.inputs.get("input")
            said["gen_ai.tool.call.result"] = (run.outputs or {}).get("output")
        elif run.run_type == "retriever":
            said["gen_ai.retrieval.query.text"] = run.inputs.get("query")
        else:
            said["foldline.input"], said["foldline.output"] = (
                run.inputs.get("input"),
                (run.outputs or {}).get("output"),
            )
        for key, value in said.items():
            if value is not None:
                span.set_attribute(key, self._text(value))

    def _text(self, value: object) -> str:
        clean = self._redactor.json(to_jsonable(plain_content(value)))
        if isinstance(clean, str):
            return clean
        return self._redactor.text(json.dumps(clean, ensure_ascii=False))


def _nanoseconds(time: Any) -> int | None:
    return None if time is None else int(time.timestamp() * 1_000_000) * 1_000


def _opening(run: Run) -> tuple[str, SpanKind, dict[str, Any]]:
    attributes: dict[str, Any] = {"foldline.run.id": str(run.id), "foldline.run.type": run.run_type}
    if run.tags:
        attributes["foldline.tags"] = run.tags
    if run.run_type == "llm":
        return _opening_of_model(run, attributes)
    if run.run_type == "tool":
        attributes |= {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": run.name,
            "gen_ai.tool.type": "function",
        }
        if run.extra.get("tool_call_id"):
            attributes["gen_ai.tool.call.id"] = run.extra["tool_call_id"]
        if (run.serialized or {}).get("description"):
            attributes["gen_ai.tool.description"] = (run.serialized or {})["description"]
        return f"execute_tool {run.name}", SpanKind.INTERNAL, attributes
    if run.run_type == "retriever":
        attributes["gen_ai.operation.name"] = "retrieval"
        return f"retrieval {run.name}", SpanKind.CLIENT, attributes
    return run.name, SpanKind.INTERNAL, attributes


def _opening_of_model(run: Run, attributes: dict[str, Any]) -> tuple[str, SpanKind, dict[str, Any]]:
    parameters = run.extra.get("invocation_params") or {}
    metadata = run.extra.get("metadata") or {}
    model = metadata.get("ls_model_name") or parameters.get("model") or parameters.get("model_name")
    provider = (
        metadata.get("ls_provider")
        or parameters.get("_provider")
        or parameters.get("_type")
        or "unknown"
    )
    operation = "chat" if "messages" in run.inputs else "text_completion"
    attributes |= {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": PROVIDERS.get(provider, provider),
    }
    if model:
        attributes["gen_ai.request.model"] = str(model)
    if metadata.get("thread_id"):
        attributes["gen_ai.conversation.id"] = str(metadata["thread_id"])
    for key, (attribute, kind) in PARAMETERS.items():
        value = parameters.get(key)
        if isinstance(value, int | float) and not (key == "n" and value == 1):
            attributes[attribute] = kind(value)
    stop = parameters.get("stop")
    if stop:
        attributes["gen_ai.request.stop_sequences"] = (
            [stop] if isinstance(stop, str) else list(stop)
        )
    return f"{operation} {model}" if model else operation, SpanKind.CLIENT, attributes


def _answered(run: Run) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for path, attribute in USAGE.items():
        value: Any = run.usage
        for key in path:
            value = (value or {}).get(key)
        if isinstance(value, int):
            attributes[attribute] = value
    messages = [
        one["message"]
        for some in (run.outputs or {}).get("generations") or []
        for one in some
        if one.get("message") is not None
    ]
    said = [message.response_metadata for message in messages]
    reasons = [one.get("finish_reason") or one.get("stop_reason") for one in said]
    if any(reasons):
        attributes["gen_ai.response.finish_reasons"] = [str(reason) for reason in reasons if reason]
    if said and (model := said[0].get("model_name") or said[0].get("model")):
        attributes["gen_ai.response.model"] = str(model)
    if messages and messages[0].id:
        attributes["gen_ai.response.id"] = str(said[0].get("id") or messages[0].id)
    return attributes
