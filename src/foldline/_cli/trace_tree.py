"""One trace as lines: a tree with timing bars, the inputs and outputs of runs, tool calls and errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from foldline.tracers._otel_content import input_messages, output_messages
from foldline.tracers._rows import StoredRun
from foldline.tracers._run_fields import ANSWER_KEYS, QUESTION_KEYS, field_of, first_words

__all__ = ["money", "seconds", "trace_lines"]

BAR = 24
"""Characters of a timing bar."""
LONGEST = 400
"""Characters that are shown of one value."""
Line = tuple[str, str | None]
"""A line and its style."""


def trace_lines(root: StoredRun) -> Iterator[Line]:
    """Yield the lines of a trace."""
    when = root.start_time.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    yield f"{when}  {root.name}  {root.id}", "bold"
    names = [("session", root.session_id), ("thread", root.thread_id), ("user", root.user_id)]
    facts = [f"{name} {value}" for name, value in names if value]
    if root.tags:
        facts.append("tags " + ", ".join(root.tags))
    if facts:
        yield "  " + ", ".join(facts), "dim"
    if root.incomplete:
        yield "  incomplete: runs of this trace could not be written", "yellow"
    yield from _run_lines(root, root, "", "")


def _run_lines(run: StoredRun, root: StoredRun, first: str, indent: str) -> Iterator[Line]:
    yield (
        f"{_bar(run, root)} {first}{run.run_type} {run.name}  {_facts(run)}",
        ("red" if run.error else "yellow" if run.status else None),
    )
    children = [child for child in run.child_runs if isinstance(child, StoredRun)]
    inner = indent + (_mark("│  ", "|  ") if children else "   ")
    for label, text, style in _content(run):
        yield f"{' ' * BAR} {inner}{label}: {text}", style
    for place, child in enumerate(children):
        is_last = place == len(children) - 1
        branch = _mark("└─ ", "`- ") if is_last else _mark("├─ ", "|- ")
        through = "   " if is_last else _mark("│  ", "|  ")
        yield from _run_lines(child, root, indent + branch, indent + through)


def _content(run: StoredRun) -> Iterator[tuple[str, str, str | None]]:
    yield from _values(run)
    for event in run.events:
        if event.get("name") == "retry":
            yield "retry", _json(event.get("kwargs")), "yellow"
    for score in run.scores:
        comment = f" ({score['comment']})" if score["comment"] else ""
        value = "" if score["value"] is None else f"{score['value']:g}"
        yield f"score {score['name']}", f"{value}{comment}", "magenta"
    for question in run.interrupts or ():
        yield "WAITS for an answer to", _text(question.get("value")), "yellow"
    if run.error:
        yield "ERROR", _cut(run.error.split("\n", 1)[0]), "red"


def _values(run: StoredRun) -> Iterator[tuple[str, str, str | None]]:
    if run.run_type == "llm":
        for message in input_messages(run.inputs):
            yield message["role"], _parts(message["parts"]), "dim"
        for message in output_messages(run.outputs):
            yield message["role"], _parts(message["parts"]), None
    elif run.run_type == "tool":
        yield "arguments", _json(run.inputs), "cyan"
        if run.outputs is not None:
            result = run.outputs.get("output")
            yield "result", _cut(_text(field_of(result, "content") or result)), "green"
    else:
        if text := first_words(run.inputs, QUESTION_KEYS, from_end=True):
            yield "in", _cut(text), "dim"
        if run.outputs is not None and (text := first_words(run.outputs, ANSWER_KEYS)):
            yield "out", _cut(text), None


def _parts(parts: list[dict[str, Any]]) -> str:
    texts = []
    for part in parts:
        if part["type"] == "tool_call":
            texts.append(f"-> {part['name']}({_json(part['arguments'])})")
        elif part["type"] == "tool_call_response":
            texts.append(_text(part["result"]))
        else:
            texts.append(_text(part.get("content") or f"[{part['type']}]"))
    return _cut("  ".join(texts))


def _text(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: object) -> str:
    return _cut(json.dumps(value, ensure_ascii=False, default=str))


def _cut(text: str) -> str:
    line = " ".join(text[: LONGEST * 4].split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _facts(run: StoredRun) -> str:
    facts = [seconds(run.latency)]
    if run.time_to_first_token is not None:
        facts.append(f"first token {run.time_to_first_token:.2f} s")
    if run.model:
        facts.append(run.model)
    usage = usage_of(run)
    if usage:
        facts.append(f"{usage[0]} in + {usage[1]} out tokens")
    if run.cost is not None:
        facts.append(money(run.cost))
    return ", ".join(facts)


def _bar(run: StoredRun, root: StoredRun) -> str:
    """Draw the time of a run within its trace."""
    ends = [end for child in _below(root) if (end := child.end_time) is not None]
    total = (max(ends) - root.start_time).total_seconds() if ends else 0.0
    if total <= 0:
        return " " * BAR
    start = (run.start_time - root.start_time).total_seconds()
    took = run.latency if run.latency is not None else total - start
    offset = min(BAR - 1, max(0, int(start / total * BAR)))
    width = min(BAR - offset, max(1, round(took / total * BAR)))
    full, empty = _mark("█", "#"), _mark("·", ".")
    return empty * offset + full * width + empty * (BAR - offset - width)


def _below(run: StoredRun) -> Iterator[StoredRun]:
    yield run
    for child in run.child_runs:
        if isinstance(child, StoredRun):
            yield from _below(child)


def _mark(fine: str, plain: str) -> str:
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return fine if is_utf8 else plain


def usage_of(run: StoredRun) -> tuple[int, int] | None:
    """Return the sum of the tokens of a run and those below it."""
    usages = [child.usage for child in _below(run) if child.run_type == "llm" and child.usage]
    if not usages:
        return None
    return (
        sum(usage.get("input_tokens") or 0 for usage in usages),
        sum(usage.get("output_tokens") or 0 for usage in usages),
    )


def seconds(value: float | None) -> str:
    """Return a duration as text."""
    return "not ended" if value is None else f"{value:.2f} s"


def money(value: float | None) -> str:
    """Return a cost as text; an empty one where it is not known."""
    if value is None:
        return ""
    return f"${value:.4f}" if value >= 0.01 or value == 0 else f"${value:.6f}"
