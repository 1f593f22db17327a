"""Asking a model again for what could not be read: the one loop behind `retry` and `fix`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar, cast

from pydantic import Field, SkipValidation

from foldline._run import Run
from foldline.exceptions import OutputParserException, UsageError
from foldline.output_parsers.base import BaseOutputParser, LanguageModelLike, generation_of
from foldline.output_parsers.string import StrOutputParser, text_of
from foldline.prompts import BasePromptTemplate
from foldline.runnables.base import Runnable
from foldline.runnables.sequence import sequence_of

__all__ = ["AskAgain"]

T = TypeVar("T")


class AskAgain(BaseOutputParser[T], Generic[T]):
    """A parser that shows a model its unreadable answer, and reads the next one."""

    parser: Annotated[BaseOutputParser[T], SkipValidation()]
    """What reads the answers."""
    retry_chain: Runnable[Any, Any]
    """What is asked again: variables in, text or a message out."""
    max_retries: int = Field(default=1, ge=0)
    """How often the model is asked again before the error is passed on."""
    legacy: bool = True
    """Kept for LangChain's sake: the chain is always a runnable here."""

    default_prompt: ClassVar[BasePromptTemplate[Any]]
    """How the model is asked again where nobody says otherwise."""

    @classmethod
    def from_llm(
        cls,
        llm: LanguageModelLike,
        parser: BaseOutputParser[T],
        prompt: BasePromptTemplate[Any] | None = None,
        max_retries: int = 1,
    ) -> Self:
        """Make the parser for a model."""
        if not isinstance(llm, Runnable):
            raise UsageError(f"a model that is asked again is a runnable, not {type(llm).__name__}")
        if not isinstance(parser, BaseOutputParser):
            raise UsageError(
                f"answers are read by an output parser, not by {type(parser).__name__}"
            )
        chain = sequence_of([prompt or cls.default_prompt, llm, StrOutputParser()])
        return cls(parser=parser, retry_chain=chain, max_retries=max_retries)

    def get_format_instructions(self) -> str:
        """Say what the parser inside says."""
        return self.parser.get_format_instructions()

    @property
    def OutputType(self) -> object:
        """What the parser inside gives."""
        return self.parser.OutputType

    async def _read(self, completion: str, run: Run, **known: str) -> T:
        """Read; on failure ask again, with what is known, the answer and the error."""
        for left in range(self.max_retries, -1, -1):
            try:
                return await self.parser._parsed([generation_of(completion)], run.child())
            except OutputParserException as error:
                if not left:
                    raise
                values = {**known, "completion": completion, "error": str(error)}
                completion = text_of(await self.retry_chain._step(values, run.child()))
        return cast("T", None)  # not reached: the last round returns or raises
