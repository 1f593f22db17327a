"""A call whose arguments are streamed (an option of Vertex): values, each with its JSON path."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Final

from foldline.exceptions import MalformedStreamError

__all__ = ["StreamedCall"]


PATH: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]")
VALUES: Final = ("stringValue", "numberValue", "boolValue", "nullValue")
MAX_STEPS: Final = 100
"""The maximum depth of arguments: a short path could otherwise create many values."""
MAX_GAP: Final = 16
"""How far beyond its end a list may be written: a short index could otherwise create a huge list."""


class StreamedCall:
    """A call that is being streamed."""

    __slots__ = ("args", "extras", "id", "name")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name: str | None = None
        self.args: dict[str, Any] = {}
        self.extras: dict[str, Any] = {}

    def is_other(self, call: dict[str, Any]) -> bool:
        """Whether a part belongs to another call: its id or name differs from this call's."""
        pairs = ((self.id, call.get("id")), (self.name, call.get("name")))
        return any(current and new and current != new for current, new in pairs)

    def feed(self, call: dict[str, Any], extras: dict[str, Any]) -> None:
        """Add a part of the call."""
        self.id = self.id or call.get("id")
        self.name = self.name or call.get("name")
        self.extras |= extras
        for piece in call.get("partialArgs") or ():
            _set_argument(self.args, piece)


def _set_argument(args: dict[str, Any], piece: dict[str, Any]) -> None:
    """Set one argument at its path; text is appended to text that is already there."""
    steps = _steps(piece.get("jsonPath") or "")
    if not steps:
        return
    container: Any = args
    for step, next_step in pairwise(steps):
        container = _value_at(container, step, [] if isinstance(next_step, int) else {})
    name = next((name for name in VALUES if name in piece), None)
    value = None if name == "nullValue" or name is None else piece[name]
    old = _value_at(container, steps[-1], None)
    is_continued = isinstance(value, str) and isinstance(old, str)
    container[steps[-1]] = old + value if is_continued else value


def _steps(path: str) -> list[str | int]:
    matches = PATH.findall(path)
    if len(matches) > MAX_STEPS:
        raise MalformedStreamError(f"an argument lies {len(matches)} levels deep")
    # Nine digits are beyond any list; `int` refuses thousands of digits.
    return [int(index[:9]) if index else name or quoted for name, index, quoted in matches]


def _value_at(container: Any, step: str | int, default: Any) -> Any:  # noqa: ANN401  JSON: a dict or a list, depending on the step
    """Return the value at a step; if it is missing, `default` is stored and returned."""
    if isinstance(container, list) and isinstance(step, int):
        gap = step - len(container)
        if gap > MAX_GAP:
            raise MalformedStreamError(f"an argument is {gap} places beyond the end of its list")
        container += [None] * (gap + 1)
    elif not (isinstance(container, dict) and isinstance(step, str)):
        raise MalformedStreamError(f"an argument at {step!r:.80} of {type(container).__name__}")
    else:
        container.setdefault(step)
    if container[step] is None:
        container[step] = default
    return container[step]
