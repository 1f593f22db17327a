"""Snapshots: the folded state of a thread as JSON, so that a new process need not read the whole log.

A snapshot is derived from the log and may be deleted at any time. One that was made by other keys or reducers, by
another version, or that is damaged, is not used: the log is folded instead.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import lru_cache, partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from foldline.exceptions import SchemaError
from foldline.workflows._thread_state import ThreadState
from foldline.workflows.values import from_text, to_text

__all__ = ["MIN_SIZE", "fields_of", "fingerprint", "read_snapshot", "set_fields", "write_snapshot"]

FORM: Final = 1
MIN_SIZE: Final = 64 * 1024
"""Characters of records since the last snapshot below which there is no new one."""
IN_A_STEP: Final = (
    "failures", "finished", "fork", "input", "interrupts", "answers", "started", "task_questions",
)  # fmt: skip
"""Fields of a state that are empty between two steps; only then there is a snapshot."""
APART: Final = frozenset({"keys", "values", "indexes", "next", "chain", "lineage"})
"""Fields that are not plain JSON."""
ATOMS: Final = frozenset({str, int, float, bool, bytes, complex})
MAX_VALUES: Final = 500
"""How many of the values that a reducer holds are described."""
ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")


@lru_cache(maxsize=64)
def _plain_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(
        item.name for item in fields(kind) if item.name not in APART and item.name not in IN_A_STEP
    )


def fields_of(state: ThreadState) -> dict[str, Any] | None:
    """Return the fields of a state that are plain JSON; None in the middle of a step."""
    if any(getattr(state, name, None) for name in IN_A_STEP):
        return None
    plain = {name: getattr(state, name) for name in _plain_names(type(state))}
    return {**plain, "chain": sorted(state.chain), "lineage": state.lineage}


def set_fields(state: ThreadState, packed: Mapping[str, Any]) -> None:
    """Set the fields of a state that `fields_of` has returned."""
    for name in _plain_names(type(state)):
        setattr(state, name, packed[name])
    state.chain = set(packed["chain"])
    state.lineage = [(str(branch), int(last)) for branch, last in packed["lineage"]]


def write_snapshot(kind: str, plan: str, count: int, state: Mapping[str, Any]) -> str:
    """Return the body of a snapshot."""
    return to_text({"v": FORM, "kind": kind, "plan": plan, "count": count, "state": state})


def read_snapshot(text: str, kind: str, plan: str) -> tuple[int, dict[str, Any]] | None:
    """Return the count of entries and the packed state of a snapshot; None if it is not one of these."""
    try:
        body = from_text(text, "a snapshot")
    except SchemaError:
        return None
    count, state = body.get("count"), body.get("state")
    if (body["v"], body["kind"], body.get("plan")) != (FORM, kind, plan):
        return None
    return (count, state) if type(count) is int and isinstance(state, dict) else None


def fingerprint(
    types: Mapping[str, Any], reducers: Mapping[str, Callable[..., Any]], *marks: object
) -> str:
    """Return a text that differs if the keys of a state, their types or their reducers do."""
    parts = [f"{key}: {types[key]!r} {_Reducer(reducers.get(key)).text}" for key in sorted(types)]
    text = ADDRESS.sub("", "\n".join([*parts, *map(repr, marks)]))
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=12).hexdigest()


class _Reducer:
    """Describes what a reducer does: its code, and the values that it holds."""

    def __init__(self, reducer: Callable[..., Any] | None) -> None:
        self._seen: dict[int, object] = {}  # the values too: an id is used again when one is gone
        self.text = self._describe(reducer)

    def _describe(self, value: object) -> str:
        if value is None or type(value) in ATOMS:
            return repr(value)
        if id(value) in self._seen or len(self._seen) > MAX_VALUES:
            return "..."  # a function may hold itself, or a whole program
        self._seen[id(value)] = value
        if isinstance(value, set | frozenset):
            value = sorted(value, key=repr)  # their order differs between processes
        elif isinstance(value, dict):
            value = [*value, *value.values()]
        if isinstance(value, list | tuple):
            return self._describe_all(value)
        parts = _parts(value)
        name = getattr(value, "__qualname__", None)
        if name is None and not parts:
            return repr(value)
        return f"{getattr(value, '__module__', '')}.{name} {self._describe_all(parts)}"

    def _describe_all(self, values: Iterable[object]) -> str:
        return f"[{', '.join(map(self._describe, values))}]"


def _parts(value: Any) -> list[object]:  # noqa: ANN401  a reducer, or an object that it holds
    """Return what the behaviour of a value depends on; nothing for one that its `repr` shows."""
    if isinstance(value, CodeType):
        return [value.co_code, value.co_consts, value.co_names]
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, FunctionType):
        cells = [_content(cell) for cell in value.__closure__ or ()]
        return [value.__code__, value.__defaults__, value.__kwdefaults__, *cells]
    if isinstance(value, type | ModuleType) or not hasattr(value, "__dict__"):
        return []
    return [type(value), vars(type(value)).get("__call__"), vars(value)]


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return None
