"""`FewShotPromptWithTemplates`: examples between two prompts, which bring their own variables."""

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
    """Kept for LangChain's sake: the prompts know their own format."""

    @model_validator(mode="before")
    @classmethod
    def check_examples_and_selector(cls, values: object) -> object:
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
                f"Got input_variables={sorted(asked)}, but based on prefix/suffix expected {sorted(found)}"
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

    async def _around(self, values: Mapping[str, Any], io: IO) -> tuple[str, str]:
        before = "" if self.prefix is None else await _filled(self.prefix, values, io)
        return before, await _filled(self.suffix, values, io)


async def _filled(prompt: StringPromptTemplate, values: Mapping[str, Any], io: IO) -> str:
    mine = {name: values[name] for name in prompt.input_variables if name in values}
    return prompt.format(**mine) if io.blocking else await prompt.aformat(**mine)
