"""`ChatModel`: AIGNE's door to a chat model. An author writes `process`: a record in, a record or deltas out.

It is a `BaseChatModel` like any other: the record is turned to events, and everything else (`invoke`, `stream`, tools,
structured output, retries, usage, `preprocess` and `postprocess`) is every model's. So every chat model is an instance
of `ChatModel` too, the providers' without a class more among their ancestors.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from pydantic import model_validator

from foldline.exceptions import UsageError
from foldline.language_models.base_chat_model import BaseChatModel
from foldline.language_models.records.invoke_options import AgentInvokeOptions
from foldline.language_models.records.records import ChatModelInput
from foldline.utils.spelling import in_snake_case

__all__ = ["ChatModel"]


class _ChatModelType(type(BaseChatModel)):  # type: ignore[misc]  # Pydantic's metaclass, which is private
    """Counts every chat model as a `ChatModel`: each answers `run`, `process`, `preprocess` and `postprocess`."""

    def __instancecheck__(cls, instance: object) -> bool:
        if cls.__dict__.get("_is_door"):
            return isinstance(instance, BaseChatModel)
        return bool(super().__instancecheck__(instance))

    def __subclasscheck__(cls, subclass: type) -> bool:
        if cls.__dict__.get("_is_door"):
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
    """The name of the model, which answers carry where `process` names no other."""

    _is_door: ClassVar[bool] = True
    _tool_name_pattern: ClassVar[str | None] = "[A-Za-z0-9_-]"

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_options(cls, values: object) -> object:
        """Raise for an option that the model does not have: it would be dropped."""
        if not isinstance(values, dict) or cls.model_config.get("extra") in ("allow", "forbid"):
            return values
        given = in_snake_case(cls.model_fields, values)
        known = set(cls.model_fields)
        for field in cls.model_fields.values():
            known |= {
                name for name in (field.alias, field.validation_alias) if isinstance(name, str)
            }
        if unknown := sorted(str(name) for name in given if name not in known):
            raise UsageError(
                f"{cls.__name__} has no option {unknown[0]!r}: put options of the model in model_options, "
                "or declare a field"
            )
        return given

    @abstractmethod
    def process(self, input: ChatModelInput, options: AgentInvokeOptions | None = None) -> Any:  # noqa: ANN401  a record, deltas, or an awaitable of them: the author says
        """Answer: return a `ChatModelOutput`, a dict of its fields, or an iterator of deltas; may be async."""
        raise NotImplementedError(f"{type(self).__name__} must implement `process`")
