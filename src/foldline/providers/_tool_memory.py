"""A cache of encoded tools: an agent sends the same list with every call."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Concatenate, ParamSpec

from foldline.providers._foreign_messages import add_note

__all__ = ["remember_tools"]

Body = dict[str, Any]
Options = ParamSpec("Options")
Encode = Callable[Concatenate[list[Any], list[str], Options], list[Body]]
MAX_LISTS = 16
"""How many lists of tools each function caches; the oldest is dropped first."""


class _CachedTools:
    """A list of tools, a copy of it, and its encoded form."""

    __slots__ = ("_encoded", "_notes", "_options", "_snapshot", "tools")

    def __init__(self, tools: list[Any]) -> None:
        self.tools = tools
        self._snapshot: list[Any] | None = None
        self._options: object = None
        self._encoded: list[Body] = []
        self._notes: list[str] = []

    def keep(self, options: object, encoded: list[Body], notes: list[str]) -> None:
        """Store the encoded form, and a copy of the tools to detect changes."""
        self._snapshot, self._options = deepcopy(self.tools), options
        self._encoded, self._notes = encoded, notes

    def recall(self, options: object, notes: list[str]) -> list[Body] | None:
        """Return the encoded form, or None if tools or options have changed."""
        if self._snapshot != self.tools or self._options != options:
            return None
        for note in self._notes:
            add_note(notes, note)
        return [dict(tool) for tool in self._encoded]


def remember_tools(encode: Encode[Options]) -> Encode[Options]:
    """Let a function that encodes tools cache its result for lists of dicts that it sees again unchanged.

    The first time, only the list itself is stored: a program that builds a new list for every call should not pay for
    copies that are never used.
    """
    cache: dict[int, _CachedTools] = {}

    def encode_once(
        tools: list[Any], notes: list[str], /, *args: Options.args, **kwargs: Options.kwargs
    ) -> list[Body]:
        if not tools:
            return encode(tools, notes, *args, **kwargs)
        cached = cache.get(id(tools))
        if cached is None or cached.tools is not tools:
            while len(cache) >= MAX_LISTS:
                cache.pop(next(iter(cache)), None)
            cache[id(tools)] = _CachedTools(tools)
            return encode(tools, notes, *args, **kwargs)
        options = (args, kwargs)
        encoded = cached.recall(options, notes)
        if encoded is not None:
            return encoded
        own_notes: list[str] = []
        encoded = encode(tools, own_notes, *args, **kwargs)
        if all(type(tool) is dict for tool in tools):
            cached.keep(options, [dict(tool) for tool in encoded], own_notes)
        for note in own_notes:
            add_note(notes, note)
        return encoded

    encode_once.__doc__ = encode.__doc__
    return encode_once
