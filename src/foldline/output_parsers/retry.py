"""Parsers that ask the question again, with the answer that could not be parsed, or also with the error."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from foldline._io.drive import drive
from foldline._run import Run
from foldline.output_parsers._retrying import RetryingParser
from foldline.prompt_values import PromptValue
from foldline.prompts import BasePromptTemplate, PromptTemplate

__all__ = [
    "RetryOutputParser",
    "RetryWithErrorOutputParser",
]

T = TypeVar("T")

NAIVE_RETRY_PROMPT = PromptTemplate.from_template(
    "This was the task:\n{prompt}\n\nThis was the answer:\n{completion}\n\n"
    "The answer does not have the form that the task asks for. Answer again, in that form:"
)
NAIVE_RETRY_WITH_ERROR_PROMPT = PromptTemplate.from_template(
    "This was the task:\n{prompt}\n\nThis was the answer:\n{completion}\n\n"
    "The answer could not be read: {error}\nAnswer again, in the form that the task asks for:"
)


class RetryOutputParser(RetryingParser[T]):
    """Asks the question again, with the answer that could not be parsed.

    It needs the question, so it is called as `parse_with_prompt(completion, prompt_value)`.

    ```python
    from foldline.output_parsers import JsonOutputParser
    from foldline.output_parsers.retry import RetryOutputParser
    from foldline.prompt_values import StringPromptValue
    from foldline.runnables import RunnableLambda

    model = RunnableLambda(lambda prompt: '{"answer": 4}')
    parser = RetryOutputParser.from_llm(llm=model, parser=JsonOutputParser())
    print(parser.parse_with_prompt("four", StringPromptValue(text="2+2 as JSON")))
    #> {'answer': 4}
    ```
    """

    default_prompt: ClassVar[BasePromptTemplate[Any]] = NAIVE_RETRY_PROMPT

    @property
    def _type(self) -> str:
        return "retry"

    def parse(self, text: str) -> T:
        """Raise `NotImplementedError`: use `parse_with_prompt`, which takes the question."""
        raise NotImplementedError("asking again needs the question: use `parse_with_prompt`")

    def parse_with_prompt(self, completion: str, prompt: PromptValue) -> T:
        """Parse an answer; if that fails, ask the question again."""
        return drive(self._parse_with_retries(completion, Run.blocking(), prompt=_text(prompt)))

    async def aparse_with_prompt(self, completion: str, prompt: PromptValue) -> T:
        """Parse an answer; if that fails, ask the question again."""
        return await self._parse_with_retries(completion, Run.asynchronous(), prompt=_text(prompt))


def _text(prompt: PromptValue | str) -> str:
    return prompt if isinstance(prompt, str) else prompt.to_string()


class RetryWithErrorOutputParser(RetryOutputParser[T]):
    """Asks the question again, with the answer that could not be parsed and the error."""

    default_prompt: ClassVar[BasePromptTemplate[Any]] = NAIVE_RETRY_WITH_ERROR_PROMPT

    @property
    def _type(self) -> str:
        return "retry_with_error"
