"""`AgentInvokeOptions`: what `process`, `preprocess` and `postprocess` get about their call."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from foldline._config import RunnableConfig
from foldline._run import Run
from foldline.callbacks.base import Callbacks
from foldline.language_models._call.policies.usage import Limits, UsageScope, current_usage

__all__ = ["AgentInvokeOptions", "InvocationContext"]


@dataclass(frozen=True, slots=True)
class InvocationContext:
    """The surroundings of a call: its run, its caller's values, its limits and its usage."""

    id: UUID | None
    """The id of the run; None if there are no listeners."""
    parent_id: UUID | None
    user_context: dict[str, Any]
    """`config["configurable"]`: the caller's values for this call."""
    usage: UsageScope | None
    """The usage of the calls of the enclosing `usage_scope`; None outside of one."""
    limits: Limits
    """The limits of that scope."""


class AgentInvokeOptions(dict[str, Any]):
    """The options of one call: those of the model as items, the surroundings of the call as attributes.

    `options["temperature"]` is an option of the model; `options.context`, `.limits`, `.config`, `.metadata`, `.tags`,
    `.callbacks` and `.streaming` describe the call.
    """

    def __init__(self, options: dict[str, Any], run: Run) -> None:
        super().__init__(options)
        self._run = run
        self._scope = current_usage()

    @cached_property
    def context(self) -> InvocationContext:
        """The surroundings of the call."""
        run, scope = self._run, self._scope
        parent = None if run.manager is None else run.manager.parent_run_id
        limits = Limits() if scope is None else scope.limits
        return InvocationContext(run.id, parent, dict(run.configurable), scope, limits)

    @property
    def limits(self) -> Limits:
        """The limits of the enclosing `usage_scope`."""
        return self.context.limits

    @property
    def config(self) -> RunnableConfig:
        """The config for calls that the author makes: they become children of this run."""
        return self._run.config()

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the run."""
        manager = self._run.manager
        return dict(self._run.get("metadata", {}) if manager is None else manager.metadata)

    @property
    def tags(self) -> list[str]:
        """The tags of the run."""
        manager = self._run.manager
        return list(self._run.get("tags", []) if manager is None else manager.tags)

    @property
    def callbacks(self) -> Callbacks:
        """The listeners, for calls that the author makes; None if there are none."""
        return self._run.child().manager

    @property
    def streaming(self) -> bool:
        """Whether the caller streams the answer."""
        return bool(self.get("stream"))
