"""`LLMResult`: what a model's `generate` gives back for many prompts."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, SerializeAsAny

from foldline.outputs.chat_generation import ChatGeneration, ChatGenerationChunk
from foldline.outputs.generation import Generation, GenerationChunk
from foldline.outputs.run_info import RunInfo
from foldline.utils.signature import SIGNATURE, ClassSignature
from foldline.utils.trusted import build_trusted

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
    """For each prompt, its candidates."""
    llm_output: dict[str, Any] | None = None
    """What the provider said besides, in its own words."""
    run: list[RunInfo] | None = None
    """For each prompt, the run that answered it."""
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
        """Return one result for each prompt. The tokens are told once, with the first."""
        return [
            LLMResult(generations=[candidates], llm_output=self._share(index))
            for index, candidates in enumerate(self.generations)
        ]

    def _share(self, index: int) -> dict[str, Any] | None:
        if index == 0 or self.llm_output is None:
            return self.llm_output
        return {**self.llm_output, "token_usage": {}}

    def __eq__(self, other: object) -> bool:
        """Compare what was said; which run said it does not count."""
        if not isinstance(other, LLMResult):
            return NotImplemented
        return self.generations == other.generations and self.llm_output == other.llm_output

    __hash__ = None  # type: ignore[assignment]
