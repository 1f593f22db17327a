"""`PromptTemplate`: a prompt that is one template."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, model_validator

from foldline._config import RunnableConfig
from foldline._run import Run
from foldline.exceptions import UsageError
from foldline.prompt_values import PromptValue
from foldline.prompts._build import string_value, text_of
from foldline.prompts._compile import Plain, Program, PromptTemplateFormat, compile_prompt
from foldline.prompts._files import open_folder
from foldline.prompts.string import StringPromptTemplate, check_valid_template, mustache_schema

__all__ = ["PromptTemplate"]

MADE = ("_compiled", "_plain")
"""What an instance keeps besides its fields: the template, compiled."""


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
    """The text. Of an f-string, `{name}` is a variable and `{{` a brace."""
    template_format: PromptTemplateFormat = "f-string"
    """How the text marks its variables."""
    validate_template: bool = False
    """Whether `input_variables`, where given, must be those of the template."""

    if TYPE_CHECKING:
        _plain: Plain  # kept in `__dict__`; declared in earnest, Pydantic would make it a private attribute

    @model_validator(mode="before")
    @classmethod
    def pre_init_validation(cls, values: object) -> object:
        """Read the variables from the template."""
        if not isinstance(values, dict) or not isinstance(values.get("template"), str):
            return values
        values = dict(values)
        kind = values.get("template_format") or "f-string"
        given = values.get("partial_variables") or {}
        if values.get("validate_template"):
            if kind == "mustache":
                raise UsageError(
                    "mustache templates cannot be validated: every variable is optional"
                )
            asked = [*(values.get("input_variables") or []), *given]
            check_valid_template(values["template"], kind, asked)
        names = compile_prompt(values["template"], kind).variables
        values["input_variables"] = sorted(name for name in names if name not in given)
        values["partial_variables"] = given
        return values

    @property
    def lc_attributes(self) -> dict[str, Any]:
        """What is written besides the fields that differ from their defaults."""
        return {"template_format": self.template_format}

    @property
    def _prompt_type(self) -> str:
        return "prompt"

    # -- filling in

    def format(self, **kwargs: object) -> str:
        """Fill in the variables; names the template does not have are ignored."""
        # `text_of`, written out for the commonest case, of which a further call would be a quarter.
        try:
            written, pick = self._plain
            values = pick(kwargs)
            for value in values:
                if type(value) is not str:
                    break
            else:
                return written % values
        except (AttributeError, KeyError):  # not compiled yet; a variable is partial, or missing
            pass
        return text_of(self, kwargs)

    def _program(self) -> Program:
        """Compile the template, checked, and keep it while the template stays the same."""
        held = compile_prompt(self.template, self.template_format)
        held = held._replace(template=self.template, kind=self.template_format)
        # No fields: they are neither dumped nor compared.
        self.__dict__["_compiled"] = held
        if held.plain is not None:
            self.__dict__["_plain"] = held.plain
        return held

    async def _invoke_body(self, input: object, run: Run) -> PromptValue:
        if type(self) is not PromptTemplate:  # a subclass may have its own `format`
            return await super()._invoke_body(input, run)
        return string_value(text_of(self, self._validate_input(input)))

    def __setattr__(self, name: str, value: object) -> None:
        """Set a field; what was compiled is compiled again."""
        for made in MADE:
            self.__dict__.pop(made, None)
        super().__setattr__(name, value)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy the prompt; what was compiled is compiled again."""
        twin = super().model_copy(update=update, deep=deep)
        for made in MADE:
            twin.__dict__.pop(made, None)
        return twin

    def __getstate__(self) -> dict[Any, Any]:
        """Leave out what can be compiled again."""
        state = super().__getstate__()
        fields = {name: v for name, v in state["__dict__"].items() if name not in MADE}
        return {**state, "__dict__": fields}

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the variables as a Pydantic model; those of mustache may be objects and lists."""
        if self.template_format == "mustache":
            return mustache_schema(self.template)
        return super().get_input_schema(config)

    def __add__(self, other: object) -> PromptTemplate:
        """Write one template after another."""
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
    def from_template(
        cls,
        template: str,
        *,
        template_format: PromptTemplateFormat = "f-string",
        partial_variables: dict[str, Any] | None = None,
        **kwargs: object,
    ) -> Self:
        """Make a prompt of a text."""
        compile_prompt(
            template, template_format
        )  # so that its error comes as it is, not Pydantic's
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
        """Make a prompt of a prefix, examples as they are, and a suffix."""
        template = example_separator.join([prefix, *examples, suffix])
        return cls(input_variables=input_variables, template=template, **kwargs)

    @classmethod
    def from_file(
        cls,
        template_file: str | Path,
        encoding: str | None = None,
        *,
        root: str | Path | None = None,
        **kwargs: Any,
    ) -> Self:
        """Make a prompt of a file; with `root`, the file's path is inside that folder and cannot lead out."""
        folder, name = open_folder(template_file, root)
        return cls.from_template(folder.read(name, encoding), **kwargs)
