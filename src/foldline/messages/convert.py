"""Anything that means a message -> a message: strings, (role, content) pairs, dicts in OpenAI's form.

Roles are rows of a table. What cannot be a message says what it should have been.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from foldline.exceptions import UsageError
from foldline.messages._verbs import runnable_verb
from foldline.messages.ai_message import AIMessage
from foldline.messages.base import BaseMessage
from foldline.messages.chat import ChatMessage
from foldline.messages.dicts import message_from_dict
from foldline.messages.function import FunctionMessage
from foldline.messages.human import HumanMessage
from foldline.messages.kinds import MESSAGE_CLASSES
from foldline.messages.modifier import RemoveMessage
from foldline.messages.system import SystemMessage
from foldline.messages.tool import ToolMessage, default_tool_parser

__all__ = ["MessageLikeRepresentation", "convert_to_message", "convert_to_messages"]

MessageLikeRepresentation: TypeAlias = (
    BaseMessage | list[str] | tuple[str, str] | str | dict[str, Any]
)
"""What may stand for a message."""

COERCION_CODE = " (MESSAGE_COERCION_FAILURE)"
"""The code by which LangChain's users look such an error up."""
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
OWN_FIELDS = frozenset(
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
    """A prompt value, which lives a layer above: it can say itself as messages."""

    def to_messages(self) -> list[BaseMessage]:
        """Return the messages."""
        ...


if TYPE_CHECKING:
    Messages: TypeAlias = Iterable[MessageLikeRepresentation] | HasMessages
else:
    Messages = Iterable


@runnable_verb
def convert_to_messages(messages: Messages) -> list[BaseMessage]:
    """Turn whatever stands for messages into messages; a lone string is one human message."""
    if type(messages) is list:  # by far the most; to ask for a protocol takes 25 µs
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
    """Turn one thing into a message."""
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
        return _of_role(message[0], message[1], {})
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
        shown = {"role": role, **fields}
        raise UsageError(
            f"Message dict must contain 'role' and 'content' keys, this has neither or one: {shown!r:.200}"
            f"{COERCION_CODE}"
        )
    if not isinstance(role, str):
        raise UsageError(f"the role of a message is a string, not {role!r:.80}")
    return _of_role(role, fields.pop("content", None), fields)


def _from_constructor(fields: dict[str, Any]) -> BaseMessage:
    """Read a serialised message; only the name of a message class counts, nothing is imported by name."""
    ids = fields.get("id") or []
    by_name = {cls.__name__: cls for cls in MESSAGE_CLASSES.values()}
    cls = by_name.get(ids[-1]) if isinstance(ids, list) and ids else None
    if cls is None:
        raise UsageError(f"{ids!r:.200} names no message class{COERCION_CODE}")
    kwargs = dict(fields["kwargs"])
    beside = kwargs.get("additional_kwargs")
    if cls is ToolMessage and isinstance(beside, dict) and "artifact" in beside:
        # Some front ends keep the artifact there.
        kwargs.setdefault("artifact", beside["artifact"])
        kwargs["additional_kwargs"] = {k: v for k, v in beside.items() if k != "artifact"}
    return cls(**kwargs)


def _of_role(role: str, content: Any, fields: dict[str, Any]) -> BaseMessage:  # noqa: ANN401  content as a caller wrote it; the message's class checks it
    cls = ROLES.get(role) or MESSAGE_CLASSES.get(role)
    if cls is None:
        known = ", ".join(repr(name) for name in ROLES)
        raise UsageError(
            f"unknown role or type of a message: {role!r:.80}; use one of {known}{COERCION_CODE}"
        )
    kwargs, extra = _sorted_fields(cls, fields)
    if role == "developer":
        extra["__openai_role__"] = "developer"
    if extra:
        beside = kwargs.get("additional_kwargs") or {}
        if not isinstance(beside, dict):
            raise UsageError(f"additional_kwargs is a dict, not {beside!r:.80}")
        kwargs["additional_kwargs"] = {**beside, **extra}
    if issubclass(cls, RemoveMessage):
        return _removal(kwargs)
    if issubclass(cls, ToolMessage) and not kwargs.get("tool_call_id"):
        raise UsageError("a tool message needs 'tool_call_id': the id of the call it answers")
    if issubclass(cls, AIMessage):
        _read_calls(kwargs)
    if content is None:
        content = ""
    return cls(content, **kwargs)


def _sorted_fields(
    cls: type[BaseMessage], fields: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part a message's own fields from what the provider's dialect adds, which is kept beside."""
    kwargs: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in fields.items():
        is_own = name in cls.model_fields or name in OWN_FIELDS
        if name == "tool_calls" and not issubclass(cls, AIMessage):
            is_own = False
        if name != "type":
            (kwargs if is_own else extra)[str(name)] = value
    if issubclass(cls, ChatMessage) and "role" in extra:
        kwargs["role"] = extra.pop("role")
    return {name: value for name, value in kwargs.items() if value is not None}, extra


def _removal(kwargs: dict[str, Any]) -> RemoveMessage:
    if not isinstance(kwargs.get("id"), str):
        raise UsageError("a remove message needs 'id': the id of the message to remove")
    return RemoveMessage(**kwargs)


def _read_calls(kwargs: dict[str, Any]) -> None:
    """Read tool calls in OpenAI's form or in ours; one that does not parse is kept as invalid."""
    calls = kwargs.get("tool_calls")
    if calls is None:
        return
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise UsageError(f"tool_calls are a list of dicts, not {calls!r:.200}")
    native = [call for call in calls if "function" in call]
    parsed, invalid = default_tool_parser(native)
    kwargs["tool_calls"] = [*(call for call in calls if "function" not in call), *parsed]
    kwargs["invalid_tool_calls"] = [*(kwargs.get("invalid_tool_calls") or []), *invalid]
