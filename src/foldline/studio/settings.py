"""What a studio shows and who may see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foldline.utils.places import TracePlace, data_dir, sessions_file, traces_place

__all__ = ["StudioSettings"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class StudioSettings:
    """The files a studio reads, what its playground may run, and its key."""

    traces: TracePlace = field(default_factory=traces_place)
    """A trace file, or a PostgreSQL database by its URL."""
    sessions: Path = field(default_factory=sessions_file)
    datasets: Path = field(default_factory=lambda: data_dir() / "datasets.db")
    run_logs: tuple[TracePlace, ...] = ()
    """Run logs of `foldline serve`, from which the run of a deleted trace is deleted as well."""
    token: str | None = None
    """What a browser must show; None where `authorize` decides, or the app around this one has decided already."""
    authorize: Callable[[Any], bool] | None = None
    """Whether a request may see the studio, where a token is not what decides."""
    hosts: tuple[str, ...] = LOOPBACK
    """The names under which the studio may be asked; another one is refused (DNS rebinding)."""
    models: tuple[str, ...] = ()
    """Models for the playground, besides the local one and those of providers whose key is set."""
    tools: Mapping[str, Any] = field(default_factory=dict)
    apps: Mapping[str, Any] = field(default_factory=dict)
    """Agents and graphs whose threads are shown and carried on, by name."""
    make_model: Callable[[str, dict[str, Any]], Any] | None = None
    """Makes a model of its name and parameters; `init_chat_model` where None."""
