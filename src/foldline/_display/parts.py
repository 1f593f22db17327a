"""The parts of views: cards, folds, tables, values as text. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

__all__ = ["Value", "badge", "card", "code", "describe_value", "fold", "pairs"]

Value = Any
"""Whatever a program passed around."""

LONGEST = 4000
"""Characters shown of one value."""
COLORS = {
    "human": "#3b82f6",
    "ai": "#10b981",
    "system": "#a855f7",
    "tool": "#f59e0b",
    "error": "#ef4444",
}
"""Kind of a card -> the color of its edge."""
SMALL_STYLE = "font-size:.85em;opacity:.7"


def card(kind: str, title: str, body: str, footer: str = "") -> str:
    """Return a box with a colored edge; `title`, `body` and `footer` are HTML."""
    color = COLORS.get(kind, "#6b7280")
    head = f'<div style="{SMALL_STYLE};font-weight:600">{title}</div>' if title else ""
    foot = f'<div style="{SMALL_STYLE}">{footer}</div>' if footer else ""
    style = f"border-left:3px solid {color};padding:.2em .8em;margin:.4em 0;max-width:60em"
    return f'<div class="foldline-{escape(kind)}" style="{style}">{head}{body}{foot}</div>'


def fold(summary: str, body: str, *, is_open: bool = False) -> str:
    """Return an element that opens at a click; `summary` and `body` are HTML."""
    state = " open" if is_open else ""
    return f'<details{state}><summary style="cursor:pointer">{summary}</summary>{body}</details>'


def code(text: str) -> str:
    """Return preformatted text."""
    style = "white-space:pre-wrap;overflow-wrap:anywhere;margin:.2em 0;font-size:.9em"
    return f'<pre style="{style}">{escape(text)}</pre>'


def badge(text: str) -> str:
    """Return a word in a frame."""
    style = "border:1px solid rgba(128,128,128,.5);border-radius:3px;padding:0 .3em;font-size:.85em"
    return f'<span style="{style}">{escape(text)}</span>'


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and values; the values are HTML."""
    cell = 'style="text-align:left;vertical-align:top;padding:.1em .8em .1em 0"'
    html = "".join(
        f'<tr><th {cell}>{escape(name)}</th><td style="text-align:left">{value}</td></tr>'
        for name, value in rows
    )
    return f'<table style="border-collapse:collapse;margin:.2em 0">{html}</table>'


def describe_value(value: Value) -> str:
    """Return a value as text: JSON where possible, cut where it is long."""
    if isinstance(value, str):
        text = value
    else:
        try:
            text = json.dumps(_plain(value, 0), indent=1, ensure_ascii=False, default=_describe)
        except (TypeError, ValueError, RecursionError):
            text = _describe(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… {len(text) - LONGEST:,} more"


def _plain(value: Value, depth: int) -> Value:
    if depth > 20:
        return "… nested too deep to be shown"
    if isinstance(value, Mapping):
        return {str(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value]
    return value


def _describe(value: Value) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  any object of a program may fail
        return f"<{type(value).__name__}>"
