"""Agents that plan one step at a time for `AgentExecutor`: what to call next, or the answer.

`plan` takes the steps so far and the inputs, and gives actions or an `AgentFinish`. An author writes `plan` (and
`aplan`); an agent made of a runnable is `RunnableAgent`, or `RunnableMultiActionAgent` where it may ask for several.
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
    "Plan",
    "RunnableAgent",
    "RunnableMultiActionAgent",
    "Steps",
]

Steps = list[tuple[AgentAction, Any]]
Plan = AgentFinish | AgentAction | Sequence[AgentAction]
STOPPED = "Agent stopped due to iteration limit or time limit."
LAST_WORDS = "\n\nI now need to return a final answer based on the previous steps:"


class _Planner(BaseModel, ABC):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    @property
    def return_values(self) -> list[str]:
        """The outputs this agent gives."""
        return ["output"]

    @property
    @abstractmethod
    def input_keys(self) -> list[str]:
        """The inputs this agent needs."""

    def get_allowed_tools(self) -> list[str] | None:
        """Name the tools this agent may use; None for any."""
        return None

    def tool_run_logging_kwargs(self) -> builtins.dict[str, Any]:
        """Return arguments for the tools' runs."""
        return {}

    # -- one body for both colours

    async def _planned(self, steps: Steps, run: Run, inputs: dict[str, Any]) -> Any:  # noqa: ANN401  one action, several, or the end: two classes share this body
        callbacks = run.child().manager
        name = "plan" if run.io.blocking else "aplan"
        return await run.io.call(getattr(self, name), steps, callbacks=callbacks, **inputs)

    async def _stopped(
        self, method: str, steps: Steps, run: Run, inputs: dict[str, Any]
    ) -> AgentFinish:
        return self.return_stopped_response(method, steps, **inputs)

    def return_stopped_response(
        self, early_stopping_method: str, intermediate_steps: Steps, **_: object
    ) -> AgentFinish:
        """Return the answer of a run that had to stop."""
        if early_stopping_method == "force":
            return AgentFinish({"output": STOPPED}, "")
        raise UsageError(
            f'early_stopping_method={early_stopping_method!r}: this agent knows "force" alone'
        )


class BaseSingleActionAgent(_Planner):
    """Plans one action at a time."""

    @abstractmethod
    def plan(
        self, intermediate_steps: Steps, callbacks: Callbacks = None, **kwargs: object
    ) -> AgentAction | AgentFinish:
        """Decide what to do next."""

    async def aplan(
        self, intermediate_steps: Steps, callbacks: Callbacks = None, **kwargs: object
    ) -> AgentAction | AgentFinish:
        """Decide what to do next; where an author wrote only `plan`, it is called in a thread."""
        planned: AgentAction | AgentFinish = await Run.asynchronous().io.call(
            self.plan, intermediate_steps, callbacks=callbacks, **kwargs
        )
        return planned


class BaseMultiActionAgent(_Planner):
    """Plans several actions at a time."""

    @abstractmethod
    def plan(
        self, intermediate_steps: Steps, callbacks: Callbacks = None, **kwargs: object
    ) -> list[AgentAction] | AgentFinish:
        """Decide what to do next."""

    async def aplan(
        self, intermediate_steps: Steps, callbacks: Callbacks = None, **kwargs: object
    ) -> list[AgentAction] | AgentFinish:
        """Decide what to do next; where an author wrote only `plan`, it is called in a thread."""
        planned: list[AgentAction] | AgentFinish = await Run.asynchronous().io.call(
            self.plan, intermediate_steps, callbacks=callbacks, **kwargs
        )
        return planned


class _OfRunnable(_Planner):
    runnable: Runnable[Any, Any]
    """Gives actions or the end, for the inputs and `intermediate_steps`."""
    input_keys_arg: list[str] = Field(default_factory=list)
    return_keys_arg: list[str] = Field(default_factory=list)
    stream_runnable: bool = True
    """Whether to run it piece by piece inside, so that listeners see tokens as they come."""

    @property
    def return_values(self) -> list[str]:
        """The outputs this agent was said to give."""
        return self.return_keys_arg

    @property
    def input_keys(self) -> list[str]:
        """The inputs this agent was said to need."""
        return self.input_keys_arg

    async def _planned(self, steps: Steps, run: Run, inputs: dict[str, Any]) -> Any:  # noqa: ANN401  one action, several, or the end: two classes share this body
        for name in ("plan",) if run.io.blocking else ("aplan", "plan"):
            if getattr(type(self), name) is not getattr(_OfRunnable, name):  # a subclass wrote it
                plan = getattr(self, name)
                return await run.io.call(plan, steps, callbacks=run.child().manager, **inputs)
        return await self._call_runnable(steps, run, inputs)

    async def _call_runnable(self, steps: Steps, run: Run, inputs: dict[str, Any]) -> Any:  # noqa: ANN401  one action, several, or the end: two classes share this body
        given = {**inputs, "intermediate_steps": steps}
        if not self.stream_runnable:
            return await self.runnable._step(given, run.child())
        whole: Any = NOTHING
        async with aclosing(self.runnable._step_stream(given, run.child())) as pieces:
            async for piece in pieces:
                whole = plus(whole, piece)
        return None if whole is NOTHING else whole

    async def _stopped(
        self, method: str, steps: Steps, run: Run, inputs: dict[str, Any]
    ) -> AgentFinish:
        if method != "generate":
            return self.return_stopped_response(method, steps, **inputs)
        last = (AgentAction("_Stop", "", LAST_WORDS), "")
        planned = await self._planned([*steps, last], run, inputs)
        if isinstance(planned, AgentFinish):
            return planned
        said = planned[-1] if isinstance(planned, list) else planned
        return AgentFinish({"output": said.log}, said.log)

    def plan(self, intermediate_steps: Steps, callbacks: Callbacks = None, **kwargs: object) -> Any:  # noqa: ANN401  one action, several, or the end: two classes share this body
        """Decide what to do next."""
        run = Run.blocking({"callbacks": callbacks} if callbacks else None)
        return drive(self._call_runnable(intermediate_steps, run, kwargs))

    async def aplan(
        self, intermediate_steps: Steps, callbacks: Callbacks = None, **kwargs: object
    ) -> Any:  # noqa: ANN401  one action, several, or the end: two classes share this body
        """Decide what to do next."""
        run = Run.asynchronous({"callbacks": callbacks} if callbacks else None)
        return await self._call_runnable(intermediate_steps, run, kwargs)


class RunnableAgent(_OfRunnable, BaseSingleActionAgent):
    """An agent made of a runnable that asks for one action at a time."""


class RunnableMultiActionAgent(_OfRunnable, BaseMultiActionAgent):
    """An agent made of a runnable that may ask for several actions at once."""
