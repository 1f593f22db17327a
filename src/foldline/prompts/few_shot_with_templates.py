"""`FewShotPromptWithTemplates`: examples between two prompts with their own variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import SerializeAsAny, model_validator

from foldline._io import IO
from foldline.exceptions import UsageError
from foldline.prompts._compile import PromptTemplateFormat
from foldline.prompts._examples import FewShotText, check_examples
from foldline.prompts.string import StringPromptTemplate

__all__ = ["FewShotPromptWithTemplates"]


class FewShotPromptWithTemplates(FewShotText):
    """A text with examples, between two prompts."""

    suffix: SerializeAsAny[StringPromptTemplate]
    """The prompt after the examples."""
    prefix: SerializeAsAny[StringPromptTemplate] | None = None
    """The prompt before the examples."""
    template_format: PromptTemplateFormat = "f-string"
    """For compatibility with LangChain: the prompts have their own formats."""

    @model_validator(mode="before")
    @classmethod
    def check_examples_and_selector(cls, values: object) -> object:
        """Raise unless there is either a list of examples or a selector."""
        return check_examples(values)

    @model_validator(mode="after")
    def template_is_valid(self) -> Self:
        """Set the variables from prefix and suffix, or compare them with the passed ones."""
        expected = set(self.suffix.input_variables) | set(
            self.prefix.input_variables if self.prefix else ()
        )
        expected -= set(self.partial_variables)
        passed = set(self.input_variables)
        if self.validate_template and passed != expected:
            raise UsageError(
                f"Got input_variables={sorted(passed)}, but based on prefix/suffix expected {sorted(expected)}"
            )
        if not self.validate_template:
            # Not by assignment, which may validate and call this again.
            self.__dict__["input_variables"] = sorted(
                expected | passed if self.example_selector is not None else expected
            )
        return self

    @property
    def _prompt_type(self) -> str:
        return "few_shot_with_templates"

    async def _prefix_and_suffix(self, values: Mapping[str, Any], io: IO) -> tuple[str, str]:
        prefix = "" if self.prefix is None else await _fill_prompt(self.prefix, values, io)
        return prefix, await _fill_prompt(self.suffix, values, io)


async def _fill_prompt(prompt: StringPromptTemplate, values: Mapping[str, Any], io: IO) -> str:
    prompt_values = {name: values[name] for name in prompt.input_variables if name in values}
    return prompt.format(**prompt_values) if io.blocking else await prompt.aformat(**prompt_values)
