"""What few-shot prompts share: which examples they show, a list or a selector's choice, and how as text."""

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

__all__ = ["FewShotText", "check_examples", "choose", "values_of"]

Example = dict[str, Any]


def check_examples(values: object) -> object:
    """See that there is a list of examples or a selector, and not both."""
    if not isinstance(values, dict):
        return values
    examples, selector = values.get("examples"), values.get("example_selector")
    if examples is not None and selector is not None:
        raise UsageError("give 'examples' or 'example_selector', not both")
    if examples is None and selector is None:
        raise UsageError("a few-shot prompt needs 'examples' or an 'example_selector'")
    return values


async def choose(
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


def values_of(example: Example, names: Iterable[str]) -> Example:
    """Return what the prompt of an example asks for, and nothing else of it."""
    missing = [name for name in names if name not in example]
    if missing:
        raise MissingVariableError(
            f"an example has no {missing}, which its prompt takes; it has {sorted(map(str, example))}"
        )
    return {name: example[name] for name in names}


class FewShotText(StringPromptTemplate):
    """A text with examples between two other parts."""

    input_variables: list[str] = Field(default_factory=list)
    """The variables of prefix and suffix, and what else a selector looks at."""
    examples: list[dict[str, Any]] | None = None
    """The examples; or give an `example_selector`."""
    example_selector: BaseExampleSelector | None = None
    """What chooses the examples for an input."""
    example_prompt: SerializeAsAny[PromptTemplate]
    """How one example is written."""
    example_separator: str = "\n\n"
    """What stands between the parts."""
    validate_template: bool = False
    """Whether `input_variables` must be those of prefix and suffix."""

    @abstractmethod
    async def _around(self, values: Mapping[str, Any], io: IO) -> tuple[str, str]:
        """Fill in what stands before and after the examples; an empty text is no part."""

    async def _text(self, values: Mapping[str, Any], io: IO) -> str:
        values = self._merged(values)
        examples = await choose(self.examples, self.example_selector, values, io)
        names = self.example_prompt.input_variables
        shown = [self.example_prompt.format(**values_of(example, names)) for example in examples]
        before, after = await self._around(values, io)
        return self.example_separator.join(part for part in [before, *shown, after] if part)

    def format(self, **kwargs: object) -> str:
        """Fill in the variables and the examples."""
        return drive(self._text(kwargs, BLOCKING))

    async def aformat(self, **kwargs: object) -> str:
        """Fill in the variables and the examples."""
        return await self._text(kwargs, ASYNC)

    def save(self, file_path: Path | str) -> None:
        """Write this prompt as a JSON file, which `load_prompt` reads."""
        if self.example_selector is not None:
            raise UsageError("a prompt with an example selector cannot be saved")
        super().save(file_path)
