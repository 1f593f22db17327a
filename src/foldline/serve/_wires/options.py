"""The options of model calls that requests may set, with their bounds. Nothing else reaches a provider."""

from __future__ import annotations

from typing import Final

from foldline.serve._json_body import Body
from foldline.serve._json_object import JsonObject
from foldline.serve.apps import ServedApp
from foldline.serve.errors import ServeError

__all__ = ["MOST_TOKENS", "check_tool_name", "effort_of", "sampling", "stops_of", "usable_options"]

MOST_STOPS: Final = 16
MOST_TOKENS: Final = 10_000_000
EFFORTS: Final = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"})


def sampling(body: Body) -> JsonObject:
    """Read the sampling options, which have the same names on all model wires."""
    options: JsonObject = {
        "temperature": body.number("temperature", 0, 2),
        "top_p": body.number("top_p", 0, 1),
        "top_k": body.integer("top_k", 0, 1_000_000),
        "seed": body.integer("seed", -(2**63), 2**63 - 1),
        "frequency_penalty": body.number("frequency_penalty", -2, 2),
        "presence_penalty": body.number("presence_penalty", -2, 2),
    }
    return {name: value for name, value in options.items() if value is not None}


def effort_of(body: Body, name: str) -> str | None:
    """Read the reasoning effort."""
    effort = body.maybe_text(name, longest=16)
    if effort is not None and effort not in EFFORTS:
        raise body.refuse(name, f"must be one of {', '.join(sorted(EFFORTS))}")
    return effort


def stops_of(body: Body, name: str) -> list[str] | None:
    """Read the stop sequences."""
    value = body.get(name)
    if value is None:
        return None
    stops = [value] if isinstance(value, str) else value
    if (
        not isinstance(stops, list)
        or len(stops) > MOST_STOPS
        or not all(isinstance(stop, str) for stop in stops)
    ):
        raise body.refuse(name, f"must be a string or a list of at most {MOST_STOPS} strings")
    return stops or None


def check_tool_name(body: Body, name: str = "name") -> str:
    """Read the name of a tool."""
    text = body.text(name, longest=256)
    if not text:
        raise body.refuse(name, "must not be empty")
    return text


def usable_options(app: ServedApp, options: JsonObject) -> JsonObject:
    """Return the options that an app takes: all for a model, none for others."""
    if app.kind == "model":
        return options
    if options.get("tools"):
        raise ServeError(
            "invalid_request", f"{app.name} has its own tools: leave `tools` out, or ask a model"
        )
    if options.get("response_format"):
        raise ServeError(
            "invalid_request",
            f"{app.name} decides the form of its answers: leave the response format out, or ask a model",
        )
    return {}
