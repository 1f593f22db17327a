"""Any arguments of a model: a tool runs with valid ones, or it does not run and the error is one of two."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import ValidationError

from foldline.exceptions import UsageError
from foldline.messages import ToolMessage
from foldline.tools import StructuredTool, describe_validation_error, tool
from tests.tools.helpers import calling

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["city", "days", "unit", "self", "config", "callbacks", "run_manager", "args", "kwargs", "x"]
)


@tool
def look(city: str, days: int = 1, unit: Literal["c", "f"] = "c") -> Any:
    """Look."""
    assert type(city) is str
    assert type(days) is int
    assert unit in ("c", "f")
    return [city, days, unit]


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}


def check(city: str, days: int = 1) -> Any:
    assert type(city) is str
    assert isinstance(days, int | float)  # JSON Schema calls 1.0 an integer
    return city


by_schema = StructuredTool(name="check", description="d", args_schema=SCHEMA, func=check)


@pytest.mark.parametrize("checked_tool", [look, by_schema], ids=["signature", "schema"])
@settings(deadline=None)  # the machine may be busy
@given(args=st.dictionaries(NAMES, JSON, max_size=4) | JSON)
def test_a_tool_runs_with_valid_arguments_or_not_at_all(checked_tool, args):
    outcome = attempt(lambda: checked_tool.invoke({**calling(checked_tool.name), "args": args}))

    if isinstance(outcome, ValidationError):
        assert describe_validation_error(outcome).startswith("The arguments do not fit.")
    elif isinstance(outcome, UsageError):
        assert not isinstance(args, dict)
    else:
        assert isinstance(outcome, ToolMessage)
        assert isinstance(args, dict)


def attempt(run: Any) -> Any:
    """Return the result, or the error if it is one of the two."""
    try:
        return run()
    except (ValidationError, UsageError) as error:
        return error


@settings(deadline=None)  # the machine may be busy
@given(output=JSON)
def test_whatever_a_tool_returns_is_a_message(output):
    any_tool = StructuredTool.from_function(lambda: output, name="any", description="d")

    assert isinstance(any_tool.invoke(calling("any")), ToolMessage)
