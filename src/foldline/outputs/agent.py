"""The decisions of an agent, step by step: the values of `AgentExecutor` (public in `foldline.agents`)."""

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
    """A tool call that an agent asks for.

    ```python
    from foldline.outputs.agent import AgentAction

    print(AgentAction("search", {"query": "foldline"}, "I should look it up.").tool)
    #> search
    ```
    """

    tool: str
    """The name of the tool."""
    tool_input: str | dict[Any, Any]
    """The input of the tool."""
    log: str
    """The text of the model that asked for the tool."""
    type: Literal["AgentAction"] = "AgentAction"

    def __init__(
        self, tool: str, tool_input: str | dict[Any, Any], log: str, **kwargs: object
    ) -> None:
        """Set the fields; the three may be positional."""
        super().__init__(tool=tool, tool_input=tool_input, log=log, **kwargs)

    @property
    def messages(self) -> Sequence[BaseMessage]:
        """The messages that led to this action."""
        return [AIMessage(content=self.log)]


class AgentActionMessageLog(AgentAction):
    """A tool call, with the messages in which the model asked for it."""

    message_log: Sequence[SerializeAsAny[BaseMessage]]
    """The messages, to be sent again with the result."""
    type: Literal["AgentActionMessageLog"] = "AgentActionMessageLog"  # type: ignore[assignment]

    @property
    def messages(self) -> Sequence[BaseMessage]:
        """The messages that led to this action."""
        return self.message_log


class AgentStep(_AgentValue):
    """An action and its result."""

    action: SerializeAsAny[AgentAction]
    """The action."""
    observation: Any
    """The output of the tool."""

    @property
    def messages(self) -> Sequence[BaseMessage]:
        """The result as messages for the model."""
        if isinstance(self.action, AgentActionMessageLog):
            content = _as_text(self.observation)
            return [FunctionMessage(name=self.action.tool, content=content)]
        return [HumanMessage(content=self.observation)]


class AgentFinish(_AgentValue):
    """The final result of an agent."""

    return_values: dict[Any, Any]
    """The result, usually under `output`."""
    log: str
    """The complete text of the model."""
    type: Literal["AgentFinish"] = "AgentFinish"

    def __init__(self, return_values: dict[Any, Any], log: str, **kwargs: object) -> None:
        """Set the fields; both may be positional."""
        super().__init__(return_values=return_values, log=log, **kwargs)

    @property
    def messages(self) -> Sequence[BaseMessage]:
        """The final text as a message."""
        return [AIMessage(content=self.log)]


def _as_text(observation: object) -> str:
    if isinstance(observation, str):
        return observation
    try:
        return json.dumps(observation, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(observation)
