"""`Settings`: everything about a server that is not an app."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from foldline.exceptions import UsageError

__all__ = ["MEBIBYTE", "Settings"]

MEBIBYTE: Final = 1024 * 1024


@dataclass(slots=True)
class Settings:
    """Limits, addresses and places."""

    log: str = ":memory:"
    """Where runs are kept: a SQLite file, `postgresql://…`, or `:memory:`."""
    traces: str | None = None
    """The file, or the PostgreSQL database by its URL, that every run is traced to; None for none."""
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
    max_streams: int = 4_000
    """Streams that are open in one process, those of readers of other runs included."""
    max_events: int = 1_000_000
    """Events of one run."""
    drain_seconds: float = 30.0
    """How long runs may go on when the server is told to stop."""
    keep_days: float | None = 30.0
    """How long runs are kept; None for ever. They are looked through when the server starts."""
    mcp: bool = True
    """Whether apps are offered as tools at `/mcp` (needs the extra `mcp`)."""
    studio: bool = True
    """Whether the studio is shown at `/studio`, where it is installed."""
    allowed_hosts: Sequence[str] = field(default_factory=tuple)
    """Names under which a server without keys may be called, besides localhost."""

    def __post_init__(self) -> None:
        for name in (
            "max_body",
            "max_messages",
            "max_batch",
            "max_runs",
            "max_streams",
            "max_events",
        ):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is a number from 1, not {getattr(self, name)!r}")
        if "*" in self.cors_origins and len(self.cors_origins) > 1:
            raise UsageError('cors_origins is a list of origins, or ["*"] alone')
