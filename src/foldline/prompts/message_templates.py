"""Templates of single messages by role: text, or a list of texts, images and other blocks.

Also the placeholder for existing messages. Public in `foldline.prompts.chat`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, PositiveInt, SerializeAsAny

from foldline.exceptions import UsageError
from foldline.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    convert_to_messages,
)
from foldline.messages.base import get_msg_title_repr
from foldline.prompts._build import make_message, text_of
from foldline.prompts._compile import PromptTemplateFormat
from foldline.prompts.dict import DictPromptTemplate, check_texts
from foldline.prompts.image import ImagePromptTemplate
from foldline.prompts.message import BaseMessagePromptTemplate
from foldline.prompts.prompt import PromptTemplate
from foldline.prompts.string import StringPromptTemplate
from foldline.utils.formatting import MissingVariableError
from foldline.utils.input import get_colored_text

__all__ = [
    "AIMessagePromptTemplate",
    "BaseStringMessagePromptTemplate",
    "ChatMessagePromptTemplate",
    "HumanMessagePromptTemplate",
    "MessagesPlaceholder",
    "SystemMessagePromptTemplate",
]

Part = StringPromptTemplate | ImagePromptTemplate | DictPromptTemplate


class MessagesPlaceholder(BaseMessagePromptTemplate):
    """A placeholder in a chat prompt for existing messages: a history, an agent's steps.

    ```python
    from foldline.prompts import MessagesPlaceholder

    place = MessagesPlaceholder("history", n_messages=1)
    print([message.text for message in place.format_messages(history=[("human", "hi"), "again"])])
    #> ['again']
    ```
    """

    variable_name: str
    """The variable with the messages."""
    optional: bool = False
    """Whether it may be missing, which means no messages."""
    n_messages: PositiveInt | None = None
    """How many of the last messages are used; None for all."""

    def __init__(self, variable_name: str, *, optional: bool = False, **kwargs: object) -> None:
        """Create a placeholder for a variable."""
        super().__init__(variable_name=variable_name, optional=optional, **kwargs)

    @property
    def input_variables(self) -> list[str]:
        """The variable, unless it is optional."""
        return [] if self.optional else [self.variable_name]

    def format_messages(self, **kwargs: object) -> list[BaseMessage]:
        """Return the messages of the variable; pairs, texts and dicts are converted."""
        return self._fill(kwargs)

    def _fill(self, values: Mapping[str, Any]) -> list[BaseMessage]:
        name = self.variable_name
        if name not in values:
            if self.optional:
                return []
            raise MissingVariableError(
                f"no messages were given for the placeholder {name!r}; given were {[str(n) for n in values]}"
            )
        messages = self._messages(values[name])
        return messages[-self.n_messages :] if self.n_messages else messages

    def _messages(self, value: object) -> list[BaseMessage]:
        if isinstance(value, list):
            for message in value:
                if not isinstance(message, BaseMessage):
                    return convert_to_messages(value)
            return value.copy()
        if value is None and self.optional:
            return []
        if isinstance(value, tuple) or hasattr(value, "to_messages"):
            messages: list[BaseMessage] = convert_to_messages(value)
            return messages
        raise UsageError(
            f"the placeholder {self.variable_name!r} takes a list of messages, not {type(value).__name__}"
        )

    def pretty_repr(self, html: bool = False) -> str:  # noqa: FBT001, FBT002  LangChain's signature
        """Return the variable under a title line."""
        placeholder = f"{{{self.variable_name}}}"
        title = get_msg_title_repr("Messages Placeholder", bold=html)
        return f"{title}\n\n{get_colored_text(placeholder, 'yellow') if html else placeholder}"


class _SingleMessageTemplate(BaseMessagePromptTemplate, ABC):
    """The base of templates that create exactly one message."""

    @abstractmethod
    def _message(self, values: Mapping[str, Any]) -> BaseMessage: ...

    def format(self, **kwargs: object) -> BaseMessage:
        """Return the message with the variables filled in."""
        return self._message(kwargs)

    async def aformat(self, **kwargs: object) -> BaseMessage:
        """Return the message with the variables filled in."""
        return self.format(**kwargs)

    def format_messages(self, **kwargs: object) -> list[BaseMessage]:
        """Return the message as a list of one."""
        return [self.format(**kwargs)]

    async def aformat_messages(self, **kwargs: object) -> list[BaseMessage]:
        """Return the message as a list of one."""
        return [await self.aformat(**kwargs)]

    def _fill(self, values: Mapping[str, Any]) -> list[BaseMessage]:
        return [self._message(values)]


class BaseStringMessagePromptTemplate(_SingleMessageTemplate, ABC):
    """A message of one text. A subclass implements `format`."""

    prompt: SerializeAsAny[StringPromptTemplate]
    """The text."""
    additional_kwargs: dict[str, Any] = Field(default_factory=dict)
    """The `additional_kwargs` of the message."""

    @classmethod
    def from_template(
        cls,
        template: str,
        template_format: PromptTemplateFormat = "f-string",
        partial_variables: dict[str, Any] | None = None,
        **kwargs: object,
    ) -> Self:
        """Create a message template from a text."""
        prompt = PromptTemplate.from_template(
            template, template_format=template_format, partial_variables=partial_variables
        )
        return cls(prompt=prompt, **kwargs)

    @classmethod
    def from_template_file(cls, template_file: str | Path, **kwargs: object) -> Self:
        """Create a message template from a file."""
        return cls(prompt=PromptTemplate.from_file(template_file), **kwargs)

    @abstractmethod
    def format(self, **kwargs: object) -> BaseMessage:
        """Return the message with the variables filled in."""

    def _message(self, values: Mapping[str, Any]) -> BaseMessage:
        return self.format(**values)

    @property
    def input_variables(self) -> list[str]:
        """The variables of the text."""
        return self.prompt.input_variables

    def pretty_repr(self, html: bool = False) -> str:  # noqa: FBT001, FBT002  LangChain's signature
        """Return the text under a title line."""
        title = type(self).__name__.replace("MessagePromptTemplate", " Message")
        return f"{get_msg_title_repr(title, bold=html)}\n\n{self.prompt.pretty_repr(html=html)}"


class ChatMessagePromptTemplate(BaseStringMessagePromptTemplate):
    """A message of any role."""

    role: str
    """The role of the speaker."""

    def format(self, **kwargs: object) -> BaseMessage:
        """Return the message with the variables filled in."""
        return self._message(kwargs)

    def _message(self, values: Mapping[str, Any]) -> BaseMessage:
        text = _text(self.prompt, values)
        return ChatMessage(text, role=self.role, additional_kwargs=dict(self.additional_kwargs))


EMPTY_TEXT = {"type": "text", "text": ""}


class _RoleMessagePromptTemplate(_SingleMessageTemplate):
    """A message of text, or of parts: text, images, other blocks."""

    prompt: (
        SerializeAsAny[StringPromptTemplate]
        | list[
            Annotated[
                SerializeAsAny[StringPromptTemplate]
                | SerializeAsAny[ImagePromptTemplate]
                | SerializeAsAny[DictPromptTemplate],
                Field(union_mode="left_to_right"),
            ]
        ]
    )
    """The text, or the parts."""
    additional_kwargs: dict[str, Any] = Field(default_factory=dict)
    """The `additional_kwargs` of the message."""

    _msg_class: ClassVar[type[BaseMessage]]

    @classmethod
    def from_template(
        cls,
        template: str | Sequence[str | dict[str, Any]] | dict[str, Any],
        template_format: PromptTemplateFormat = "f-string",
        *,
        partial_variables: dict[str, Any] | None = None,
        **kwargs: object,
    ) -> Self:
        """Create a message template from a text, or from parts."""
        if isinstance(template, str):
            prompt: Part | list[Part] = PromptTemplate.from_template(
                template, template_format=template_format, partial_variables=partial_variables
            )
        else:
            if partial_variables:
                raise UsageError(
                    "Partial variables are not supported for list of templates: give them to the chat prompt"
                )
            parts = [template] if isinstance(template, dict) else template
            if not isinstance(parts, Sequence):
                raise UsageError(
                    f"Invalid template: {parts!r:.80}. A template is text or a list of parts, not "
                    f"{type(parts).__name__}"
                )
            prompt = [_part(part, template_format) for part in parts]
        return cls(prompt=prompt, **kwargs)

    @classmethod
    def from_template_file(
        cls, template_file: str | Path, input_variables: list[str] | None = None, **kwargs: object
    ) -> Self:
        """Create a message template from a file."""
        return cls(prompt=PromptTemplate.from_file(template_file), **kwargs)

    def _message(self, values: Mapping[str, Any]) -> BaseMessage:
        prompt = self.prompt
        if type(prompt) is PromptTemplate:
            content: Any = text_of(prompt, values)
        elif isinstance(prompt, list):
            blocks = [_block(part, values) for part in prompt]
            # Empty texts are left out, such as those of empty sections: providers refuse them.
            content = [block for block in blocks if block != EMPTY_TEXT] or blocks[:1]
        else:
            content = _text(prompt, values)
        return make_message(self._msg_class, content, self.additional_kwargs)

    @property
    def input_variables(self) -> list[str]:
        """The variables of the text, or of all parts."""
        parts = self.prompt if isinstance(self.prompt, list) else [self.prompt]
        names = [name for part in parts for name in part.input_variables]
        return list(dict.fromkeys(names))

    def pretty_repr(self, html: bool = False) -> str:  # noqa: FBT001, FBT002  LangChain's signature
        """Return the text, or the parts, under a title line."""
        title = type(self).__name__.replace("MessagePromptTemplate", " Message")
        parts = self.prompt if isinstance(self.prompt, list) else [self.prompt]
        body = "\n\n".join(part.pretty_repr(html=html) for part in parts)
        return f"{get_msg_title_repr(title, bold=html)}\n\n{body}"


class HumanMessagePromptTemplate(_RoleMessagePromptTemplate):
    """A message from the user."""

    _msg_class: ClassVar[type[BaseMessage]] = HumanMessage


class AIMessagePromptTemplate(_RoleMessagePromptTemplate):
    """A message from the model."""

    _msg_class: ClassVar[type[BaseMessage]] = AIMessage


class SystemMessagePromptTemplate(_RoleMessagePromptTemplate):
    """A system message: instructions for the model."""

    _msg_class: ClassVar[type[BaseMessage]] = SystemMessage


def _text(prompt: StringPromptTemplate, values: Mapping[str, Any]) -> str:
    if type(prompt) is PromptTemplate:
        return text_of(prompt, values)
    names = {*prompt.input_variables, *prompt.optional_variables}
    return prompt.format(**{name: values[name] for name in names if name in values})


def _part(part: str | dict[str, Any], kind: PromptTemplateFormat) -> Part:
    if isinstance(part, str):
        return PromptTemplate.from_template(part, template_format=kind)
    if not isinstance(part, dict):
        raise UsageError(f"a part of a message is text or a dict, not {type(part).__name__}")
    keys = set(part)
    if keys <= {"type", "text"} and isinstance(part.get("text"), str):
        return PromptTemplate.from_template(part["text"], template_format=kind)
    if keys <= {"type", "image_url"} and "image_url" in part:
        return _image_part(part["image_url"], kind)
    if kind == "jinja2":
        raise UsageError("a dict part has f-string or mustache templates, not jinja2")
    check_texts(part, kind)
    return DictPromptTemplate(template=part, template_format=kind)


def _image_part(image: object, kind: PromptTemplateFormat) -> ImagePromptTemplate:
    template = {"url": image} if isinstance(image, str) else image
    if not isinstance(template, dict):
        raise UsageError(f"image_url is text or a dict with 'url', not {type(image).__name__}")
    check_texts(template, kind)
    return ImagePromptTemplate(template=template, template_format=kind)


def _block(part: Part, values: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(part, StringPromptTemplate):
        return {"type": "text", "text": _text(part, values)}
    if isinstance(part, ImagePromptTemplate):
        # Only its own variables: `url` or `detail` may be other variables of the chat prompt.
        part_values = {name: values[name] for name in part.input_variables if name in values}
        return {"type": "image_url", "image_url": part._image(part_values)}
    return part._fill(values)
