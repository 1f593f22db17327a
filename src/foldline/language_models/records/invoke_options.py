"""`AgentInvokeOptions`: what `process`, `preprocess` and `postprocess` are told about the call they serve."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from foldline._config import RunnableConfig
from foldline._run import Run
from foldline.callbacks.base import Callbacks
from foldline.language_models.policies.usage import Limits, UsageScope, current_usage

__all__ = ["AgentInvokeOptions", "InvocationContext"]


@dataclass(frozen=True, slots=True)
class InvocationContext:
    """The call as a part of the program: its run, its caller's values, what may be spent and what was."""

    id: UUID | None
    """The id of the run; None where nobody listens."""
    parent_id: UUID | None
    user_context: dict[str, Any]
    """`config["configurable"]`: values that the caller gave for this call."""
    usage: UsageScope | None
    """What the calls of the enclosing `usage_scope` have spent; None outside of one."""
    limits: Limits
    """What they may spend."""


class AgentInvokeOptions(dict[str, Any]):
    """The options of one call: the model's own as items, what surrounds the call as attributes.

    `options["temperature"]` is an option of the model; `options.context`, `.limits`, `.config`, `.metadata`, `.tags`,
    `.callbacks` and `.streaming` say where and for whom it runs.
    """

    def __init__(self, options: dict[str, Any], run: Run) -> None:
        super().__init__(options)
        self._run = run
        self._scope = current_usage()

    @cached_property
    def context(self) -> InvocationContext:
        """The call as a part of the program."""
        run, scope = self._run, self._scope
        parent = None if run.manager is None else run.manager.parent_run_id
        limits = Limits() if scope is None else scope.limits
        return InvocationContext(run.id, parent, dict(run.configurable), scope, limits)

    @property
    def limits(self) -> Limits:
        """What the calls of the enclosing `usage_scope` may spend."""
        return self.context.limits

    @property
    def config(self) -> RunnableConfig:
        """The config for calls that the author makes: they are children of this run."""
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
        """The listeners, for calls that the author makes; None where nobody listens."""
        return self._run.child().manager

    @property
    def streaming(self) -> bool:
        """Whether the caller wants the answer piece by piece."""
        return bool(self.get("stream"))
