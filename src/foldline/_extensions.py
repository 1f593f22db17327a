"""Functions that higher layers provide to lower ones, registered by `foldline/__init__.py`, above all layers.

`message + message` is a prompt, and `trim_messages(max_tokens=100)` without messages is a step of a chain; messages
do not import prompts or runnables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foldline.exceptions import UsageError

__all__ = ["extend", "extension"]

Extension = Callable[..., Any]

_extensions: dict[str, Extension] = {}


def extend(name: str, function: Extension) -> None:
    """Register a function under the name by which a lower layer calls it."""
    _extensions[name] = function


def extension(name: str) -> Extension:
    """Return the function that a higher layer registered."""
    if name not in _extensions:
        raise UsageError(f"nothing is registered as {name!r}: import foldline first")
    return _extensions[name]
