"""`StringPromptTemplate`: a prompt that is one text; and functions that check and fill templates by format."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from typing import Any

from foldline.exceptions import UsageError
from foldline.prompt_values import PromptValue
from foldline.prompts._build import string_value
from foldline.prompts._compile import PromptTemplateFormat, compile_prompt
from foldline.prompts._mustache_schema import mustache_schema
from foldline.prompts.base import BasePromptTemplate
from foldline.utils.formatting import TemplateError, get_variables
from foldline.utils.input import get_colored_text

__all__ = [
    "PromptTemplateFormat",
    "StringPromptTemplate",
    "check_valid_template",
    "get_template_variables",
    "is_subsequence",
    "jinja2_formatter",
    "mustache_formatter",
    "mustache_schema",
    "mustache_template_vars",
    "validate_f_string_template",
    "validate_jinja2",
]


def f_string_formatter(template: str, /, **kwargs: object) -> str:
    """Return a filled f-string template."""
    return compile_prompt(template, "f-string").fill(kwargs)


def mustache_formatter(template: str, /, **kwargs: object) -> str:
    """Return a filled mustache template; values are not escaped, because a prompt is not HTML."""
    return compile_prompt(template, "mustache").fill(kwargs)


def jinja2_formatter(template: str, /, **kwargs: object) -> str:
    """Return a filled jinja2 template, rendered in a sandbox; needs `foldline[jinja]`."""
    return compile_prompt(template, "jinja2").fill(kwargs)


def validate_f_string_template(template: str) -> list[str]:
    """Return the variables of an f-string template, in order; raise if it is invalid."""
    return get_variables(template)


def mustache_template_vars(template: str) -> set[str]:
    """Return the top-level variables of a mustache template."""
    return set(compile_prompt(template, "mustache").variables)


def validate_jinja2(template: str, input_variables: list[str]) -> None:
    """Raise unless a jinja2 template has exactly these variables."""
    _check_names(template, "jinja2", input_variables)


def _validate_f_string(template: str, input_variables: list[str]) -> None:
    _check_names(template, "f-string", input_variables)


DEFAULT_FORMATTER_MAPPING: dict[str, Callable[..., str]] = {
    "f-string": f_string_formatter,
    "mustache": mustache_formatter,
    "jinja2": jinja2_formatter,
}
DEFAULT_VALIDATOR_MAPPING: dict[str, Callable[[str, list[str]], None]] = {
    "f-string": _validate_f_string,
    "jinja2": validate_jinja2,
}


def check_valid_template(template: str, template_format: str, input_variables: list[str]) -> None:
    """Raise unless a template can be filled with these variables."""
    if template_format not in DEFAULT_VALIDATOR_MAPPING:
        raise UsageError(
            f"templates of the format {template_format!r} cannot be checked: "
            f"only {sorted(DEFAULT_VALIDATOR_MAPPING)} can"
        )
    _check_names(template, template_format, input_variables)


def _check_names(template: str, kind: str, passed: list[str]) -> None:
    try:
        required = set(compile_prompt(template, kind).variables)
    except TemplateError as error:
        raise TemplateError(
            f"Invalid prompt schema; check for mismatched or missing input parameters from {passed}: {error}"
        ) from error
    missing, unused = sorted(required - set(passed)), sorted(set(passed) - required)
    if missing or (unused and kind == "jinja2"):
        raise UsageError(
            f"Invalid prompt schema; check for mismatched or missing input parameters from {passed}: "
            f"the template {template[:80]!r} misses {missing}, and has no {unused}"
        )


def get_template_variables(template: str, template_format: str) -> list[str]:
    """Return the variables of a template, sorted."""
    return sorted(compile_prompt(template, template_format).variables)


class StringPromptTemplate(BasePromptTemplate[str], ABC):
    """A prompt that is one text. A subclass implements `format`."""

    def format_prompt(self, **kwargs: object) -> PromptValue:
        """Return the prompt value with the variables filled in."""
        return string_value(self.format(**kwargs))

    async def aformat_prompt(self, **kwargs: object) -> PromptValue:
        """Return the prompt value with the variables filled in."""
        return string_value(await self.aformat(**kwargs))

    def pretty_repr(self, html: bool = False) -> str:  # noqa: FBT001, FBT002  LangChain's signature
        """Return the prompt with its variables in braces; `html=True` colours them on a terminal."""
        placeholders = {
            name: get_colored_text(f"{{{name}}}", "yellow") if html else f"{{{name}}}"
            for name in self.input_variables
        }
        return self.format(**placeholders)

    def pretty_print(self) -> None:
        """Print `pretty_repr`."""
        print(self.pretty_repr())  # noqa: T201  printing is its job


def is_subsequence(child: Sequence[Any], parent: Sequence[Any]) -> bool:
    """Whether a list begins with another, which must not be empty."""
    return bool(child) and len(child) <= len(parent) and list(parent[: len(child)]) == list(child)
