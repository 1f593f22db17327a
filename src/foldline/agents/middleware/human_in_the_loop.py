"""`HumanInTheLoopMiddleware`: a person approves, edits, rejects or answers tool calls before they run.

The run stops with one question for all calls that need approval, and continues with
`Command(resume={"decisions": [...]})`, one decision per call in their order:

    {"type": "approve"}
    {"type": "edit", "edited_action": {"name": ..., "args": {...}}}
    {"type": "reject", "message": ...}
    {"type": "respond", "message": ...}

A rejection is an error message for the model; a response replaces the tool's result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NotRequired, TypedDict

from foldline._run import Run
from foldline.agents._tool_calls import unanswered
from foldline.agents.middleware.base import AgentMiddleware, State, Update
from foldline.agents.runtime import Runtime
from foldline.messages import AIMessage, ToolMessage
from foldline.utils._options import check_options
from foldline.workflows._decisions import Decision, decisions_of
from foldline.workflows.interrupts import interrupt

__all__ = ["Decision", "HumanInTheLoopMiddleware", "InterruptOnConfig"]

DecisionType = Literal["approve", "edit", "reject", "respond"]
ALL_DECISIONS: tuple[DecisionType, ...] = ("approve", "edit", "reject", "respond")


class InterruptOnConfig(TypedDict):
    """What a person may decide about the calls of one tool."""

    allowed_decisions: list[DecisionType]
    description: NotRequired[str | Callable[..., str]]
    args_schema: NotRequired[dict[str, Any]]


class HumanInTheLoopMiddleware(AgentMiddleware):
    """Stop for a person before some tools run."""

    @check_options()
    def __init__(
        self,
        interrupt_on: Mapping[str, bool | InterruptOnConfig],
        *,
        description_prefix: str = "Tool execution requires approval",
    ) -> None:
        """Set the tools: True allows every decision, a config lists the allowed ones."""
        self.interrupt_on: dict[str, InterruptOnConfig] = {}
        for name, setting in interrupt_on.items():
            if setting is True:
                self.interrupt_on[name] = {"allowed_decisions": list(ALL_DECISIONS)}
            elif setting:
                self.interrupt_on[name] = setting
        self.description_prefix = description_prefix
        self.gated_tools = frozenset(self.interrupt_on)

    async def _after_model(self, state: State, runtime: Runtime[Any], run: Run) -> Update:
        calls = [
            call
            for call in unanswered(state["messages"])
            if call["name"] in self.interrupt_on and isinstance(call.get("args"), dict)
        ]
        if not calls:
            return None
        model_message = next(
            message for message in reversed(state["messages"]) if isinstance(message, AIMessage)
        )
        question = self._question(calls, state, runtime)
        decisions = decisions_of(question, interrupt(question))
        edited_calls: dict[str, Any] = {}
        replies: list[ToolMessage] = []
        for call, decision in zip(calls, decisions, strict=True):
            self._apply(call, decision, edited_calls, replies)
        edited_message = [_with_calls(model_message, edited_calls)] if edited_calls else []
        messages = [*edited_message, *replies]
        return {"messages": messages} if messages else None

    def _question(self, calls: list[Any], state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        requests, configs = [], []
        for call in calls:
            config = self.interrupt_on[call["name"]]
            description = config.get("description")
            text = description(call, state, runtime) if callable(description) else description
            default = f"{self.description_prefix}\n\nTool: {call['name']}\nArgs: {call['args']}"
            requests.append(
                {"name": call["name"], "args": call["args"], "description": text or default}
            )
            review_config: dict[str, Any] = {
                "action_name": call["name"],
                "allowed_decisions": list(config["allowed_decisions"]),
            }
            configs.append(
                review_config
                | ({"args_schema": config["args_schema"]} if "args_schema" in config else {})
            )
        return {"action_requests": requests, "review_configs": configs}

    def _apply(
        self,
        call: Mapping[str, Any],
        decision: Decision,
        edited_calls: dict[str, Any],
        replies: list[ToolMessage],
    ) -> None:
        kind = decision["type"]
        if kind == "edit":
            action = decision["edited_action"]
            edited_calls[call["id"]] = {"name": action["name"], "args": dict(action["args"])}
        elif kind in ("reject", "respond"):
            default = (
                f"A person rejected the call of {call['name']}: do not call it again like this."
            )
            replies.append(
                ToolMessage(
                    decision.get("message") or default,
                    tool_call_id=call["id"],
                    name=call["name"],
                    status="error" if kind == "reject" else "success",
                )
            )


def _with_calls(message: AIMessage, edited_calls: Mapping[str, Any]) -> AIMessage:
    """Return a message with some of its calls changed, in its content blocks too."""
    calls = [{**call, **edited_calls.get(call["id"] or "", {})} for call in message.tool_calls]
    content: Any = message.content
    if isinstance(content, list):
        content = [
            {**block, **edited_calls[block["id"]]}
            if isinstance(block, dict)
            and block.get("type") == "tool_call"
            and block.get("id") in edited_calls
            else block
            for block in content
        ]
    return message.model_copy(update={"tool_calls": calls, "content": content})
