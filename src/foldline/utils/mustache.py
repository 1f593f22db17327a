"""Mustache templates for prompts: names, sections, inverted sections, comments, raw names.

Names read mappings by key and lists by position, never attributes; there are no partials and no lambdas. Compiling is
linear in the template; rendering is bounded in depth and in steps, so that sections nested over the same list cannot
run for ever.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from foldline.utils.formatting import TemplateError

__all__ = [
    "ChevronError",
    "render",
]

MAX_DEPTH = 100
MAX_STEPS = 100_000
ALONE = re.compile(r"[ \t]*+(?:\r?\n|\Z)")
MISSING: Final = object()


class ChevronError(TemplateError, SyntaxError):
    """A mustache template is malformed."""

    __str__ = Exception.__str__  # SyntaxError's own needs a place in a file


class Name(NamedTuple):
    """A place for a value."""

    path: tuple[str, ...]
    is_raw: bool


class Section(NamedTuple):
    """A part that is rendered per item, or (inverted) when there is none."""

    path: tuple[str, ...]
    is_inverted: bool
    parts: list[Part]


Part = str | Name | Section


class MustacheTemplate:
    """A compiled template: `variables`, its names at the top level, and `format`."""

    __slots__ = ("_parts", "template", "variables")

    def __init__(self, template: str) -> None:
        self.template: str = template
        self._parts = _Compiler(template).compile()
        self.variables: tuple[str, ...] = tuple(_top_names(self._parts))

    def format(self, values: Mapping[str, object], *, escape: bool = True) -> str:
        """Render; `escape` writes HTML's special characters as entities, except in raw names."""
        return _Renderer(escape=escape).render(self._parts, values)


@lru_cache(maxsize=256)
def compile_mustache(template: str) -> MustacheTemplate:
    """Compile a template; recent ones are cached."""
    return MustacheTemplate(template)


def render(template: str, data: Mapping[str, Any] | None = None, *, escape: bool = True) -> str:
    """Render a template; a missing name is empty, as in mustache."""
    return compile_mustache(template).format(data or {}, escape=escape)


def get_variables(template: str) -> list[str]:
    """List the names at the top level, each once; names inside a section belong to its items."""
    return list(compile_mustache(template).variables)


def _top_names(parts: list[Part]) -> dict[str, None]:
    return {part.path[0]: None for part in parts if not isinstance(part, str) and part.path}


