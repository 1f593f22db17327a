"""`ChatModel`: AIGNE's interface to a chat model. An author writes `process`: a record in, a record or deltas out.

It is a `BaseChatModel` like any other: the record is converted to events, and everything else (`invoke`, `stream`,
tools, structured output, retries, usage, `preprocess` and `postprocess`) is that of every model. Every chat model is
therefore an instance of `ChatModel` too, without another base class.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from pydantic import model_validator

from foldline.exceptions import UsageError
from foldline.language_models.base_chat_model import BaseChatModel
from foldline.language_models.records.invoke_options import AgentInvokeOptions
from foldline.language_models.records.records import ChatModelInput
from foldline.utils._spelling import in_snake_case

__all__ = ["ChatModel"]


class _ChatModelType(type(BaseChatModel)):  # type: ignore[misc]  # Pydantic's metaclass, which is private
    """Counts every chat model as a `ChatModel`: each has `run`, `process`, `preprocess` and `postprocess`."""

    def __instancecheck__(cls, instance: object) -> bool:
        if cls.__dict__.get("_is_interface"):
            return isinstance(instance, BaseChatModel)
        return bool(super().__instancecheck__(instance))

    def __subclasscheck__(cls, subclass: type) -> bool:
        if cls.__dict__.get("_is_interface"):
            return issubclass(subclass, BaseChatModel)
        return bool(super().__subclasscheck__(subclass))


class ChatModel(BaseChatModel, metaclass=_ChatModelType):
    """A chat model whose author writes `process`.

    ```python
    from foldline.language_models import ChatModel

    class Echo(ChatModel):
        def process(self, input, options):
            return {"text": input.messages[-1].text}

    print(Echo().invoke("Hi").text, Echo().run({"messages": [{"role": "user", "content": "Ho"}]}).text)
    #> Hi Ho
    ```
    """

    model: str = ""
    """The name of the model, which answers have if `process` sets no other."""

    _is_interface: ClassVar[bool] = True
    _tool_name_pattern: ClassVar[str | None] = "[A-Za-z0-9_-]"

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_options(cls, values: object) -> object:
        """Raise for an option that the model does not have: it would be dropped silently."""
        if not isinstance(values, dict) or cls.model_config.get("extra") in ("allow", "forbid"):
            return values
        options = in_snake_case(cls.model_fields, values)
        known_names = set(cls.model_fields)
        for field in cls.model_fields.values():
            known_names |= {
                name for name in (field.alias, field.validation_alias) if isinstance(name, str)
            }
        if unknown_names := sorted(str(name) for name in options if name not in known_names):
            raise UsageError(
                f"{cls.__name__} has no option {unknown_names[0]!r}: put options of the model in model_options, "
                "or declare a field"
            )
        return options

    @abstractmethod
    def process(self, input: ChatModelInput, options: AgentInvokeOptions | None = None) -> Any:  # noqa: ANN401  a record, deltas, or an awaitable of them, as the author returns
        """Return a `ChatModelOutput`, a dict of its fields, or an iterator of deltas; may be async."""
        raise NotImplementedError(f"{type(self).__name__} must implement `process`")
