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
from contextlib import aclosing
from typing import Any, Self

from pydantic import Field, model_validator

from weft._drive import drive, drive_each
from weft._io import OutOfTime
from weft._run import Run
from weft.agents.plans import (
    BaseMultiActionAgent,
    BaseSingleActionAgent,
    Plan,
    RunnableAgent,
    RunnableMultiActionAgent,
    Steps,
)
from weft.callbacks.base import Callbacks
from weft.chains.base import Chain
from weft.exceptions import OutputParserException, UsageError
from weft.outputs.agent import AgentAction, AgentFinish, AgentStep
from weft.runnables.base import Runnable
from weft.runnables.utils import AddableDict
from weft.tools.base import BaseTool
from weft.utils.input import get_color_mapping

__all__ = ["AgentExecutor", "AgentExecutorIterator", "ExceptionTool", "InvalidTool"]

Values = dict[str, Any]
ToolMap = dict[str, BaseTool]
NextStep = list[AgentFinish | AgentAction | AgentStep]
ASIDE = frozenset({"actions", "steps", "messages", "intermediate_step"})
"""What a stream gives besides the outputs."""


class ExceptionTool(BaseTool):
    """Gives back what it was given: an observation that no tool made."""

    name: str = "_Exception"
    description: str = "Exception tool"

    def _run(self, query: str) -> str:
        return query


class InvalidTool(BaseTool):
    """Stands in for a tool that is not there."""

    name: str = "invalid_tool"
    description: str = "Called when tool name is invalid. Suggests valid tool names."

    def _run(self, requested_tool_name: str, available_tool_names: list[str]) -> str:
        return f"{requested_tool_name} is not a valid tool, try one of [{', '.join(available_tool_names)}]."


