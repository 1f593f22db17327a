"""`ChatPromptTemplate`: a list of messages, message templates and placeholders.

Values of variables stay text: they cannot change the role of a message.
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
from foldline._traceback import entry_point
from foldline.exceptions import UsageError
from foldline.load import dumpd
from foldline.messages import AnyMessage, BaseMessage
from foldline.prompt_values import PromptValue
from foldline.prompts._build import chat_value, make_message, text_of
from foldline.prompts._compile import PromptTemplateFormat
from foldline.prompts._files import write_text
from foldline.prompts._message_like import MessageLike, MessageLikeRepresentation, message_template
from foldline.prompts.chat_base import BaseChatPromptTemplate
from foldline.prompts.message import OVERRIDABLE_METHODS, BaseMessagePromptTemplate
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


FAST_TEMPLATES = frozenset(
    {HumanMessagePromptTemplate, AIMessagePromptTemplate, SystemMessagePromptTemplate}
)
"""Template classes with a fast path; subclasses may override methods."""


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
    """Messages and message templates."""
    validate_template: bool = False
    """Whether `input_variables`, if passed, must be those of the messages."""

    _has_default_methods: ClassVar[bool] = True
    """Whether no method is overridden, so that messages may be filled directly."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.__module__.startswith(
            "foldline.prompts."
        ) and not OVERRIDABLE_METHODS.isdisjoint(cls.__dict__):
            cls._has_default_methods = False

    @entry_point
    def __init__(
        self,
        messages: Sequence[MessageLikeRepresentation],
        *,
        template_format: PromptTemplateFormat = "f-string",
        **kwargs: object,
    ) -> None:
        """Create a prompt from messages, templates, texts, (role, template) pairs and dicts."""
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
        """Set the variables from the messages."""
        if not isinstance(values, dict) or not isinstance(values.get("messages"), list):
            return values
        variables = _variables(values["messages"], values)
        passed = values.get("input_variables")
        is_checked = values.get("validate_template") and isinstance(passed, list)
        if is_checked and set(passed or ()) != set(variables["input_variables"]):
            raise UsageError(
                f"Got mismatched input_variables. Expected: {set(variables['input_variables'])}. Got: {passed}. "
                "The messages take what is expected: leave input_variables out"
            )
        return {**values, **variables}

    @property
    def _prompt_type(self) -> str:
        return "chat"

    # -- filling in

    async def _invoke_body(self, input: object, run: Run) -> PromptValue:
        if not self._has_default_methods:
            return await super()._invoke_body(input, run)
        values = input if type(input) is dict else self._validate_input(input)
        for name in self.input_variables:
            if name not in values:
                raise self._missing(values)
        return chat_value(await self._fill_messages(values, run.io))

    async def _fill_messages(self, values: Mapping[str, Any], io: IO) -> list[BaseMessage]:
        if self.partial_variables:
            values = self._merge_values(values)
        messages: list[BaseMessage] = []
        for part in self.messages:
            if type(part) in FAST_TEMPLATES and type(prompt := part.prompt) is PromptTemplate:  # type: ignore[union-attr]
                text = text_of(prompt, values)
                messages.append(make_message(part._msg_class, text, part.additional_kwargs))  # type: ignore[union-attr]
            elif isinstance(part, BaseMessagePromptTemplate) and part._has_default_methods:
                messages += part._fill(values)
            elif isinstance(part, BaseMessage):
                messages.append(part)
            elif io.blocking:
                messages += part.format_messages(**values)
            else:
                messages += await part.aformat_messages(**values)
        return messages

    def format_messages(self, **kwargs: object) -> list[BaseMessage]:
        """Return the messages with the variables filled in."""
        return drive(self._fill_messages(kwargs, BLOCKING))

    async def aformat_messages(self, **kwargs: object) -> list[BaseMessage]:
        """Return the messages with the variables filled in."""
        if type(self).format_messages is not ChatPromptTemplate.format_messages:
            return self.format_messages(**kwargs)  # only the sync method is overridden
        return await self._fill_messages(kwargs, ASYNC)

    def partial(self, **kwargs: object) -> Self:
        """Return a copy with some variables set: values, or functions called whenever the prompt is filled."""
        fields = {
            name: getattr(self, name) for name in type(self).model_fields if name != "messages"
        }
        fields["input_variables"] = [n for n in self.input_variables if n not in kwargs]
        fields["partial_variables"] = {**self.partial_variables, **kwargs}
        return type(self)(messages=self.messages, **fields)

    # -- making

    @classmethod
    def from_template(cls, template: str, **kwargs: Any) -> ChatPromptTemplate:
        """Create a prompt from one human message."""
        return cls.from_messages([HumanMessagePromptTemplate.from_template(template, **kwargs)])

    @classmethod
    def from_messages(
        cls,
        messages: Sequence[MessageLikeRepresentation],
        template_format: PromptTemplateFormat = "f-string",
    ) -> ChatPromptTemplate:
        """Create a prompt from messages, templates, texts, (role, template) pairs and dicts."""
        return cls(messages, template_format=template_format)

    def __add__(self, other: object) -> ChatPromptTemplate:
        """Return a prompt with more messages appended."""
        partials = dict(self.partial_variables)
        if isinstance(other, ChatPromptTemplate):
            added: Sequence[Any] = other.messages
            partials.update(other.partial_variables)
        elif isinstance(other, list | tuple) and not _is_pair(other):
            added = [message_template(message) for message in other]
        elif isinstance(other, StringPromptTemplate):
            added = [HumanMessagePromptTemplate(prompt=other)]
        else:
            added = [message_template(other)]
        return ChatPromptTemplate([*self.messages, *added], partial_variables=partials)

    # -- as a list

    def append(self, message: MessageLikeRepresentation) -> None:
        """Append a message."""
        self.extend([message])

    def extend(self, messages: Sequence[MessageLikeRepresentation]) -> None:
        """Append messages; their variables become required."""
        self.messages.extend([message_template(message) for message in messages])
        variables = _variables(self.messages, self.__dict__)
        for name, value in variables.items():
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
        partials = {
            name: value
            for name, value in self.partial_variables.items()
            if name in part.input_variables or name in part.optional_variables
        }
        return part.partial(**partials) if partials else part

    def __len__(self) -> int:
        """Return the number of messages and templates."""
        return len(self.messages)

    def save(self, file_path: Path | str) -> None:
        """Save this prompt as a JSON file for `load_prompt`."""
        write_text(file_path, json.dumps(dumpd(self), indent=4, ensure_ascii=False))

    def pretty_repr(self, html: bool = False) -> str:  # noqa: FBT001, FBT002  LangChain's signature
        """Return the prompt, message by message."""
        return "\n\n".join(message.pretty_repr(html=html) for message in self.messages)


def _is_pair(value: Sequence[Any]) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str | type)


def _variables(parts: Sequence[MessageLike], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the required and optional variables of messages, and their types."""
    partials = dict(fields.get("partial_variables") or {})
    types = dict(fields.get("input_types") or {})
    required: set[str] = set()
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
        required.update(part.input_variables)
    return {
        "input_variables": sorted(required - set(partials)),
        "optional_variables": sorted(optional),
        "partial_variables": partials,
        "input_types": types,
    }
