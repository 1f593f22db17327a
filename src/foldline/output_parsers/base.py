"""Base classes of output parsers: runnables from a model's answer to a value.

A subclass implements `parse` (text) or `parse_result` (generations). foldline's own parsers only compute and are called
directly. A parser written by a user may be slow: an async call runs it in a thread, unless it has async methods.
"""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, cast

from foldline._io import ASYNC
from foldline._run import Run
from foldline.exceptions import UsageError
from foldline.messages import AnyMessage, BaseMessage
from foldline.outputs import ChatGeneration, Generation
from foldline.prompt_values import PromptValue
from foldline.runnables.base import Runnable
from foldline.runnables.serializable import RunnableSerializable
from foldline.utils._trusted import build_trusted

__all__ = [
    "BaseGenerationOutputParser",
    "BaseLLMOutputParser",
    "BaseOutputParser",
    "LanguageModelLike",
    "LanguageModelOutput",
]

T = TypeVar("T")
LanguageModelOutput: TypeAlias = BaseMessage | str
"""What a model returns: a message, or text."""
LanguageModelLike: TypeAlias = Runnable[Any, Any]
"""A model, or another runnable that takes a prompt and returns a message or text."""

PACKAGE_PREFIX = "foldline.output_parsers."


def generation_of(answer: object) -> Generation:
    """Wrap a message or text as the generation that `parse_result` takes."""
    if isinstance(answer, BaseMessage):
        return ChatGeneration._trusted(answer)
    if not isinstance(answer, str):
        raise UsageError(
            f"an output parser reads a message or text, not {type(answer).__name__}: put it behind a model"
        )
    fields = {"text": answer, "generation_info": None, "type": "Generation"}
    return build_trusted(Generation, fields)


class BaseLLMOutputParser(ABC, Generic[T]):
    """Parses the candidates of a model's answer. A subclass implements `parse_result`."""

    @abstractmethod
    def parse_result(self, result: list[Generation], *, partial: bool = False) -> T:
        """Parse the candidates, the likeliest first. `partial` means that more text will follow."""

    async def aparse_result(self, result: list[Generation], *, partial: bool = False) -> T:
        """Parse the candidates, the likeliest first. `partial` means that more text will follow."""
        return cast("T", await ASYNC.call(self.parse_result, result, partial=partial))


class RunnableParser(
    BaseLLMOutputParser[T], RunnableSerializable[LanguageModelOutput, T], Generic[T]
):
    """Base of the parsers that are runnables."""

    _run_type: ClassVar[str | None] = "parser"
    _is_ours: ClassVar[bool] = True
    """Whether foldline implements all its methods, so that they never wait."""
    _has_async_methods: ClassVar[bool] = False
    """Whether a subclass implements `aparse` or `aparse_result`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.__module__.startswith(PACKAGE_PREFIX):
            cls._is_ours = cls._is_ours and not OVERRIDABLE_METHODS.intersection(cls.__dict__)
            cls._has_async_methods = cls._has_async_methods or not ASYNC_METHODS.isdisjoint(
                cls.__dict__
            )

    async def _invoke_body(self, input: object, run: Run) -> T:
        return await self._parse_generations([generation_of(input)], run)

    async def _parse_generations(self, result: list[Generation], run: Run) -> T:
        if self._is_ours:
            return self.parse_result(result)
        with run.current():
            if self._has_async_methods and not run.io.blocking:
                return await self.aparse_result(result)
            return cast("T", await run.io.call(self.parse_result, result))

    @property
    def InputType(self) -> object:
        """Text, or any message."""
        return str | AnyMessage


OVERRIDABLE_METHODS = frozenset(
    {"parse", "aparse", "parse_result", "aparse_result", "_transform", "_atransform", "_diff"}
)
ASYNC_METHODS = frozenset({"aparse", "aparse_result"})


class BaseGenerationOutputParser(RunnableParser[T], Generic[T]):
    """A parser of generations, with their messages, log probabilities and further candidates.

    ```python
    from foldline.output_parsers import BaseGenerationOutputParser


    class Backwards(BaseGenerationOutputParser[str]):
        def parse_result(self, result, *, partial=False):
            return result[0].text[::-1]


    print(Backwards().invoke("olleh"))
    #> hello
    ```
    """


class BaseOutputParser(RunnableParser[T], Generic[T]):
    """A parser of text. A subclass implements `parse`, and `get_format_instructions` for the prompt.

    ```python
    from foldline.output_parsers import BaseOutputParser


    class YesOrNo(BaseOutputParser[bool]):
        def parse(self, text: str) -> bool:
            return text.strip().lower().startswith("yes")


    print(YesOrNo().invoke("Yes, of course"))
    #> True
    ```
    """

    @abstractmethod
    def parse(self, text: str) -> T:
        """Parse a text; raise `OutputParserException` if that fails."""

    async def aparse(self, text: str) -> T:
        """Parse a text; raise `OutputParserException` if that fails."""
        return cast("T", await ASYNC.call(self.parse, text))

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> T:
        """Parse the text of the first candidate."""
        return self.parse(result[0].text)

    async def aparse_result(self, result: list[Generation], *, partial: bool = False) -> T:
        """Parse the text of the first candidate."""
        if type(self).aparse is not BaseOutputParser.aparse:
            return await self.aparse(result[0].text)
        return cast("T", await ASYNC.call(self.parse_result, result, partial=partial))

    def parse_with_prompt(self, completion: str, prompt: PromptValue) -> T:
        """Parse a text that answers `prompt`; parsers that ask the model again need the prompt."""
        return self.parse(completion)

    async def aparse_with_prompt(self, completion: str, prompt: PromptValue) -> T:
        """Parse a text that answers `prompt`; parsers that ask the model again need the prompt."""
        return await self.aparse(completion)

    def get_format_instructions(self) -> str:
        """Return instructions for the model: the form of answer that this parser reads."""
        raise NotImplementedError(f"{type(self).__name__} has no format instructions")

    @property
    def _type(self) -> str:
        raise NotImplementedError(
            f"{type(self).__name__} has no `_type`, the name under which it is dumped"
        )

    def asdict(self, **kwargs: Any) -> builtins.dict[str, Any]:
        """Return the fields as a dict, with the kind of parser as `_type`."""
        fields = self.model_dump(**kwargs)
        with suppress(NotImplementedError):
            fields["_type"] = self._type
        return fields

    def dict(self, **kwargs: Any) -> builtins.dict[str, Any]:
        """Return the fields as a dict; the older name of `asdict`."""
        return self.asdict(**kwargs)
