"""`AgentExecutor`: plans and acts until the agent has an answer; a chain, with memory and callbacks.

    while _should_continue:
        _take_next_step = _consume_next_step(_iter_next_step)     plan, then perform each action
        finished, or a tool that returns direct?  -> _return
    stopped by a limit -> _return what the agent says then

The steps are bodies for both colours; LangChain's names for them, with its `a…` twins, are views of the bodies, and a
subclass that overrides one is obeyed.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, suppress
from typing import Any, Self

from pydantic import model_validator

from foldline._config import RunnableConfig
from foldline._io import OutOfTime
from foldline._io.drive import drive, drive_each
from foldline._run import Run
from foldline.agents.classic.acting import (
    Acting,
    Doing,
    ExceptionTool,
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
from foldline.utils.input import get_color_mapping
from foldline.utils.short_repr import short_repr

__all__ = ["AgentExecutor", "AgentExecutorIterator", "ExceptionTool", "InvalidTool", "planner_of"]

NextStep = list[FlowEvent]
ASIDE = frozenset({"actions", "steps", "messages", "intermediate_step"})
"""What a stream gives besides the outputs."""


class AgentExecutor(Acting):
    """Runs an agent with its tools until it has an answer."""

    return_intermediate_steps: bool = False
    """Whether the outputs hold the steps too."""
    max_iterations: int | None = 15
    """Steps after which it stops."""
    early_stopping_method: str = "force"
    """What it answers then: "force" a fixed sentence, "generate" what the model says to the steps so far."""

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
                f"the agent may use {sorted(allowed)} and was given {sorted(tool.name for tool in self.tools)}"
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
        """The outputs the agent gives."""
        given = list(self.agent.return_values)
        return [*given, "intermediate_steps"] if self.return_intermediate_steps else given

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
        doing = Doing(tools, colors, inputs, run)
        try:
            async with aclosing(self._loop(doing, stream=stream)) as pieces:
                async for piece in pieces:
                    yield piece
        except BaseException as error:
            with suppress(AttributeError, TypeError):  # what was done stays reachable
                error.intermediate_steps = doing.so_far()  # type: ignore[attr-defined]
            raise

    async def _loop(self, doing: Doing, *, stream: bool) -> AsyncGenerator[Values, None]:
        by_step = bool(doing.run.kwargs.get("intermediate_steps_only"))
        iterations, elapsed, begun = 0, 0.0, time.monotonic()
        while self._should_continue(iterations, elapsed):
            seen: NextStep = []
            try:
                async with aclosing(self._next(doing, elapsed)) as said:
                    async for one in said:
                        seen.append(one)
                        if stream and not by_step and not isinstance(one, AgentFinish):
                            yield _piece(one)
            except OutOfTime:
                doing.steps = doing.so_far()
                break
            following = self._consume_next_step(seen)
            doing.performed = {}
            if isinstance(following, AgentFinish):
                yield await self._finished(following, doing, stream=stream)
                return
            doing.steps.extend(following)
            if by_step:
                yield AddableDict(intermediate_step=following)
            direct = self._get_tool_return(following[0]) if len(following) == 1 else None
            if direct is not None:
                yield await self._finished(direct, doing, stream=stream)
                return
            iterations, elapsed = iterations + 1, time.monotonic() - begun
        stopped = await self.agent._stopped(
            self.early_stopping_method, doing.steps, doing.run, doing.inputs
        )
        yield await self._finished(stopped, doing, stream=stream)

    def _should_continue(self, iterations: int, time_elapsed: float) -> bool:
        if self.max_iterations is not None and iterations >= self.max_iterations:
            return False
        return self.max_execution_time is None or time_elapsed < self.max_execution_time

    def _consume_next_step(self, values: NextStep) -> AgentFinish | Steps:
        if not values:
            raise UsageError("the agent planned nothing: neither an action nor an AgentFinish")
        if isinstance(values[-1], AgentFinish):
            return values[-1]
        return [(one.action, one.observation) for one in values if isinstance(one, AgentStep)]

    def _get_tool_return(self, next_step_output: tuple[AgentAction, Any]) -> AgentFinish | None:
        action, observation = next_step_output
        tools = {tool.name: tool for tool in self.tools}
        if action.tool not in tools or not tools[action.tool].return_direct:
            return None
        key = self.agent.return_values[0] if self.agent.return_values else "output"
        return AgentFinish({key: observation}, "")

    async def _finished(self, output: AgentFinish, doing: Doing, *, stream: bool) -> Values:
        override = self._overridden("_return", doing.run)
        if override is not None:
            manager = doing.run.run_manager("chain")
            own: Values = await doing.run.io.call(override, output, doing.steps, manager)
            return own
        await doing.run.dispatch("on_agent_finish", output, color="green")
        final = self._return(output, doing.steps)
        return AddableDict(**final, messages=list(output.messages)) if stream else final

    def _overridden(self, name: str, run: Run) -> Callable[..., Any] | None:
        own = name if run.io.blocking else f"_a{name[1:]}"
        for candidate in (own, name):
            if getattr(type(self), candidate) is not getattr(AgentExecutor, candidate):
                found: Callable[..., Any] = getattr(self, candidate)
                return found
        return None

    async def _save_to_memory(
        self, inputs: Values, outputs: Values, run: Run, *, only_outputs: bool
    ) -> Values:
        kept = {key: one for key, one in outputs.items() if key not in ASIDE}
        return await super()._save_to_memory(inputs, kept, run, only_outputs=only_outputs)

    # -- the steps under LangChain's names

    def _iter_next_step(
        self, name_to_tool_map: ToolMap, color_mapping: dict[str, str], inputs: Values,
        intermediate_steps: Steps, run_manager: object = None,
    ) -> Iterator[FlowEvent]:  # fmt: skip
        run = Run.blocking(_config(run_manager))
        doing = Doing(name_to_tool_map, color_mapping, inputs, run, intermediate_steps)
        return drive_each(self._iterated(doing))

    def _aiter_next_step(
        self, name_to_tool_map: ToolMap, color_mapping: dict[str, str], inputs: Values,
        intermediate_steps: Steps, run_manager: object = None,
    ) -> AsyncIterator[FlowEvent]:  # fmt: skip
        run = Run.asynchronous(_config(run_manager))
        return self._iterated(
            Doing(name_to_tool_map, color_mapping, inputs, run, intermediate_steps)
        )

    def _take_next_step(
        self, name_to_tool_map: ToolMap, color_mapping: dict[str, str], inputs: Values,
        intermediate_steps: Steps, run_manager: object = None,
    ) -> AgentFinish | Steps:  # fmt: skip
        given = (name_to_tool_map, color_mapping, inputs, intermediate_steps, run_manager)
        return self._consume_next_step(list(self._iter_next_step(*given)))

    async def _atake_next_step(
        self, name_to_tool_map: ToolMap, color_mapping: dict[str, str], inputs: Values,
        intermediate_steps: Steps, run_manager: object = None,
    ) -> AgentFinish | Steps:  # fmt: skip
        given = (name_to_tool_map, color_mapping, inputs, intermediate_steps, run_manager)
        return self._consume_next_step([one async for one in self._aiter_next_step(*given)])

    def _perform_agent_action(
        self, name_to_tool_map: ToolMap, color_mapping: dict[str, str], agent_action: AgentAction,
        run_manager: object = None,
    ) -> AgentStep:  # fmt: skip
        run = Run.blocking(_config(run_manager))
        return drive(self._perform(Doing(name_to_tool_map, color_mapping, {}, run), agent_action))

    async def _aperform_agent_action(
        self, name_to_tool_map: ToolMap, color_mapping: dict[str, str], agent_action: AgentAction,
        run_manager: object = None,
    ) -> AgentStep:  # fmt: skip
        run = Run.asynchronous(_config(run_manager))
        return await self._perform(Doing(name_to_tool_map, color_mapping, {}, run), agent_action)

    def _return(
        self, output: AgentFinish, intermediate_steps: Steps, run_manager: object = None
    ) -> Values:
        kept = {"intermediate_steps": intermediate_steps} if self.return_intermediate_steps else {}
        return {**output.return_values, **kept}

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
        """Return an iterator over the steps, of either colour; the last item holds the outputs."""
        return AgentExecutorIterator(self, inputs, callbacks, include_run_info=include_run_info)


class AgentExecutorIterator:
    """The steps of a run, one at a time, then its outputs."""

    __repr__ = short_repr

    def __init__(
        self,
        agent_executor: AgentExecutor,
        inputs: Any,  # noqa: ANN401  the executor reads a dict, or the text of its one input
        callbacks: Callbacks = None,
        *,
        include_run_info: bool = False,
    ) -> None:
        """Choose the executor and its inputs; nothing runs before the first step is asked for."""
        self.agent_executor = agent_executor
        self.inputs = inputs
        self._config: Any = {"callbacks": callbacks} if callbacks else None
        self._how = {"intermediate_steps_only": True, "include_run_info": include_run_info}

    def __iter__(self) -> Iterator[Values]:
        return self.agent_executor.stream(self.inputs, self._config, **self._how)

    def __aiter__(self) -> AsyncIterator[Values]:
        return self.agent_executor.astream(self.inputs, self._config, **self._how)


def _piece(one: AgentAction | AgentStep) -> Values:
    if isinstance(one, AgentAction):
        return AddableDict(actions=[one], messages=list(one.messages))
    return AddableDict(steps=[one], messages=list(one.messages))


def _config(run_manager: Any) -> RunnableConfig | None:  # noqa: ANN401  of either mode; LangChain's authors pass their own
    return {"callbacks": run_manager.get_child()} if run_manager is not None else None


def planner_of(
    runnable: Runnable[Any, Any], **fields: object
) -> RunnableAgent | RunnableMultiActionAgent:
    """Return the planning agent of a runnable, by whether it gives one action at a time."""
    cls = RunnableMultiActionAgent if _gives_several(runnable) else RunnableAgent
    return cls(runnable=runnable, **fields)


def _gives_several(runnable: Runnable[Any, Any]) -> bool:
    """Whether a runnable says that it gives lists of actions."""
    last = getattr(runnable, "last", runnable)
    try:
        return "list" in str(last.OutputType)
    except (TypeError, AttributeError):
        return False
