"""`RequestFacts`: what the server knows about the current request, for its logs, its metrics and its errors.

A context variable holds it; a run inherits the one of the request that started it.
"""

from __future__ import annotations

import re
import time
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

if TYPE_CHECKING:
    from foldline.serve._answers import AnyRun
    from foldline.utils._trace_context import TraceContext

__all__ = ["REQUEST", "SERVER", "RequestFacts", "name_run", "request_id_of"]

SERVER: Final = "server"
"""The wire of endpoints that are of no wire."""
GIVEN_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(slots=True)
class RequestFacts:
    """One request."""

    id: str
    wire: str = SERVER
    key: str | None = None
    """The name of the caller's key."""
    run: AnyRun | None = None
    """The run that it started or continued; the last one, if it started several."""
    trace: TraceContext | None = None
    """The span of the caller."""
    start: float = field(default_factory=time.monotonic)

    @property
    def run_id(self) -> str | None:
        """The id of its run."""
        return self.run.info.id if self.run is not None else None

    def record(self) -> dict[str, Any]:
        """Return what the record of a run keeps of its request."""
        record: dict[str, Any] = {"request_id": self.id}
        if self.trace is not None:
            record |= self.trace.headers()
        return record


REQUEST: Final[ContextVar[RequestFacts | None]] = ContextVar("foldline_request", default=None)


def name_run(run: AnyRun) -> None:
    """Let lines of the log name the run; of this task alone: a request may start several runs."""
    facts = REQUEST.get()
    if facts is not None:
        REQUEST.set(replace(facts, run=run))


def request_id_of(given: str | None) -> str:
    """Return the id that a client gave to its request, if it has the form of one; else a new one."""
    if given is not None and GIVEN_ID.fullmatch(given):
        return given
    return f"req_{uuid4().hex}"
