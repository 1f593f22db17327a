"""`RunnableConfig`, how two merge, and the one that flows to nested calls (shown as `foldline.runnables.config`)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast
from uuid import UUID

from typing_extensions import TypedDict

from foldline._lazy import publish
from foldline.callbacks.base import BaseCallbackHandler, BaseCallbackManager, Callbacks
from foldline.exceptions import UsageError
from foldline.utils.strings import suggestion
from foldline.utils.suggest import callers_level

DEFAULT_RECURSION_LIMIT = 25


class RunnableConfig(TypedDict, total=False):
    """What a caller may say about one call and everything it calls."""

    tags: list[str]
    """Labels for this call and its children, for filtering traces."""
    metadata: dict[str, Any]
    """JSON values for this call and its children."""
    callbacks: Callbacks
    """Handlers that observe this call and its children."""
    run_name: str
    """The name of this call in traces; its children have their own."""
    max_concurrency: int | None
    """How many calls run at once in `batch` and in parallel steps."""
    recursion_limit: int
    """How deep runnables may return runnables."""
    configurable: dict[str, Any]
    """Values for `configurable_fields`, `configurable_alternatives` and the like."""
    run_id: UUID | None
    """The id of this call; made up where absent."""


CONFIG_KEYS = frozenset(RunnableConfig.__annotations__)
COPIED_KEYS = frozenset({"tags", "metadata", "callbacks", "configurable"})
Configs: TypeAlias = RunnableConfig | Sequence[RunnableConfig] | None

var_child_runnable_config: ContextVar[RunnableConfig | None] = ContextVar(
    "var_child_runnable_config", default=None
)
"""The config that a runnable called inside another one's function inherits."""


def _copied(key: str, value: object) -> object:
    if key in COPIED_KEYS and isinstance(value, list | dict):
        return value.copy()
    return value


@lru_cache(maxsize=256)
def _warn_misspelt(key: str) -> None:
    """Warn of a key that is nearly a config key: as any other key it would be a value for `configurable`."""
    near = suggestion(str(key), CONFIG_KEYS)
    if near:
        warnings.warn(
            f"{key!r} is no key of a config{near}", UserWarning, stacklevel=callers_level()
        )


