"""What every output parser is: a runnable from what a model said to what the program wants.

An author writes `parse` (text) or `parse_result` (generations). Parsers of foldline are plain computation and are
called where they are needed; an author's may be slow, so in an async call they run in a thread, unless they have
`a…` twins.
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
from foldline.utils.trusted import build_trusted

__all__ = [
    "BaseGenerationOutputParser",
    "BaseLLMOutputParser",
    "BaseOutputParser",
    "LanguageModelLike",
    "LanguageModelOutput",
]

T = TypeVar("T")
LanguageModelOutput: TypeAlias = BaseMessage | str
"""What a model gives: a message, or text."""
LanguageModelLike: TypeAlias = Runnable[Any, Any]
"""Anything that takes a prompt and gives what a model gives."""

HERE = "foldline.output_parsers."


def generation_of(given: object) -> Generation:
    """Put what a model said where `parse_result` expects it."""
    if isinstance(given, BaseMessage):
        return ChatGeneration._trusted(given)
    if not isinstance(given, str):
        raise UsageError(
            f"an output parser reads a message or text, not {type(given).__name__}: put it behind a model"
        )
    fields = {"text": given, "generation_info": None, "type": "Generation"}
    return build_trusted(Generation, fields)


class BaseLLMOutputParser(ABC, Generic[T]):
    """Reads the candidates of a model's answer. A subclass writes `parse_result`."""

    @abstractmethod
    def parse_result(self, result: list[Generation], *, partial: bool = False) -> T:
        """Read the candidates; the first is the likeliest. `partial` says that more is to come."""

    async def aparse_result(self, result: list[Generation], *, partial: bool = False) -> T:
        """Read the candidates; the first is the likeliest. `partial` says that more is to come."""
        return cast("T", await ASYNC.call(self.parse_result, result, partial=partial))


class RunnableParser(
    BaseLLMOutputParser[T], RunnableSerializable[LanguageModelOutput, T], Generic[T]
):
    """Shared by the parsers that are runnables."""

    _run_type: ClassVar[str | None] = "parser"
    _is_ours: ClassVar[bool] = True
    """Whether no author wrote any of its methods."""
    _has_twin: ClassVar[bool] = False
    """Whether an author wrote an async `aparse` or `aparse_result`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.__module__.startswith(HERE):
            cls._is_ours = cls._is_ours and not AUTHORS.intersection(cls.__dict__)
            cls._has_twin = cls._has_twin or not TWINS.isdisjoint(cls.__dict__)

    async def _invoke_body(self, input: Any, run: Run) -> T:
        return await self._parsed([generation_of(input)], run)

    async def _parsed(self, result: list[Generation], run: Run) -> T:
        if self._is_ours:
            return self.parse_result(result)
        with run.current():
            if self._has_twin and not run.io.blocking:
                return await self.aparse_result(result)
            return cast("T", await run.io.call(self.parse_result, result))

    @property
    def InputType(self) -> Any:
        """Text, or any message."""
        return str | AnyMessage


AUTHORS = frozenset(
    {"parse", "aparse", "parse_result", "aparse_result", "_transform", "_atransform", "_diff"}
)
TWINS = frozenset({"aparse", "aparse_result"})


class BaseGenerationOutputParser(RunnableParser[T], Generic[T]):
    """A parser that looks at generations: log probabilities, messages, several candidates.

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
    """A parser of text. A subclass writes `parse`, and `get_format_instructions` to tell the model what to write.

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
        """Read a text; what cannot be read raises `OutputParserException`."""

    async def aparse(self, text: str) -> T:
        """Read a text; what cannot be read raises `OutputParserException`."""
        return cast("T", await ASYNC.call(self.parse, text))

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> T:
        """Read the text of the likeliest candidate."""
        return self.parse(result[0].text)

    async def aparse_result(self, result: list[Generation], *, partial: bool = False) -> T:
        """Read the text of the likeliest candidate."""
        if type(self).aparse is not BaseOutputParser.aparse:
            return await self.aparse(result[0].text)
        return cast("T", await ASYNC.call(self.parse_result, result, partial=partial))

    def parse_with_prompt(self, completion: str, prompt: PromptValue) -> T:
        """Read a text, knowing what was asked; parsers that ask again need to know."""
        return self.parse(completion)

    async def aparse_with_prompt(self, completion: str, prompt: PromptValue) -> T:
        """Read a text, knowing what was asked; parsers that ask again need to know."""
        return await self.aparse(completion)

    def get_format_instructions(self) -> str:
        """Say to the model how to write what this parser reads."""
        raise NotImplementedError(f"{type(self).__name__} has no format instructions")

    @property
    def _type(self) -> str:
        raise NotImplementedError(
            f"{type(self).__name__} has no `_type`, the name under which it is written"
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
