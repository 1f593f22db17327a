"""Agents that plan one step at a time for `AgentExecutor`: the next actions, or the answer.

`plan` takes the steps so far and the inputs, and returns actions or an `AgentFinish`. A subclass implements `plan` (and
`aplan`); `RunnableAgent` and `RunnableMultiActionAgent` plan with a runnable.
"""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from foldline._io.drive import drive
from foldline._run import Run
from foldline.agents.output_parsers import AgentOutputParser, MultiActionAgentOutputParser
from foldline.callbacks.base import Callbacks
from foldline.exceptions import UsageError
from foldline.outputs.agent import AgentAction, AgentFinish
from foldline.runnables._trace import NOTHING, plus
from foldline.runnables.base import Runnable

__all__ = [
    "AgentOutputParser",
    "BaseMultiActionAgent",
    "BaseSingleActionAgent",
    "MultiActionAgentOutputParser",
    "RunnableAgent",
    "RunnableMultiActionAgent",
]

Steps = list[tuple[AgentAction, Any]]
PlannedActions = AgentFinish | AgentAction | Sequence[AgentAction]
STOPPED_ANSWER = "Agent stopped due to iteration limit or time limit."
FINAL_ANSWER_REQUEST = "\n\nI now need to return a final answer based on the previous steps:"


class _Planner(BaseModel, ABC):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    @property
    def return_values(self) -> list[str]:
        """The outputs of this agent."""
        return ["output"]

    @property
    @abstractmethod
    def input_keys(self) -> list[str]:
        """The inputs this agent needs."""

    def get_allowed_tools(self) -> list[str] | None:
        """Return the names of the tools that this agent may use; None for any."""
        return None

    def tool_run_logging_kwargs(self) -> builtins.dict[str, Any]:
        """Return arguments for the tools' runs."""
        return {}

    # -- one body for sync and async calls

    async def _next_actions(self, steps: Steps, run: Run, inputs: dict[str, Any]) -> Any:  # noqa: ANN401  one action, several, or the finish: two classes share this body
        callbacks = run.child().manager
        name = "plan" if run.io.blocking else "aplan"
        return await run.io.call(getattr(self, name), steps, callbacks=callbacks, **inputs)

    async def _stop_answer(
        self, method: str, steps: Steps, run: Run, inputs: dict[str, Any]
    ) -> AgentFinish:
        return self.return_stopped_response(method, steps, **inputs)

    def return_stopped_response(
        self, early_stopping_method: str, intermediate_steps: Steps, **_: object
    ) -> AgentFinish:
        """Return the answer of a run that reached a limit."""
        if early_stopping_method == "force":
            return AgentFinish({"output": STOPPED_ANSWER}, "")
        raise UsageError(
            f'early_stopping_method={early_stopping_method!r}: this agent supports only "force"'
        )


class BaseSingleActionAgent(_Planner):
    """Plans one action at a time."""

    @abstractmethod
    def plan(
        self, intermediate_steps: Steps, callbacks: Callbacks = None, **kwargs: object
    ) -> AgentAction | AgentFinish:
        """Return the next actions, or the finish."""

    async def aplan(
        self, intermediate_steps: Steps, callbacks: Callbacks = None, **kwargs: object
    ) -> AgentAction | AgentFinish:
        """Return the next action; by default `plan` is called in a thread."""
        action: AgentAction | AgentFinish = await Run.asynchronous().io.call(
            self.plan, intermediate_steps, callbacks=callbacks, **kwargs
        )
        return action


class BaseMultiActionAgent(_Planner):
    """Plans several actions at a time."""

    @abstractmethod
    def plan(
        self, intermediate_steps: Steps, callbacks: Callbacks = None, **kwargs: object
    ) -> list[AgentAction] | AgentFinish:
        """Return the next actions, or the finish."""

    async def aplan(
        self, intermediate_steps: Steps, callbacks: Callbacks = None, **kwargs: object
    ) -> list[AgentAction] | AgentFinish:
        """Return the next action; by default `plan` is called in a thread."""
        actions: list[AgentAction] | AgentFinish = await Run.asynchronous().io.call(
            self.plan, intermediate_steps, callbacks=callbacks, **kwargs
        )
        return actions


class _RunnablePlanner(_Planner):
    runnable: Runnable[Any, Any]
    """Returns actions or the finish for the inputs and `intermediate_steps`."""
    input_keys_arg: list[str] = Field(default_factory=list)
    return_keys_arg: list[str] = Field(default_factory=list)
    stream_runnable: bool = True
    """Whether to stream it internally, so that callbacks receive tokens as they arrive."""

    @property
    def return_values(self) -> list[str]:
        """The outputs of this agent, as configured."""
        return self.return_keys_arg

    @property
    def input_keys(self) -> list[str]:
        """The inputs of this agent, as configured."""
        return self.input_keys_arg

    async def _next_actions(self, steps: Steps, run: Run, inputs: dict[str, Any]) -> Any:  # noqa: ANN401  one action, several, or the finish: two classes share this body
        for name in ("plan",) if run.io.blocking else ("aplan", "plan"):
            if getattr(type(self), name) is not getattr(_RunnablePlanner, name):  # overridden
                plan = getattr(self, name)
                return await run.io.call(plan, steps, callbacks=run.child().manager, **inputs)
        return await self._call_runnable(steps, run, inputs)

    async def _call_runnable(self, steps: Steps, run: Run, inputs: dict[str, Any]) -> Any:  # noqa: ANN401  one action, several, or the finish: two classes share this body
        runnable_inputs = {**inputs, "intermediate_steps": steps}
        if not self.stream_runnable:
            return await self.runnable._step(runnable_inputs, run.child())
        total: Any = NOTHING
        async with aclosing(self.runnable._step_stream(runnable_inputs, run.child())) as pieces:
            async for piece in pieces:
                total = plus(total, piece)
        return None if total is NOTHING else total

    async def _stop_answer(
        self, method: str, steps: Steps, run: Run, inputs: dict[str, Any]
    ) -> AgentFinish:
        if method != "generate":
            return self.return_stopped_response(method, steps, **inputs)
        final_step = (AgentAction("_Stop", "", FINAL_ANSWER_REQUEST), "")
        outcome = await self._next_actions([*steps, final_step], run, inputs)
        if isinstance(outcome, AgentFinish):
            return outcome
        action = outcome[-1] if isinstance(outcome, list) else outcome
        return AgentFinish({"output": action.log}, action.log)

    def plan(self, intermediate_steps: Steps, callbacks: Callbacks = None, **kwargs: object) -> Any:  # noqa: ANN401  one action, several, or the finish: two classes share this body
        """Return the next actions, or the finish."""
        run = Run.blocking({"callbacks": callbacks} if callbacks else None)
        return drive(self._call_runnable(intermediate_steps, run, kwargs))

    async def aplan(
        self, intermediate_steps: Steps, callbacks: Callbacks = None, **kwargs: object
    ) -> Any:  # noqa: ANN401  one action, several, or the finish: two classes share this body
        """Return the next actions, or the finish."""
        run = Run.asynchronous({"callbacks": callbacks} if callbacks else None)
        return await self._call_runnable(intermediate_steps, run, kwargs)


class RunnableAgent(_RunnablePlanner, BaseSingleActionAgent):
    """An agent that plans one action at a time with a runnable."""


class RunnableMultiActionAgent(_RunnablePlanner, BaseMultiActionAgent):
    """An agent that plans several actions at a time with a runnable."""
