"""`AgentExecutor`: a chain that runs an agent and its tools until the agent has an answer.

    while _should_continue:
        _take_next_step = _consume_next_step(_iter_next_step)     plan, then perform each action
        finished, or a tool with `return_direct`?  -> _return
    stopped by a limit -> _return the agent's answer for that case

The steps have one body for sync and async calls. LangChain's sync and async methods call these bodies, and a subclass
may override them.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, suppress
from typing import Any, Self

from pydantic import Field, model_validator

from foldline._config import RunnableConfig
from foldline._io import OutOfTime
from foldline._io.drive import drive, drive_each
from foldline._run import Run
from foldline.agents.classic.executor_steps import (
    ExceptionTool,
    ExecutorState,
    ExecutorSteps,
    FlowEvent,
    InvalidTool,
    ToolMap,
    Values,
)
from foldline.agents.classic.plans import (
    BaseMultiActionAgent,
    BaseSingleActionAgent,
    RunnableAgent,
    RunnableMultiActionAgent,
    Steps,
)
from foldline.callbacks.base import Callbacks
from foldline.exceptions import UsageError
from foldline.outputs.agent import AgentAction, AgentFinish, AgentStep
from foldline.runnables.base import Runnable
from foldline.runnables.utils import AddableDict
from foldline.tools.base import BaseTool
from foldline.utils._options import check_field_names
from foldline.utils._short_repr import short_repr
from foldline.utils.input import get_color_mapping

__all__ = [
    "AgentExecutor",
    "AgentExecutorIterator",
    "ExceptionTool",
    "InvalidTool",
]

NextStep = list[FlowEvent]
STREAM_ONLY_KEYS = frozenset({"actions", "steps", "messages", "intermediate_step"})
"""Keys that a stream yields in addition to the outputs."""


class AgentExecutor(ExecutorSteps):
    """Runs an agent with its tools until it has an answer."""

    return_intermediate_steps: bool = False
    """Whether the outputs include the steps."""
    max_iterations: int | None = Field(default=15, ge=0)
    """Steps after which it stops."""
    early_stopping_method: str = "force"
    """The answer in that case: "force" a fixed sentence, "generate" the model's answer to the steps so far."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_options(cls, values: object) -> object:
        check_field_names(cls, values)
        return values

    @model_validator(mode="after")
    def _prepare(self) -> Self:
        if isinstance(self.agent, Runnable):
            self.__dict__["agent"] = planner_of(self.agent)
        elif not isinstance(self.agent, BaseSingleActionAgent | BaseMultiActionAgent):
            raise ValueError(
                f"agent must be a runnable or a planning agent, not {type(self.agent).__name__}"
            )
        planner: Any = self.agent
        allowed = planner.get_allowed_tools()
        if allowed is not None and set(allowed) != {tool.name for tool in self.tools}:
            raise ValueError(
                f"the agent may use {sorted(allowed)} and has {sorted(tool.name for tool in self.tools)}"
            )
        return self

    @classmethod
    def from_agent_and_tools(
        cls, agent: object, tools: Sequence[BaseTool], callbacks: Callbacks = None, **kwargs: object
    ) -> AgentExecutor:
        """Make an executor."""
        return cls(agent=agent, tools=tools, callbacks=callbacks, **kwargs)

    @property
    def input_keys(self) -> list[str]:
        """The inputs the agent needs."""
        return list(self.agent.input_keys)

    @property
    def output_keys(self) -> list[str]:
        """The outputs of the agent."""
        keys = list(self.agent.return_values)
        return [*keys, "intermediate_steps"] if self.return_intermediate_steps else keys

    @property
    def _action_agent(self) -> object:
        return self.agent

    def lookup_tool(self, name: str) -> BaseTool:
        """Return a tool by its name."""
        return {tool.name: tool for tool in self.tools}[name]

    # -- the loop

    async def _work(
        self, inputs: Values, run: Run, *, stream: bool
    ) -> AsyncGenerator[Values, None]:
        tools = {tool.name: tool for tool in self.tools}
        colors = get_color_mapping(list(tools), excluded_colors=["green", "red"])
        state = ExecutorState(tools, colors, inputs, run)
        try:
            async with aclosing(self._loop(state, stream=stream)) as pieces:
                async for piece in pieces:
                    yield piece
        except BaseException as error:
            with suppress(AttributeError, TypeError):  # the error carries the steps so far
                error.intermediate_steps = state.so_far()  # type: ignore[attr-defined]
            raise

    async def _loop(self, state: ExecutorState, *, stream: bool) -> AsyncGenerator[Values, None]:
        by_step = bool(state.run.kwargs.get("intermediate_steps_only"))
        iterations, elapsed, start = 0, 0.0, time.monotonic()
        while self._should_continue(iterations, elapsed):
            events: NextStep = []
            try:
                async with aclosing(self._next_events(state, elapsed)) as step_events:
                    async for event in step_events:
                        events.append(event)
                        if stream and not by_step and not isinstance(event, AgentFinish):
                            yield _stream_piece(event)
            except OutOfTime:
                state.steps = state.so_far()
                break
            outcome = self._consume_next_step(events)
            state.performed = {}
            if isinstance(outcome, AgentFinish):
                yield await self._finish(outcome, state, stream=stream)
                return
            state.steps.extend(outcome)
            if by_step:
                yield AddableDict(intermediate_step=outcome)
            direct_answer = self._get_tool_return(outcome[0]) if len(outcome) == 1 else None
            if direct_answer is not None:
                yield await self._finish(direct_answer, state, stream=stream)
                return
            iterations, elapsed = iterations + 1, time.monotonic() - start
        stop_answer = await self.agent._stop_answer(
            self.early_stopping_method, state.steps, state.run, state.inputs
        )
        yield await self._finish(stop_answer, state, stream=stream)

    def _should_continue(self, iterations: int, time_elapsed: float) -> bool:
        if self.max_iterations is not None and iterations >= self.max_iterations:
            return False
        return self.max_execution_time is None or time_elapsed < self.max_execution_time

    def _consume_next_step(self, values: NextStep) -> AgentFinish | Steps:
        if not values:
            raise UsageError("the agent planned nothing: neither an action nor an AgentFinish")
        finish = next((value for value in values if isinstance(value, AgentFinish)), None)
        if finish is not None:
            if len(values) > 1:
                raise UsageError(
                    f"a step of the agent gave an AgentFinish beside {len(values) - 1} other values, which would be "
                    "lost: let the step give the AgentFinish alone, or give it in the next step"
                )
            return finish
        return [(step.action, step.observation) for step in values if isinstance(step, AgentStep)]

    def _get_tool_return(self, next_step_output: tuple[AgentAction, Any]) -> AgentFinish | None:
        action, observation = next_step_output
        tools = {tool.name: tool for tool in self.tools}
        if action.tool not in tools or not tools[action.tool].return_direct:
            return None
        key = self.agent.return_values[0] if self.agent.return_values else "output"
        return AgentFinish({key: observation}, "")

    async def _finish(self, output: AgentFinish, state: ExecutorState, *, stream: bool) -> Values:
        override = self._find_override("_return", state.run)
        if override is not None:
            manager = state.run.run_manager("chain")
            outputs: Values = await state.run.io.call(override, output, state.steps, manager)
            return outputs
        await state.run.dispatch("on_agent_finish", output, color="green")
        final = self._return(output, state.steps)
        return AddableDict(**final, messages=list(output.messages)) if stream else final

    def _find_override(self, name: str, run: Run) -> Callable[..., Any] | None:
        preferred = name if run.io.blocking else f"_a{name[1:]}"
        for candidate in (preferred, name):
            if getattr(type(self), candidate) is not getattr(AgentExecutor, candidate):
                method: Callable[..., Any] = getattr(self, candidate)
                return method
        return None

    def _saved_outputs(self, outputs: Values) -> Values:
        return {key: value for key, value in outputs.items() if key not in STREAM_ONLY_KEYS}

    # -- the steps under LangChain's names

    def _iter_next_step(
        self, name_to_tool_map: ToolMap, color_mapping: dict[str, str], inputs: Values,
        intermediate_steps: Steps, run_manager: object = None,
    ) -> Iterator[FlowEvent]:  # fmt: skip
        run = Run.blocking(_config(run_manager))
        state = ExecutorState(name_to_tool_map, color_mapping, inputs, run, intermediate_steps)
        return drive_each(self._step_events(state))

    def _aiter_next_step(
        self, name_to_tool_map: ToolMap, color_mapping: dict[str, str], inputs: Values,
        intermediate_steps: Steps, run_manager: object = None,
    ) -> AsyncIterator[FlowEvent]:  # fmt: skip
        run = Run.asynchronous(_config(run_manager))
        return self._step_events(
            ExecutorState(name_to_tool_map, color_mapping, inputs, run, intermediate_steps)
        )

    def _take_next_step(
        self, name_to_tool_map: ToolMap, color_mapping: dict[str, str], inputs: Values,
        intermediate_steps: Steps, run_manager: object = None,
    ) -> AgentFinish | Steps:  # fmt: skip
        arguments = (name_to_tool_map, color_mapping, inputs, intermediate_steps, run_manager)
        return self._consume_next_step(list(self._iter_next_step(*arguments)))

    async def _atake_next_step(
        self, name_to_tool_map: ToolMap, color_mapping: dict[str, str], inputs: Values,
        intermediate_steps: Steps, run_manager: object = None,
    ) -> AgentFinish | Steps:  # fmt: skip
        arguments = (name_to_tool_map, color_mapping, inputs, intermediate_steps, run_manager)
        return self._consume_next_step([event async for event in self._aiter_next_step(*arguments)])

    def _perform_agent_action(
        self, name_to_tool_map: ToolMap, color_mapping: dict[str, str], agent_action: AgentAction,
        run_manager: object = None,
    ) -> AgentStep:  # fmt: skip
        run = Run.blocking(_config(run_manager))
        return drive(
            self._perform(ExecutorState(name_to_tool_map, color_mapping, {}, run), agent_action)
        )

    async def _aperform_agent_action(
        self, name_to_tool_map: ToolMap, color_mapping: dict[str, str], agent_action: AgentAction,
        run_manager: object = None,
    ) -> AgentStep:  # fmt: skip
        run = Run.asynchronous(_config(run_manager))
        return await self._perform(
            ExecutorState(name_to_tool_map, color_mapping, {}, run), agent_action
        )

    def _return(
        self, output: AgentFinish, intermediate_steps: Steps, run_manager: object = None
    ) -> Values:
        extra = {"intermediate_steps": intermediate_steps} if self.return_intermediate_steps else {}
        return {**output.return_values, **extra}

    async def _areturn(
        self, output: AgentFinish, intermediate_steps: Steps, run_manager: object = None
    ) -> Values:
        return self._return(output, intermediate_steps, run_manager)

    def iter(
        self,
        inputs: object,
        callbacks: Callbacks = None,
        *,
        include_run_info: bool = False,
        async_: bool = False,
    ) -> AgentExecutorIterator:
        """Return an iterator over the steps, sync and async; the last item holds the outputs."""
        return AgentExecutorIterator(self, inputs, callbacks, include_run_info=include_run_info)


