"""`FewShotPromptWithTemplates`: examples between two prompts, which bring their own variables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, SerializeAsAny, model_validator

from weft._drive import drive
from weft._io import ASYNC, BLOCKING, IO
from weft.example_selectors.base import BaseExampleSelector
from weft.exceptions import UsageError
from weft.prompts._compile import PromptTemplateFormat
from weft.prompts._examples import check_examples, choose, values_of
from weft.prompts.prompt import PromptTemplate
from weft.prompts.string import StringPromptTemplate
from weft.protocol.blocks import Json

__all__ = ["FewShotPromptWithTemplates"]


class FewShotPromptWithTemplates(StringPromptTemplate):
    """A text with examples, between two prompts."""

    input_variables: list[str] = Field(default_factory=list)
    """The variables of prefix and suffix, and what else a selector looks at."""
    examples: list[dict[str, Any]] | None = None
    """The examples; or give an `example_selector`."""
    example_selector: BaseExampleSelector | None = None
    """What chooses the examples for an input."""
    example_prompt: SerializeAsAny[PromptTemplate]
    """How one example is written."""
    suffix: SerializeAsAny[StringPromptTemplate]
    """The prompt after the examples."""
    example_separator: str = "\n\n"
    """What stands between the parts."""
    prefix: SerializeAsAny[StringPromptTemplate] | None = None
    """The prompt before the examples."""
    template_format: PromptTemplateFormat = "f-string"
    """Kept for LangChain's sake: the prompts know their own format."""
    validate_template: bool = False
    """Whether `input_variables` must be those of prefix and suffix."""

    @model_validator(mode="before")
    @classmethod
    def check_examples_and_selector(cls, values: Json) -> Json:
        """See that there is a list of examples or a selector, and not both."""
        return check_examples(values)

    @model_validator(mode="after")
    def template_is_valid(self) -> Self:
        """Read the variables from prefix and suffix, or compare them with those given."""
        found = set(self.suffix.input_variables) | set(
            self.prefix.input_variables if self.prefix else ()
        )
        found -= set(self.partial_variables)
        asked = set(self.input_variables)
        if self.validate_template and asked != found:
            raise UsageError(
                f"the prompts take {sorted(found)}, and input_variables says {sorted(asked)}"
            )
        if not self.validate_template:
            # Set past `__setattr__`: assignment may validate, and come back here.
            self.__dict__["input_variables"] = sorted(
                found | asked if self.example_selector is not None else found
            )
        return self

    @property
    def _prompt_type(self) -> str:
        return "few_shot_with_templates"

    async def _text(self, values: Mapping[str, Any], io: IO) -> str:
        values = self._merged(values)
        examples = await choose(self.examples, self.example_selector, values, io)
        names = self.example_prompt.input_variables
        shown = [self.example_prompt.format(**values_of(example, names)) for example in examples]
        around = [
            "" if prompt is None else await _filled(prompt, values, io)
            for prompt in (self.prefix, self.suffix)
        ]
        return self.example_separator.join(p for p in [around[0], *shown, around[1]] if p)

    def format(self, **kwargs: Any) -> str:
        """Fill in the variables and the examples."""
        return drive(self._text(kwargs, BLOCKING))

    async def aformat(self, **kwargs: Any) -> str:
        """Fill in the variables and the examples."""
        return await self._text(kwargs, ASYNC)

    def save(self, file_path: Path | str) -> None:
        """Write this prompt as a JSON file, which `load_prompt` reads."""
        if self.example_selector is not None:
            raise UsageError("a prompt with an example selector cannot be saved")
        super().save(file_path)


async def _filled(prompt: StringPromptTemplate, values: Mapping[str, Any], io: IO) -> str:
    mine = {name: values[name] for name in prompt.input_variables if name in values}
    return prompt.format(**mine) if io.blocking else await prompt.aformat(**mine)
