"""`PromptTemplate`: a prompt that is one template."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, model_validator

from foldline._config import RunnableConfig
from foldline._run import Run
from foldline._traceback import entry_point
from foldline.exceptions import UsageError
from foldline.prompt_values import PromptValue
from foldline.prompts._build import string_value, text_of
from foldline.prompts._compile import Plain, Program, PromptTemplateFormat, compile_prompt
from foldline.prompts._files import open_folder
from foldline.prompts.string import StringPromptTemplate, check_valid_template, mustache_schema

__all__ = ["PromptTemplate"]

CACHE_KEYS = ("_compiled", "_plain")
"""Keys of the compiled template in an instance's `__dict__`."""


class PromptTemplate(StringPromptTemplate):
    """A text with variables.

    ```python
    from foldline.prompts import PromptTemplate

    prompt = PromptTemplate.from_template("Say {word} in {language}.")
    print(prompt.format(word="yes", language="French"))
    #> Say yes in French.
    print(prompt.invoke({"word": "{language}", "language": "French"}).to_string())
    #> Say {language} in French.
    ```
    """

    template: str
    """The text. In an f-string, `{name}` is a variable and `{{` a brace."""
    template_format: PromptTemplateFormat = "f-string"
    """The format of the template."""
    validate_template: bool = False
    """Whether `input_variables`, if passed, must be those of the template."""

    if TYPE_CHECKING:
        _plain: Plain  # in `__dict__`; a real declaration would make it a private attribute

    @model_validator(mode="before")
    @classmethod
    def pre_init_validation(cls, values: object) -> object:
        """Set the variables from the template."""
        if not isinstance(values, dict) or not isinstance(values.get("template"), str):
            return values
        values = dict(values)
        kind = values.get("template_format") or "f-string"
        partials = values.get("partial_variables") or {}
        if values.get("validate_template"):
            if kind == "mustache":
                raise UsageError(
                    "mustache templates cannot be validated: every variable is optional"
                )
            passed = [*(values.get("input_variables") or []), *partials]
            check_valid_template(values["template"], kind, passed)
        names = compile_prompt(values["template"], kind).variables
        values["input_variables"] = sorted(name for name in names if name not in partials)
        values["partial_variables"] = partials
        return values

    @property
    def lc_attributes(self) -> dict[str, Any]:
        """Fields that are always serialized."""
        return {"template_format": self.template_format}

    @property
    def _prompt_type(self) -> str:
        return "prompt"

    # -- filling in

    def format(self, **kwargs: object) -> str:
        """Return the text with the variables filled in; unknown names are ignored."""
        # `text_of`, inlined for the most common case: a function call would add a quarter of the time.
        try:
            pattern, pick = self._plain
            values = pick(kwargs)
            for value in values:
                if type(value) is not str:
                    break
            else:
                return pattern % values
        except (AttributeError, KeyError):  # not compiled yet; a variable is partial, or missing
            pass
        return text_of(self, kwargs)

    def _program(self) -> Program:
        """Return the compiled template, and cache it until the template changes."""
        program = compile_prompt(self.template, self.template_format)
        program = program._replace(template=self.template, kind=self.template_format)
        # Not fields, so they are neither serialized nor compared.
        self.__dict__["_compiled"] = program
        if program.plain is not None:
            self.__dict__["_plain"] = program.plain
        return program

    async def _invoke_body(self, input: object, run: Run) -> PromptValue:
        if type(self) is not PromptTemplate:  # a subclass may have its own `format`
            return await super()._invoke_body(input, run)
        return string_value(text_of(self, self._validate_input(input)))

    def __setattr__(self, name: str, value: object) -> None:
        """Set a field; the compiled template is discarded."""
        for key in CACHE_KEYS:
            self.__dict__.pop(key, None)
        super().__setattr__(name, value)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy without the compiled template."""
        copied = super().model_copy(update=update, deep=deep)
        for key in CACHE_KEYS:
            copied.__dict__.pop(key, None)
        return copied

    def __getstate__(self) -> dict[Any, Any]:
        """Return the state to pickle, without the compiled template."""
        state = super().__getstate__()
        fields = {name: v for name, v in state["__dict__"].items() if name not in CACHE_KEYS}
        return {**state, "__dict__": fields}

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the variables as a Pydantic model; mustache variables may be objects and lists."""
        if self.template_format == "mustache":
            return mustache_schema(self.template)
        return super().get_input_schema(config)

    def __add__(self, other: object) -> PromptTemplate:
        """Return the concatenation of two templates."""
        if isinstance(other, str):
            other = type(self).from_template(other, template_format=self.template_format)
        if not isinstance(other, PromptTemplate):
            raise TypeError(
                f"a PromptTemplate adds up with text or another one, not with {type(other).__name__}"
            )
        if other.template_format != self.template_format:
            raise UsageError(
                f"Cannot add templates of different formats: {self.template_format!r} and "
                f"{other.template_format!r}"
            )
        both = set(self.partial_variables) & set(other.partial_variables)
        if both:
            raise UsageError(f"both templates were already given {sorted(both)}")
        return type(self)(
            template=self.template + other.template,
            input_variables=sorted({*self.input_variables, *other.input_variables}),
            partial_variables={**self.partial_variables, **other.partial_variables},
            template_format=self.template_format,
            validate_template=self.validate_template and other.validate_template,
        )

    # -- making

    @classmethod
    @entry_point
    def from_template(
        cls,
        template: str,
        *,
        template_format: PromptTemplateFormat = "f-string",
        partial_variables: dict[str, Any] | None = None,
        **kwargs: object,
    ) -> Self:
        """Create a prompt from a text."""
        compile_prompt(template, template_format)  # raises its own error instead of Pydantic's
        return cls(
            template=template,
            template_format=template_format,
            partial_variables=partial_variables or {},
            **kwargs,
        )

    @classmethod
    def from_examples(
        cls,
        examples: list[str],
        suffix: str,
        input_variables: list[str],
        example_separator: str = "\n\n",
        prefix: str = "",
        **kwargs: object,
    ) -> Self:
        """Create a prompt from a prefix, unchanged examples, and a suffix."""
        template = example_separator.join([prefix, *examples, suffix])
        return cls(input_variables=input_variables, template=template, **kwargs)

    @classmethod
    @entry_point
    def from_file(
        cls,
        template_file: str | Path,
        encoding: str | None = None,
        *,
        root: str | Path | None = None,
        **kwargs: Any,
    ) -> Self:
        """Create a prompt from a file; with `root`, the path must stay inside that folder."""
        folder, name = open_folder(template_file, root)
        return cls.from_template(folder.read(name, encoding), **kwargs)
