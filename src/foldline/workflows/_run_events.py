"""The events of a run, with Python values and in the form of the published protocol. No I/O.

`FlowEvent` is an event with Python values. `envelope` converts it to the form of the published protocol: a JSON dict
with `type`, `method` and `params`, which front ends of that protocol read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from foldline.messages import BaseMessage

__all__ = ["CHANNELS", "Emit", "FlowEvent", "Method", "envelope", "jsonable"]

Method = Literal[
    "lifecycle",
    "messages",
    "tools",
    "tasks",
    "tokens",
    "input.requested",
    "values",
    "updates",
    "checkpoints",
    "custom",
]
CHANNELS: frozenset[Method] = frozenset(get_args(Method)) - {"tasks", "tokens"}
"""The channels of the published protocol; the other methods are only for `stream_mode`."""


class FlowEvent(NamedTuple):
    """An event of a run."""

    method: Method
    namespace: tuple[str, ...]
    node: str | None
    data: Any


Emit = Callable[[FlowEvent], None]


def envelope(event: FlowEvent, seq: int) -> dict[str, Any]:
    """Return an event in the form of the protocol."""
    params: dict[str, Any] = {
        "namespace": list(event.namespace),
        "timestamp": int(time.time() * 1000),
        "data": _data(event),
    }
    if event.node is not None:
        params["node"] = event.node
    return {"type": "event", "seq": seq, "method": event.method, "params": params}


def _data(event: FlowEvent) -> object:
    if event.method == "messages":
        return event.data
    return jsonable(event.data)


def jsonable(value: object) -> object:  # noqa: PLR0911  one line per kind
    """Return a value as JSON; what JSON does not have becomes text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [jsonable(item) for item in value]
    if isinstance(value, BaseMessage):
        return jsonable(value.model_dump(exclude_none=True))
    if isinstance(value, BaseModel):
        return jsonable(value.model_dump())
    try:
        return to_jsonable_python(value)
    except (PydanticSerializationError, ValueError):
        return repr(value)