class AgentExecutorIterator:
    """The steps of a run, one at a time, then its outputs."""

    __repr__ = short_repr

    def __init__(
        self,
        agent_executor: AgentExecutor,
        inputs: Any,  # noqa: ANN401  a dict, or the text of the only input
        callbacks: Callbacks = None,
        *,
        include_run_info: bool = False,
    ) -> None:
        """Set the executor and its inputs; nothing runs before the first iteration."""
        self.agent_executor = agent_executor
        self.inputs = inputs
        self._config: Any = {"callbacks": callbacks} if callbacks else None
        self._options = {"intermediate_steps_only": True, "include_run_info": include_run_info}

    def __iter__(self) -> Iterator[Values]:
        return self.agent_executor.stream(self.inputs, self._config, **self._options)

    def __aiter__(self) -> AsyncIterator[Values]:
        return self.agent_executor.astream(self.inputs, self._config, **self._options)


def _stream_piece(event: AgentAction | AgentStep) -> Values:
    if isinstance(event, AgentAction):
        return AddableDict(actions=[event], messages=list(event.messages))
    return AddableDict(steps=[event], messages=list(event.messages))


def _config(run_manager: Any) -> RunnableConfig | None:  # noqa: ANN401  a sync or async run manager, foldline's or LangChain's
    return {"callbacks": run_manager.get_child()} if run_manager is not None else None


def planner_of(
    runnable: Runnable[Any, Any], **fields: object
) -> RunnableAgent | RunnableMultiActionAgent:
    """Return a planning agent for a runnable, for one action at a time or for several."""
    cls = RunnableMultiActionAgent if _returns_lists(runnable) else RunnableAgent
    return cls(runnable=runnable, **fields)


def _returns_lists(runnable: Runnable[Any, Any]) -> bool:
    """Whether a runnable's output type is a list of actions."""
    last = getattr(runnable, "last", runnable)
    try:
        return "list" in str(last.OutputType)
    except (TypeError, AttributeError):
        return False
