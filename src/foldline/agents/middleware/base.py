"""`AgentMiddleware`: steps before and after an agent's model, and code around its model and tool calls.

A user's subclass implements LangChain's methods, sync (`before_model`, `wrap_model_call`, …), async (`abefore_model`,
…) or both. foldline's middleware implements one body for sync and async calls (`_before_model`, `_around_model`, …),
which waits only through `run.io`. The implementation nearest in the MRO is used; `hook_of` and `wrap_of` find it once
per agent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Literal, Self, TypeVar, get_args

from foldline._io import IO
from foldline._io.drive import drive
from foldline._run import Run
from foldline.agents.requests import ModelRequest, ModelResponse, ToolCallRequest
from foldline.agents.runtime import Runtime
from foldline.agents.state import AgentState, JumpTo
from foldline.exceptions import UsageError
from foldline.messages import AIMessage, ToolMessage
from foldline.utils._short_repr import short_repr

__all__ = [
    "AgentMiddleware",
    "hook_config",
]

State = dict[str, Any]
Update = dict[str, Any] | None
HookName = Literal["before_agent", "before_model", "after_model", "after_agent"]
Hook = Callable[[State, Runtime[Any], Run], Awaitable[Update]]
Handler = Callable[[Any], Awaitable[Any]]
ModelHandler = Callable[[ModelRequest], Awaitable[ModelResponse]]
Wrap = Callable[[Any, Handler, Run], Awaitable[Any]]
F = TypeVar("F", bound=Callable[..., Any])
JUMPS_ATTRIBUTE = "__can_jump_to__"
"""Holds the jumps that a hook declares; LangChain's name, so that hooks of both libraries are read."""


def hook_config(*, can_jump_to: Sequence[JumpTo] | None = None) -> Callable[[F], F]:
    """Declare the steps that a hook may jump to: "tools", "model" or "end". Another jump is an error.

    ```python
    from foldline.agents.middleware import AgentMiddleware, hook_config

    class Stop(AgentMiddleware):
        @hook_config(can_jump_to=["end"])
        def before_model(self, state, runtime):
            return {"jump_to": "end"}
    ```
    """
    known = get_args(JumpTo)
    places = list(can_jump_to) if isinstance(can_jump_to, list | tuple) else [can_jump_to]
    is_list = can_jump_to is None or isinstance(can_jump_to, list | tuple)
    if not is_list or any(place not in (*known, None) for place in places):
        raise UsageError(
            f"can_jump_to={can_jump_to!r}: write a list of some of {', '.join(map(repr, known))}"
        )

    def declare(function: F) -> F:
        if can_jump_to is not None:
            setattr(function, JUMPS_ATTRIBUTE, places)
        return function

    return declare


def jumps_of(middleware: AgentMiddleware, name: HookName) -> frozenset[str]:
    """Return the steps that the forms of a hook, sync, async and inherited, declare to jump to."""
    declared: set[str] = set()
    for ancestor in type(middleware).__mro__:
        for form in (name, f"a{name}", f"_{name}"):
            declared.update(getattr(ancestor.__dict__.get(form), JUMPS_ATTRIBUTE, None) or ())
    return frozenset(declared)


class AgentMiddleware:
    """Changes how an agent calls its model and tools; subclass it and implement some of its methods.

    ```python
    from foldline.agents.middleware import AgentMiddleware

    class CountCalls(AgentMiddleware):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def before_model(self, state, runtime):
            self.calls += 1
    ```
    """

    __repr__ = short_repr

    state_schema: type = AgentState
    """Keys that this middleware adds to the agent's state."""
    tools: Sequence[Any] = ()
    """Tools that this middleware adds to the agent."""
    gated_tools: frozenset[str] = frozenset()
    """Tools that must not start before this middleware has seen the complete message; the agent must have them."""
    named_tools: frozenset[str] = frozenset()
    """Other tools that this middleware refers to; the agent must have them."""
    _is_instant: ClassVar[bool] = False

    def __class_getitem__(cls, _: object) -> type[Self]:
        """Return the class: `AgentMiddleware[State, Context]` is for type checkers."""
        return cls

    @property
    def name(self) -> str:
        """The name of this middleware's steps."""
        return type(self).__name__

    # -- one body for sync and async calls

    async def _before_agent(self, state: State, runtime: Runtime[Any], run: Run) -> Update:
        return None

    async def _before_model(self, state: State, runtime: Runtime[Any], run: Run) -> Update:
        return None

    async def _after_model(self, state: State, runtime: Runtime[Any], run: Run) -> Update:
        return None

    async def _after_agent(self, state: State, runtime: Runtime[Any], run: Run) -> Update:
        return None

    async def _around_model(
        self, request: ModelRequest, handler: ModelHandler, run: Run
    ) -> ModelResponse:
        return await handler(request)

    async def _around_tool(self, request: ToolCallRequest, handler: Handler, run: Run) -> object:
        return await handler(request)

    # -- LangChain's methods

    def before_agent(self, state: State, runtime: Runtime[Any]) -> Update:
        """Before the first step of a run; may return an update of the state."""
        return drive(self._before_agent(state, runtime, Run.blocking()))

    async def abefore_agent(self, state: State, runtime: Runtime[Any]) -> Update:
        """Before the first step of a run; may return an update of the state."""
        return await self._before_agent(state, runtime, Run.asynchronous())

    def before_model(self, state: State, runtime: Runtime[Any]) -> Update:
        """Before each model call; may return an update of the state."""
        return drive(self._before_model(state, runtime, Run.blocking()))

    async def abefore_model(self, state: State, runtime: Runtime[Any]) -> Update:
        """Before each model call; may return an update of the state."""
        return await self._before_model(state, runtime, Run.asynchronous())

    def after_model(self, state: State, runtime: Runtime[Any]) -> Update:
        """After each model call; may return an update of the state."""
        return drive(self._after_model(state, runtime, Run.blocking()))

    async def aafter_model(self, state: State, runtime: Runtime[Any]) -> Update:
        """After each model call; may return an update of the state."""
        return await self._after_model(state, runtime, Run.asynchronous())

    def after_agent(self, state: State, runtime: Runtime[Any]) -> Update:
        """After the last step of a run; may return an update of the state."""
        return drive(self._after_agent(state, runtime, Run.blocking()))

    async def aafter_agent(self, state: State, runtime: Runtime[Any]) -> Update:
        """After the last step of a run; may return an update of the state."""
        return await self._after_agent(state, runtime, Run.asynchronous())

    def wrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]
    ) -> ModelResponse | AIMessage:
        """Around each model call: call the handler never, once or several times, and return a response."""
        answer: ModelResponse = drive(
            self._around_model(request, _async_handler(handler), Run.blocking())
        )
        return answer

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse | AIMessage:
        """Around each model call: call the handler never, once or several times, and return a response."""
        answer: ModelResponse = await self._around_model(request, handler, Run.asynchronous())
        return answer

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> ToolMessage | Any:  # noqa: ANN401  a message or a Command, which is of a layer above
        """Around each tool call: call the handler never, once or several times, and return a message."""
        return drive(self._around_tool(request, _async_handler(handler), Run.blocking()))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> ToolMessage | Any:  # noqa: ANN401  a message or a Command, which is of a layer above
        """Around each tool call: call the handler never, once or several times, and return a message."""
        return await self._around_tool(request, handler, Run.asynchronous())


