"""`Settings`: the limits, addresses and files of a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from foldline.exceptions import UsageError

__all__ = ["MEBIBYTE", "ServeSettings"]

MEBIBYTE: Final = 1024 * 1024


CHECKS: Final[tuple[tuple[tuple[str, ...], str, Callable[[object], bool]], ...]] = (
    (
        (
            "max_body",
            "max_messages",
            "max_tools",
            "max_batch",
            "max_runs",
            "max_streams",
            "max_events",
        ),
        "a whole number from 1",
        lambda value: type(value) is int and value >= 1,
    ),
    (
        ("drain_seconds",),
        "a number of seconds from 0",
        lambda value: type(value) in (int, float) and cast("float", value) >= 0,
    ),
    (
        ("keep_days",),
        "a number of days above 0, or None",
        lambda value: value is None or (type(value) in (int, float) and cast("float", value) > 0),
    ),
    (("no_auth", "mcp", "studio"), "True or False", lambda value: isinstance(value, bool)),
    (
        ("cors_origins", "allowed_hosts"),
        "a list of texts",
        lambda value: (
            isinstance(value, Sequence)
            and not isinstance(value, str)
            and all(isinstance(item, str) for item in value)
        ),
    ),
    (("log",), "a file or a URL, as text", lambda value: isinstance(value, str) and bool(value)),
    (
        ("traces",),
        "a file or a URL, as text, or None",
        lambda value: value is None or (isinstance(value, str) and bool(value)),
    ),
)
"""Settings, what each of them is, and whether a value is that."""


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
    max_streams: int = 4_000
    """Open streams in one process, those of other readers included."""
    max_events: int = 1_000_000
    """Events of one run."""
    drain_seconds: float = 30.0
    """Seconds that runs may go on when the server shuts down."""
    keep_days: float | None = 30.0
    """Days after which runs are deleted; None keeps them."""
    mcp: bool = True
    """Whether apps are offered as tools at `/mcp`."""
    studio: bool = True
    """Whether the studio is shown at `/studio`, where it is installed."""
    allowed_hosts: Sequence[str] = field(default_factory=tuple)
    """Host names of a server without keys, besides localhost."""

    def __post_init__(self) -> None:
        for names, description, is_right in CHECKS:
            for name in names:
                value = getattr(self, name)
                if not is_right(value):
                    raise UsageError(f"{name} is {description}, not {value!r:.80}")
        if "*" in self.cors_origins and len(self.cors_origins) > 1:
            raise UsageError('cors_origins is a list of origins, or ["*"] alone')
