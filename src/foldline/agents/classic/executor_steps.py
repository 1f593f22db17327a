"""One step of an `AgentExecutor`: plan, then perform each action; one body for sync and async calls.

A performed action is recorded in `ExecutorState` at once, so that a limit, an error or a cancellation between several
actions loses nothing. LangChain's methods for the steps call these bodies (see `executor`), and overrides of those
methods are used here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from foldline._run import Run
from foldline.agents.classic.plans import PlannedActions, Steps
from foldline.chains.base import GeneratorChain
from foldline.exceptions import OutputParserException
from foldline.outputs.agent import AgentAction, AgentFinish, AgentStep
from foldline.tools._content import limit_content
from foldline.tools.base import BaseTool

__all__ = [
    "ExceptionTool",
    "InvalidTool",
]

Values = dict[str, Any]
ToolMap = dict[str, BaseTool]
FlowEvent = AgentFinish | AgentAction | AgentStep


class ExceptionTool(BaseTool):
    """Returns its input: the observation for an answer that could not be parsed."""

    name: str = "_Exception"
    description: str = "Exception tool"

    def _run(self, query: str) -> str:
        return query


class InvalidTool(BaseTool):
    """Replaces a tool that does not exist."""

    name: str = "invalid_tool"
    description: str = "Called when tool name is invalid. Suggests valid tool names."

    def _run(self, requested_tool_name: str, available_tool_names: list[str]) -> str:
        return f"{requested_tool_name} is not a valid tool, try one of [{', '.join(available_tool_names)}]."


@dataclass(slots=True)
class ExecutorState:
    """The state of one run of an executor: tools, inputs, and the steps so far."""

    tools: ToolMap
    colors: dict[str, str]
    inputs: Values
    run: Run
    steps: Steps = field(default_factory=list)
    performed: dict[int, AgentStep] = field(default_factory=dict)
    """Results of the current step's actions, by their index in the plan."""

    def so_far(self) -> Steps:
        """Return all steps, including the performed actions of the current step."""
        current = (self.performed[index] for index in sorted(self.performed))
        return [*self.steps, *((step.action, step.observation) for step in current)]