def _async_handler(handler: Callable[[Any], Any]) -> Handler:
    async def call(request: object) -> object:
        return handler(request)

    return call


# -- finding the implementation


def _mro_index(cls: type, name: str) -> int | None:
    """Return the MRO index of the class that defines a method; None if only `AgentMiddleware` does."""
    for index, ancestor in enumerate(cls.__mro__):
        if ancestor is AgentMiddleware:
            return None
        if name in ancestor.__dict__:
            return index
    return None


def _select_implementation(
    middleware: AgentMiddleware, public: str, body: str
) -> tuple[bool, bool, bool]:
    """Return whether to use the body, the sync method, and the async method."""
    cls = type(middleware)
    body_index = _mro_index(cls, body)
    sync_index, async_index = _mro_index(cls, public), _mro_index(cls, f"a{public}")
    nearest = min((index for index in (sync_index, async_index) if index is not None), default=None)
    if body_index is not None and (nearest is None or body_index < nearest):
        return True, False, False
    return False, sync_index is not None, async_index is not None


def hook_of(middleware: AgentMiddleware, name: HookName) -> Hook | None:
    """Return a hook of a middleware as one body for sync and async calls; None if it has none."""
    has_body, has_sync, has_async = _select_implementation(middleware, name, f"_{name}")
    if has_body:
        hook: Hook = getattr(middleware, f"_{name}")
        return hook
    if not (has_sync or has_async):
        return None

    async def call(state: State, runtime: Runtime[Any], run: Run) -> Update:
        use_async = has_async and (not run.io.blocking or not has_sync)
        method = getattr(middleware, f"a{name}" if use_async else name)
        with run.current():
            update: Update = await run.io.call(method, state, runtime)
        return update

    return call


def wrap_of(middleware: AgentMiddleware, name: Literal["model", "tool"]) -> Wrap | None:
    """Return a wrapper of a middleware as one body for sync and async calls; None if it has none."""
    public = f"wrap_{name}_call"
    has_body, has_sync, has_async = _select_implementation(middleware, public, f"_around_{name}")
    if has_body:
        wrap: Wrap = getattr(middleware, f"_around_{name}")
        return wrap
    return wrap_of_functions(
        getattr(middleware, public) if has_sync else None,
        getattr(middleware, f"a{public}") if has_async else None,
    )


def wrap_of_functions(
    function: Callable[..., Any] | None, async_function: Callable[..., Any] | None
) -> Wrap | None:
    """Return a sync and an async wrapper as one body for both modes; None if there is neither."""
    if function is None and async_function is None:
        return None

    async def call(request: object, handler: Handler, run: Run) -> object:
        if async_function is not None and (not run.io.blocking or function is None):
            with run.current():
                return await run.io.call(async_function, request, handler)
        assert function is not None
        async with _blocking_handler(run.io, handler) as sync_handler:
            with run.current():
                return await run.io.call(function, request, sync_handler)

    return call


@asynccontextmanager
async def _blocking_handler(io: IO, handler: Handler) -> AsyncGenerator[Callable[[Any], Any], None]:
    """Yield a sync function that calls an async handler; under an event loop the caller is in a thread."""
    requests: list[Any] = []

    async def answers() -> AsyncGenerator[tuple[Any, Exception | None], None]:
        while True:
            outcome: tuple[Any, Exception | None]
            try:
                outcome = await handler(requests.pop()), None
            except Exception as error:  # noqa: BLE001
                outcome = None, error
            yield outcome

    async with io.iterate(answers()) as items:

        def call(request: object) -> object:
            requests.append(request)
            value, error = next(items)
            if error is not None:
                raise error
            return value

        yield call
