"""Convert strings, (role, content) pairs and dicts in OpenAI's format to messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from foldline.exceptions import UsageError
from foldline.messages._kinds import MESSAGE_CLASSES
from foldline.messages._runnable_function import runnable_function
from foldline.messages.ai_message import AIMessage
from foldline.messages.base import BaseMessage
from foldline.messages.chat import ChatMessage
from foldline.messages.dicts import message_from_dict
from foldline.messages.function import FunctionMessage
from foldline.messages.human import HumanMessage
from foldline.messages.modifier import RemoveMessage
from foldline.messages.system import SystemMessage
from foldline.messages.tool import ToolMessage, default_tool_parser

__all__ = [
    "MessageLikeRepresentation",
    "convert_to_messages",
]

MessageLikeRepresentation: TypeAlias = (
    BaseMessage | list[str] | tuple[str, str] | str | dict[str, Any]
)
"""Values that can be converted to a message."""

COERCION_CODE = " (MESSAGE_COERCION_FAILURE)"
"""LangChain's code of this error, for looking it up."""
ROLES: dict[str, type[BaseMessage]] = {
    "human": HumanMessage,
    "user": HumanMessage,
    "ai": AIMessage,
    "assistant": AIMessage,
    "agent": AIMessage,
    "model": AIMessage,
    "system": SystemMessage,
    "developer": SystemMessage,
    "function": FunctionMessage,
    "tool": ToolMessage,
    "remove": RemoveMessage,
}
MESSAGE_FIELDS = frozenset(
    {
        "name",
        "id",
        "tool_call_id",
        "artifact",
        "status",
        "response_metadata",
        "usage_metadata",
        "invalid_tool_calls",
        "finish_reason",
        "example",
    }
)
CONSTRUCTOR = "constructor"


@runtime_checkable
class HasMessages(Protocol):
    """A prompt value, which this layer cannot import: it can be converted to messages."""

    def to_messages(self) -> list[BaseMessage]:
        """Return the messages."""
        ...


if TYPE_CHECKING:
    Messages: TypeAlias = Iterable[MessageLikeRepresentation] | HasMessages
else:
    Messages = Iterable


@runnable_function
def convert_to_messages(messages: Messages) -> list[BaseMessage]:
    """Return messages converted from any accepted form; a single string is one human message."""
    if type(messages) is list:  # the most frequent; a protocol check takes 25 µs
        return [convert_to_message(message) for message in messages]
    if isinstance(messages, str | BaseMessage | Mapping):
        return [convert_to_message(messages)]
    if isinstance(messages, HasMessages):
        return messages.to_messages()
    if not isinstance(messages, Iterable):
        raise UsageError(
            f"messages are a list of messages, strings, (role, content) pairs or dicts,"
            f" not {type(messages).__name__}"
        )
    return [convert_to_message(message) for message in messages]


def convert_to_message(message: object) -> BaseMessage:
    """Return a message converted from any accepted form."""
    if isinstance(message, BaseMessage):
        return message
    if isinstance(message, str):
        return HumanMessage(message)
    if isinstance(message, Mapping):
        return _from_dict(dict(message))
    if isinstance(message, list | tuple):
        if len(message) != 2 or not isinstance(message[0], str):
            raise UsageError(
                f"a pair that means a message is (role, content), not {message!r:.200}{COERCION_CODE}"
            )
        return _message_of_role(message[0], message[1], {})
    template = getattr(message, "to_message", None)
    if callable(template):
        return convert_to_message(template())
    raise UsageError(
        f"{type(message).__name__} is no message: give a message, a string, a (role, content) pair"
        f" or a dict with 'role' and 'content'{COERCION_CODE}"
    )


def _from_dict(fields: dict[str, Any]) -> BaseMessage:
    if fields.get("type") == CONSTRUCTOR and isinstance(fields.get("kwargs"), dict):
        return _from_constructor(fields)
    if isinstance(fields.get("data"), dict) and str(fields.get("type")) in MESSAGE_CLASSES:
        return message_from_dict(fields)
    role = fields.pop("role", None) or fields.pop("type", None)
    calls = fields.get("tool_calls")
    if role is None or ("content" not in fields and not calls and role != "remove"):
        all_fields = {"role": role, **fields}
        raise UsageError(
            f"Message dict must contain 'role' and 'content' keys, this has neither or one: {all_fields!r:.200}"
            f"{COERCION_CODE}"
        )
    if not isinstance(role, str):
        raise UsageError(f"the role of a message is a string, not {role!r:.80}")
    return _message_of_role(role, fields.pop("content", None), fields)


