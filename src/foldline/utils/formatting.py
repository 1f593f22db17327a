"""The formatter of `{name}` templates: plain names, optionally with a format spec or conversion (`{x:.2f}`).

A template that reads attributes of its values (`{user.__class__}`) could expose the program's secrets to its author, so
an attribute, an index or a field inside a spec is refused when the template is compiled, and again when it is
formatted. Values are inserted literally and once: braces inside them have no meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from string import Formatter
from typing import Any

from foldline.exceptions import UsageError
from foldline.utils._short_repr import short_repr

__all__ = [
    "MissingVariableError",
    "StrictFormatter",
    "TemplateError",
    "formatter",
]

PARSER = Formatter()
NUMBERS = re.compile(r"\d{1,20}")
MAX_WIDTH = 10_000
"""The most characters that a format spec may add."""
HINT = "write {{ and }} for braces that are text"


class TemplateError(UsageError):
    """A template is malformed; the message says what to write."""


class MissingVariableError(TemplateError, KeyError):
    """A template was formatted without one of its variables."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class Template:
    """A checked template: `variables` in order of appearance, and `format`."""

    __slots__ = ("_format", "template", "variables")

    def __init__(self, template: str) -> None:
        self.template: str = template
        self.variables: tuple[str, ...] = _checked_variables(template)
        # Safe here: only plain names are left, and format_map looks them up as keys.
        self._format = template.format_map

    def format(self, values: Mapping[str, object]) -> str:
        """Insert the values; names that the template does not have are ignored."""
        try:
            return self._format(values)
        except KeyError:
            raise _missing(self, values) from None
        except (ValueError, TypeError) as error:  # a spec that does not fit its value
            raise TemplateError(f"template {self.template[:80]!r}: {error}") from error

    def __repr__(self) -> str:
        return f"Template({self.template!r})"


class StrictFormatter:
    """LangChain's formatter by name: keyword values only, and all of them."""

    __repr__ = short_repr

    def format(self, format_string: str, /, *args: object, **kwargs: object) -> str:
        """Format with keyword values."""
        return self.vformat(format_string, args, kwargs)

    def vformat(
        self, format_string: str, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> str:
        """Format with a mapping; positional values are refused."""
        if args:
            raise TemplateError(
                "values cannot be passed by position: pass them by name, as keywords"
            )
        return compile_template(format_string).format(kwargs)

    def validate_input_variables(self, format_string: str, input_variables: list[str]) -> None:
        """Raise if the template needs a name that is not among these."""
        template = compile_template(format_string)
        values = dict.fromkeys(input_variables)
        if any(name not in values for name in template.variables):
            raise _missing(template, values)


formatter: StrictFormatter = StrictFormatter()


@lru_cache(maxsize=512)
def _compiled(template: str) -> Template:
    return Template(template)


def compile_template(template: str) -> Template:
    """Compile a template; recent ones are cached."""
    if not isinstance(template, str):
        raise TemplateError(f"a template is text, not {type(template).__name__}")
    return _compiled(template) if len(template) < 10_000 else Template(template)


def format_template(template: str, values: Mapping[str, Any]) -> str:
    """Format once."""
    return compile_template(template).format(values)


def get_variables(template: str) -> list[str]:
    """List the names of a template, each once, in order of appearance."""
    return list(compile_template(template).variables)


def _checked_variables(template: str) -> tuple[str, ...]:
    names: dict[str, None] = {}
    try:
        for _, field, spec, conversion in PARSER.parse(template):
            if field is not None:
                _check_field(template, field, spec or "", conversion)
                names[field] = None
    except ValueError as error:
        if isinstance(error, TemplateError):
            raise
        raise TemplateError(f"template {template[:80]!r}: {error}; {HINT}") from None
    return tuple(names)


def _check_field(template: str, field: str, spec: str, conversion: str | None) -> None:
    reason = ""
    if "." in field or "[" in field or "]" in field:
        reason = (
            f"Invalid variable name {field!r}: Variable names cannot contain attribute access (.) or indexing ([]); "
            "only plain names are allowed"
        )
    elif "{" in spec or "}" in spec:
        reason = f"{{{field}:{spec[:40]}}}: Invalid format specifier; Nested replacement fields are not allowed"
    elif any(int(number) > MAX_WIDTH for number in NUMBERS.findall(spec)):
        reason = f"{{{field}:{spec[:40]}}} pads to more than {MAX_WIDTH:,} characters"
    elif conversion and conversion not in "rsa":
        reason = f"{{{field}!{conversion}}}: the conversions are !r, !s and !a"
    elif not field.strip():
        reason = "{} has no name"
    elif field.strip().isdigit():
        reason = f"{{{field}}} is a position: Invalid variable name; give the variable a name"
    if reason:
        raise TemplateError(f"template {template[:80]!r}: {reason} ({HINT})")


def _missing(template: Template, values: Mapping[str, object]) -> MissingVariableError:
    missing = [name for name in template.variables if name not in values]
    return MissingVariableError(
        f"template {template.template[:80]!r}: no value for {', '.join(map(repr, missing))}; "
        f"given were {sorted(map(str, values))}"
    )
