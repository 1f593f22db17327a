"""Functions of messages that are also steps of a chain: called without messages they make a runnable."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

from foldline._extensions import extension

if TYPE_CHECKING:
    pass

__all__ = ["Verb", "runnable_verb"]

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

NOT_GIVEN: Any = object()
AS_NONE = frozenset({"filter_messages", "merge_message_runs", "trim_messages"})
"""Verbs that LangChain lets take None for no messages."""


class Verb(Protocol[P, R_co]):
    """A function of messages that is also, without messages, the runnable that will be given them."""

    @overload
    def __call__(self, messages: None = None, *args: P.args, **kwargs: P.kwargs) -> Any: ...  # noqa: ANN401  a runnable, which is of a layer above
    @overload
    def __call__(self, messages: object, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


def runnable_verb(function: Callable[Concatenate[Any, P], R_co]) -> Verb[P, R_co]:
    """Let a function of messages be called without them, to be put in a chain."""

    @wraps(function)
    def verb(messages: object = NOT_GIVEN, *args: P.args, **kwargs: P.kwargs) -> object:
        if messages is not NOT_GIVEN and (messages is not None or function.__name__ not in AS_NONE):
            return function(messages, *args, **kwargs)
        return extension("make_step")(
            lambda given: function(given, *args, **kwargs), name=function.__name__
        )

    return cast("Verb[P, R_co]", verb)
