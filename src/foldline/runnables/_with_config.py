"""LangChain's `_call_with_config` and its kin, for authors who override `invoke` or `transform`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foldline._config import RunnableConfig
    from foldline.runnables.base import Runnable


def _call_with_config(
    self: Runnable[Any, Any],
    func: Callable[..., Any],
    input_: object,
    config: RunnableConfig | None,
    run_type: str | None = None,
    serialized: dict[str, Any] | None = None,
    **kwargs: object,
) -> object:
    """Call a function as the traced run of this runnable."""
    return _as_lambda(self, func).invoke(input_, config, **kwargs)


async def _acall_with_config(
    self: Runnable[Any, Any],
    func: Callable[..., Any],
    input_: object,
    config: RunnableConfig | None,
    run_type: str | None = None,
    serialized: dict[str, Any] | None = None,
    **kwargs: object,
) -> object:
    """Call a function as the traced run of this runnable."""
    return await _as_lambda(self, func).ainvoke(input_, config, **kwargs)


def _transform_stream_with_config(
    self: Runnable[Any, Any],
    inputs: Iterator[Any],
    transformer: Callable[..., Any],
    config: RunnableConfig | None,
    run_type: str | None = None,
    **kwargs: object,
) -> Iterator[Any]:
    """Transform a stream as the traced run of this runnable."""
    outputs: Iterator[Any] = _as_generator(self, transformer).transform(inputs, config, **kwargs)
    return outputs


def _atransform_stream_with_config(
    self: Runnable[Any, Any],
    inputs: AsyncIterator[Any],
    transformer: Callable[..., Any],
    config: RunnableConfig | None,
    run_type: str | None = None,
    **kwargs: object,
) -> AsyncIterator[Any]:
    """Transform a stream as the traced run of this runnable."""
    outputs: AsyncIterator[Any] = _as_generator(self, transformer).atransform(
        inputs, config, **kwargs
    )
    return outputs


def _as_lambda(runnable: Runnable[Any, Any], func: Callable[..., Any]) -> Runnable[Any, Any]:
    from foldline.runnables.lambda_ import RunnableLambda  # noqa: PLC0415  a cycle

    return RunnableLambda(func, name=runnable.get_name())


def _as_generator(
    runnable: Runnable[Any, Any], transformer: Callable[..., Any]
) -> Runnable[Any, Any]:
    from foldline.runnables.generator import RunnableGenerator  # noqa: PLC0415  a cycle

    return RunnableGenerator(transformer, name=runnable.get_name())
