"""Groups: a run of the caller's own making, under which separate calls are traced together."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Self, Unpack, cast
from uuid import UUID

from typing_extensions import TypedDict

from foldline.callbacks.base import BaseCallbackHandler, BaseCallbackManager, Callbacks
from foldline.callbacks.manager import (
    AsyncCallbackManager,
    AsyncCallbackManagerForChainRun,
    BaseRunManager,
    CallbackManager,
    CallbackManagerForChainRun,
)
from foldline.callbacks.mixins import Metadata

__all__ = [
    "AsyncCallbackManagerForChainGroup",
    "CallbackManagerForChainGroup",
    "atrace_as_chain_group",
    "trace_as_chain_group",
]


class Marks(TypedDict, total=False):
    """The tags and metadata of a manager, its own and those that its children inherit."""

    tags: list[str]
    inheritable_tags: list[str]
    metadata: dict[str, Any]
    inheritable_metadata: dict[str, Any]


class CallbackManagerForChainGroup(CallbackManager):
    """The manager of a group: pass it as `callbacks`; report its outcome with `on_chain_end`."""

    def __init__(
        self,
        handlers: list[BaseCallbackHandler],
        inheritable_handlers: list[BaseCallbackHandler] | None = None,
        parent_run_id: UUID | None = None,
        *,
        parent_run_manager: CallbackManagerForChainRun,
        **kwargs: Unpack[Marks],
    ) -> None:
        super().__init__(handlers, inheritable_handlers, parent_run_id, **kwargs)
        self.parent_run_manager = parent_run_manager
        self.ended: bool = False
        """Whether the outcome of the group was dispatched."""

    def copy(self) -> Self:
        """Copy, under the same group."""
        return cast("Self", _copied(self, CallbackManagerForChainGroup))

    def on_chain_end(self, outputs: object, **kwargs: object) -> None:
        """Dispatch the outputs of the group."""
        self.ended = True
        self.parent_run_manager.on_chain_end(outputs, **kwargs)

    def on_chain_error(self, error: BaseException, **kwargs: object) -> None:
        """Dispatch the error of the group."""
        self.ended = True
        self.parent_run_manager.on_chain_error(error, **kwargs)


class AsyncCallbackManagerForChainGroup(AsyncCallbackManager):
    """The manager of a group, awaited."""

    def __init__(
        self,
        handlers: list[BaseCallbackHandler],
        inheritable_handlers: list[BaseCallbackHandler] | None = None,
        parent_run_id: UUID | None = None,
        *,
        parent_run_manager: AsyncCallbackManagerForChainRun,
        **kwargs: Unpack[Marks],
    ) -> None:
        super().__init__(handlers, inheritable_handlers, parent_run_id, **kwargs)
        self.parent_run_manager = parent_run_manager
        self.ended: bool = False
        """Whether the outcome of the group was dispatched."""

    def copy(self) -> Self:
        """Copy, under the same group."""
        return cast("Self", _copied(self, AsyncCallbackManagerForChainGroup))

    async def on_chain_end(self, outputs: object, **kwargs: object) -> None:
        """Dispatch the outputs of the group."""
        self.ended = True
        await self.parent_run_manager.on_chain_end(outputs, **kwargs)

    async def on_chain_error(self, error: BaseException, **kwargs: object) -> None:
        """Dispatch the error of the group."""
        self.ended = True
        await self.parent_run_manager.on_chain_error(error, **kwargs)


def _copied(
    group: CallbackManagerForChainGroup | AsyncCallbackManagerForChainGroup,
    cls: Any,  # noqa: ANN401  the group's class of the mode of its manager
) -> object:
    twin = cls(
        group.handlers.copy(),
        group.inheritable_handlers.copy(),
        group.parent_run_id,
        parent_run_manager=group.parent_run_manager,
        **_marks(group),
    )
    twin.ended = group.ended
    return twin


def _marks(manager: BaseCallbackManager | BaseRunManager) -> Marks:
    return {
        "tags": list(manager.tags),
        "inheritable_tags": list(manager.inheritable_tags),
        "metadata": dict(manager.metadata),
        "inheritable_metadata": dict(manager.inheritable_metadata),
    }


def _of(cls: Any, run_manager: CallbackManagerForChainRun | AsyncCallbackManagerForChainRun) -> Any:  # noqa: ANN401  the group's class of the mode of its manager
    child = run_manager.get_child()
    return cls(
        child.handlers,
        child.inheritable_handlers,
        child.parent_run_id,
        parent_run_manager=run_manager,
        **_marks(run_manager),
    )


@contextmanager
def trace_as_chain_group(
    group_name: str,
    callback_manager: Callbacks = None,
    *,
    inputs: dict[str, Any] | None = None,
    run_id: UUID | None = None,
    tags: list[str] | None = None,
    metadata: Metadata | None = None,
    **_hosted: object,
) -> Generator[CallbackManagerForChainGroup, None, None]:
    """Trace the calls inside the block as children of one run.

    ```python
    from foldline.callbacks.manager import trace_as_chain_group
    from foldline.runnables import RunnableLambda
    from foldline.tracers.run_collector import RunCollectorCallbackHandler

    runs = RunCollectorCallbackHandler()
    with trace_as_chain_group("both", [runs]) as group:
        for value in (1, 2):
            RunnableLambda(lambda x: x + 1).invoke(value, {"callbacks": group})
    print(runs.traced_runs[0].name, len(runs.traced_runs[0].child_runs))
    #> both 2
    ```

    `project_name`, `example_id` and `address` of LangChain belong to a hosted service and are ignored.
    """
    manager = CallbackManager.configure(
        callback_manager, inheritable_tags=tags, inheritable_metadata=metadata
    )
    started = manager.on_chain_start(
        {"name": group_name}, inputs or {}, run_id=run_id, name=group_name
    )
    group: CallbackManagerForChainGroup = _of(CallbackManagerForChainGroup, started)
    try:
        yield group
    except BaseException as error:
        if not group.ended:
            group.on_chain_error(error)
        raise
    if not group.ended:
        group.on_chain_end({})


@asynccontextmanager
async def atrace_as_chain_group(
    group_name: str,
    callback_manager: Callbacks = None,
    *,
    inputs: dict[str, Any] | None = None,
    run_id: UUID | None = None,
    tags: list[str] | None = None,
    metadata: Metadata | None = None,
    **_hosted: object,
) -> AsyncGenerator[AsyncCallbackManagerForChainGroup, None]:
    """Trace the calls inside the block as children of one run."""
    manager = AsyncCallbackManager.configure(
        callback_manager, inheritable_tags=tags, inheritable_metadata=metadata
    )
    started = await manager.on_chain_start(
        {"name": group_name}, inputs or {}, run_id=run_id, name=group_name
    )
    group: AsyncCallbackManagerForChainGroup = _of(AsyncCallbackManagerForChainGroup, started)
    try:
        yield group
    except BaseException as error:
        if not group.ended:
            await group.on_chain_error(error)
        raise
    if not group.ended:
        await group.on_chain_end({})
