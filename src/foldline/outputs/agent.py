"""What an agent decides, step by step: the values behind `AgentExecutor` (public as `foldline.agents`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import SerializeAsAny

from foldline.load.serializable import Serializable
from foldline.messages import AIMessage, BaseMessage, FunctionMessage, HumanMessage

__all__ = ["AgentAction", "AgentActionMessageLog", "AgentFinish", "AgentStep"]


class _AgentValue(Serializable):
    @classmethod
    def is_lc_serializable(cls) -> bool:
        return True

    @classmethod
    def get_lc_namespace(cls) -> list[str]:
        return ["foldline", "agents"]


class AgentAction(_AgentValue):
    """A tool to run, as an agent asked for it.

    ```python
    from foldline.outputs.agent import AgentAction

    print(AgentAction("search", {"query": "foldline"}, "I should look it up.").tool)
    #> search
    ```
    """

    tool: str
    """The name of the tool."""
    tool_input: str | dict[Any, Any]
    """What to call it with."""
    log: str
    """What the model said when it asked."""
    type: Literal["AgentAction"] = "AgentAction"

    def __init__(
        self, tool: str, tool_input: str | dict[Any, Any], log: str, **kwargs: object
    ) -> None:
        """Ask for a tool; the three may be given by position."""
        super().__init__(tool=tool, tool_input=tool_input, log=log, **kwargs)

    @property
    def messages(self) -> Sequence[BaseMessage]:
        """The messages that led to this action."""
        return [AIMessage(content=self.log)]


class AgentActionMessageLog(AgentAction):
    """A tool to run, with the messages in which the model asked for it."""

    message_log: Sequence[SerializeAsAny[BaseMessage]]
    """The messages, to be sent again with the result."""
    type: Literal["AgentActionMessageLog"] = "AgentActionMessageLog"  # type: ignore[assignment]

    @property
    def messages(self) -> Sequence[BaseMessage]:
        """The messages that led to this action."""
        return self.message_log


class AgentStep(_AgentValue):
    """An action and what came of it."""

    action: SerializeAsAny[AgentAction]
    """What was asked."""
    observation: Any
    """What the tool gave back."""

    @property
    def messages(self) -> Sequence[BaseMessage]:
        """The result as messages for the model."""
        if isinstance(self.action, AgentActionMessageLog):
            content = _as_text(self.observation)
            return [FunctionMessage(name=self.action.tool, content=content)]
        return [HumanMessage(content=self.observation)]


class AgentFinish(_AgentValue):
    """The agent's last word."""

    return_values: dict[Any, Any]
    """What it gives back, usually under `output`."""
    log: str
    """What the model said, whole."""
    type: Literal["AgentFinish"] = "AgentFinish"

    def __init__(self, return_values: dict[Any, Any], log: str, **kwargs: object) -> None:
        """Finish; both may be given by position."""
        super().__init__(return_values=return_values, log=log, **kwargs)

    @property
    def messages(self) -> Sequence[BaseMessage]:
        """The last word as a message."""
        return [AIMessage(content=self.log)]


def _as_text(observation: object) -> str:
    if isinstance(observation, str):
        return observation
    try:
        return json.dumps(observation, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(observation)