def _from_constructor(fields: dict[str, Any]) -> BaseMessage:
    """Return a serialized message; only names of message classes are accepted, nothing is imported."""
    ids = fields.get("id") or []
    by_name = {cls.__name__: cls for cls in MESSAGE_CLASSES.values()}
    cls = by_name.get(ids[-1]) if isinstance(ids, list) and ids else None
    if cls is None:
        raise UsageError(f"{ids!r:.200} names no message class{COERCION_CODE}")
    kwargs = dict(fields["kwargs"])
    additional_kwargs = kwargs.get("additional_kwargs")
    if (
        cls is ToolMessage
        and isinstance(additional_kwargs, dict)
        and "artifact" in additional_kwargs
    ):
        # Some front ends store the artifact there.
        kwargs.setdefault("artifact", additional_kwargs["artifact"])
        kwargs["additional_kwargs"] = {
            k: v for k, v in additional_kwargs.items() if k != "artifact"
        }
    return cls(**kwargs)


def _message_of_role(role: str, content: Any, fields: dict[str, Any]) -> BaseMessage:  # noqa: ANN401  the caller's content; the message class validates it
    cls = ROLES.get(role) or MESSAGE_CLASSES.get(role)
    if cls is None:
        roles = ", ".join(repr(name) for name in ROLES)
        raise UsageError(
            f"unknown role or type of a message: {role!r:.80}; use one of {roles}{COERCION_CODE}"
        )
    kwargs, extra = _split_fields(cls, fields)
    if role == "developer":
        extra["__openai_role__"] = "developer"
    if extra:
        additional_kwargs = kwargs.get("additional_kwargs") or {}
        if not isinstance(additional_kwargs, dict):
            raise UsageError(f"additional_kwargs is a dict, not {additional_kwargs!r:.80}")
        kwargs["additional_kwargs"] = {**additional_kwargs, **extra}
    if issubclass(cls, RemoveMessage):
        return _removal(kwargs)
    if issubclass(cls, ToolMessage) and not kwargs.get("tool_call_id"):
        raise UsageError("a tool message needs 'tool_call_id': the id of the call it answers")
    if issubclass(cls, AIMessage):
        _read_calls(kwargs)
    if content is None:
        content = ""
    return cls(content, **kwargs)


def _split_fields(
    cls: type[BaseMessage], fields: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split fields into those of the message class and provider-specific ones, for `additional_kwargs`."""
    kwargs: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in fields.items():
        is_message_field = name in cls.model_fields or name in MESSAGE_FIELDS
        if name == "tool_calls" and not issubclass(cls, AIMessage):
            is_message_field = False
        if name != "type":
            (kwargs if is_message_field else extra)[str(name)] = value
    if issubclass(cls, ChatMessage) and "role" in extra:
        kwargs["role"] = extra.pop("role")
    return {name: value for name, value in kwargs.items() if value is not None}, extra


def _removal(kwargs: dict[str, Any]) -> RemoveMessage:
    if not isinstance(kwargs.get("id"), str):
        raise UsageError("a remove message needs 'id': the id of the message to remove")
    return RemoveMessage(**kwargs)


def _read_calls(kwargs: dict[str, Any]) -> None:
    """Parse tool calls in OpenAI's format or ours; one that does not parse becomes an invalid call."""
    calls = kwargs.get("tool_calls")
    if calls is None:
        return
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise UsageError(f"tool_calls are a list of dicts, not {calls!r:.200}")
    native = [call for call in calls if "function" in call]
    parsed, invalid = default_tool_parser(native)
    kwargs["tool_calls"] = [*(call for call in calls if "function" not in call), *parsed]
    kwargs["invalid_tool_calls"] = [*(kwargs.get("invalid_tool_calls") or []), *invalid]
