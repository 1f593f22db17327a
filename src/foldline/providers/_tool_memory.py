"""Tools that were described before need not be described again: an agent sends the same hundred with every call."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Concatenate, ParamSpec

from foldline.providers._foreign import add_note

__all__ = ["remember_tools"]

Body = dict[str, Any]
Options = ParamSpec("Options")
Encode = Callable[Concatenate[list[Any], list[str], Options], list[Body]]
REMEMBERED = 16
"""How many lists of tools are remembered by each function, the newest."""


class _Described:
    """A list of tools that was described: what it was like then, and what came of it."""

    __slots__ = ("_encoded", "_notes", "_options", "_snapshot", "tools")

    def __init__(self, tools: list[Any]) -> None:
        self.tools = tools
        self._snapshot: list[Any] | None = None
        self._options: object = None
        self._encoded: list[Body] = []
        self._notes: list[str] = []

    def keep(self, options: object, encoded: list[Body], notes: list[str]) -> None:
        """Keep what came of it, and a copy of the tools by which a change is seen."""
        self._snapshot, self._options = deepcopy(self.tools), options
        self._encoded, self._notes = encoded, notes

    def recall(self, options: object, notes: list[str]) -> list[Body] | None:
        """Return what came of it, where nothing has changed since."""
        if self._snapshot != self.tools or self._options != options:
            return None
        for note in self._notes:
            add_note(notes, note)
        return [dict(tool) for tool in self._encoded]


def remember_tools(encode: Encode[Options]) -> Encode[Options]:
    """Let a function that describes tools remember the lists of dicts that it sees again, while they are the same.

    The first time a list is seen nothing is kept but the list: most programs that make a new one for every call would
    pay for copies that nobody asks for.
    """
    known: dict[int, _Described] = {}

    def encode_once(
        tools: list[Any], notes: list[str], /, *args: Options.args, **kwargs: Options.kwargs
    ) -> list[Body]:
        if not tools:
            return encode(tools, notes, *args, **kwargs)
        described = known.get(id(tools))
        if described is None or described.tools is not tools:
            while len(known) >= REMEMBERED:
                known.pop(next(iter(known)), None)
            known[id(tools)] = _Described(tools)
            return encode(tools, notes, *args, **kwargs)
        options = (args, kwargs)
        encoded = described.recall(options, notes)
        if encoded is not None:
            return encoded
        own_notes: list[str] = []
        encoded = encode(tools, own_notes, *args, **kwargs)
        if all(type(tool) is dict for tool in tools):
            described.keep(options, [dict(tool) for tool in encoded], own_notes)
        for note in own_notes:
            add_note(notes, note)
        return encoded

    encode_once.__doc__ = encode.__doc__
    return encode_once
