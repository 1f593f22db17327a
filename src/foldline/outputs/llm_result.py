"""`LLMResult`: the result of a model's `generate` for many prompts."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, SerializeAsAny

from foldline.outputs.chat_generation import ChatGeneration, ChatGenerationChunk
from foldline.outputs.generation import Generation, GenerationChunk
from foldline.outputs.run_info import RunInfo
from foldline.utils._signature import SIGNATURE, ClassSignature
from foldline.utils._trusted import build_trusted

__all__ = ["LLMResult"]

AnyGeneration = Generation | ChatGeneration | GenerationChunk | ChatGenerationChunk


class LLMResult(BaseModel):
    """The candidate answers to each of many prompts.

    ```python
    from foldline.outputs import Generation, LLMResult

    result = LLMResult(generations=[[Generation(text="a")], [Generation(text="b")]])
    print([part.generations[0][0].text for part in result.flatten()])
    #> ['a', 'b']
    ```
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=True)
    __signature__: ClassVar[ClassSignature] = SIGNATURE

    generations: list[list[SerializeAsAny[AnyGeneration]]]
    """The candidates of each prompt."""
    llm_output: dict[str, Any] | None = None
    """Other output of the provider, in its format."""
    run: list[RunInfo] | None = None
    """The run of each prompt."""
    type: Literal["LLMResult"] = "LLMResult"
    """The kind of result, for serialisation."""

    @classmethod
    def _trusted(cls, generations: list[list[Any]], llm_output: dict[str, Any] | None) -> LLMResult:
        fields = {
            "generations": generations,
            "llm_output": llm_output,
            "run": None,
            "type": "LLMResult",
        }
        return build_trusted(cls, fields)

    def flatten(self) -> list[LLMResult]:
        """Return one result for each prompt. Token usage is only in the first."""
        return [
            LLMResult(generations=[candidates], llm_output=self._output_of(index))
            for index, candidates in enumerate(self.generations)
        ]

    def _output_of(self, index: int) -> dict[str, Any] | None:
        if index == 0 or self.llm_output is None:
            return self.llm_output
        return {**self.llm_output, "token_usage": {}}

    def __eq__(self, other: object) -> bool:
        """Compare the answers; the runs are not compared."""
        if not isinstance(other, LLMResult):
            return NotImplemented
        return self.generations == other.generations and self.llm_output == other.llm_output

    __hash__ = None  # type: ignore[assignment]
