"""`StructuredPrompt`: a chat prompt that knows the shape of its answer; piped into a model, it asks for that shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from foldline.exceptions import UsageError
from foldline.prompts._compile import PromptTemplateFormat
from foldline.prompts.chat import ChatPromptTemplate, MessageLikeRepresentation
from foldline.runnables.sequence import sequence_of
from foldline.runnables.serializable import RunnableSerializable

__all__ = ["StructuredPrompt"]


class StructuredPrompt(ChatPromptTemplate):
    """A chat prompt with the schema of its answer: `prompt | model` uses `model.with_structured_output(schema)`."""

    schema_: dict[str, Any] | type
    """What the answer looks like: a JSON schema or a class."""
    structured_output_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Options for `with_structured_output`, such as `method` and `include_raw`."""

    def __init__(
        self,
        messages: Sequence[MessageLikeRepresentation],
        schema_: dict[str, Any] | type | None = None,
        *,
        structured_output_kwargs: dict[str, Any] | None = None,
        template_format: PromptTemplateFormat = "f-string",
        **kwargs: Any,
    ) -> None:
        """Make a prompt of messages and a schema; what is no field of a prompt is an option for the model."""
        schema_ = schema_ or kwargs.pop("schema", None)
        if not schema_:
            raise UsageError("a structured prompt needs a schema: a JSON schema or a class")
        options = dict(structured_output_kwargs or {})
        for name in set(kwargs) - set(type(self).model_fields):
            options[name] = kwargs.pop(name)
        super().__init__(
            messages,
            template_format=template_format,
            schema_=schema_,
            structured_output_kwargs=options,
            **kwargs,
        )

    @classmethod
    def from_messages_and_schema(
        cls,
        messages: Sequence[MessageLikeRepresentation],
        schema: dict[str, Any] | type,
        **kwargs: Any,
    ) -> ChatPromptTemplate:
        """Make a prompt of messages and a schema."""
        return cls(messages, schema, **kwargs)

    def __or__(self, other: object) -> RunnableSerializable[Any, Any]:  # type: ignore[override]
        """Run this, then a model that answers in this shape."""
        return self.pipe(other)

    def pipe(self, *others: object, name: str | None = None) -> RunnableSerializable[Any, Any]:  # type: ignore[override]
        """Run this, then a model that answers in this shape, then the others in turn."""
        model = others[0] if others else None
        ask = getattr(model, "with_structured_output", None)
        if ask is None:
            raise UsageError(
                "a structured prompt is piped into a model that has `with_structured_output`, not into "
                f"{type(model).__name__}"
            )
        shaped = ask(self.schema_, **self.structured_output_kwargs)
        return sequence_of([self, shaped, *others[1:]], name=name)