class AgentExecutor(Chain):
    """Runs an agent with its tools until it has an answer."""

    agent: Any
    """A `BaseSingleActionAgent`, a `BaseMultiActionAgent`, or a runnable that gives actions."""
    tools: Sequence[BaseTool]
    """What it may call."""
    return_intermediate_steps: bool = False
    """Whether the outputs hold the steps too."""
    max_iterations: int | None = 15
    """Steps after which it stops."""
    max_execution_time: float | None = None
    """Seconds after which it stops."""
    early_stopping_method: str = "force"
    """What it answers then: "force" a fixed sentence, "generate" what the model says to the steps so far."""
    handle_parsing_errors: bool | str | Callable[[OutputParserException], str] = False
    """What the agent is told when its words do not parse: what was wrong (True), a text, or what a function says."""
    trim_intermediate_steps: int | Callable[[Steps], Steps] = Field(default=-1)
    """How many of the last steps the agent sees (-1: all), or a function that chooses them."""

    @model_validator(mode="after")
    def _prepare(self) -> Self:
        if isinstance(self.agent, Runnable):
            cls = RunnableMultiActionAgent if _gives_several(self.agent) else RunnableAgent
            self.__dict__["agent"] = cls(runnable=self.agent)
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
        cls, agent: Any, tools: Sequence[BaseTool], callbacks: Callbacks = None, **kwargs: Any
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
    def _action_agent(self) -> Any:
        return self.agent

    def lookup_tool(self, name: str) -> BaseTool:
        """Give a tool by its name."""
        return {tool.name: tool for tool in self.tools}[name]

    # -- the loop

    async def _work(
        self, inputs: Values, run: Run, *, stream: bool
    ) -> AsyncGenerator[Values, None]:
        steps: Steps = []
        try:
            async with aclosing(self._loop(inputs, steps, run, stream=stream)) as pieces:
                async for piece in pieces:
                    yield piece
        except Exception as error:
            error.intermediate_steps = steps  # type: ignore[attr-defined]  # what was done stays reachable
            raise

    async def _loop(
        self, inputs: Values, steps: Steps, run: Run, *, stream: bool
    ) -> AsyncGenerator[Values, None]:
        by_step = bool(run.kwargs.get("intermediate_steps_only"))
        tools = {tool.name: tool for tool in self.tools}
        colors = get_color_mapping(list(tools), excluded_colors=["green", "red"])
        iterations, elapsed, begun = 0, 0.0, time.monotonic()
        while self._should_continue(iterations, elapsed):
            seen: NextStep = []
            try:
                async with aclosing(
                    self._next(tools, colors, inputs, steps, run, elapsed, seen)
                ) as said:
                    async for one in said:
                        if stream and not by_step and not isinstance(one, AgentFinish):
                            yield _piece(one)
            except OutOfTime:
                break
            following = self._consume_next_step(seen)
            if isinstance(following, AgentFinish):
                yield await self._finished(following, steps, run, stream=stream)
                return
            steps.extend(following)
            if by_step:
                yield AddableDict(intermediate_step=following)
            direct = self._get_tool_return(following[0]) if len(following) == 1 else None
            if direct is not None:
                yield await self._finished(direct, steps, run, stream=stream)
                return
            iterations, elapsed = iterations + 1, time.monotonic() - begun
        stopped = await self._stopped(steps, inputs, run)
        yield await self._finished(stopped, steps, run, stream=stream)

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

    def _prepare_intermediate_steps(self, intermediate_steps: Steps) -> Steps:
        trim = self.trim_intermediate_steps
        if callable(trim):
            return trim(intermediate_steps)
        return intermediate_steps[-trim:] if trim > 0 else intermediate_steps

    # -- its steps, for both colours

    async def _next(
        self, tools: ToolMap, colors: dict[str, str], inputs: Values, steps: Steps, run: Run,
        elapsed: float, seen: NextStep,
    ) -> AsyncGenerator[Any, None]:  # fmt: skip
        """Take the next step, as a subclass says where it does; give what happens and keep it in `seen`."""
        override = _override(type(self), "_take_next_step", run)
        if override is not None:
            manager = run.run_manager("chain")
            taken = await run.io.call(
                getattr(self, override), tools, colors, inputs, steps, run_manager=manager
            )
            seen += (
                [taken]
                if isinstance(taken, AgentFinish)
                else [AgentStep(action=a, observation=o) for a, o in taken]
            )
            return
        async with aclosing(self._iterated(tools, colors, inputs, steps, run)) as said:
            while True:
                one = await self._in_time(said, run, elapsed)
                if one is None:
                    return
                seen.append(one)
                yield one

    async def _in_time(self, said: AsyncGenerator[Any, None], run: Run, elapsed: float) -> Any:
        if self.max_execution_time is None or run.io.blocking:  # a thread could not be stopped
            return await anext(said, None)

        async def step() -> Any:
            return await anext(said, None)

        return await run.io.bounded(max(0.001, self.max_execution_time - elapsed), step())

    async def _iterated(
        self, tools: ToolMap, colors: dict[str, str], inputs: Values, steps: Steps, run: Run
    ) -> AsyncGenerator[AgentFinish | AgentAction | AgentStep, None]:
        try:
            shown = self._prepare_intermediate_steps(steps)
            plan: Plan = await self.agent._planned(shown, run, inputs)
        except OutputParserException as error:
            yield await self._observed_error(error, run)
            return
        if isinstance(plan, AgentFinish):
            yield plan
            return
        actions = [plan] if isinstance(plan, AgentAction) else list(plan or ())
        for action in actions:
            yield action
        results: dict[int, AgentStep] = {}
        outcomes = run.io.as_completed(
            lambda action: self._performed(tools, colors, action, run),
            actions,
            limit=1 if run.io.blocking else None,
        )
        async with aclosing(outcomes):
            async for place, value, failure in outcomes:
                if failure is not None:
                    raise failure
                results[place] = value
        for place in range(len(actions)):
            yield results[place]

    async def _observed_error(self, error: OutputParserException, run: Run) -> AgentStep:
        handle = self.handle_parsing_errors
        if handle is False:
            raise OutputParserException(
                "the agent's words did not parse: pass `handle_parsing_errors=True` to the AgentExecutor to tell the "
                f"agent and let it try again. This is the error: {error}",
                observation=error.observation,
                llm_output=error.llm_output,
            ) from error
        text = str(error)
        if handle is True:
            observation = "Invalid or incomplete response"
            if error.send_to_llm:
                observation, text = str(error.observation), str(error.llm_output)
        else:
            observation = handle if isinstance(handle, str) else handle(error)
        action = AgentAction("_Exception", observation, text)
        await run.tell("on_agent_action", action, color="green")
        said = await ExceptionTool()._step(observation, self._tool_run(run, None, {}))
        return AgentStep(action=action, observation=said)

    async def _performed(
        self, tools: ToolMap, colors: dict[str, str], action: AgentAction, run: Run
    ) -> AgentStep:
        override = _override(type(self), "_perform_agent_action", run)
        if override is not None:
            manager = run.run_manager("chain")
            step: AgentStep = await run.io.call(
                getattr(self, override), tools, colors, action, manager
            )
            return step
        await run.tell("on_agent_action", action, color="green")
        extra = dict(self.agent.tool_run_logging_kwargs())
        tool = tools.get(action.tool)
        if tool is None:
            given: Any = {"requested_tool_name": action.tool, "available_tool_names": list(tools)}
            said = await InvalidTool()._step(given, self._tool_run(run, None, extra))
        else:
            if tool.return_direct:
                extra["llm_prefix"] = ""
            own = self._tool_run(run, colors.get(tool.name), extra)
            said = await tool._step(action.tool_input, own)
        return AgentStep(action=action, observation=said)

    def _tool_run(self, run: Run, color: str | None, extra: Values) -> Run:
        child = run.child()
        if child.manager is None and not self.verbose:
            return child
        return child.patched(kwargs={"verbose": self.verbose, "color": color, **extra})

    async def _finished(
        self, output: AgentFinish, steps: Steps, run: Run, *, stream: bool
    ) -> Values:
        override = _override(type(self), "_return", run)
        if override is not None:
            final: Values = await run.io.call(
                getattr(self, override), output, steps, run.run_manager("chain")
            )
            return final
        await run.tell("on_agent_finish", output, color="green")
        final = dict(output.return_values)
        if self.return_intermediate_steps:
            final["intermediate_steps"] = steps
        return AddableDict(**final, messages=list(output.messages)) if stream else final

    async def _stopped(self, steps: Steps, inputs: Values, run: Run) -> AgentFinish:
        stopped: AgentFinish = await self.agent._stopped(
            self.early_stopping_method, steps, run, inputs
        )
        return stopped

    async def _remembered(
        self, inputs: Values, outputs: Values, run: Run, *, only_outputs: bool
    ) -> Values:
        kept = {key: one for key, one in outputs.items() if key not in ASIDE}
        return await super()._remembered(inputs, kept, run, only_outputs=only_outputs)

    # -- the steps under LangChain's names

    def _iter_next_step(
        self, name_to_tool_map: ToolMap, color_mapping: dict[str, str], inputs: Values,
        intermediate_steps: Steps, run_manager: Any = None,
    ) -> Iterator[AgentFinish | AgentAction | AgentStep]:  # fmt: skip
        run = Run.blocking(_config(run_manager))
        return drive_each(
            self._iterated(name_to_tool_map, color_mapping, inputs, intermediate_steps, run)
        )

    def _aiter_next_step(
        self, name_to_tool_map: ToolMap, color_mapping: dict[str, str], inputs: Values,
        intermediate_steps: Steps, run_manager: Any = None,
    ) -> AsyncIterator[AgentFinish | AgentAction | AgentStep]:  # fmt: skip
        run = Run.asynchronous(_config(run_manager))
        return self._iterated(name_to_tool_map, color_mapping, inputs, intermediate_steps, run)

    def _take_next_step(
        self, name_to_tool_map: ToolMap, color_mapping: dict[str, str], inputs: Values,
        intermediate_steps: Steps, run_manager: Any = None,
    ) -> AgentFinish | Steps:  # fmt: skip
        return self._consume_next_step(
            list(
                self._iter_next_step(
                    name_to_tool_map, color_mapping, inputs, intermediate_steps, run_manager
                )
            )
        )

    async def _atake_next_step(
        self, name_to_tool_map: ToolMap, color_mapping: dict[str, str], inputs: Values,
        intermediate_steps: Steps, run_manager: Any = None,
    ) -> AgentFinish | Steps:  # fmt: skip
        said = self._aiter_next_step(
            name_to_tool_map, color_mapping, inputs, intermediate_steps, run_manager
        )
        return self._consume_next_step([one async for one in said])

    def _perform_agent_action(
        self, name_to_tool_map: ToolMap, color_mapping: dict[str, str], agent_action: AgentAction,
        run_manager: Any = None,
    ) -> AgentStep:  # fmt: skip
        run = Run.blocking(_config(run_manager))
        return drive(
            AgentExecutor._performed(self, name_to_tool_map, color_mapping, agent_action, run)
        )

    async def _aperform_agent_action(
        self, name_to_tool_map: ToolMap, color_mapping: dict[str, str], agent_action: AgentAction,
        run_manager: Any = None,
    ) -> AgentStep:  # fmt: skip
        run = Run.asynchronous(_config(run_manager))
        return await AgentExecutor._performed(
            self, name_to_tool_map, color_mapping, agent_action, run
        )

    def _return(
        self, output: AgentFinish, intermediate_steps: Steps, run_manager: Any = None
    ) -> Values:
        final = dict(output.return_values)
        return (
            {**final, "intermediate_steps": intermediate_steps}
            if self.return_intermediate_steps
            else final
        )

    async def _areturn(
        self, output: AgentFinish, intermediate_steps: Steps, run_manager: Any = None
    ) -> Values:
        return self._return(output, intermediate_steps, run_manager)

    def iter(
        self,
        inputs: Any,
        callbacks: Callbacks = None,
        *,
        include_run_info: bool = False,
        async_: bool = False,
    ) -> AgentExecutorIterator:
        """Give an iterator over the steps, of either colour; the last item holds the outputs."""
        return AgentExecutorIterator(self, inputs, callbacks)


