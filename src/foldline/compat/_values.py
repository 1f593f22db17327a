"""Copies values between the libraries: their classes have the same names and nearly the same fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.fields import FieldInfo

if TYPE_CHECKING:
    from foldline.compat.convert import Direction

VALUES = {
    "messages": "AIMessage AIMessageChunk HumanMessage HumanMessageChunk SystemMessage SystemMessageChunk "
    "ToolMessage ToolMessageChunk FunctionMessage FunctionMessageChunk ChatMessage ChatMessageChunk RemoveMessage",
    "documents": "Document",
    "documents.base": "Blob",
    "prompt_values": "StringPromptValue ChatPromptValue ChatPromptValueConcrete ImagePromptValue",
    "outputs": "Generation GenerationChunk ChatGeneration ChatGenerationChunk ChatResult LLMResult RunInfo",
    "agents": "AgentAction AgentActionMessageLog AgentStep AgentFinish",
}
"""Module -> classes whose objects are copied."""
MODULES = {name: module for module, names in VALUES.items() for name in names.split()}


def _class_name(value: object, package: str) -> str | None:
    """Return the name of the nearest class of a value that is one of a library's values."""
    for ancestor in type(value).__mro__:
        if ancestor.__name__ in MODULES and ancestor.__module__.partition(".")[0] == package:
            return ancestor.__name__
    return None


def is_value(value: object, package: str) -> bool:
    """Whether an object is a value of a library, to be copied."""
    return _class_name(value, package) is not None


def copy_value(value: Any, direction: Direction) -> object:  # noqa: ANN401  a Pydantic model of either library
    """Return a value as one of the other library's; fields that only one library has are kept as extra fields."""
    name = str(_class_name(value, direction.source))
    target = direction.target_class(MODULES[name], name)
    fields: dict[str, Any] = {}
    for field, description in type(value).model_fields.items():
        content = getattr(value, field)
        default = _default(description)
        if content != default or (
            field in target.model_fields and default != _default(target.model_fields[field])
        ):
            fields[field] = direction.convert(content)
    fields.update(value.__pydantic_extra__ or {})
    copied: object = target(**fields)
    return copied


def _default(description: FieldInfo) -> object:
    default: object = description.get_default(call_default_factory=True, validated_data={})
    return default
