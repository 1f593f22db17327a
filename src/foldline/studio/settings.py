"""`StudioSettings`: the files that a studio reads, and who may use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from foldline.utils._data_places import TracePlace, data_dir, sessions_file, traces_place

if TYPE_CHECKING:
    from starlette.requests import Request

    from foldline.agents.agent import Agent, StateSnapshot
    from foldline.graph.compiled import CompiledStateGraph
    from foldline.graph.types import StateSnapshot as GraphSnapshot
    from foldline.language_models.base_chat_model import BaseChatModel
    from foldline.tools.base import BaseTool

__all__ = ["StudioSettings"]

ThreadApp: TypeAlias = "Agent[Any] | CompiledStateGraph"
"""An agent or a graph that stores its threads."""
Snapshot: TypeAlias = "StateSnapshot | GraphSnapshot"
"""A checkpoint of a thread."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class StudioSettings:
    """The files that a studio reads, what its playground may run, and its token."""

    traces: TracePlace = field(default_factory=traces_place)
    """A trace file, or a PostgreSQL database by its URL."""
    sessions: Path = field(default_factory=sessions_file)
    datasets: Path = field(default_factory=lambda: data_dir() / "datasets.db")
    run_logs: tuple[TracePlace, ...] = ()
    """Run logs of `foldline serve`, from which the run of a deleted trace is deleted as well."""
    token: str | None = None
    """The token that a browser must send; None where `authorize` decides, or the app around this one does."""
    authorize: Callable[[Request], bool] | None = None
    """Returns whether a request may use the studio. Replaces the token."""
    hosts: tuple[str, ...] = LOOPBACK
    """The host names under which the studio answers; others are refused (DNS rebinding)."""
    models: tuple[str, ...] = ()
    """Models for the playground, besides the local one and those of providers whose key is set."""
    tools: Mapping[str, BaseTool] = field(default_factory=dict)
    apps: Mapping[str, ThreadApp] = field(default_factory=dict)
    """Agents and graphs whose threads are shown and carried on, by name."""
    make_model: Callable[[str, dict[str, Any]], BaseChatModel] | None = None
    """Makes a model from its name and parameters; None uses `init_chat_model`."""