class AgentExecutorIterator:
    """The steps of a run, one at a time, then its outputs."""

    def __init__(
        self, agent_executor: AgentExecutor, inputs: Any, callbacks: Callbacks = None
    ) -> None:
        """Choose the executor and its inputs; nothing runs before the first step is asked for."""
        self.agent_executor = agent_executor
        self.inputs = inputs
        self._config: Any = {"callbacks": callbacks} if callbacks else None

    def __iter__(self) -> Iterator[Values]:
        return self.agent_executor.stream(self.inputs, self._config, intermediate_steps_only=True)

    def __aiter__(self) -> AsyncIterator[Values]:
        return self.agent_executor.astream(self.inputs, self._config, intermediate_steps_only=True)


def _piece(one: AgentAction | AgentStep) -> Values:
    if isinstance(one, AgentAction):
        return AddableDict(actions=[one], messages=list(one.messages))
    return AddableDict(steps=[one], messages=list(one.messages))


def _config(run_manager: Any) -> Any:
    return {"callbacks": run_manager.get_child()} if run_manager is not None else None


def _override(cls: type[AgentExecutor], name: str, run: Run) -> str | None:
    """Give the name of the method of this colour that a subclass wrote in place of one of ours."""
    own = name if run.io.blocking else f"_a{name[1:]}"
    for candidate in (own, name):
        if getattr(cls, candidate) is not getattr(AgentExecutor, candidate):
            return candidate
    return None


def _gives_several(runnable: Runnable[Any, Any]) -> bool:
    """Whether a runnable says that it gives lists of actions."""
    last = getattr(runnable, "last", runnable)
    try:
        return "list" in str(last.OutputType)
    except (TypeError, AttributeError):
        return False
