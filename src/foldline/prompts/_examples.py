"""The parts that few-shot prompts share: selecting examples, and formatting them as text."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, SerializeAsAny

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline.example_selectors.base import BaseExampleSelector
from foldline.exceptions import UsageError
from foldline.prompts.prompt import PromptTemplate
from foldline.prompts.string import StringPromptTemplate
from foldline.utils.formatting import MissingVariableError

__all__ = ["FewShotText", "check_examples", "example_values", "select_examples"]

Example = dict[str, Any]


def check_examples(values: object) -> object:
    """Raise unless there is either a list of examples or a selector."""
    if not isinstance(values, dict):
        return values
    examples, selector = values.get("examples"), values.get("example_selector")
    if examples is not None and selector is not None:
        raise UsageError("give 'examples' or 'example_selector', not both")
    if examples is None and selector is None:
        raise UsageError("a few-shot prompt needs 'examples' or an 'example_selector'")
    return values


async def select_examples(
    examples: list[Example] | None,
    selector: BaseExampleSelector | None,
    values: Mapping[str, Any],
    io: IO,
) -> list[Example]:
    """Return the examples for an input."""
    if examples is not None:
        return examples
    if selector is None:
        raise UsageError("a few-shot prompt needs 'examples' or an 'example_selector'")
    if io.blocking:
        return selector.select_examples(dict(values))
    return await selector.aselect_examples(dict(values))


def example_values(example: Example, names: Iterable[str]) -> Example:
    """Return only the values of an example that its prompt uses."""
    missing = [name for name in names if name not in example]
    if missing:
        raise MissingVariableError(
            f"an example has no {missing}, which its prompt takes; it has {sorted(map(str, example))}"
        )
    return {name: example[name] for name in names}


class FewShotText(StringPromptTemplate):
    """A text with examples between two other parts."""

    input_variables: list[str] = Field(default_factory=list)
    """The variables of prefix and suffix, and of the selector."""
    examples: list[dict[str, Any]] | None = None
    """The examples, unless there is an `example_selector`."""
    example_selector: BaseExampleSelector | None = None
    """Selects the examples for an input."""
    example_prompt: SerializeAsAny[PromptTemplate]
    """The template of one example."""
    example_separator: str = "\n\n"
    """The text between the parts."""
    validate_template: bool = False
    """Whether `input_variables` must be those of prefix and suffix."""

    @abstractmethod
    async def _prefix_and_suffix(self, values: Mapping[str, Any], io: IO) -> tuple[str, str]:
        """Return the filled texts before and after the examples; empty texts are left out."""

    async def _text(self, values: Mapping[str, Any], io: IO) -> str:
        values = self._merge_values(values)
        examples = await select_examples(self.examples, self.example_selector, values, io)
        names = self.example_prompt.input_variables
        example_texts = [
            self.example_prompt.format(**example_values(example, names)) for example in examples
        ]
        prefix, suffix = await self._prefix_and_suffix(values, io)
        return self.example_separator.join(
            part for part in [prefix, *example_texts, suffix] if part
        )

    def format(self, **kwargs: object) -> str:
        """Return the text with variables and examples filled in."""
        return drive(self._text(kwargs, BLOCKING))

    async def aformat(self, **kwargs: object) -> str:
        """Return the text with variables and examples filled in."""
        return await self._text(kwargs, ASYNC)

    def save(self, file_path: Path | str) -> None:
        """Save this prompt as a JSON file for `load_prompt`."""
        if self.example_selector is not None:
            raise UsageError("a prompt with an example selector cannot be saved")
        super().save(file_path)
