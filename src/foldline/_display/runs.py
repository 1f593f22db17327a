"""Runs, agents and streams as HTML, read by their attributes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from foldline._display.messages import message_html
from foldline._display.parts import Value, badge, card, code, describe_value, fold, pairs

__all__ = ["agent_html", "run_html", "runs_html", "stream_html"]

DEEPEST: Final = 40
MOST: Final = 300
"""Children shown of one run."""
INNER: Final = "margin-left:1em;border-left:1px solid rgba(128,128,128,.4);padding-left:.6em"


def runs_html(runs: Sequence[Value]) -> str:
    """Return traces, each a tree."""
    if not runs:
        return card("run", "", "<em>no runs yet</em>")
    return "".join(run_html(run) for run in runs[-MOST:])


def run_html(run: Value, depth: int = 0) -> str:
    """Return a run and the runs inside it as a tree whose parts open at a click."""
    children = list(run.child_runs)
    inner = "".join(_parts(run))
    if depth < DEEPEST:
        inner += "".join(run_html(child, depth + 1) for child in children[:MOST])
        hidden = len(children) - MOST
    else:
        hidden = len(children)
    if hidden > 0:
        inner += f"<p><em>{hidden:,} more runs</em></p>"
    tree = fold(_summary(run), f'<div style="{INNER}">{inner}</div>', is_open=depth < 3)
    return card("error" if run.error else "run", "", tree) if depth == 0 else tree


def _summary(run: Value) -> str:
    labels = [f"<strong>{escape(str(run.name))}</strong>", badge(str(run.run_type))]
    if run.end_time is not None:
        seconds = (run.end_time - run.start_time).total_seconds()
        labels.append(f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s")
    else:
        labels.append("<em>under way</em>")
    if run.error:
        labels.append(badge("failed"))
    return " ".join(labels)


def _parts(run: Value) -> Iterable[str]:
    if run.error:
        yield card("error", "", code(str(run.error).partition("\n")[0]))
    for name in ("inputs", "outputs"):
        value = getattr(run, name)
        if value:
            yield fold(name, code(describe_value(value)))


def agent_html(name: str, parts: Sequence[tuple[str, Value]]) -> str:
    """Return an object of named parts, such as an agent: each is a text, or a list of (name, description)."""
    rows = [(label, _part(value)) for label, value in parts if value]
    return card("agent", escape(name), pairs(rows))


def _part(value: Value) -> str:
    if isinstance(value, str):
        return escape(value)
    return "<br>".join(
        f"{badge(str(name))} {escape(str(description))}" for name, description in value
    )


def stream_html(message: Value, *, is_done: bool, error: BaseException | None) -> str:
    """Return the answer of a stream so far, and whether it has ended."""
    if error is not None:
        failure = f"{type(error).__name__}: {error}"
        return message_html(message) + card("error", "", escape(failure))
    return message_html(message, "" if is_done else "… so far")