class _Compiler:
    """One pass from left to right, with the open sections on a stack."""

    def __init__(self, template: str) -> None:
        self._template = template
        self._open, self._close = "{{", "}}"
        self._stack: list[tuple[str, list[Part]]] = [("", [])]
        self._is_line_start = True

    def compile(self) -> list[Part]:
        position = 0
        while (start := self._template.find(self._open, position)) >= 0:
            literal = self._template[position:start]
            kind, name, end = self._tag(start + len(self._open))
            position = self._take_literal(literal, kind, end)
            self._take_tag(kind, name, start)
        self._put(self._template[position:])
        if len(self._stack) > 1:
            raise self._error(f"the section {self._stack[-1][0]!r} is never closed")
        return self._stack[0][1]

    def _tag(self, start: int) -> tuple[str, str, int]:
        """Read kind, name and end of the tag whose content starts here."""
        is_triple = self._open == "{{" and self._template.startswith("{", start)
        closing = "}}}" if is_triple else self._close
        end = self._template.find(closing, start)
        if end < 0:
            raise self._error(f"the tag at character {start} is not closed with {closing!r}")
        body = self._template[start + is_triple : end].strip()
        end += len(closing)
        if is_triple:
            return "&", body, end
        kind = body[:1] if body[:1] in "#^/!&>=" else ""
        return kind, body[len(kind) :].strip(), end

    def _take_literal(self, literal: str, kind: str, end: int) -> int:
        """Add the text before a tag; a tag that is not a value and is alone on its line removes the line."""
        earlier_lines, newline, last_line = literal.rpartition("\n")
        starts_line = (bool(newline) or self._is_line_start) and not last_line.strip(" \t")
        self._is_line_start = False
        if kind and kind != "&" and starts_line and (line_end := ALONE.match(self._template, end)):
            self._put(earlier_lines + newline)
            self._is_line_start = True
            return line_end.end()
        self._put(literal)
        return end

    def _take_tag(self, kind: str, name: str, start: int) -> None:
        if kind == "!":
            return
        if not name:
            raise self._error(f"the tag at character {start} is an empty tag")
        if kind == "=":
            self._take_delimiters(name)
        elif kind == ">":
            raise self._error(f"partials are not supported: {name!r}")
        elif kind == "/":
            self._close_section(name)
        elif kind in ("#", "^"):
            if len(self._stack) > MAX_DEPTH:
                raise self._error(f"sections nest deeper than {MAX_DEPTH}")
            section = Section(_path(name), kind == "^", [])
            self._stack[-1][1].append(section)
            self._stack.append((name, section.parts))
        else:
            self._stack[-1][1].append(Name(_path(name), kind == "&"))

    def _take_delimiters(self, name: str) -> None:
        delimiters = name.removesuffix("=").split()
        if len(delimiters) != 2:
            raise self._error(f"delimiters are written {{{{=<% %>=}}}}, not {name!r}")
        self._open, self._close = delimiters

    def _close_section(self, name: str) -> None:
        if len(self._stack) == 1:
            raise self._error(f"the section {name!r} is closed but was not opened")
        opened, _ = self._stack.pop()
        if opened != name:
            raise self._error(f"the section {opened!r} is closed as {name!r}")

    def _put(self, text: str) -> None:
        if text:
            self._stack[-1][1].append(text)

    def _error(self, reason: str) -> ChevronError:
        return ChevronError(f"mustache template {self._template[:80]!r}: {reason}")


class _Renderer:
    def __init__(self, *, escape: bool) -> None:
        self._escape = escape
        self._steps = 0
        self._out: list[str] = []

    def render(self, parts: list[Part], values: Mapping[str, object]) -> str:
        self._render(parts, [values])
        return "".join(self._out)

    def _render(self, parts: list[Part], scopes: list[object]) -> None:
        self._steps += len(parts) + 1
        if self._steps > MAX_STEPS:
            raise TemplateError(f"mustache template takes more than {MAX_STEPS} steps to render")
        for part in parts:
            if isinstance(part, str):
                self._out.append(part)
            elif isinstance(part, Name):
                self._out.append(self._text(_look_up(part.path, scopes), is_raw=part.is_raw))
            else:
                self._render_section(part, scopes)

    def _render_section(self, section: Section, scopes: list[object]) -> None:
        value = _look_up(section.path, scopes)
        if section.is_inverted:
            if value is MISSING or not value:
                self._render(section.parts, scopes)
        elif isinstance(value, list | tuple):
            for item in value:
                self._render(section.parts, [*scopes, item])
        elif value is not MISSING and value:
            self._render(section.parts, [*scopes, value])

    def _text(self, value: object, *, is_raw: bool) -> str:
        if value is MISSING or value is None or (isinstance(value, list | dict) and not value):
            return ""
        text = str(value)
        return text if is_raw or not self._escape else html.escape(text)


def _path(name: str) -> tuple[str, ...]:
    return () if name == "." else tuple(name.split("."))


def _look_up(path: tuple[str, ...], scopes: list[object]) -> object:
    if not path:
        value = scopes[-1]
    else:
        value = MISSING
        for scope in reversed(scopes):
            value = _step(scope, path[0])
            if value is not MISSING:
                break
        for key in path[1:]:
            value = _step(value, key)
    if callable(value):
        raise TemplateError(f"{'.'.join(path)!r} is a function; mustache lambdas are not supported")
    return value


def _step(value: object, key: str) -> object:
    if isinstance(value, Mapping):
        return value.get(key, MISSING)
    if isinstance(value, list | tuple) and key.isdecimal() and len(key) < 10:
        index = int(key)
        return value[index] if index < len(value) else MISSING
    return MISSING
