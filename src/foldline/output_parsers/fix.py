"""`OutputFixingParser`: asks a model to rewrite an answer that cannot be parsed."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from foldline._io.drive import drive
from foldline._run import Run
from foldline.output_parsers._refusals import check_refusal
from foldline.output_parsers._retrying import RetryingParser
from foldline.outputs import Generation
from foldline.prompts import BasePromptTemplate, PromptTemplate

__all__ = [
    "OutputFixingParser",
]

T = TypeVar("T")

NAIVE_FIX_PROMPT = PromptTemplate.from_template(
    "These were the instructions:\n{instructions}\n\nThis was the answer:\n{completion}\n\n"
    "The answer could not be read: {error}\n\n"
    "Write the same answer again so that it follows the instructions, and nothing else:"
)


class OutputFixingParser(RetryingParser[T]):
    """Lets a model correct an answer that another parser cannot parse.

    ```python
    from foldline.output_parsers import JsonOutputParser
    from foldline.output_parsers.fix import OutputFixingParser
    from foldline.runnables import RunnableLambda

    model = RunnableLambda(lambda prompt: '{"answer": 4}')
    parser = OutputFixingParser.from_llm(llm=model, parser=JsonOutputParser())
    print(parser.invoke("the answer is four"))
    #> {'answer': 4}
    ```
    """

    default_prompt: ClassVar[BasePromptTemplate[Any]] = NAIVE_FIX_PROMPT

    @property
    def _type(self) -> str:
        return "output_fixing"

    async def _parse_generations(self, result: list[Generation], run: Run) -> T:
        check_refusal(result)  # there is no answer to correct
        return await self._parse_or_fix(result[0].text, run)

    async def _parse_or_fix(self, text: str, run: Run) -> T:
        try:
            instructions = self.parser.get_format_instructions()
        except NotImplementedError:
            instructions = "Answer in the form that was asked for."
        return await self._parse_with_retries(text, run, instructions=instructions)

    def parse(self, text: str) -> T:
        """Parse an answer; if that fails, let the model correct it."""
        return drive(self._parse_or_fix(text, Run.blocking()))

    async def aparse(self, text: str) -> T:
        """Parse an answer; if that fails, let the model correct it."""
        return await self._parse_or_fix(text, Run.asynchronous())
