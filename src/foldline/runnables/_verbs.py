"""Let the verbs of `foldline.messages` be steps of a chain: `trim_messages(max_tokens=100) | model`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foldline.messages._hooks import HOOKS
from foldline.runnables.lambda_ import RunnableLambda


def as_runnable(function: Callable[..., Any], name: str) -> RunnableLambda[Any, Any]:
    """Make a step of a function of messages."""
    return RunnableLambda(function, name=name)


HOOKS["as_runnable"] = as_runnable
