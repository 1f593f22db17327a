"""Anything that means a message of a chat prompt -> a message or a template: (role, template) pairs, text, dicts."""

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
"""What a chat prompt is made of."""
MessageLikeRepresentation: TypeAlias = (
    MessageLike
    | tuple[str | type[BaseMessage], str | Sequence[dict[str, Any]] | Sequence[object]]
    | str
    | dict[str, Any]
)
"""What may be written for it."""

Maker: TypeAlias = type[
    HumanMessagePromptTemplate | AIMessagePromptTemplate | SystemMessagePromptTemplate
]
ROLES: dict[str, Maker] = {
    "human": HumanMessagePromptTemplate,
    "user": HumanMessagePromptTemplate,
    "ai": AIMessagePromptTemplate,
    "assistant": AIMessagePromptTemplate,
    "system": SystemMessagePromptTemplate,
}
CLASSES: dict[type[BaseMessage], Maker] = {
    HumanMessage: HumanMessagePromptTemplate,
    AIMessage: AIMessagePromptTemplate,
    SystemMessage: SystemMessagePromptTemplate,
}


def message_template(given: object, kind: PromptTemplateFormat = "f-string") -> MessageLike:
    """Turn one thing into a message or a template of messages."""
    if isinstance(given, BaseMessagePromptTemplate | BaseChatPromptTemplate | BaseMessage):
        return given
    if isinstance(given, str):
        return HumanMessagePromptTemplate.from_template(given, kind)
    if isinstance(given, Mapping):
        if set(given) != {"role", "content"}:
            raise UsageError(
                f"a dict for a message has exactly 'role' and 'content', this has {sorted(map(str, given))}"
            )
        return _of_role(given["role"], given["content"], kind)
    if isinstance(given, list | tuple):
        if len(given) != 2:
            raise UsageError(f"a pair for a message is (role, template), not {given!r:.200}")
        return _of_role(given[0], given[1], kind)
    raise UsageError(
        f"{type(given).__name__} is no message: give a message, a template, text, a (role, template) pair or a dict"
    )


def _of_role(role: object, template: Any, kind: PromptTemplateFormat) -> MessageLike:  # noqa: ANN401  a template in every form that its class takes
    if isinstance(role, type) and issubclass(role, BaseMessage):
        maker = next((made for cls, made in CLASSES.items() if issubclass(role, cls)), None)
        if maker is None:
            known = "HumanMessage, AIMessage or SystemMessage"
            raise UsageError(f"no template makes a {role.__name__}: write {known}, or a role")
        return maker.from_template(template, kind)
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
