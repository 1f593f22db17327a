"""The requests and responses that middleware receives: `ModelRequest`, `ModelResponse`, `ToolCallRequest`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from foldline.agents.runtime import Runtime, ToolRuntime
from foldline.exceptions import UsageError
from foldline.messages import AIMessage, BaseMessage, SystemMessage
from foldline.messages.tool import ToolCall
from foldline.tools.base import BaseTool
from foldline.workflows.interrupts import Command

__all__ = [
    "ExtendedModelResponse",
    "ModelCallResult",
    "ModelRequest",
    "ModelResponse",
    "ToolCallRequest",
]


@dataclass(slots=True, init=False)
class ModelRequest:
    """A request to the model; `override` returns a changed copy."""

    model: Any
    messages: list[BaseMessage]
    system_message: SystemMessage | None = None
    tool_choice: Any = None
    tools: Sequence[Any] = ()
    response_format: Any = None
    state: dict[str, Any] = field(default_factory=dict)
    runtime: Runtime[Any] = field(default_factory=Runtime)
    model_settings: Mapping[str, Any] = field(default_factory=dict)

    def __init__(
        self,
        *,
        model: Any,  # noqa: ANN401  a chat model, or a test double
        messages: list[BaseMessage],
        system_message: SystemMessage | None = None,
        system_prompt: str | None = None,
        **fields: Any,
    ) -> None:
        """Make a request; `system_prompt` is the text of a system message."""
        if system_prompt is not None and system_message is not None:
            raise UsageError("pass system_prompt or system_message, not both")
        self.model = model
        self.messages = messages
        self.system_message = (
            system_message if system_prompt is None else SystemMessage(system_prompt)
        )
        self.tool_choice = fields.pop("tool_choice", None)
        self.tools = fields.pop("tools", ())
        self.response_format = fields.pop("response_format", None)
        self.state = fields.pop("state", None) or {}
        self.runtime = fields.pop("runtime", None) or Runtime()
        self.model_settings = fields.pop("model_settings", None) or {}
        if fields:
            raise TypeError(f"ModelRequest has no field {', '.join(sorted(fields))}")

    @property
    def system_prompt(self) -> str | None:
        """The text of the system message."""
        return None if self.system_message is None else str(self.system_message.text)

    def override(self, **changes: Any) -> ModelRequest:
        """Return a copy with some fields changed; `system_prompt=` takes a text."""
        if "system_prompt" in changes:
            if "system_message" in changes:
                raise UsageError("pass system_prompt or system_message, not both")
            text = changes.pop("system_prompt")
            changes["system_message"] = None if text is None else SystemMessage(text)
        return replace(self, **changes)


@dataclass(slots=True)
class ModelResponse:
    """The result of a model call: its messages, and the structured answer if there is one."""

    result: list[BaseMessage]
    structured_response: Any = None

    @property
    def message(self) -> AIMessage | None:
        """The model's message, the first AIMessage of the result."""
        return next((item for item in self.result if isinstance(item, AIMessage)), None)


@dataclass(slots=True)
class ExtendedModelResponse:
    """A response with a state change that is applied after it; a middleware around the model may return it."""

    model_response: ModelResponse
    command: Command[Any] | None = None

    def __class_getitem__(cls, _: object) -> type[ExtendedModelResponse]:
        """Return the class: the type of the structured answer is for checkers."""
        return cls


ModelCallResult = ModelResponse | AIMessage | ExtendedModelResponse
"""What a middleware around the model may return."""


@dataclass(slots=True)
class ToolCallRequest:
    """A tool call before it runs; `override` returns a changed copy."""

    tool_call: ToolCall
    tool: BaseTool | None
    """None if the model called a tool that does not exist."""
    state: dict[str, Any]
    runtime: ToolRuntime[Any]

    def override(self, **changes: Any) -> ToolCallRequest:
        """Return a copy with some fields changed."""
        return replace(self, **changes)


def response_of(
    value: object, where: str, commands: list[Command[Any]] | None = None
) -> ModelResponse:
    """Return a middleware's result as a response; it may be a message. Its command is added to `commands`."""
    if isinstance(value, ExtendedModelResponse):
        command, value = value.command, value.model_response
        if command is not None and (command.goto or command.resume or command.graph):
            raise UsageError(
                f"the Command of {where} can change the state only: goto, resume and graph mean nothing here"
            )
        if command is not None and commands is not None:
            commands.append(command)
    if isinstance(value, ModelResponse):
        return value
    if isinstance(value, AIMessage):
        return ModelResponse([value])
    raise UsageError(
        f"{where} must return a ModelResponse or an AIMessage, not {type(value).__name__}: "
        "return the handler's result"
    )
