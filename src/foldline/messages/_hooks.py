"""The two places where messages meet the layers above: they are filled from there, never imported from here.

`foldline.runnables` sets `as_runnable` (so that `trim_messages(max_tokens=...)` without messages gives a runnable) and
`foldline.prompts.chat` sets `as_prompt` (so that `message + message` gives a prompt). Until one is set, the name of the
module that sets it is imported, by name, here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

from foldline.exceptions import UsageError

if TYPE_CHECKING:
    from foldline.protocol.blocks import Json

__all__ = ["HOOKS", "Verb", "hook", "runnable_verb"]

Hook = Callable[..., Any]
P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

FILLED_BY = {"as_runnable": "foldline.runnables._verbs", "as_prompt": "foldline.prompts.chat"}

HOOKS: dict[str, Hook] = {}
"""`as_runnable(function, name)` wraps a function of messages; `as_prompt(left, right)` adds to a message."""


def hook(name: str) -> Hook:
    """Give what the layer above put here, importing that layer if nobody has yet."""
    if name not in HOOKS:
        try:
            import_module(FILLED_BY[name])
        except ModuleNotFoundError as error:
            raise UsageError(f"{FILLED_BY[name]} is needed for this and is not there") from error
    if name not in HOOKS:
        raise UsageError(f"{FILLED_BY[name]} did not fill the hook {name!r} of foldline.messages")
    return HOOKS[name]


NOT_GIVEN: Any = object()
AS_NONE = frozenset({"filter_messages", "merge_message_runs", "trim_messages"})
"""Verbs that LangChain lets take None for no messages."""


class Verb(Protocol[P, R_co]):
    """A function of messages that is also, without messages, the runnable that will be given them."""

    @overload
    def __call__(self, messages: None = None, *args: P.args, **kwargs: P.kwargs) -> Any: ...  # noqa: ANN401
    @overload
    def __call__(self, messages: Json, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


def runnable_verb(function: Callable[Concatenate[Any, P], R_co]) -> Verb[P, R_co]:
    """Let a function of messages be called without them, to be put in a chain."""

    @wraps(function)
    def verb(messages: Json = NOT_GIVEN, *args: P.args, **kwargs: P.kwargs) -> Json:
        if messages is not NOT_GIVEN and (messages is not None or function.__name__ not in AS_NONE):
            return function(messages, *args, **kwargs)
        return hook("as_runnable")(
            lambda given: function(given, *args, **kwargs), name=function.__name__
        )

    return cast("Verb[P, R_co]", verb)
