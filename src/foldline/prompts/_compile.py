"""Check and compile templates: f-string, mustache, jinja2. Every prompt formats through here.

A template is checked when it is compiled, and compiled again whenever its text has changed, so that no way of setting
it (constructor, copy, assignment) bypasses the check. Values are inserted literally and once: a prompt is not HTML, so
mustache does not escape. A message is inserted as its text (`_message_text`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Literal, NamedTuple, TypeAlias

from foldline.exceptions import UsageError
from foldline.prompts._jinja import compile_jinja
from foldline.prompts._message_text import with_texts
from foldline.utils.formatting import PARSER, compile_template
from foldline.utils.mustache import compile_mustache

__all__ = ["Plain", "Program", "PromptTemplateFormat", "compile_prompt"]

PromptTemplateFormat: TypeAlias = Literal["f-string", "mustache", "jinja2"]
"""How a template marks its variables: `{name}`, `{{name}}` with sections, or jinja2 (an extra, in a sandbox)."""

Values: TypeAlias = Mapping[str, object]
Plain: TypeAlias = tuple[str, Callable[[Values], tuple[object, ...]]]
"""A text with `%s` for each variable, and a function that returns their values."""


class Program(NamedTuple):
    """A compiled template: its source, its variables, and the function that fills it."""

    template: str
    kind: str
    variables: tuple[str, ...]
    fill: Callable[[Values], str]
    plain: Plain | None = None
    """A faster form for values whose format is their `str`; None if the template has no such form."""


def _plain(template: str) -> Plain | None:
    """Return the fastest form of a checked template: `%s` for each name, and a getter of the values."""
    pattern, names = "", []
    for literal, name, spec, conversion in PARSER.parse(template):
        if spec or conversion:
            return None
        pattern += literal.replace("%", "%%")
        if name is not None:
            pattern += "%s"
            names.append(name)
    if not names:
        return None
    if len(names) == 1:  # `itemgetter` of one name returns no tuple: get it twice, write it once
        return pattern + "%.0s", itemgetter(names[0], names[0])
    return pattern, itemgetter(*names)


def _fill_with_texts(fill: Callable[[Values], str]) -> Callable[[Values], str]:
    return lambda values: fill(with_texts(values))


def compile_prompt(template: str, kind: str) -> Program:
    """Return a compiled template; raise if it uses more than plain names of its values."""
    if kind == "f-string":
        plain = compile_template(template)
        fill = _fill_with_texts(plain.format)
        return Program(template, kind, plain.variables, fill, _plain(template))
    if not isinstance(template, str):
        raise UsageError(f"a template is text, not {type(template).__name__}")
    if kind == "mustache":
        mustache = compile_mustache(template)

        def fill_mustache(values: Values) -> str:
            return mustache.format(values, escape=False)

        return Program(template, kind, mustache.variables, _fill_with_texts(fill_mustache))
    if kind == "jinja2":
        variables, fill_jinja = compile_jinja(template)
        return Program(template, kind, variables, _fill_with_texts(fill_jinja))
    raise UsageError(
        f"Unsupported template format: {kind}. Write 'f-string', 'mustache' or 'jinja2'"
    )
