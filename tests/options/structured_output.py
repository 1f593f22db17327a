"""What a wrong value of each option of `bind_tools` and `with_structured_output` does."""

from __future__ import annotations

import inspect
from typing import Any

from pydantic import BaseModel

from foldline.language_models import BaseChatModel
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.openai import ChatOpenAI
from foldline.testing import ScriptedChatModel
from tests.options.matrix import Row, Target


class City(BaseModel):
    """A city."""

    name: str


def look(place: str) -> str:
    """Look at a place."""
    return place


MODELS: dict[str, Any] = {
    "openai": lambda: ChatOpenAI(model="gpt-4o-mini", api_key="k"),
    "responses": lambda: ChatOpenAI(model="gpt-4o-mini", api_key="k", use_responses_api=True),
    "anthropic": lambda: ChatAnthropic(model="claude-sonnet-4-5", api_key="k"),
    "scripted": lambda: ScriptedChatModel(script=["{}"], is_cyclic=True),
}


def parameters_of(method: str) -> frozenset[str]:
    parameters = inspect.signature(getattr(BaseChatModel, method)).parameters.values()
    names = {each.name for each in parameters if each.kind != each.VAR_KEYWORD}
    return frozenset(names - {"self"})


def bind(make: Any, **options: Any) -> Any:
    return make().bind_tools(**{"tools": [look], **options})


def structure(make: Any, **options: Any) -> Any:
    return make().with_structured_output(**{"schema": City, **options})


def show(runnable: Any) -> Any:
    """Return the request where the model can show it, else the answer."""
    first = getattr(runnable, "first", runnable)
    if hasattr(first.bound, "explain"):
        request = first.bound.explain("Hi", **first.kwargs)
        return request.body, request.notes
    return runnable.invoke("Hi")


TARGETS = {
    **{
        f"{name}.bind_tools": Target(
            parameters_of("bind_tools"),
            build=lambda _make=make, **options: bind(_make, **options),
            call=show,
        )
        for name, make in MODELS.items()
    },
    **{
        f"{name}.with_structured_output": Target(
            parameters_of("with_structured_output"),
            build=lambda _make=make, **options: structure(_make, **options),
            call=show,
        )
        for name, make in MODELS.items()
    },
}

ERROR, SENT_ON = "error at construction", "sent on"
BIND: list[tuple[str, Any, Any, str]] = [
    ("tools", "look", ERROR, "tools"),
    ("tools", [3], ERROR, "tools"),
    ("tool_choice", "nosuch", ERROR, "nosuch"),
    ("tool_choice", 3.5, ERROR, "tool_choice"),
    ("parallel_tool_calls", "perhaps", ERROR, "parallel_tool_calls"),
    ("strict", "perhaps", ERROR, "strict"),
    ("validate", "perhaps", ERROR, "validate"),
    ("nonsense_option", 1, SENT_ON, "nonsense"),
]
STRUCTURE: list[tuple[str, Any, Any, str]] = [
    ("schema", 3, ERROR, "schema"),
    ("schema", {"nonsense": 1}, ERROR, "JSON Schema"),
    ("method", "telepathy", ERROR, "method"),
    ("include_raw", "perhaps", ERROR, "include_raw"),
    ("strict", "perhaps", ERROR, "strict"),
    ("max_retries", -1, ERROR, "max_retries"),
    ("max_retries", "often", ERROR, "max_retries"),
    ("repair", "perhaps", ERROR, "repair"),
    ("validate", "perhaps", ERROR, "validate"),
    ("tools", "look", ERROR, "tools"),
    ("tools", [3], ERROR, "tools"),
    ("nonsense_option", 1, SENT_ON, "nonsense"),
]

ROWS = [
    Row(f"{name}.{method}", option, value, outcome, match)
    for name in MODELS
    for method, rows in (("bind_tools", BIND), ("with_structured_output", STRUCTURE))
    for option, value, outcome, match in rows
    # A model of one's own gets an unknown option as an argument; it shows no request.
    if not (name == "scripted" and outcome == SENT_ON)
]
