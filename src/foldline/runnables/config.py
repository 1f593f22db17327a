"""`RunnableConfig` and its functions, under LangChain's path; the code is in `foldline._config`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from typing_extensions import TypedDict

from foldline._config import (
    CONFIG_KEYS,
    COPIED_KEYS,
    DEFAULT_RECURSION_LIMIT,
    RunnableConfig,
    ensure_config,
    get_config_list,
    merge_configs,
    patch_config,
    set_config_context,
    var_child_runnable_config,
)
from foldline._io.waiting import ContextThreadPoolExecutor, in_executor
from foldline.callbacks.manager import (
    AsyncCallbackManager,
    AsyncParentRunManager,
    CallbackManager,
    ParentRunManager,
)
from foldline.runnables import _functions

T = TypeVar("T")

__all__ = [
    "CONFIG_KEYS",
    "COPIED_KEYS",
    "DEFAULT_RECURSION_LIMIT",
    "ContextThreadPoolExecutor",
    "EmptyDict",
    "RunnableConfig",
    "acall_func_with_variable_args",
    "call_func_with_variable_args",
    "ensure_config",
    "get_async_callback_manager_for_config",
    "get_callback_manager_for_config",
    "get_config_list",
    "get_executor_for_config",
    "merge_configs",
    "patch_config",
    "run_in_executor",
    "set_config_context",
    "var_child_runnable_config",
]


class EmptyDict(TypedDict, total=False):
    """A dict without keys."""


def get_callback_manager_for_config(config: RunnableConfig) -> CallbackManager:
    """Return the manager that a config describes."""
    return CallbackManager.configure(
        config.get("callbacks"),
        inheritable_tags=config.get("tags"),
        inheritable_metadata=config.get("metadata"),
    )


def get_async_callback_manager_for_config(config: RunnableConfig) -> AsyncCallbackManager:
    """Return the async manager that a config describes."""
    return AsyncCallbackManager.configure(
        config.get("callbacks"),
        inheritable_tags=config.get("tags"),
        inheritable_metadata=config.get("metadata"),
    )


def _extras(
    func: Callable[..., Any],
    config: RunnableConfig,
    run_manager: ParentRunManager | AsyncParentRunManager | None,
    kwargs: dict[str, Any],
) -> dict[str, Any]:
    wants = _functions.injected_arguments(func)
    if "config" in wants:
        nested = run_manager.get_child() if run_manager is not None else None
        kwargs["config"] = patch_config(config, callbacks=nested)
    if "run_manager" in wants and run_manager is not None:
        kwargs["run_manager"] = run_manager
    return kwargs


def call_func_with_variable_args(
    func: Callable[..., T],
    input: object,
    config: RunnableConfig,
    run_manager: ParentRunManager | AsyncParentRunManager | None = None,
    **kwargs: object,
) -> T:
    """Call a function with its input and, if it has such parameters, the config and the run manager."""
    return func(input, **_extras(func, config, run_manager, kwargs))


def acall_func_with_variable_args(
    func: Callable[..., Awaitable[T]],
    input: object,
    config: RunnableConfig,
    run_manager: ParentRunManager | AsyncParentRunManager | None = None,
    **kwargs: object,
) -> Awaitable[T]:
    """Call an async function with its input and, if it has such parameters, the config and the run manager."""
    return func(input, **_extras(func, config, run_manager, kwargs))


@contextmanager
def get_executor_for_config(
    config: RunnableConfig | None,
) -> Generator[ContextThreadPoolExecutor, None, None]:
    """Yield an executor of `max_concurrency` threads; foldline's own runnables do not need one."""
    with ContextThreadPoolExecutor(max_workers=(config or {}).get("max_concurrency")) as executor:
        yield executor


async def run_in_executor(
    executor_or_config: object, func: Callable[..., T], *args: object, **kwargs: object
) -> T:
    """Run a blocking function in a thread: of the executor passed, or of foldline's pool."""
    return cast("T", await in_executor(executor_or_config, func, *args, **kwargs))
