"""`AgentMiddleware`: steps before and after an agent's model, and code around its model and tool calls.

An author writes LangChain's methods, blocking (`before_model`, `wrap_model_call`, …), async (`abefore_model`, …) or
both. Those that come with foldline write one body for both colours (`_before_model`, `_around_model`, …), which waits
only through `run.io`. Whichever is nearest in the class's ancestry is used; `hook_of` and `wrap_of` find it, once
per agent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Literal, Self

from foldline._io import IO
from foldline._io.drive import drive
from foldline._run import Run
from foldline.agents.requests import ModelRequest, ModelResponse, ToolCallRequest
from foldline.agents.runtime import Runtime
from foldline.agents.state import AgentState
from foldline.messages import AIMessage, ToolMessage
from foldline.utils.short_repr import short_repr

__all__ = [
    "AgentMiddleware",
    "Hook",
    "HookName",
    "Wrap",
    "hook_of",
    "wrap_of",
]

State = dict[str, Any]
Update = dict[str, Any] | None
HookName = Literal["before_agent", "before_model", "after_model", "after_agent"]
Hook = Callable[[State, Runtime[Any], Run], Awaitable[Update]]
Handler = Callable[[Any], Awaitable[Any]]
ModelHandler = Callable[[ModelRequest], Awaitable[ModelResponse]]
Wrap = Callable[[Any, Handler, Run], Awaitable[Any]]


class AgentMiddleware:
    """Changes what an agent does around its model and its tools; subclass it and write some of its methods.

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
    """Tools that this middleware brings."""
    gated_tools: frozenset[str] = frozenset()
    """Tools that must not start before this middleware has seen the whole message; the agent must have them."""
    named_tools: frozenset[str] = frozenset()
    """Other tools that this middleware is about; the agent must have them."""
    _is_instant: ClassVar[bool] = False

    def __class_getitem__(cls, _: object) -> type[Self]:
        """Return the class: `AgentMiddleware[State, Context]` is for checkers."""
        return cls

    @property
    def name(self) -> str:
        """The name of this middleware's steps."""
        return type(self).__name__

    # -- one body for both colours

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
            self._around_model(request, _awaited(handler), Run.blocking())
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
        return drive(self._around_tool(request, _awaited(handler), Run.blocking()))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> ToolMessage | Any:  # noqa: ANN401  a message or a Command, which is of a layer above
        """Around each tool call: call the handler never, once or several times, and return a message."""
        return await self._around_tool(request, handler, Run.asynchronous())


def _awaited(handler: Callable[[Any], Any]) -> Handler:
    async def call(request: object) -> object:
        return handler(request)

    return call


# -- finding what an author wrote


def _place(cls: type, name: str) -> int | None:
    """How near the class that defines a method is; None where only `AgentMiddleware` does."""
    for place, ancestor in enumerate(cls.__mro__):
        if ancestor is AgentMiddleware:
            return None
        if name in ancestor.__dict__:
            return place
    return None


def _chosen(middleware: AgentMiddleware, public: str, body: str) -> tuple[bool, bool, bool]:
    """Say which to use: the body, the blocking method, the async one."""
    cls = type(middleware)
    written, blocking, awaited = _place(cls, body), _place(cls, public), _place(cls, f"a{public}")
    nearest = min((one for one in (blocking, awaited) if one is not None), default=None)
    if written is not None and (nearest is None or written < nearest):
        return True, False, False
    return False, blocking is not None, awaited is not None


def hook_of(middleware: AgentMiddleware, name: HookName) -> Hook | None:
    """Return a hook of a middleware as one body for both colours; None where it has none."""
    has_body, blocking, awaited = _chosen(middleware, name, f"_{name}")
    if has_body:
        found: Hook = getattr(middleware, f"_{name}")
        return found
    if not (blocking or awaited):
        return None

    async def call(state: State, runtime: Runtime[Any], run: Run) -> Update:
        use_async = awaited and (not run.io.blocking or not blocking)
        method = getattr(middleware, f"a{name}" if use_async else name)
        with run.current():
            update: Update = await run.io.call(method, state, runtime)
        return update

    return call


def wrap_of(middleware: AgentMiddleware, name: Literal["model", "tool"]) -> Wrap | None:
    """Return a wrapper of a middleware as one body for both colours; None where it has none."""
    public = f"wrap_{name}_call"
    has_body, blocking, awaited = _chosen(middleware, public, f"_around_{name}")
    if has_body:
        found: Wrap = getattr(middleware, f"_around_{name}")
        return found
    if not (blocking or awaited):
        return None

    async def call(request: object, handler: Handler, run: Run) -> object:
        if awaited and (not run.io.blocking or not blocking):
            with run.current():
                return await run.io.call(getattr(middleware, f"a{public}"), request, handler)
        async with _blocking_handler(run.io, handler) as blocked:
            with run.current():
                return await run.io.call(getattr(middleware, public), request, blocked)

    return call


@asynccontextmanager
async def _blocking_handler(io: IO, handler: Handler) -> AsyncGenerator[Callable[[Any], Any], None]:
    """Let a blocking method call an async handler, as often as it likes; under a loop it is in a thread."""
    asked: list[Any] = []

    async def answers() -> AsyncGenerator[tuple[Any, Exception | None], None]:
        while True:
            outcome: tuple[Any, Exception | None]
            try:
                outcome = await handler(asked.pop()), None
            except Exception as error:  # noqa: BLE001
                outcome = None, error
            yield outcome

    async with io.iterate(answers()) as items:

        def call(request: object) -> object:
            asked.append(request)
            value, error = next(items)
            if error is not None:
                raise error
            return value

        yield call
