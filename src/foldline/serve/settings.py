"""`Settings`: the limits, addresses and files of a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from foldline.exceptions import UsageError
from foldline.utils.options import check_fields

__all__ = ["MEBIBYTE", "ServeSettings"]

MEBIBYTE: Final = 1024 * 1024


MINIMA: Final = {
    "max_body": 1,
    "max_messages": 1,
    "max_tools": 1,
    "max_batch": 1,
    "max_runs": 1,
    "max_streams": 1,
    "max_events": 1,
    "drain_delay": 0,
    "max_queued": 0,
    "queue_seconds": 0,
    "run_timeout": 0.001,
    "drain_seconds": 0,
    "keep_days": 0,
    "keep_waiting_days": 0,
    "prune_every": 0.01,
    "stream_buffer": 1,
    "send_timeout": 0.01,
}
"""The smallest value of a setting."""


@dataclass(slots=True)
class ServeSettings:
    """The limits, addresses and files of a server."""

    log: str = ":memory:"
    """Where runs are stored: a SQLite file, `postgresql://…`, or `:memory:`."""
    traces: str | None = None
    """The file, or the URL of the PostgreSQL database, for the traces of runs; None for no traces."""
    no_auth: bool = False
    """Whether requests from other machines need no key. Without keys and without this, only loopback is served."""
    cors_origins: Sequence[str] = ()
    """Origins of web pages that may call the server; none by default."""
    max_body: int = 32 * MEBIBYTE
    """Bytes of a request."""
    max_messages: int = 2_000
    """Messages of a request."""
    max_tools: int = 256
    max_batch: int = 256
    """Inputs of one batch or one request for embeddings."""
    max_runs: int = 2_000
    """Runs under way in one process."""
    max_queued: int = 0
    """Runs of one process that wait until another one ends, where there are `max_runs`."""
    queue_seconds: float = 0.0
    """Seconds that a run waits for its turn, and a model call for room in the limits of its key."""
    run_timeout: float | None = None
    """Seconds after which a run ends with an error; an app may have its own."""
    max_streams: int = 4_000
    """Open streams in one process, those of other readers included."""
    max_events: int = 1_000_000
    """Events of one run."""
    drain_delay: float = 2.0
    """Seconds between SIGTERM and the end of new connections, in which `/readyz` answers 503."""
    drain_seconds: float = 30.0
    """Seconds that runs may go on when the server shuts down."""
    keep_days: float | None = 30.0
    """Days after their end, or that of their chain, after which runs are deleted; None keeps them."""
    keep_waiting_days: float | None = None
    """Days after which runs that wait for a person are deleted; None keeps them."""
    prune_every: float = 3_600.0
    """Seconds between two deletions of old runs."""
    stream_buffer: int = MEBIBYTE
    """Bytes of events that a process keeps in memory for the readers of one run; the others are in the log."""
    send_timeout: float = 60.0
    """Seconds after which a reader that takes nothing is disconnected."""
    auto_resume: bool = False
    """Whether interrupted runs of apps with a checkpointer are continued by the server itself."""
    mcp: bool = True
    """Whether apps are offered as tools at `/mcp`."""
    studio: bool = True
    """Whether the studio is shown at `/studio`, where it is installed."""
    allowed_hosts: Sequence[str] = field(default_factory=tuple)
    """Host names of a server without keys, besides localhost."""

    def __post_init__(self) -> None:
        check_fields(self, at_least=MINIMA)
        if not self.log or self.traces == "":
            raise UsageError(
                "log and traces of ServeSettings are a file or a URL, not an empty text"
            )
        if "*" in self.cors_origins and len(self.cors_origins) > 1:
            raise UsageError('cors_origins is a list of origins, or ["*"] alone')
