"""One step of an `AgentExecutor`: plan, then perform each action; bodies for both colours.

What a step has performed is in `Doing` the moment it is there, so that a limit, an error or a cancellation in the
middle of several actions loses none of it. LangChain's names for the steps are views of these bodies (see `executor`),
and a subclass that overrides one of those is obeyed here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from foldline._run import Run
from foldline.agents.classic.plans import Plan, Steps
from foldline.chains.base import Chain
from foldline.exceptions import OutputParserException
from foldline.outputs.agent import AgentAction, AgentFinish, AgentStep
from foldline.tools._content import limit_content
from foldline.tools.base import BaseTool

__all__ = ["Acting", "Doing", "ExceptionTool", "InvalidTool"]

Values = dict[str, Any]
ToolMap = dict[str, BaseTool]
FlowEvent = AgentFinish | AgentAction | AgentStep


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


@dataclass(slots=True)
class Doing:
    """One run of an executor: what it works with, and what it has done so far."""

    tools: ToolMap
    colors: dict[str, str]
    inputs: Values
    run: Run
    steps: Steps = field(default_factory=list)
    performed: dict[int, AgentStep] = field(default_factory=dict)
    """What the actions of the step under way gave, by their place in the plan."""

    def so_far(self) -> Steps:
        """Return all steps, those of the step under way too."""
        under_way = (self.performed[place] for place in sorted(self.performed))
        return [*self.steps, *((one.action, one.observation) for one in under_way)]


class Acting(Chain):
    """An agent with its tools, which can take a step."""

    agent: Any
    """A `BaseSingleActionAgent`, a `BaseMultiActionAgent`, or a runnable that gives actions."""
    tools: Sequence[BaseTool]
    """What it may call."""
    max_execution_time: float | None = None
    """Seconds after which it stops."""
    handle_parsing_errors: bool | str | Callable[[OutputParserException], str] = False
    """What the agent is told when its words do not parse: what was wrong (True), a text, or what a function says."""
    trim_intermediate_steps: int | Callable[[Steps], Steps] = Field(default=-1)
    """How many of the last steps the agent sees (-1: all), or a function that chooses them."""

    def _overridden(self, name: str, run: Run) -> Callable[..., Any] | None:
        """Return the method of this colour that a subclass wrote in place of one of ours; `executor` knows."""
        return None

    def _prepare_intermediate_steps(self, intermediate_steps: Steps) -> Steps:
        trim = self.trim_intermediate_steps
        if callable(trim):
            return trim(intermediate_steps)
        return intermediate_steps[-trim:] if trim > 0 else intermediate_steps

    async def _next(self, doing: Doing, elapsed: float) -> AsyncGenerator[FlowEvent, None]:
        """Take the next step, as a subclass says where it does; give what happens."""
        run = doing.run
        given = (doing.tools, doing.colors, doing.inputs, doing.steps)
        take = self._overridden("_take_next_step", run)
        if take is not None:
            taken = await run.io.call(take, *given, run_manager=run.run_manager("chain"))
            if isinstance(taken, AgentFinish):
                yield taken
            else:
                for action, observation in taken:
                    yield AgentStep(action=action, observation=observation)
            return
        iterate = self._overridden("_iter_next_step", run)
        said: AsyncGenerator[FlowEvent, None] = (
            self._iterated(doing)
            if iterate is None
            else run.io.each(iterate(*given, run_manager=run.run_manager("chain")))
        )
        async with aclosing(said):
            while (one := await self._in_time(said, run, elapsed)) is not None:
                yield one

    async def _in_time(
        self, said: AsyncGenerator[FlowEvent, None], run: Run, elapsed: float
    ) -> FlowEvent | None:
        if self.max_execution_time is None or run.io.blocking:  # a thread could not be stopped
            return await anext(said, None)

        async def step() -> FlowEvent | None:
            return await anext(said, None)

        return await run.io.bounded(max(0.001, self.max_execution_time - elapsed), step())

    async def _iterated(self, doing: Doing) -> AsyncGenerator[FlowEvent, None]:
        try:
            shown = self._prepare_intermediate_steps(doing.steps)
            plan: Plan = await self.agent._planned(shown, doing.run, doing.inputs)
        except OutputParserException as error:
            yield await self._observed_error(error, doing.run)
            return
        if isinstance(plan, AgentFinish):
            yield plan
            return
        actions = [plan] if isinstance(plan, AgentAction) else list(plan or ())
        for action in actions:
            yield action
        outcomes = doing.run.io.as_completed(
            lambda action: self._performed(doing, action),
            actions,
            # One after the other in a blocking call, as in LangChain: such tools may share what no thread may.
            limit=1 if doing.run.io.blocking else None,
        )
        given = 0
        async with aclosing(outcomes):
            async for place, value, failure in outcomes:
                if failure is not None:
                    raise failure
                doing.performed[place] = value
                while given in doing.performed:
                    yield doing.performed[given]
                    given += 1

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
        await run.dispatch("on_agent_action", action, color="green")
        said = await ExceptionTool()._step(observation, self._tool_run(run, None, {}))
        return AgentStep(action=action, observation=said)

    async def _performed(self, doing: Doing, action: AgentAction) -> AgentStep:
        perform = self._overridden("_perform_agent_action", doing.run)
        if perform is None:
            return await self._perform(doing, action)
        given = (doing.tools, doing.colors, action, doing.run.run_manager("chain"))
        step: AgentStep = await doing.run.io.call(perform, *given)
        return step

    async def _perform(self, doing: Doing, action: AgentAction) -> AgentStep:
        tools, run = doing.tools, doing.run
        await run.dispatch("on_agent_action", action, color="green")
        extra = dict(self.agent.tool_run_logging_kwargs())
        tool = tools.get(action.tool)
        if tool is None:
            given: Any = {"requested_tool_name": action.tool, "available_tool_names": list(tools)}
            said = await InvalidTool()._step(given, self._tool_run(run, None, extra))
        else:
            if tool.return_direct:
                extra["llm_prefix"] = ""
            own = self._tool_run(run, doing.colors.get(tool.name), extra)
            said = await tool._step(action.tool_input, own)
            if isinstance(said, str) and tool.max_output is not None:
                said = limit_content(said, tool.max_output)
        return AgentStep(action=action, observation=said)

    def _tool_run(self, run: Run, color: str | None, extra: Values) -> Run:
        child = run.child()
        if child.manager is None and not self.verbose:
            return child
        return child.patched(kwargs={"verbose": self.verbose, "color": color, **extra})
