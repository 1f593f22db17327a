"""The attributes of a run as a span, by the GenAI conventions. Pure: OpenTelemetry itself is not needed here."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any, Literal, Protocol
from uuid import UUID

from foldline.prices.cost import cost_of, service_of
from foldline.prices.table import find_prices
from foldline.tracers._otel_content import input_messages, output_messages, plain_content
from foldline.tracers._redact import Redactor
from foldline.tracers._run_fields import field_of
from foldline.tracers.schemas import run_key
from foldline.utils.json import to_jsonable

__all__ = ["answer_attributes", "content_attributes", "open_span", "score_attributes"]

Kind = Literal["client", "internal"]
COST = "foldline.usage.cost"
"""In US dollars; the conventions have no name for it."""
SCORE_EVENT = "gen_ai.evaluation.result"
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


class DescribedRun(Protocol):
    """What attributes are made from: a run that lasts, or one that was read from a database."""

    @property
    def id(self) -> UUID: ...
    @property
    def name(self) -> str: ...
    @property
    def run_type(self) -> str: ...
    @property
    def inputs(self) -> dict[str, Any]: ...
    @property
    def outputs(self) -> dict[str, Any] | None: ...
    @property
    def serialized(self) -> dict[str, Any] | None: ...
    @property
    def extra(self) -> dict[str, Any]: ...
    @property
    def tags(self) -> list[str] | None: ...
    @property
    def usage(self) -> dict[str, Any] | None: ...


def open_span(run: DescribedRun) -> tuple[str, Kind, dict[str, Any]]:
    """Return the name, the kind and the first attributes of a run's span."""
    attributes: dict[str, Any] = {
        "foldline.run.id": run_key(run.id),
        "foldline.run.type": run.run_type,
    }
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
        return f"execute_tool {run.name}", "internal", attributes
    if run.run_type == "retriever":
        attributes["gen_ai.operation.name"] = "retrieval"
        return f"retrieval {run.name}", "client", attributes
    return run.name, "internal", attributes


def _opening_of_model(
    run: DescribedRun, attributes: dict[str, Any]
) -> tuple[str, Kind, dict[str, Any]]:
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
    return f"{operation} {model}" if model else operation, "client", attributes


def answer_attributes(run: DescribedRun) -> dict[str, Any]:
    """Return the attributes of a model's answer: tokens, finish reasons, model, id and cost."""
    messages = _answers(run)
    metadata = [field_of(message, "response_metadata") or {} for message in messages]
    attributes = _usage_attributes(run.usage)
    reasons = [answer.get("finish_reason") or answer.get("stop_reason") for answer in metadata]
    if any(reasons):
        attributes["gen_ai.response.finish_reasons"] = [str(reason) for reason in reasons if reason]
    if messages:  # the first stands for all
        model = metadata[0].get("model_name") or metadata[0].get("model")
        answer_id = metadata[0].get("id") or field_of(messages[0], "id")
        named = {"gen_ai.response.model": model, "gen_ai.response.id": answer_id}
        attributes |= {name: str(value) for name, value in named.items() if value}
    cost = _cost(run, run.usage, metadata[0] if metadata else {})
    if cost is not None:
        attributes[COST] = cost
    return attributes


def _answers(run: DescribedRun) -> list[Any]:
    generations = chain.from_iterable((run.outputs or {}).get("generations") or [])
    messages = (generation.get("message") for generation in generations)
    return [message for message in messages if message is not None]


def _usage_attributes(usage: dict[str, Any] | None) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for path, attribute in USAGE.items() if usage else ():
        value: Any = usage
        for key in path:
            value = (value or {}).get(key)
        if isinstance(value, int):
            attributes[attribute] = value
    return attributes


def _cost(
    run: DescribedRun, usage: dict[str, Any] | None, metadata: dict[str, Any]
) -> float | None:
    cost = getattr(run, "cost", None)
    if cost is not None:
        return float(cost)
    if not usage:
        return None
    described = run.extra.get("metadata") or {}
    provider = metadata.get("model_provider") or described.get("ls_provider")
    model = metadata.get("model_name") or metadata.get("model") or described.get("ls_model_name")
    prices = find_prices(provider, model)
    return cost_of(usage, prices, service=service_of(metadata.get("service_tier")))


def score_attributes(name: str, value: float | None, comment: str | None) -> dict[str, Any]:
    """Return the attributes of the event `gen_ai.evaluation.result`."""
    attributes: dict[str, Any] = {"gen_ai.evaluation.name": name}
    if value is not None:
        attributes["gen_ai.evaluation.score.value"] = float(value)
    if comment:
        attributes["gen_ai.evaluation.explanation"] = comment
    return attributes


def content_attributes(run: DescribedRun, redactor: Redactor) -> dict[str, str]:
    """Return what went in and came out: messages by the conventions, everything else as JSON, texts as they are."""
    content: dict[str, Any] = {}
    outputs = run.outputs or {}
    if run.run_type == "llm":
        content["gen_ai.input.messages"] = input_messages(run.inputs)
        content["gen_ai.output.messages"] = output_messages(run.outputs)
    elif run.run_type == "tool":
        content["gen_ai.tool.call.arguments"] = _inner(run.inputs, "input")
        content["gen_ai.tool.call.result"] = _inner(outputs, "output")
    elif run.run_type == "retriever":
        content["gen_ai.retrieval.query.text"] = run.inputs.get("query")
    else:
        content["foldline.input"] = _inner(run.inputs, "input")
        content["foldline.output"] = _inner(outputs, "output")
    return {
        key: _text(value, redactor) for key, value in content.items() if value not in (None, {}, [])
    }


def _inner(values: dict[str, Any], key: str) -> object:
    """Return the values of a run: the dict, or the single value that it wraps."""
    return values[key] if values.keys() == {key} else values or None


def _text(value: object, redactor: Redactor) -> str:
    clean = redactor.json(to_jsonable(plain_content(value)))
    if isinstance(clean, str):
        return clean
    return redactor.text(json.dumps(clean, ensure_ascii=False))
