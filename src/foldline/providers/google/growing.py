"""A call whose arguments come one by one (Vertex, if asked to): values, each with the path of its place."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Final

from foldline.exceptions import MalformedStreamError

__all__ = ["GrowingCall"]


PATH: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]")
VALUES: Final = ("stringValue", "numberValue", "boolValue", "nullValue")
MOST_STEPS: Final = 100
"""No arguments are deeper; a path is a few bytes, and each step of it a value."""
WIDEST_GAP: Final = 16
"""How far beyond its end a list may be written; an index is a few bytes, and a gap as large as it says."""


class GrowingCall:
    """The call as far as it was told."""

    __slots__ = ("args", "extras", "id", "name")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name: str | None = None
        self.args: dict[str, Any] = {}
        self.extras: dict[str, Any] = {}

    def is_other(self, call: dict[str, Any]) -> bool:
        """Say whether what comes now belongs to another call: it has an id or a name that is not this one's."""
        known = ((self.id, call.get("id")), (self.name, call.get("name")))
        return any(own and new and own != new for own, new in known)

    def feed(self, call: dict[str, Any], extras: dict[str, Any]) -> None:
        """Take what is told of the call now."""
        self.id = self.id or call.get("id")
        self.name = self.name or call.get("name")
        self.extras |= extras
        for piece in call.get("partialArgs") or ():
            _put(self.args, piece)


def _put(args: dict[str, Any], piece: dict[str, Any]) -> None:
    """Put one argument where its path says; text that is there already goes on."""
    steps = _steps(piece.get("jsonPath") or "")
    if not steps:
        return
    place: Any = args
    for step, following in pairwise(steps):
        place = _value_at(place, step, [] if isinstance(following, int) else {})
    name = next((name for name in VALUES if name in piece), None)
    value = None if name == "nullValue" or name is None else piece[name]
    old = _value_at(place, steps[-1], None)
    goes_on = isinstance(value, str) and isinstance(old, str)
    place[steps[-1]] = old + value if goes_on else value


def _steps(path: str) -> list[str | int]:
    found = PATH.findall(path)
    if len(found) > MOST_STEPS:
        raise MalformedStreamError(f"an argument lies {len(found)} levels deep")
    # Nine digits are beyond any list, and thousands are beyond what `int` reads.
    return [int(index[:9]) if index else name or quoted for name, index, quoted in found]


def _value_at(place: Any, step: str | int, otherwise: Any) -> Any:  # noqa: ANN401  JSON that grows: a dict or a list, by the step of its path
    """Return what is in a place; `otherwise` is put there first where nothing is yet."""
    if isinstance(place, list) and isinstance(step, int):
        gap = step - len(place)
        if gap > WIDEST_GAP:
            raise MalformedStreamError(f"an argument is {gap} places beyond the end of its list")
        place += [None] * (gap + 1)
    elif not (isinstance(place, dict) and isinstance(step, str)):
        raise MalformedStreamError(f"an argument at {step!r:.80} of {type(place).__name__}")
    else:
        place.setdefault(step)
    if place[step] is None:
        place[step] = otherwise
    return place[step]