def split_config(config: RunnableConfig | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part what is said under config keys from what is said under others, which is for `configurable`."""
    known: dict[str, Any] = {}
    loose: dict[str, Any] = {}
    if type(config) is not dict and config is not None and not isinstance(config, Mapping):
        raise UsageError(f"a config is a dict such as {{'tags': [...]}}, not {config!r}")
    for key, value in (config or {}).items():
        if value is None:
            continue
        if key in CONFIG_KEYS:
            known[key] = value
        else:
            loose[key] = value
            _warn_misspelt(key)
    return known, loose


def ensure_config(config: RunnableConfig | None = None) -> RunnableConfig:
    """Return a config with every default filled in, over the one inherited from an enclosing call.

    A key that is no config key is a value for `configurable`, as in LangChain.
    """
    filled: dict[str, Any] = {
        "tags": [],
        "metadata": {},
        "callbacks": None,
        "recursion_limit": DEFAULT_RECURSION_LIMIT,
        "configurable": {},
    }
    for source in (var_child_runnable_config.get(), config):
        known, loose = split_config(source)
        filled |= {key: _copied(key, value) for key, value in known.items()}
        if loose:
            filled["configurable"] = {**filled["configurable"], **loose}
    check_config(filled)
    return cast("RunnableConfig", filled)


def check_config(config: dict[str, Any]) -> None:
    """Refuse what cannot work later: a limit that is no number or below one, tags that are no list."""
    for key, value in config.items():
        check = CHECKS.get(key)
        if check is not None and value is not None:
            check(key, value)


def _check_limit(key: str, limit: object) -> None:
    if not isinstance(limit, int) or limit < 1:
        raise UsageError(f"{key} must be a whole number of at least 1, not {limit!r}")


def _check_tags(key: str, tags: object) -> None:
    if isinstance(tags, str):
        raise UsageError(f"tags must be a list of strings, not {tags!r}: write [{tags!r}]")
    if not isinstance(tags, list | tuple | set):
        raise UsageError(f"tags must be a list of strings, not {tags!r}")


def _check_mapping(key: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise UsageError(f"{key} must be a dict, not {value!r}")


def _check_run_id(key: str, run_id: object) -> None:
    if isinstance(run_id, UUID):
        return
    try:
        UUID(str(run_id))
    except ValueError:
        raise UsageError(f"run_id must be a uuid.UUID, not {run_id!r:.80}") from None


def _check_callbacks(key: str, callbacks: object) -> None:
    if isinstance(callbacks, BaseCallbackHandler):
        name = type(callbacks).__name__
        raise UsageError(f"callbacks must be a list of handlers: write [{name}(...)]")
    if not isinstance(callbacks, (list, tuple)) and not hasattr(callbacks, "handlers"):
        raise UsageError(
            f"callbacks must be a list of handlers or a manager, not {callbacks!r:.80}"
        )
    for handler in callbacks if isinstance(callbacks, list) else ():
        # A proxy that answers like a handler is welcome; a class, or a plain value, is a mistake.
        if isinstance(handler, BaseCallbackHandler):
            continue
        if isinstance(handler, type) or not hasattr(handler, "on_chain_start"):
            raise UsageError(
                f"callbacks must hold instances of BaseCallbackHandler, not {handler!r}"
            )


CHECKS: Final[dict[str, Callable[[str, Any], None]]] = {
    "recursion_limit": _check_limit,
    "max_concurrency": _check_limit,
    "tags": _check_tags,
    "metadata": _check_mapping,
    "configurable": _check_mapping,
    "run_id": _check_run_id,
    "callbacks": _check_callbacks,
}


def merge_callbacks(first: Callbacks, second: Callbacks) -> Callbacks:
    """Join two `callbacks` values, lists or managers, the second's handlers after the first's."""
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, list) and isinstance(second, list):
        return first + [handler for handler in second if handler not in first]
    if isinstance(first, BaseCallbackManager) and isinstance(second, BaseCallbackManager):
        return first.merge(second)
    manager = (
        first if isinstance(first, BaseCallbackManager) else cast("BaseCallbackManager", second)
    ).copy()
    handlers = second if isinstance(first, BaseCallbackManager) else first
    for handler in cast("list[BaseCallbackHandler]", handlers):
        manager.add_handler(handler, inherit=True)
    return manager


def merge_configs(*configs: RunnableConfig | None) -> RunnableConfig:
    """Merge configs: tags add up, metadata and configurable overlay, callbacks join, the rest: last one wins."""
    merged: dict[str, Any] = {}
    for config in configs:
        for key, value in (config or {}).items():
            if key in ("metadata", "configurable"):
                merged[key] = {**merged.get(key, {}), **(value or {})}  # type: ignore[dict-item]
            elif key == "tags":
                known: list[str] = merged.get("tags") or []
                added = cast("list[str]", value or [])
                merged[key] = [*known, *(tag for tag in added if tag not in known)]
            elif key == "callbacks":
                merged[key] = merge_callbacks(merged.get(key), cast("Callbacks", value))
            elif key == "recursion_limit":
                if value != DEFAULT_RECURSION_LIMIT or key not in merged:
                    merged[key] = value
            elif value is not None:
                merged[key] = value
    return cast("RunnableConfig", merged)


def patch_config(
    config: RunnableConfig | None,
    *,
    callbacks: BaseCallbackManager | None = None,
    recursion_limit: int | None = None,
    max_concurrency: int | None = None,
    run_name: str | None = None,
    configurable: dict[str, Any] | None = None,
) -> RunnableConfig:
    """Copy a config with some values replaced; new callbacks drop the name and id, which belong to one run."""
    patched = ensure_config(config)
    if callbacks is not None:
        patched["callbacks"] = callbacks
        patched.pop("run_name", None)
        patched.pop("run_id", None)
    if recursion_limit is not None:
        patched["recursion_limit"] = recursion_limit
    if max_concurrency is not None:
        patched["max_concurrency"] = max_concurrency
    if run_name is not None:
        patched["run_name"] = run_name
    if configurable is not None:
        patched["configurable"] = {**patched.get("configurable", {}), **configurable}
    return patched


def get_config_list(config: Configs, length: int) -> list[RunnableConfig]:
    """Return one config for each of `length` inputs; a single `run_id` serves the first input only."""
    if length < 0:
        raise UsageError(f"length must be at least 0, not {length}")
    if config is not None and not isinstance(config, dict):
        if len(config) != length:
            raise UsageError(
                f"one config per input is needed: {length} inputs, {len(config)} configs"
            )
        return [ensure_config(one) for one in config]
    if length > 1 and config and config.get("run_id") is not None:
        rest = cast(
            "RunnableConfig", {key: value for key, value in config.items() if key != "run_id"}
        )
        return [ensure_config(config), *(ensure_config(rest) for _ in range(length - 1))]
    return [ensure_config(config) for _ in range(length)]


@contextmanager
def set_config_context(config: RunnableConfig) -> Generator[None, None, None]:
    """Let runnables called inside the block inherit this config."""
    token = var_child_runnable_config.set(config)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


publish(
    "foldline.runnables.config",
    RunnableConfig,
    ensure_config,
    get_config_list,
    merge_configs,
    patch_config,
)
