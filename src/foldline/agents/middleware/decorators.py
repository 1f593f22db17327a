"""Decorators that make a middleware from a function: `@before_model`, `@wrap_model_call`, `@dynamic_prompt`, …."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal

from foldline._run import Run
from foldline.agents.middleware.base import (
    JUMPS_ATTRIBUTE,
    AgentMiddleware,
    ModelHandler,
    hook_config,
)
from foldline.agents.requests import ModelRequest, ModelResponse
from foldline.agents.state import AgentState, JumpTo
from foldline.messages import SystemMessage
from foldline.utils._options import check_options

__all__ = [
    "after_agent",
    "after_model",
    "before_agent",
    "before_model",
    "dynamic_prompt",
    "hook_config",
    "wrap_model_call",
    "wrap_tool_call",
]

Function = Callable[..., Any]
Kind = Literal[
    "before_agent",
    "before_model",
    "after_model",
    "after_agent",
    "wrap_model_call",
    "wrap_tool_call",
]


def _build(
    function: Function,
    kind: Kind,
    name: str | None,
    tools: Sequence[Any],
    schema: type | None,
    declare: Callable[[Function], Function],
) -> AgentMiddleware:
    is_async = inspect.iscoroutinefunction(function)
    method = f"a{kind}" if is_async else kind

    def call(self: object, first: object, second: object) -> object:
        return function(first, second)

    async def acall(self: object, first: object, second: object) -> object:
        return await function(first, second)

    implementation: Function = acall if is_async else call
    setattr(implementation, JUMPS_ATTRIBUTE, getattr(function, JUMPS_ATTRIBUTE, ()))
    label = str(name or getattr(function, "__name__", kind))
    namespace = {
        method: declare(implementation),
        "tools": tuple(tools),
        "state_schema": schema or AgentState,
        "__doc__": function.__doc__,
    }
    cls: type[AgentMiddleware] = type(label, (AgentMiddleware,), namespace)
    return cls()


def _hook_decorator(kind: Kind) -> Callable[..., Any]:
    def decorate(
        func: Function | None = None,
        *,
        state_schema: type | None = None,
        tools: list[Any] | None = None,
        can_jump_to: list[JumpTo] | None = None,
        name: str | None = None,
    ) -> Any:  # noqa: ANN401  a middleware, or a decorator that makes one
        def build(function: Function) -> AgentMiddleware:
            return _build(function, kind, name, tools or (), state_schema, declare)

        declare = hook_config(can_jump_to=can_jump_to)
        return build if func is None else build(func)

    return _named(decorate, kind)


def _wrap_decorator(kind: Kind) -> Callable[..., Any]:
    def decorate(
        func: Function | None = None,
        *,
        state_schema: type | None = None,
        tools: list[Any] | None = None,
        name: str | None = None,
    ) -> Any:  # noqa: ANN401  a middleware, or a decorator that makes one
        def build(function: Function) -> AgentMiddleware:
            return _build(function, kind, name, tools or (), state_schema, hook_config())

        return build if func is None else build(func)

    return _named(decorate, kind)


def _named(decorate: Callable[..., Any], kind: Kind) -> Callable[..., Any]:
    decorate.__name__ = kind
    decorate.__doc__ = f"Make a middleware from a function, which is its `{kind}`."
    return check_options(skip=("can_jump_to",))(decorate)


before_agent = _hook_decorator("before_agent")
before_model = _hook_decorator("before_model")
after_model = _hook_decorator("after_model")
after_agent = _hook_decorator("after_agent")
wrap_model_call = _wrap_decorator("wrap_model_call")
wrap_tool_call = _wrap_decorator("wrap_tool_call")


class _DynamicPrompt(AgentMiddleware):
    def __init__(self, function: Function) -> None:
        self._function = function

    @property
    def name(self) -> str:
        return getattr(self._function, "__name__", "dynamic_prompt")

    async def _around_model(
        self, request: ModelRequest, handler: ModelHandler, run: Run
    ) -> ModelResponse:
        prompt = await run.io.call(self._function, request)
        message = prompt if isinstance(prompt, SystemMessage) else SystemMessage(prompt)
        return await handler(request.override(system_message=message))


def dynamic_prompt(func: Function | None = None) -> Any:  # noqa: ANN401  a middleware, or a decorator that makes one
    """Make a middleware from a function that returns the system prompt for a request."""
    return _DynamicPrompt if func is None else _DynamicPrompt(func)
