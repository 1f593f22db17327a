"""`LLMMathChain`: a model writes an arithmetic expression, and a calculator evaluates it."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import Any, Self

from foldline._run import Run
from foldline.chains._legacy_calls import Values
from foldline.chains.base import GeneratorChain
from foldline.chains.llm import LLMChain
from foldline.exceptions import UsageError
from foldline.prompts import BasePromptTemplate, PromptTemplate
from foldline.runnables.base import Runnable
from foldline.utils._arithmetic import evaluate

__all__ = ["LLMMathChain"]

MATH_PROMPT = PromptTemplate.from_template(
    "Write the one arithmetic expression that answers the question, in a code fence marked `text`, with numbers, "
    "+ - * / % ** ( ) and functions such as sqrt, log or sin. A calculator works it out, not you.\n\n"
    "Question: How much is a third of 37593 squared?\n```text\n37593**2 / 3\n```\n\nQuestion: {question}\n"
)
FENCE = re.compile(r"```(?:text|python)?\s*\n?(?P<expression>.*?)(?:```|\Z)", re.DOTALL)
ANSWER = "Answer:"


class LLMMathChain(GeneratorChain):
    """Answers a question of arithmetic; code that the model writes is never executed.

    ```python
    from foldline.chains import LLMMathChain
    from foldline.language_models import FakeListChatModel

    chain = LLMMathChain.from_llm(FakeListChatModel(responses=["```text 2**10 + 1 ```"]))
    print(chain.invoke("What is two to the ten, and one?")["answer"])
    #> Answer: 1025
    ```
    """

    llm_chain: LLMChain
    """Asks for the expression."""
    input_key: str = "question"
    output_key: str = "answer"

    @classmethod
    def from_llm(
        cls,
        llm: Runnable[Any, Any],
        prompt: BasePromptTemplate[Any] = MATH_PROMPT,
        **kwargs: Any,
    ) -> Self:
        """Make the chain for a model; a custom prompt takes `question`."""
        return cls(llm_chain=LLMChain(llm=llm, prompt=prompt), **kwargs)

    @property
    def input_keys(self) -> list[str]:
        """The question."""
        return [self.input_key]

    @property
    def output_keys(self) -> list[str]:
        """The answer."""
        return [self.output_key]

    @property
    def _chain_type(self) -> str:
        return "llm_math_chain"

    async def _work(
        self, inputs: Values, run: Run, *, stream: bool
    ) -> AsyncGenerator[Values, None]:
        values = {"question": inputs[self.input_key], "stop": ["```output"]}
        child = run.child().patched(kwargs={"return_only_outputs": True})
        text = (await self.llm_chain._step(values, child))[self.llm_chain.output_key].strip()
        await run.dispatch("on_text", text, color="green", verbose=self.verbose)
        yield {self.output_key: self._answer(text)}

    def _answer(self, text: str) -> str:
        match = FENCE.search(text)
        if match is not None:
            return f"{ANSWER} {evaluate(match['expression'])}"
        if ANSWER in text:
            return ANSWER + text.rpartition(ANSWER)[2]
        raise UsageError(
            f"unknown format from LLM: {text[:200]!r} has no expression in a code fence"
        )