class ExecutorSteps(GeneratorChain):
    """An agent with its tools, and the methods that run one step."""

    agent: Any
    """A `BaseSingleActionAgent`, a `BaseMultiActionAgent`, or a runnable that returns actions."""
    tools: Sequence[BaseTool]
    """The tools that it may call."""
    max_execution_time: float | None = Field(default=None, ge=0)
    """Seconds after which it stops."""
    handle_parsing_errors: bool | str | Callable[[OutputParserException], str] = False
    """The observation when the agent's answer cannot be parsed: the error (True), a text, or a function's result."""
    trim_intermediate_steps: int | Callable[[Steps], Steps] = Field(default=-1)
    """How many of the last steps the agent sees (-1: all), or a function that chooses them."""

    def _find_override(self, name: str, run: Run) -> Callable[..., Any] | None:
        """Return a subclass's override of a method, sync or async as the run is; see `executor`."""
        return None

    def _prepare_intermediate_steps(self, intermediate_steps: Steps) -> Steps:
        trim = self.trim_intermediate_steps
        if callable(trim):
            return trim(intermediate_steps)
        return intermediate_steps[-trim:] if trim > 0 else intermediate_steps

    async def _next_events(
        self, state: ExecutorState, elapsed: float
    ) -> AsyncGenerator[FlowEvent, None]:
        """Run the next step, with a subclass's overrides; yield its events."""
        run = state.run
        arguments = (state.tools, state.colors, state.inputs, state.steps)
        take_step = self._find_override("_take_next_step", run)
        if take_step is not None:
            outcome = await run.io.call(take_step, *arguments, run_manager=run.run_manager("chain"))
            if isinstance(outcome, AgentFinish):
                yield outcome
            else:
                for action, observation in outcome:
                    yield AgentStep(action=action, observation=observation)
            return
        iterate = self._find_override("_iter_next_step", run)
        events: AsyncGenerator[FlowEvent, None] = (
            self._step_events(state)
            if iterate is None
            else run.io.each(iterate(*arguments, run_manager=run.run_manager("chain")))
        )
        async with aclosing(events):
            while (event := await self._next_in_time(events, run, elapsed)) is not None:
                yield event

    async def _next_in_time(
        self, events: AsyncGenerator[FlowEvent, None], run: Run, elapsed: float
    ) -> FlowEvent | None:
        if self.max_execution_time is None or run.io.blocking:  # a thread cannot be stopped
            return await anext(events, None)

        async def step() -> FlowEvent | None:
            return await anext(events, None)

        return await run.io.bounded(max(0.001, self.max_execution_time - elapsed), step())

    async def _step_events(self, state: ExecutorState) -> AsyncGenerator[FlowEvent, None]:
        try:
            visible_steps = self._prepare_intermediate_steps(state.steps)
            plan: PlannedActions = await self.agent._next_actions(
                visible_steps, state.run, state.inputs
            )
        except OutputParserException as error:
            yield await self._error_step(error, state.run)
            return
        if isinstance(plan, AgentFinish):
            yield plan
            return
        actions = [plan] if isinstance(plan, AgentAction) else list(plan or ())
        for action in actions:
            yield action
        outcomes = state.run.io.as_completed(
            lambda action: self._perform_action(state, action),
            actions,
            # One after the other in a sync call, as in LangChain: the tools may not be thread-safe.
            limit=1 if state.run.io.blocking else None,
        )
        emitted = 0
        async with aclosing(outcomes):
            async for index, value, failure in outcomes:
                if failure is not None:
                    raise failure
                state.performed[index] = value
                while emitted in state.performed:
                    yield state.performed[emitted]
                    emitted += 1

    async def _error_step(self, error: OutputParserException, run: Run) -> AgentStep:
        handler = self.handle_parsing_errors
        if handler is False:
            raise OutputParserException(
                "the agent's answer could not be parsed: pass `handle_parsing_errors=True` to the AgentExecutor to "
                f"tell the agent and let it try again. This is the error: {error}",
                observation=error.observation,
                llm_output=error.llm_output,
            ) from error
        text = str(error)
        if handler is True:
            observation = "Invalid or incomplete response"
            if error.send_to_llm:
                observation, text = str(error.observation), str(error.llm_output)
        else:
            observation = handler if isinstance(handler, str) else handler(error)
        action = AgentAction("_Exception", observation, text)
        await run.dispatch("on_agent_action", action, color="green")
        result = await ExceptionTool()._step(observation, self._tool_run(run, None, {}))
        return AgentStep(action=action, observation=result)

    async def _perform_action(self, state: ExecutorState, action: AgentAction) -> AgentStep:
        perform = self._find_override("_perform_agent_action", state.run)
        if perform is None:
            return await self._perform(state, action)
        arguments = (state.tools, state.colors, action, state.run.run_manager("chain"))
        step: AgentStep = await state.run.io.call(perform, *arguments)
        return step

    async def _perform(self, state: ExecutorState, action: AgentAction) -> AgentStep:
        tools, run = state.tools, state.run
        await run.dispatch("on_agent_action", action, color="green")
        extra = dict(self.agent.tool_run_logging_kwargs())
        tool = tools.get(action.tool)
        if tool is None:
            tool_input: Any = {
                "requested_tool_name": action.tool,
                "available_tool_names": list(tools),
            }
            observation = await InvalidTool()._step(tool_input, self._tool_run(run, None, extra))
        else:
            if tool.return_direct:
                extra["llm_prefix"] = ""
            tool_run = self._tool_run(run, state.colors.get(tool.name), extra)
            observation = await tool._step(action.tool_input, tool_run)
            if isinstance(observation, str) and tool.max_output is not None:
                observation = limit_content(observation, tool.max_output)
        return AgentStep(action=action, observation=observation)

    def _tool_run(self, run: Run, color: str | None, extra: Values) -> Run:
        child = run.child()
        if child.manager is None and not self.verbose:
            return child
        return child.patched(kwargs={"verbose": self.verbose, "color": color, **extra})
