"""`ModelCallLimitMiddleware` and `ToolCallLimitMiddleware`: limit the calls in a run and in a thread.

`create_agent(limits=Limits(...))` limits tokens, cost and time.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from foldline._run import Run
from foldline.agents._tool_calls import error_message, unanswered
from foldline.agents.middleware.base import AgentMiddleware, State, Update, hook_config
from foldline.agents.runtime import Runtime
from foldline.agents.state import AgentState, PrivateStateAttr
from foldline.exceptions import BudgetExceeded, UsageError
from foldline.messages import AIMessage
from foldline.utils._options import check_options

__all__ = [
    "ModelCallLimitExceededError",
    "ModelCallLimitMiddleware",
    "ToolCallLimitExceededError",
    "ToolCallLimitMiddleware",
]

ALL_TOOLS = "__all__"


class ModelCallLimitExceededError(BudgetExceeded):
    """The model was called as often as allowed."""


class ToolCallLimitExceededError(BudgetExceeded):
    """A tool was called as often as allowed."""


class _ModelCounts(AgentState):
    thread_model_call_count: NotRequired[Annotated[int, PrivateStateAttr]]
    run_model_call_count: NotRequired[Annotated[int, PrivateStateAttr]]


class _ToolCounts(AgentState):
    thread_tool_call_count: NotRequired[Annotated[dict[str, int], PrivateStateAttr]]
    run_tool_call_count: NotRequired[Annotated[dict[str, int], PrivateStateAttr]]


def _check(thread_limit: int | None, run_limit: int | None) -> None:
    if thread_limit is None and run_limit is None:
        raise UsageError("pass thread_limit, run_limit or both")
    if thread_limit is not None and run_limit is not None and run_limit > thread_limit:
        raise UsageError(f"run_limit={run_limit} is more than thread_limit={thread_limit}")


class ModelCallLimitMiddleware(AgentMiddleware):
    """Limit the model calls; at the limit the run ends with a message, or with an error."""

    state_schema = _ModelCounts

    @check_options(at_least={"thread_limit": 0, "run_limit": 0})
    def __init__(
        self,
        *,
        thread_limit: int | None = None,
        run_limit: int | None = None,
        exit_behavior: Literal["end", "error"] = "end",
    ) -> None:
        """Set the limits of a thread and of a run, and how the run ends."""
        _check(thread_limit, run_limit)
        self.thread_limit = thread_limit
        self.run_limit = run_limit
        self.exit_behavior = exit_behavior

    async def _before_agent(self, state: State, runtime: Runtime[Any], run: Run) -> Update:
        return {"run_model_call_count": 0}

    @hook_config(can_jump_to=["end"])
    async def _before_model(self, state: State, runtime: Runtime[Any], run: Run) -> Update:
        in_thread, in_run = (
            state.get("thread_model_call_count", 0),
            state.get("run_model_call_count", 0),
        )
        reached = [
            f"{count} of {limit} in this {unit}"
            for count, limit, unit in (
                (in_thread, self.thread_limit, "thread"),
                (in_run, self.run_limit, "run"),
            )
            if limit is not None and count >= limit
        ]
        if not reached:
            return None
        text = f"Model call limit reached: {', '.join(reached)}."
        if self.exit_behavior == "error":
            raise ModelCallLimitExceededError(text, used=max(in_thread, in_run))
        return {"messages": [AIMessage(text)], "jump_to": "end"}

    async def _after_model(self, state: State, runtime: Runtime[Any], run: Run) -> Update:
        return {
            "thread_model_call_count": state.get("thread_model_call_count", 0) + 1,
            "run_model_call_count": state.get("run_model_call_count", 0) + 1,
        }


class ToolCallLimitMiddleware(AgentMiddleware):
    """Limit the calls of one tool or of all; further calls get an error message, end the run, or raise."""

    state_schema = _ToolCounts

    @check_options(at_least={"thread_limit": 0, "run_limit": 0})
    def __init__(
        self,
        *,
        tool_name: str | None = None,
        thread_limit: int | None = None,
        run_limit: int | None = None,
        exit_behavior: Literal["continue", "end", "error"] = "continue",
    ) -> None:
        """Set the tool, the limits of a thread and of a run, and what happens at the limit."""
        _check(thread_limit, run_limit)
        self.tool_name = tool_name
        self.thread_limit = thread_limit
        self.run_limit = run_limit
        self.exit_behavior = exit_behavior
        self.gated_tools = frozenset() if tool_name is None else frozenset({tool_name})

    @property
    def name(self) -> str:
        """The name of this middleware's steps; one for each tool."""
        return f"{type(self).__name__}[{self.tool_name}]" if self.tool_name else type(self).__name__

    async def _before_agent(self, state: State, runtime: Runtime[Any], run: Run) -> Update:
        counts = dict(state.get("run_tool_call_count") or {})
        return {"run_tool_call_count": {**counts, self._key: 0}}

    @hook_config(can_jump_to=["end"])
    async def _after_model(self, state: State, runtime: Runtime[Any], run: Run) -> Update:
        calls = [
            call for call in unanswered(state["messages"]) if self.tool_name in (None, call["name"])
        ]
        if not calls:
            return None
        in_thread = dict(state.get("thread_tool_call_count") or {})
        in_run = dict(state.get("run_tool_call_count") or {})
        remaining = self._remaining(in_thread.get(self._key, 0), in_run.get(self._key, 0))
        blocked = calls[remaining:]
        allowed = len(calls) - len(blocked)
        in_thread[self._key] = in_thread.get(self._key, 0) + allowed
        in_run[self._key] = in_run.get(self._key, 0) + allowed
        counts = {"thread_tool_call_count": in_thread, "run_tool_call_count": in_run}
        return counts | self._limit_update(state, blocked) if blocked else counts

    @property
    def _key(self) -> str:
        return self.tool_name or ALL_TOOLS

    def _remaining(self, in_thread: int, in_run: int) -> int:
        bounds = ((self.thread_limit, in_thread), (self.run_limit, in_run))
        return max(0, min(limit - used for limit, used in bounds if limit is not None))

    def _limit_update(self, state: State, blocked: list[Any]) -> dict[str, Any]:
        subject = repr(self.tool_name) if self.tool_name else "tools"
        text = f"the limit of calls of {subject} is reached: do not call it again"
        if self.exit_behavior == "error":
            raise ToolCallLimitExceededError(f"Tool call limit reached for {subject}")
        if self.exit_behavior == "continue":
            return {"messages": [error_message(call, text) for call in blocked]}
        results = [error_message(call, text) for call in unanswered(state["messages"])]
        final_message = AIMessage(f"Tool call limit reached for {subject}.")
        return {"messages": [*results, final_message], "jump_to": "end"}
