"""Templates, checked and made ready once: f-string, mustache, jinja2. Every prompt formats through here.

A template is checked when it is compiled, and compiled again whenever its text has changed, so that no way of setting
it (a constructor, a copy, an assignment) leads past the check. Values are put in literally and once: a prompt is not
HTML, so mustache does not escape here either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Literal, NamedTuple, TypeAlias

from weft.exceptions import UsageError
from weft.prompts._jinja import compile_jinja
from weft.utils.formatting import PARSER, compile_template
from weft.utils.mustache import compile_mustache

__all__ = ["Program", "PromptTemplateFormat", "compile_prompt"]

PromptTemplateFormat: TypeAlias = Literal["f-string", "mustache", "jinja2"]
"""How a template marks its variables: `{name}`, `{{name}}` with sections, or jinja2 (an extra, in a sandbox)."""

Values: TypeAlias = Mapping[str, object]


class Program(NamedTuple):
    """A template ready to be filled in: where it came from, its variables, and how to fill it."""

    template: str
    kind: str
    variables: tuple[str, ...]
    fill: Callable[[Values], str]
    pick: Callable[[Values], tuple[object, ...]] | None = None
    """Takes the values out in the order of their places; None where there is no quick way."""
    parts: list[str] = []  # noqa: RUF012  a named tuple's default; never changed
    """The texts, with an empty one at each place: joined with the values, the quick way for plain strings."""


def _quick(template: str, program: Program) -> Program:
    """Add the quick way to a checked template of plain names."""
    names: list[str] = []
    parts = [""]
    for literal, name, _, _ in PARSER.parse(template):
        parts[-1] += literal  # an escaped brace ends a literal, too
        if name is not None:
            names.append(name)
            parts += ["", ""]
    if len(names) > 1:
        return program._replace(pick=itemgetter(*names), parts=parts)
    if names:
        only = names[0]
        return program._replace(pick=lambda values: (values[only],), parts=parts)
    return program


def compile_prompt(template: str, kind: str) -> Program:
    """Check a template; what it asks of its values beyond plain names is refused."""
    if kind == "f-string":
        plain = compile_template(template)
        return _quick(template, Program(template, kind, plain.variables, plain.format))
    if not isinstance(template, str):
        raise UsageError(f"a template is text, not {type(template).__name__}")
    if kind == "mustache":
        mustache = compile_mustache(template)

        def fill_mustache(values: Values) -> str:
            return mustache.format(values, escape=False)

        return Program(template, kind, mustache.variables, fill_mustache)
    if kind == "jinja2":
        variables, fill = compile_jinja(template)
        return Program(template, kind, variables, fill)
    raise UsageError(f"{kind!r} is no template format: write 'f-string', 'mustache' or 'jinja2'")
