"""`ChatPromptTemplate`: a prompt that is a list of messages, templates of messages, and places for messages.

What a variable is filled with stays text: a message's role comes from the template alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar, overload

from pydantic import SkipValidation, model_validator

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline._run import Run
from foldline.exceptions import UsageError
from foldline.load import dumpd
from foldline.messages import AnyMessage, BaseMessage
from foldline.prompt_values import PromptValue
from foldline.prompts._build import chat_value, make_message, text_of
from foldline.prompts._compile import PromptTemplateFormat
from foldline.prompts._files import write_text
from foldline.prompts._message_like import MessageLike, MessageLikeRepresentation, message_template
from foldline.prompts.chat_base import BaseChatPromptTemplate
from foldline.prompts.message import BY_HAND, BaseMessagePromptTemplate
from foldline.prompts.message_templates import (
    AIMessagePromptTemplate,
    BaseStringMessagePromptTemplate,
    ChatMessagePromptTemplate,
    HumanMessagePromptTemplate,
    MessagesPlaceholder,
    SystemMessagePromptTemplate,
)
from foldline.prompts.prompt import PromptTemplate
from foldline.prompts.string import StringPromptTemplate

__all__ = [
    "AIMessagePromptTemplate",
    "BaseChatPromptTemplate",
    "BaseMessagePromptTemplate",
    "BaseStringMessagePromptTemplate",
    "ChatMessagePromptTemplate",
    "ChatPromptTemplate",
    "HumanMessagePromptTemplate",
    "MessageLike",
    "MessageLikeRepresentation",
    "MessagePromptTemplateT",
    "MessagesPlaceholder",
    "SystemMessagePromptTemplate",
]

MessagePromptTemplateT = TypeVar("MessagePromptTemplateT", bound=BaseStringMessagePromptTemplate)


ONE_MESSAGE = frozenset(
    {HumanMessagePromptTemplate, AIMessagePromptTemplate, SystemMessagePromptTemplate}
)
"""What chat prompts are mostly made of; a subclass may have its own way."""


class ChatPromptTemplate(BaseChatPromptTemplate):
    """A prompt for chat models.

    ```python
    from foldline.prompts import ChatPromptTemplate

    prompt = ChatPromptTemplate([
        ("system", "You are {name}."),
        ("placeholder", "{history}"),
        ("human", "{question}"),
    ])
    value = prompt.invoke({"name": "Bob", "history": [("human", "hi"), ("ai", "hello")], "question": "Who?"})
    print(value.to_string())
    '''
    System: You are Bob.
    Human: hi
    AI: hello
    Human: Who?
    '''
    ```
    """

    messages: Annotated[list[MessageLike], SkipValidation()]
    """Messages, and templates of messages."""
    validate_template: bool = False
    """Whether `input_variables`, where given, must be those of the messages."""

    _is_ours: ClassVar[bool] = True
    """Whether nothing was written by hand, so that the messages may be filled in straight away."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.__module__.startswith("foldline.prompts.") and not BY_HAND.isdisjoint(
            cls.__dict__
        ):
            cls._is_ours = False

    def __init__(
        self,
        messages: Sequence[MessageLikeRepresentation],
        *,
        template_format: PromptTemplateFormat = "f-string",
        **kwargs: object,
    ) -> None:
        """Make a prompt of messages, templates, texts, (role, template) pairs and dicts."""
        if isinstance(messages, str | Mapping) or not isinstance(messages, Sequence):
            raise UsageError(
                f"a chat prompt is a list of messages, not {type(messages).__name__}: "
                "write ChatPromptTemplate.from_template for one text"
            )
        parts = [message_template(message, template_format) for message in messages]
        super().__init__(messages=parts, **kwargs)

    @model_validator(mode="before")
    @classmethod
    def validate_input_variables(cls, values: object) -> object:
        """Read the variables from the messages."""
        if not isinstance(values, dict) or not isinstance(values.get("messages"), list):
            return values
        found = _variables(values["messages"], values)
        asked = values.get("input_variables")
        is_checked = values.get("validate_template") and isinstance(asked, list)
        if is_checked and set(asked or ()) != set(found["input_variables"]):
            raise UsageError(
                f"Got mismatched input_variables. Expected: {set(found['input_variables'])}. Got: {asked}. "
                "The messages take what is expected: leave input_variables out"
            )
        return {**values, **found}

    @property
    def _prompt_type(self) -> str:
        return "chat"

    # -- filling in

    async def _invoke_body(self, input: object, run: Run) -> PromptValue:
        if not self._is_ours:
            return await super()._invoke_body(input, run)
        values = input if type(input) is dict else self._validate_input(input)
        for name in self.input_variables:
            if name not in values:
                raise self._missing(values)
        return chat_value(await self._filled(values, run.io))

    async def _filled(self, values: Mapping[str, Any], io: IO) -> list[BaseMessage]:
        if self.partial_variables:
            values = self._merged(values)
        filled: list[BaseMessage] = []
        for part in self.messages:
            if type(part) in ONE_MESSAGE and type(prompt := part.prompt) is PromptTemplate:  # type: ignore[union-attr]
                text = text_of(prompt, values)
                filled.append(make_message(part._msg_class, text, part.additional_kwargs))  # type: ignore[union-attr]
            elif isinstance(part, BaseMessagePromptTemplate) and part._is_ours:
                filled += part._fill(values)
            elif isinstance(part, BaseMessage):
                filled.append(part)
            elif io.blocking:
                filled += part.format_messages(**values)
            else:
                filled += await part.aformat_messages(**values)
        return filled

    def format_messages(self, **kwargs: object) -> list[BaseMessage]:
        """Fill in the variables; give the messages."""
        return drive(self._filled(kwargs, BLOCKING))

    async def aformat_messages(self, **kwargs: object) -> list[BaseMessage]:
        """Fill in the variables; give the messages."""
        if type(self).format_messages is not ChatPromptTemplate.format_messages:
            return self.format_messages(**kwargs)  # an author's, who wrote no twin
        return await self._filled(kwargs, ASYNC)

    def partial(self, **kwargs: object) -> Self:
        """Give some variables now: values, or functions called whenever the prompt is filled in."""
        fields = {
            name: getattr(self, name) for name in type(self).model_fields if name != "messages"
        }
        fields["input_variables"] = [n for n in self.input_variables if n not in kwargs]
        fields["partial_variables"] = {**self.partial_variables, **kwargs}
        return type(self)(messages=self.messages, **fields)

    # -- making

    @classmethod
    def from_template(cls, template: str, **kwargs: Any) -> ChatPromptTemplate:
        """Make a prompt of one human message."""
        return cls.from_messages([HumanMessagePromptTemplate.from_template(template, **kwargs)])

    @classmethod
    def from_messages(
        cls,
        messages: Sequence[MessageLikeRepresentation],
        template_format: PromptTemplateFormat = "f-string",
    ) -> ChatPromptTemplate:
        """Make a prompt of messages, templates, texts, (role, template) pairs and dicts."""
        return cls(messages, template_format=template_format)

    def __add__(self, other: object) -> ChatPromptTemplate:
        """Write more messages after these."""
        partials = dict(self.partial_variables)
        if isinstance(other, ChatPromptTemplate):
            more: Sequence[Any] = other.messages
            partials.update(other.partial_variables)
        elif isinstance(other, list | tuple) and not _is_pair(other):
            more = [message_template(message) for message in other]
        elif isinstance(other, StringPromptTemplate):
            more = [HumanMessagePromptTemplate(prompt=other)]
        else:
            more = [message_template(other)]
        return ChatPromptTemplate([*self.messages, *more], partial_variables=partials)

    # -- as a list

    def append(self, message: MessageLikeRepresentation) -> None:
        """Write one more message at the end."""
        self.extend([message])

    def extend(self, messages: Sequence[MessageLikeRepresentation]) -> None:
        """Write more messages at the end; their variables are asked for from now on."""
        self.messages.extend([message_template(message) for message in messages])
        found = _variables(self.messages, self.__dict__)
        for name, value in found.items():
            setattr(self, name, value)

    @overload
    def __getitem__(self, index: int) -> MessageLike: ...
    @overload
    def __getitem__(self, index: slice) -> ChatPromptTemplate: ...
    def __getitem__(self, index: int | slice) -> MessageLike | ChatPromptTemplate:
        """Return a message, or a prompt of some of them."""
        if not isinstance(index, slice):
            return self.messages[index]
        part = ChatPromptTemplate(self.messages[index])
        known = {
            name: value
            for name, value in self.partial_variables.items()
            if name in part.input_variables or name in part.optional_variables
        }
        return part.partial(**known) if known else part

    def __len__(self) -> int:
        """Say how many messages and templates there are."""
        return len(self.messages)

    def save(self, file_path: Path | str) -> None:
        """Write this prompt as a JSON file, which `load_prompt` reads."""
        write_text(file_path, json.dumps(dumpd(self), indent=4, ensure_ascii=False))

    def pretty_repr(self, html: bool = False) -> str:  # noqa: FBT001, FBT002  LangChain's signature
        """Show the prompt, message by message."""
        return "\n\n".join(message.pretty_repr(html=html) for message in self.messages)


def _is_pair(given: Sequence[Any]) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str | type)


def _variables(parts: Sequence[MessageLike], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of messages: those needed, those that may be missing, and their types."""
    partials = dict(given.get("partial_variables") or {})
    types = dict(given.get("input_types") or {})
    needed: set[str] = set()
    optional: set[str] = set()
    for part in parts:
        if isinstance(part, BaseMessage):
            continue
        if isinstance(part, MessagesPlaceholder):
            types.setdefault(part.variable_name, list[AnyMessage])
            if part.optional:
                optional.add(part.variable_name)
                partials.setdefault(part.variable_name, [])
        elif isinstance(part, ChatPromptTemplate):
            optional.update(part.optional_variables)
            types = {**part.input_types, **types}
        needed.update(part.input_variables)
    return {
        "input_variables": sorted(needed - set(partials)),
        "optional_variables": sorted(optional),
        "partial_variables": partials,
        "input_types": types,
    }
