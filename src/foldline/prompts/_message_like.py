"""Convert (role, template) pairs, texts and dicts to messages and message templates of a chat prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from foldline.exceptions import UsageError
from foldline.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage
from foldline.prompts._compile import PromptTemplateFormat
from foldline.prompts.chat_base import BaseChatPromptTemplate
from foldline.prompts.message import BaseMessagePromptTemplate
from foldline.prompts.message_templates import (
    AIMessagePromptTemplate,
    HumanMessagePromptTemplate,
    MessagesPlaceholder,
    SystemMessagePromptTemplate,
)

__all__ = ["MessageLike", "MessageLikeRepresentation", "message_template"]

MessageLike: TypeAlias = BaseMessagePromptTemplate | BaseMessage | BaseChatPromptTemplate
"""A part of a chat prompt."""
MessageLikeRepresentation: TypeAlias = (
    MessageLike
    | tuple[str | type[BaseMessage], str | Sequence[dict[str, Any]] | Sequence[object]]
    | str
    | dict[str, Any]
)
"""Values that can be converted to a part of a chat prompt."""

TemplateClass: TypeAlias = type[
    HumanMessagePromptTemplate | AIMessagePromptTemplate | SystemMessagePromptTemplate
]
ROLES: dict[str, TemplateClass] = {
    "human": HumanMessagePromptTemplate,
    "user": HumanMessagePromptTemplate,
    "ai": AIMessagePromptTemplate,
    "assistant": AIMessagePromptTemplate,
    "system": SystemMessagePromptTemplate,
}
CLASSES: dict[type[BaseMessage], TemplateClass] = {
    HumanMessage: HumanMessagePromptTemplate,
    AIMessage: AIMessagePromptTemplate,
    SystemMessage: SystemMessagePromptTemplate,
}


def message_template(value: object, kind: PromptTemplateFormat = "f-string") -> MessageLike:
    """Return a message or message template from any accepted form."""
    if isinstance(value, BaseMessagePromptTemplate | BaseChatPromptTemplate | BaseMessage):
        return value
    if isinstance(value, str):
        return HumanMessagePromptTemplate.from_template(value, kind)
    if isinstance(value, Mapping):
        if set(value) != {"role", "content"}:
            raise UsageError(
                f"a dict for a message has exactly 'role' and 'content', this has {sorted(map(str, value))}"
            )
        return _template_of_role(value["role"], value["content"], kind)
    if isinstance(value, list | tuple):
        if len(value) != 2:
            raise UsageError(f"a pair for a message is (role, template), not {value!r:.200}")
        return _template_of_role(value[0], value[1], kind)
    raise UsageError(
        f"{type(value).__name__} is no message: give a message, a template, text, a (role, template) pair or a dict"
    )


def _template_of_role(role: object, template: Any, kind: PromptTemplateFormat) -> MessageLike:  # noqa: ANN401  any template; its class validates it
    if isinstance(role, type) and issubclass(role, BaseMessage):
        template_class = next(
            (candidate for cls, candidate in CLASSES.items() if issubclass(role, cls)), None
        )
        if template_class is None:
            names = "HumanMessage, AIMessage or SystemMessage"
            raise UsageError(f"no template makes a {role.__name__}: write {names}, or a role")
        return template_class.from_template(template, kind)
    if role == "placeholder":
        return _placeholder(template)
    if not isinstance(role, str) or role not in ROLES:
        raise UsageError(
            f"Unexpected message type: {role!s:.80}. Use one of {', '.join(map(repr, ROLES))}, 'placeholder', "
            f"or {ChatMessage.__name__}PromptTemplate for other roles"
        )
    return ROLES[role].from_template(template, kind)


def _placeholder(template: object) -> MessagesPlaceholder:
    name, optional = template, True
    if isinstance(template, list | tuple):
        if len(template) != 2 or not isinstance(template[1], bool):
            raise UsageError(
                f"a placeholder is '{{name}}', or ['{{name}}', is_optional], not {template!r:.80}"
            )
        name, optional = template
    if not isinstance(name, str) or name[:1] != "{" or name[-1:] != "}" or len(name) < 3:
        raise UsageError(f"a placeholder is a variable in braces, '{{name}}', not {name!r:.80}")
    return MessagesPlaceholder(variable_name=name[1:-1], optional=optional)
