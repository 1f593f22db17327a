"""The two places where messages meet the layers above: they are filled from there, never imported from here.

`weft.runnables` sets `as_runnable` (so that `trim_messages(max_tokens=...)` without messages gives a runnable) and
`weft.prompts` sets `as_prompt` (so that `message + message` gives a prompt). Until one is set, the name of the
module that sets it is imported, by name, here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from weft.exceptions import UsageError

__all__ = ["HOOKS", "hook"]

Hook = Callable[..., Any]

FILLED_BY = {"as_runnable": "weft.runnables", "as_prompt": "weft.prompts"}

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
        raise UsageError(f"{FILLED_BY[name]} did not fill the hook {name!r} of weft.messages")
    return HOOKS[name]
