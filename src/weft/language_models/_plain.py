"""Messages and results made from values that need no checking, for the path of every call.

A validated message costs three to five microseconds, one made here under one.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel

from weft.messages import AIMessage, BaseMessage, HumanMessage
from weft.outputs import ChatGeneration, ChatResult
from weft.outputs.generation import build_trusted

M = TypeVar("M", bound=BaseMessage)

_slots = vars(BaseModel)
_set_dict = _slots["__dict__"].__set__
_set_fields_set = _slots["__pydantic_fields_set__"].__set__
_set_extra = _slots["__pydantic_extra__"].__set__
_set_private = _slots["__pydantic_private__"].__set__


def human(text: str) -> HumanMessage:
    """Make what a human said; text beyond ASCII is checked for half characters."""
    if not text.isascii():
        return HumanMessage(content=text)
    fields: dict[str, Any] = {
        "content": text,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": "human",
        "name": None,
        "id": None,
    }
    return _made(HumanMessage, fields)


def answer(text: str) -> AIMessage:
    """Make an answer that is plain text."""
    if not text.isascii():
        return AIMessage(content=text)
    fields: dict[str, Any] = {
        "content": text,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": "ai",
        "name": None,
        "id": None,
        "tool_calls": [],
        "invalid_tool_calls": [],
        "usage_metadata": None,
        "finish_reason": None,
        "status": "complete",
    }
    return _made(AIMessage, fields)


def result_of(message: BaseMessage) -> ChatResult:
    """Make the result that is one message."""
    generations = [ChatGeneration._trusted(message)]
    return build_trusted(ChatResult, {"generations": generations, "llm_output": None})


def name_message(message: BaseMessage, id: str) -> None:
    """Give a message its id, past validation where its class has nothing more to do."""
    if type(message) is AIMessage:
        message.__dict__["id"] = id
        message.__pydantic_fields_set__.add("id")
    else:
        message.id = id


def _made(cls: type[M], fields: dict[str, Any]) -> M:
    message = cls.__new__(cls)
    _set_dict(message, fields)
    _set_fields_set(message, {"content"})
    _set_extra(message, {})
    _set_private(message, None)
    return message
