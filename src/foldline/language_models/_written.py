"""Which of the methods of a chat model its author wrote. Looked up once per class."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

NATIVE = ("_stream_chat_model_events", "_astream_chat_model_events")
CHUNKS = ("_stream", "_astream")
WHOLE = ("_generate", "_agenerate")
SPOKEN = ("_events", *NATIVE, *CHUNKS)
HOOKS = frozenset({*SPOKEN, *WHOLE})


class Written:
    """The hooks the author of a class wrote; pairs are (for blocking calls, for awaited calls)."""

    __slots__ = (
        "chunks",
        "generates",
        "has_events",
        "native",
        "postprocesses",
        "preprocesses",
        "says_events",
        "speaks",
        "tells_events",
        "whole",
    )

    def __init__(self, places: dict[str, int]) -> None:
        """Choose by the places of the hooks in the ancestry: what a subclass wrote is nearer than what it inherits."""
        nearest = min((places[name] for name in SPOKEN if name in places), default=None)
        near = {name for name in SPOKEN if places.get(name) == nearest and nearest is not None}
        spoken = "_events" if "_events" in near else NATIVE if near & set(NATIVE) else CHUNKS
        self.says_events = "_events" in places
        self.has_events = spoken == "_events"
        self.tells_events = (
            self.has_events and places.get("_tell_events", math.inf) <= places["_events"]
        )
        """Whether the events can be had without a generator between, and are those of `_events`."""
        self.native = _twins(places, *NATIVE) if spoken == NATIVE else (None, None)
        self.chunks = _twins(places, *CHUNKS) if spoken == CHUNKS else (None, None)
        self.whole = _twins(places, *WHOLE)
        self.speaks = nearest is not None
        """Whether the model can answer piece by piece."""
        whole = min((places[name] for name in WHOLE if name in places), default=None)
        is_older = self.has_events and whole is not None and places["_events"] < whole
        self.generates = whole is not None and not is_older
        """Whether the model has a method that gives the whole answer, and no newer events to fold."""
        self.preprocesses = "_preprocess" in places
        self.postprocesses = "_postprocess" in places


def _twins(places: dict[str, int], blocking: str, awaited: str) -> tuple[str | None, str | None]:
    """Give the method to call in a blocking and in an awaited call: the one of that colour, else the other."""
    one, other = (name if name in places else None for name in (blocking, awaited))
    return one or other, other or one


@cache
def written_by(cls: type[Any]) -> Written:
    """Find the hooks that a class or its ancestors below `BaseChatModel` define."""
    places: dict[str, int] = {}
    wanted = HOOKS | {"_preprocess", "_postprocess", "_tell_events"}
    for place, ancestor in enumerate(cls.__mro__):
        module, name = ancestor.__module__, ancestor.__name__
        if module == "foldline.language_models.chat_models" and name == "BaseChatModel":
            break
        for hook in wanted & ancestor.__dict__.keys():
            places.setdefault(hook, place)
    return Written(places)
