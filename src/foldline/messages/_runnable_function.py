"""Functions of messages that return a runnable if they are called without messages."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

from foldline._extensions import extension

__all__ = ["MessageFunction", "runnable_function"]

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

NOT_GIVEN: Any = object()
NONE_MEANS_NO_MESSAGES = frozenset({"filter_messages", "merge_message_runs", "trim_messages"})
"""Functions for which None means no messages, as in LangChain."""


class MessageFunction(Protocol[P, R_co]):
    """A function of messages; without messages it returns a runnable that takes them."""

    @overload
    def __call__(self, messages: None = None, *args: P.args, **kwargs: P.kwargs) -> Any: ...  # noqa: ANN401  a Runnable, which this layer cannot import
    @overload
    def __call__(self, messages: object, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


def runnable_function(function: Callable[Concatenate[Any, P], R_co]) -> MessageFunction[P, R_co]:
    """Let a function of messages be called without them, to return a step for a chain."""

    @wraps(function)
    def call(messages: object = NOT_GIVEN, *args: P.args, **kwargs: P.kwargs) -> object:
        if messages is not NOT_GIVEN and (
            messages is not None or function.__name__ not in NONE_MEANS_NO_MESSAGES
        ):
            return function(messages, *args, **kwargs)
        return extension("make_step")(
            lambda messages: function(messages, *args, **kwargs), name=function.__name__
        )

    return cast("MessageFunction[P, R_co]", call)
