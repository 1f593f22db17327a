"""`LengthBasedExampleSelector`: as many examples as fit beside the input."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, Self

from pydantic import BaseModel, Field, model_validator

from foldline.example_selectors.base import BaseExampleSelector
from foldline.prompts._examples import example_values
from foldline.prompts.prompt import PromptTemplate
from foldline.utils._signature import SIGNATURE, ClassSignature, keep_signature

__all__ = ["LengthBasedExampleSelector"]

WORD_SEPARATOR = re.compile("\n| ")


def _count_words(text: str) -> int:
    return len(WORD_SEPARATOR.split(text))


class LengthBasedExampleSelector(BaseExampleSelector, BaseModel):
    """Takes examples in their order while input and examples stay under `max_length`.

    ```python
    from foldline.example_selectors import LengthBasedExampleSelector
    from foldline.prompts import PromptTemplate

    selector = LengthBasedExampleSelector(
        examples=[{"word": "one two"}, {"word": "three"}, {"word": "four"}],
        example_prompt=PromptTemplate.from_template("{word}"),
        max_length=5,
    )
    print(selector.select_examples({"input": "a b"}))
    #> [{'word': 'one two'}, {'word': 'three'}]
    ```
    """

    examples: list[dict[str, Any]]
    """The examples, the most important first."""
    example_prompt: PromptTemplate
    """Formats an example."""
    get_text_length: Callable[[str], int] = _count_words
    """Measures a text; by default it counts words."""
    max_length: int = 2048
    """The greatest length of the input and the examples together."""
    example_text_lengths: list[int] = Field(default_factory=list)
    """The lengths of the examples, measured once."""

    __signature__: ClassVar[ClassSignature] = SIGNATURE

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        keep_signature(cls)

    @model_validator(mode="after")
    def post_init(self) -> Self:
        """Measure the examples."""
        if not self.example_text_lengths:
            self.example_text_lengths = [self._length(example) for example in self.examples]
        return self

    def _length(self, example: dict[str, Any]) -> int:
        values = example_values(example, self.example_prompt.input_variables)
        return self.get_text_length(self.example_prompt.format(**values))

    def add_example(self, example: dict[str, str]) -> None:
        """Add an example."""
        length = self._length(example)
        self.examples.append(example)
        self.example_text_lengths.append(length)

    async def aadd_example(self, example: dict[str, str]) -> None:
        """Add an example."""
        self.add_example(example)

    def select_examples(self, input_variables: dict[str, str]) -> list[dict[str, Any]]:
        """Return the examples for these variables."""
        remaining_length = self.max_length - self.get_text_length(
            " ".join(map(str, input_variables.values()))
        )
        selected = []
        for example, length in zip(self.examples, self.example_text_lengths, strict=False):
            remaining_length -= length
            if remaining_length < 0:
                break
            selected.append(example)
        return selected

    async def aselect_examples(self, input_variables: dict[str, str]) -> list[dict[str, Any]]:
        """Return the examples for these variables."""
        return self.select_examples(input_variables)
