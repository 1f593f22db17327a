"""The records of the run log: a run, its events, a thread."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final, Literal

from foldline.serve._json_object import JsonObject
from foldline.serve._log.events import EncodedEvent

__all__ = [
    "OVER",
    "EventsToKeep",
    "RunRecord",
    "RunStatus",
    "ThreadInfo",
    "end_event",
    "make_event",
]

RunStatus = Literal["queued", "running", "success", "waiting", "error", "stopped", "interrupted"]
"""`queued`: it waits until others have ended. `waiting`: it asks a person. `interrupted`: its server died, it can be
resumed."""
OVER: Final[frozenset[str]] = frozenset({"success", "waiting", "error", "stopped", "interrupted"})


@dataclass(slots=True)
class RunRecord:
    """A run: its owner, app and request, and how it ended."""

    id: str
    owner: str
    app: str
    wire: str
    thread: str | None
    status: RunStatus
    created: float
    worker: str
    request: JsonObject | None
    finished: float | None = None
    last_seq: int = 0
    result: JsonObject | None = None
    """May have `output`, `usage`, `cost`, `error`, `interrupts` and `refused`."""
    stop_asked: bool = False
    resumes: str | None = None
    """The run that this one continues."""
    first: str | None = None
    """The first run of the chain, if this one continues another."""
    request_key: tuple[str, str] | None = None
    """The key with which its request may be repeated and the hash of its body; not read from the log."""

    @property
    def root(self) -> str:
        """The first run of the chain: this one, if it continues none."""
        return self.first or self.id

    @property
    def questions(self) -> list[JsonObject]:
        """The questions with which it ended."""
        return list((self.result or {}).get("interrupts") or [])

    @property
    def question_ids(self) -> set[str]:
        """The ids of those questions."""
        return {item["interrupt_id"] for item in self.questions}

    @property
    def is_refused(self) -> bool:
        """Whether the app refused to start it: it has continued nothing."""
        return bool((self.result or {}).get("refused"))

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self.status in OVER

    def as_json(self) -> JsonObject:
        """Return the fields that the owner may see."""
        result = self.result or {}
        return {
            "run_id": self.id,
            "app": self.app,
            "thread_id": self.thread,
            "resumes": self.resumes,
            "root": self.root,
            "status": self.status,
            "request_id": ((self.request or {}).get("http") or {}).get("request_id"),
            "traceparent": ((self.request or {}).get("http") or {}).get("traceparent"),
            "created_at": self.created,
            "finished_at": self.finished,
            "last_event_id": self.last_seq,
            "usage": result.get("usage"),
            "cost": result.get("cost"),
            "error": result.get("error"),
            "interrupts": result.get("interrupts") or [],
            "output": result.get("output"),
        }


@dataclass(slots=True)
class EventsToKeep:
    """Events of one run that are written together, with the run's new state."""

    run: RunRecord
    first_seq: int
    events: list[EncodedEvent]
    is_new: bool = False
    is_over: bool = False
    is_refused: bool = False
    """Whether the run could not start: what it has claimed is free again."""

    @property
    def last_seq(self) -> int:
        """The number of the last event."""
        return self.first_seq + len(self.events) - 1


@dataclass(slots=True)
class ThreadInfo:
    """A conversation with an app."""

    id: str
    owner: str
    app: str | None
    created: float
    metadata: JsonObject = field(default_factory=dict)


def make_event(
    method: str,
    data: object,
    timestamp: int,
    namespace: list[str] | None = None,
    node: str | None = None,
) -> JsonObject:
    """Return an event of the log, in the form of the published protocol."""
    params: JsonObject = {"namespace": namespace or [], "timestamp": timestamp, "data": data}
    if node is not None:
        params["node"] = node
    return {"method": method, "params": params}


def end_event(status: RunStatus, result: JsonObject) -> JsonObject:
    """Return the event of a run's end."""
    data = {"event": status, "error": result.get("error"), "usage": result.get("usage")}
    return make_event("run", data, int(time.time() * 1000))
