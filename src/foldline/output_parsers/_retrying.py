"""The retry loop of the parsers in `retry` and `fix`: ask the model again if its answer cannot be parsed."""

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

__all__ = ["RetryingParser"]

T = TypeVar("T")


class RetryingParser(BaseOutputParser[T], Generic[T]):
    """A parser that asks a model again, with the answer that could not be parsed."""

    parser: Annotated[BaseOutputParser[T], SkipValidation()]
    """Parses the answers."""
    retry_chain: Runnable[Any, Any]
    """The chain that asks again: takes prompt variables, returns text or a message."""
    max_retries: int = Field(default=1, ge=0)
    """How often the model is asked again before the error is raised."""
    legacy: bool = True
    """Accepted for compatibility with LangChain: the chain is always a runnable here."""

    default_prompt: ClassVar[BasePromptTemplate[Any]]
    """The prompt if the caller passes none."""

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
            raise UsageError(f"`llm` must be a runnable, not {type(llm).__name__}")
        if not isinstance(parser, BaseOutputParser):
            raise UsageError(f"`parser` must be an output parser, not {type(parser).__name__}")
        chain = sequence_of([prompt or cls.default_prompt, llm, StrOutputParser()])
        return cls(parser=parser, retry_chain=chain, max_retries=max_retries)

    def get_format_instructions(self) -> str:
        """Return the instructions of the wrapped parser."""
        return self.parser.get_format_instructions()

    @property
    def OutputType(self) -> object:
        """The output type of the wrapped parser."""
        return self.parser.OutputType

    async def _parse_with_retries(self, completion: str, run: Run, **prompt_values: str) -> T:
        """Parse the answer; if that fails, ask again with the prompt values, the answer and the error."""
        for retries_left in range(self.max_retries, -1, -1):
            try:
                return await self.parser._parse_generations(
                    [generation_of(completion)], run.child()
                )
            except OutputParserException as error:
                if not retries_left:
                    raise
                values = {**prompt_values, "completion": completion, "error": str(error)}
                completion = text_of(await self.retry_chain._step(values, run.child()))
        return cast("T", None)  # not reached: the last round returns or raises
