"""Jinja2 templates (an extra), in a strict sandbox.

Jinja2's own sandbox lets a template call methods and read attributes that it considers safe. Here a template reads only
plain data: keys of dicts, items of lists, and properties of loops. Everything else is a `SecurityError`. The work and
the output of a rendering are limited (`foldline.prompts._jinja_limits`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from foldline.exceptions import MissingExtraError, SecurityError
from foldline.prompts._jinja_limits import (
    budget,
    check_operator,
    limit_filters,
    limit_tree,
    spend_value,
)
from foldline.prompts._message_text import MessageText, Transcript
from foldline.utils.formatting import TemplateError

__all__ = ["compile_jinja"]

READABLE_TYPES = (dict, list, tuple, str)
Fill = Callable[[Mapping[str, object]], str]


def compile_jinja(template: str) -> tuple[tuple[str, ...], Fill]:
    """Return the variables of a template, and the function that fills it."""
    environment = _environment()
    jinja2, meta = _jinja2(""), _jinja2(".meta")
    try:
        tree = environment.parse(template)
        names = meta.find_undeclared_variables(tree)
        with budget():  # constants are evaluated here
            compiled = environment.from_string(limit_tree(tree, _jinja2(".nodes")))
    except (jinja2.TemplateError, ArithmeticError, RecursionError, TypeError, ValueError) as error:
        raise TemplateError(f"jinja2 template {template[:80]!r}: {error}") from error

    def fill(values: Mapping[str, object]) -> str:
        failures = (
            jinja2.TemplateError,
            ArithmeticError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        )
        try:
            with budget():
                return "".join(compiled.generate(values))
        except SecurityError:
            raise
        except failures as error:
            raise TemplateError(f"jinja2 template {template[:80]!r}: {error}") from error

    return tuple(sorted(names)), fill


def _jinja2(part: str) -> ModuleType:
    try:
        return import_module(f"jinja2{part}")
    except ImportError as error:
        raise MissingExtraError(
            'jinja2 templates need jinja2: pip install "foldline[jinja]"'
        ) from error


def _refusal(obj: object, argument: object) -> str | None:
    """Return why a template may not read an item of a value; None where it may."""
    if isinstance(obj, MessageText | Transcript):
        if not isinstance(argument, str):
            return None
        return (
            f"a jinja2 template reads the text of a message, not its {argument!r}: write the message itself "
            "({{ message }}), or pass the value that you need"
        )
    if type(obj) in READABLE_TYPES:
        return None
    return (
        f"a jinja2 template may read plain dicts and lists, not {argument!r} of "
        f"{type(obj).__name__}: pass the value itself"
    )


@cache
def _environment() -> Any:  # noqa: ANN401  an environment of jinja2, an extra
    sandbox, runtime = _jinja2(".sandbox"), _jinja2(".runtime")
    loop, macro = runtime.LoopContext, runtime.Macro

    class JinjaSecurityError(SecurityError, _jinja2(".exceptions").SecurityError):  # type: ignore[misc]
        """A template used something forbidden; also caught as jinja2's own error."""

    class PlainData(sandbox.SandboxedEnvironment):  # type: ignore[misc,name-defined]
        intercepted_binops = frozenset({"+", "*", "**", "%"})

        def getattr(self, obj: object, attribute: str) -> object:
            return self.getitem(obj, attribute)

        def getitem(self, obj: object, argument: object) -> object:
            if isinstance(obj, loop) and isinstance(argument, str) and argument[:1] != "_":
                return getattr(obj, argument, self.undefined(name=argument))
            if reason := _refusal(obj, argument):
                raise JinjaSecurityError(reason)
            try:
                return obj[argument]  # type: ignore[index]
            except (KeyError, IndexError, TypeError):
                return self.undefined(obj=obj, name=argument)

        def get_template(self, name: object, *_: object, **__: object) -> object:
            raise JinjaSecurityError(f"a jinja2 template may not read others: {name!r:.80}")

        select_template = get_or_select_template = get_template

        def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
            return False

        def is_safe_callable(self, obj: object) -> bool:
            return obj is self.globals["range"] or isinstance(obj, macro)

        def call_binop(self, context: object, operator: str, left: object, right: object) -> object:
            check_operator(operator, left, right)
            return super().call_binop(context, operator, left, right)

    environment = PlainData(finalize=spend_value)
    environment.globals = {"range": environment.globals["range"]}
    environment.filters = limit_filters(environment.filters, _jinja2("").pass_context)
    return environment
