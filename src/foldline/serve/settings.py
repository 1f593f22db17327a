"""`ServeSettings` and `ProcessSettings`: the one list of the settings of a server.

A field is a setting: its name, type, default, help and bounds. From this list come the flags of `foldline serve`, the
names of environment variables, the check of the configuration file, and the table of the docs (`setting_rows.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from math import isnan
from typing import Any, Final, Literal, TypeVar

from foldline.exceptions import UsageError

__all__ = [
    "ServeSettings",
]

T = TypeVar("T")
MEBIBYTE: Final = 1024 * 1024
FACTS: Final = "setting"


@dataclass(frozen=True, slots=True)
class SettingFacts:
    """What a field of the settings says besides its name, type and default."""

    help: str
    at_least: float | None = None
    at_most: float | None = None
    flags: tuple[str, ...] = ()
    """Other spellings of its flag."""
    shown: str | None = None
    """The default in the docs, where the value itself does not say it."""
    is_secret: bool = False
    """Whether it may hold a password: `NAME_file` names a file with the value, and it is never printed."""


def setting(help: str, *, default: T, **facts: Any) -> T:
    """Return a field of the settings."""
    return field(default=default, metadata={FACTS: SettingFacts(help, **facts)})


def facts_of(settings: Any) -> dict[str, SettingFacts]:  # noqa: ANN401  a dataclass of this file
    """Return the facts of the settings of a class, by name."""
    return {each.name: each.metadata[FACTS] for each in fields(settings)}


def _check(settings: object) -> None:
    from foldline.utils._options import check_fields  # noqa: PLC0415  every command imports this list

    facts = facts_of(settings)
    minima = {name: each.at_least for name, each in facts.items() if each.at_least is not None}
    check_fields(settings, at_least=minima)
    for name, each in facts.items():
        value = getattr(settings, name)
        if each.at_most is not None and value > each.at_most:
            owner = type(settings).__name__
            raise UsageError(f"{owner}({name}={value!r}): {name} must be {each.at_most:g} or less")
        if isinstance(value, float) and isnan(value):
            raise UsageError(f"{type(settings).__name__}({name}=nan): {name} must be a number")
        if value == "":
            raise UsageError(f"{name} of {type(settings).__name__} must not be an empty text")


@dataclass(slots=True)
class ServeSettings:
    """The limits, addresses and files of a server."""

    log: str = setting(
        "where runs and keys are kept: a SQLite file or postgresql://…",
        default=":memory:", shown="`serve.db` in the user's data folder", is_secret=True,
    )  # fmt: skip
    traces: str | None = setting(
        "where the traces of runs are kept: a file or postgresql://…; none for no traces",
        default=None, shown="`traces.db` in the user's data folder", is_secret=True,
    )  # fmt: skip
    no_auth: bool = setting("serve other machines without any key", default=False)
    allowed_hosts: Sequence[str] = setting(
        "host names of a server without keys, besides localhost", default=()
    )
    cors_origins: Sequence[str] = setting(
        "origins of web pages that may call", default=(), flags=("--cors",)
    )
    trusted_proxies: Sequence[str] = setting(
        "addresses and networks of proxies whose X-Forwarded headers are read, or unix", default=()
    )
    studio: bool = setting("show the studio at /studio, where it is installed", default=True)
    mcp: bool = setting("offer the apps as tools at /mcp", default=True)
    max_body: int = setting("bytes of a request", default=32 * MEBIBYTE, at_least=1)
    max_messages: int = setting("messages of a request", default=2_000, at_least=1)
    max_tools: int = setting("tools of a request", default=256, at_least=1)
    max_batch: int = setting("inputs of one batch or embeddings request", default=256, at_least=1)
    max_runs: int = setting("runs under way in one process", default=2_000, at_least=1)
    max_queued: int = setting(
        "runs of one process that wait until another one ends", default=0, at_least=0
    )
    queue_seconds: float = setting(
        "seconds that a run waits for its turn, and a model call for room in its key's limits",
        default=0.0, at_least=0,
    )  # fmt: skip
    run_timeout: float | None = setting(
        "seconds after which a run ends with an error; an app may have its own",
        default=None, at_least=0.001,
    )  # fmt: skip
    max_streams: int = setting("open streams of one process", default=4_000, at_least=1)
    max_events: int = setting("events of one run", default=1_000_000, at_least=1)
    stream_buffer: int = setting(
        "bytes of a run's events that a process keeps for its readers", default=MEBIBYTE, at_least=1
    )
    send_timeout: float = setting(
        "seconds after which a reader that takes nothing is disconnected",
        default=60.0, at_least=0.01,
    )  # fmt: skip
    metrics: bool = setting("show the numbers of the server at /metrics", default=True)
    metrics_keys: bool = setting("count runs, tokens and costs by key too", default=False)
    metrics_key: Literal["needed", "none"] = setting(
        "whether /metrics needs a key where there are keys; none: this machine needs none",
        default="needed",
    )
    trace_out: bool = setting("pass the trace of a run on to providers and tools", default=True)
    access_log: bool | None = setting(
        "write a line for each request", default=None, shown="with JSON logs"
    )
    drain_delay: float = setting(
        "seconds between SIGTERM and the end of new connections", default=2.0, at_least=0
    )
    drain_seconds: float = setting(
        "seconds that runs may go on at the end", default=30.0, at_least=0, flags=("--drain",)
    )
    auto_resume: bool = setting(
        "continue interrupted runs of apps with a checkpointer", default=False
    )
    keep_days: float | None = setting(
        "days after their end after which runs are deleted; none keeps them",
        default=30.0, at_least=0,
    )  # fmt: skip
    keep_waiting_days: float | None = setting(
        "days after which runs that wait for a person are deleted; none keeps them",
        default=None, at_least=0,
    )  # fmt: skip
    prune_every: float = setting(
        "seconds between two deletions of old runs", default=3_600.0, at_least=0.01
    )

    def __post_init__(self) -> None:
        from foldline.serve._proxy_networks import read_networks  # noqa: PLC0415  every command imports this list

        _check(self)
        read_networks(self.trusted_proxies)
        if "*" in self.cors_origins and len(self.cors_origins) > 1:
            raise UsageError('cors_origins is a list of origins, or ["*"] alone')


@dataclass(slots=True)
class ProcessSettings:
    """What the command sets up around the app: where it listens, in how many processes, and how it logs."""

    host: str = setting("the address", default="127.0.0.1")
    port: int = setting("the port", default=8000, at_least=0, at_most=65535, shown="8000")
    uds: str | None = setting("a Unix socket instead of the address and the port", default=None)
    workers: int = setting("processes", default=1, at_least=1)
    tls_cert: str | None = setting("the file of the certificate: serves HTTPS", default=None)
    tls_key: str | None = setting("the file of its private key", default=None)
    tls_ca: str | None = setting("the file of those who sign clients' certificates", default=None)
    tls_client_cert: Literal["none", "optional", "required"] = setting(
        "whether clients need a certificate, besides their key", default="none"
    )
    log_format: Literal["text", "json"] = setting("the form of the lines on stderr", default="text")
    log_level: Literal["debug", "info", "warning", "error", "critical"] = setting(
        "from which level on lines are written", default="warning"
    )

    def __post_init__(self) -> None:
        _check(self)
        if self.tls_cert is None and (self.tls_key or self.tls_ca):
            raise UsageError("tls_key and tls_ca need tls_cert")
        if self.tls_client_cert != "none" and self.tls_ca is None:
            raise UsageError("tls_client_cert needs tls_ca: those who sign clients' certificates")
