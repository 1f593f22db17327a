"""`StructuredPrompt`: a chat prompt with a schema of the answer, which is applied to the model it is piped into."""

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
    """The schema of the answer: a JSON schema or a class."""
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
        """Create a prompt from messages and a schema; other arguments are options of `with_structured_output`."""
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
        """Create a prompt from messages and a schema."""
        return cls(messages, schema, **kwargs)

    def __or__(self, other: object) -> RunnableSerializable[Any, Any]:  # type: ignore[override]
        """Return a chain of this prompt and a model with its schema."""
        return self.pipe(other)

    def pipe(self, *others: object, name: str | None = None) -> RunnableSerializable[Any, Any]:  # type: ignore[override]
        """Return a chain of this prompt, a model with its schema, and the other steps."""
        model = others[0] if others else None
        with_structured_output = getattr(model, "with_structured_output", None)
        if with_structured_output is None:
            raise UsageError(
                "a structured prompt is piped into a model that has `with_structured_output`, not into "
                f"{type(model).__name__}"
            )
        structured_model = with_structured_output(self.schema_, **self.structured_output_kwargs)
        return sequence_of([self, structured_model, *others[1:]], name=name)
