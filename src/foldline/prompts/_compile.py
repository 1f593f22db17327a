"""Templates, checked and made ready once: f-string, mustache, jinja2. Every prompt formats through here.

A template is checked when it is compiled, and compiled again whenever its text has changed, so that no way of setting
it (a constructor, a copy, an assignment) leads past the check. Values are put in literally and once: a prompt is not
HTML, so mustache does not escape here either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Literal, NamedTuple, TypeAlias

from foldline.exceptions import UsageError
from foldline.prompts._jinja import compile_jinja
from foldline.utils.formatting import PARSER, compile_template
from foldline.utils.mustache import compile_mustache

__all__ = ["Plain", "Program", "PromptTemplateFormat", "compile_prompt"]

PromptTemplateFormat: TypeAlias = Literal["f-string", "mustache", "jinja2"]
"""How a template marks its variables: `{name}`, `{{name}}` with sections, or jinja2 (an extra, in a sandbox)."""

Values: TypeAlias = Mapping[str, object]
Plain: TypeAlias = tuple[str, Callable[[Values], tuple[object, ...]]]
"""A text with `%s` for each variable, and what picks their values."""


class Program(NamedTuple):
    """A template ready to be filled in: where it came from, its variables, and how to fill it."""

    template: str
    kind: str
    variables: tuple[str, ...]
    fill: Callable[[Values], str]
    plain: Plain | None = None
    """The same for values whose text is what `str` says, without a frame of ours; None where there is no such way."""


def _plain(template: str) -> Plain | None:
    """Write a checked template as Python fills it in quickest: `%s` for each name, and how to pick their values."""
    written, names = "", []
    for literal, name, spec, conversion in PARSER.parse(template):
        if spec or conversion:
            return None
        written += literal.replace("%", "%%")
        if name is not None:
            written += "%s"
            names.append(name)
    if not names:
        return None
    if len(names) == 1:  # of one name `itemgetter` gives no tuple: pick it twice, write it once
        return written + "%.0s", itemgetter(names[0], names[0])
    return written, itemgetter(*names)


def compile_prompt(template: str, kind: str) -> Program:
    """Check a template; what it asks of its values beyond plain names is refused."""
    if kind == "f-string":
        plain = compile_template(template)
        return Program(template, kind, plain.variables, plain.format, _plain(template))
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
    raise UsageError(
        f"Unsupported template format: {kind}. Write 'f-string', 'mustache' or 'jinja2'"
    )
