"""The entries of a flow's log that matter for its next run: those of the last run, and the result before it.

A run begins with nothing of the earlier ones but the last result. So a thread of many runs, such as a chat with
`previous`, need not be read from its first run each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from foldline._io import IO
from foldline.checkpoint._heads import Head
from foldline.checkpoint.base import Entry
from foldline.workflows._state_fold import Fold
from foldline.workflows._thread_log import Log
from foldline.workflows.values import from_text

__all__ = ["RecentEntries", "recent_entries"]


@dataclass(slots=True)
class RecentEntries:
    """The entries that matter."""

    entries: list[Entry] = field(default_factory=list)
    result: Entry | None = None
    """The last end of a run that has a result, or the last update of it."""
    step: int = -1
    """The number of the last checkpoint, counted as a graph of one node counts."""
    checkpoint: str | None = None
    """The last checkpoint."""
    start: tuple[int, str | None] = (-1, None)
    """The same before the last run began."""
    values: dict[str, Any] = field(default_factory=dict)
    """There are none."""


class FlowFold(Fold[RecentEntries]):
    """Drops the entries of earlier runs."""

    plan = "flow"
    kind = "flow"

    def begin(self) -> RecentEntries:
        """Return no entries."""
        return RecentEntries()

    def take(self, state: RecentEntries, entry: Entry, place: int) -> None:
        """Add an entry; the first one of a run drops those of the run before."""
        body = from_text(entry.body, f"record {entry.id}")
        kind = body["kind"]
        if kind == "flow":
            state.entries = [] if state.result is None else [state.result]
            state.start = (state.step, state.checkpoint)
        elif kind == "update" or (kind == "end" and "value" in body):
            state.result = entry
            state.step = max(state.step, 0) if kind == "update" else state.step
        if kind == "flow" or state.result is entry:
            state.step, state.checkpoint = state.step + 1, entry.id
        state.entries.append(entry)

    def plain_values(self, state: RecentEntries) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def share(self, head: Head) -> RecentEntries:
        """Return a state that the caller may change."""
        state: RecentEntries = head.state
        return replace(state, entries=list(state.entries))

    def freeze(self, state: RecentEntries) -> dict[str, Any] | None:
        """Return the entries as JSON."""
        return {
            "entries": state.entries,
            "result": state.result,
            "step": state.step,
            "checkpoint": state.checkpoint,
            "start": state.start,
        }

    def thaw(self, packed: dict[str, Any]) -> RecentEntries:
        """Return the entries of their JSON form."""
        result = packed["result"]
        return RecentEntries(
            [_entry(*entry) for entry in packed["entries"]],
            None if result is None else _entry(*result),
            int(packed["step"]),
            packed["checkpoint"],
            (int(packed["start"][0]), packed["start"][1]),
        )


def _entry(id: str, parent: str | None, body: str) -> Entry:
    from_text(body, f"record {id}")
    return Entry(str(id), parent, body)


async def recent_entries(log: Log, io: IO, at: str | None = None) -> RecentEntries:
    """Return the entries that matter up to `at`, or up to the last one of the outer run's branch."""
    fold = FlowFold()
    if at is None:
        return await fold.load(log, io)
    state = fold.begin()
    for place, entry in enumerate(await log.chain(io, at)):
        fold.take(state, entry, place)
    return state
