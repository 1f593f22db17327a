"""`foldline logs`: every prompt of the command line and its answer, read from the trace file.

A log entry is a trace whose root is a command; `foldline traces` shows the same runs as trees, and `-c` continues the
newest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from foldline._cli import places
from foldline._cli.markdown import extract_code
from foldline._cli.settings import read_settings, write_settings
from foldline._cli.terminal import echo, note
from foldline.exceptions import FoldlineError, UsageError
from foldline.load import load
from foldline.messages import BaseMessage
from foldline.tracers import TraceStore
from foldline.tracers.schemas import Run
from foldline.utils.strings import suggestion

__all__ = ["LogEntry", "entries", "is_logging", "logs", "newest_messages"]

COMMANDS = ("foldline chat", "foldline ask")
"""Names of the runs that are commands."""
MOST_LOOKED_AT = 5000
"""The number of newest traces that a search reads."""
SWITCHES = ("on", "off", "status", "path")


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A prompt and its answer."""

    id: str
    time: str
    model: str
    prompt: str
    answer: str
    error: str | None
    seconds: float | None
    session: str | None

    def holds(self, text: str) -> bool:
        """Whether all words of a text are in the prompt or the answer."""
        both = f"{self.prompt}\n{self.answer}".casefold()
        return all(word in both for word in text.casefold().split())


def is_logging() -> bool:
    """Whether prompts are logged: by `FOLDLINE_LOG`, else by `foldline logs on` or `off`, else yes."""
    variable = os.environ.get("FOLDLINE_LOG")
    if variable:
        return variable.lower() not in ("0", "off", "false", "no")
    return bool(read_settings().get("log", True))


def logs(
    what: str | None,
    *,
    limit: int,
    search: str | None,
    model: str | None,
    session: str | None,
    only_answer: bool,
    extract: bool,
    as_json: bool,
) -> int:
    """Show the newest prompts, one of them, or switch logging on or off."""
    if what in SWITCHES:
        return _switch(str(what))
    log_entries = list(_matching_entries(what, limit, search, model, session))
    if as_json:
        echo(json.dumps([asdict(item) for item in log_entries], ensure_ascii=False))
    elif not log_entries:
        place = places.place_name(places.traces_place())
        note(f"nothing{' like that' if search or model or session else ''} is logged in {place}")
    elif only_answer or extract:
        echo(_answer(log_entries[0], extract=extract))
    else:
        for entry in reversed(log_entries):
            _show(entry, is_whole=what is not None)
    return 0


def _switch(action: str) -> int:
    if action in ("on", "off"):
        write_settings(log=action == "on")
    if action == "path":
        echo(places.place_name(places.traces_place()))
    else:
        state = "on" if is_logging() else "off"
        echo(f"logging is {state}: {places.place_name(places.traces_place())}")
    return 0


def _matching_entries(
    what: str | None, limit: int, search: str | None, model: str | None, session: str | None
) -> Iterator[LogEntry]:
    count = 0
    is_filtered = any((what, search, model, session))
    for entry in entries(MOST_LOOKED_AT if is_filtered else limit):
        is_match = (
            (what is None or entry.id.startswith(what) or entry.id.endswith(what))
            and (search is None or entry.holds(search))
            and (model is None or model in entry.model)
            and (session is None or entry.session == session)
        )
        if is_match:
            yield entry
            count += 1
            if count >= limit:
                return
    if what is not None and not count:
        raise UsageError(
            f"there is no log entry {what!r}{suggestion(what, SWITCHES)}: foldline logs shows their ids"
        )


def entries(limit: int) -> Iterator[LogEntry]:
    """Return the newest prompts, newest first."""
    store = TraceStore(places.traces_place())
    if not store.exists():
        return
    count = 0
    for run in store.recent(min(limit * 4, MOST_LOOKED_AT)):
        if run.name not in COMMANDS:
            continue
        trace = store.trace(run.trace_id or run.id)
        if trace is not None:
            yield _entry(trace)
            count += 1
            if count >= limit:
                return


def _entry(run: Run) -> LogEntry:
    models = [child for child in _all_runs(run) if child.run_type == "llm"]
    described = models[-1].metadata if models else {}
    name = ":".join(
        str(described[key]) for key in ("ls_provider", "ls_model_name") if described.get(key)
    )
    inputs = run.inputs.get("input")
    prompts = (
        [message for message in inputs if _kind(message) == "HumanMessage"]
        if isinstance(inputs, list)
        else []
    )
    return LogEntry(
        id=str(run.trace_id or run.id),
        time=run.start_time.astimezone().strftime("%Y-%m-%d %H:%M:%S"),
        model=name,
        prompt=run.metadata.get("question") or _text(prompts[-1] if prompts else inputs),
        answer=_text(_output(run, models)),
        error=run.error.strip().splitlines()[-1] if run.error else None,
        seconds=run.latency,
        session=run.metadata.get("session_id"),
    )


def _all_runs(run: Run) -> Iterator[Run]:
    for child in run.child_runs:
        yield child
        yield from _all_runs(child)


def _output(run: Run, models: list[Run]) -> object:
    outputs: dict[str, Any] = run.outputs or {}
    if "output" in outputs:
        return outputs["output"]
    if models:
        generations = (models[-1].outputs or {}).get("generations") or [[]]
        if generations[0]:
            return generations[0][0].get("message") or generations[0][0].get("text")
    return outputs.get("raw") or ""


def _kind(dumped: object) -> str:
    return str((dumped.get("id") or [""])[-1]) if isinstance(dumped, dict) else ""


def _text(dumped: object) -> str:
    """Return the text of the dump of a message."""
    if isinstance(dumped, dict) and "kwargs" in dumped:
        dumped = dumped["kwargs"].get("content", "")
    if isinstance(dumped, list):
        parts = [block if isinstance(block, str) else _block(block) for block in dumped]
        return "".join(parts)
    if isinstance(dumped, dict):
        return json.dumps(dumped, ensure_ascii=False, default=str)
    return "" if dumped is None else str(dumped)


def _block(block: object) -> str:
    if not isinstance(block, dict):
        return ""
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", ""))
    return f"[{kind}]" if kind in ("image", "audio", "video", "file") else ""


def _answer(entry: LogEntry, *, extract: bool) -> str:
    code = extract_code(entry.answer) if extract else None
    return entry.answer if code is None else code.rstrip("\n")


def _show(entry: LogEntry, *, is_whole: bool) -> None:
    facts = [
        entry.time,
        entry.id[-12:],
        entry.model,
        f"{entry.seconds:.1f} s" if entry.seconds is not None else "",
    ]
    facts += [f"session {entry.session}"] if entry.session else []
    echo("  ".join(fact for fact in facts if fact), style="bold")
    for mark, text in (("> ", entry.prompt), ("", entry.answer)):
        excerpt = text if is_whole else _shorten(text)
        if excerpt:
            echo("\n".join(f"{mark}{line}" for line in excerpt.splitlines()))
    if entry.error:
        echo(f"ERROR {entry.error}", style="red")
    echo()


def _shorten(text: str, lines: int = 6, width: int = 500) -> str:
    text_lines = text.strip().splitlines()
    excerpt = "\n".join(text_lines[:lines])[:width]
    return excerpt if excerpt == "\n".join(text_lines) else f"{excerpt} ..."


def newest_messages() -> tuple[list[BaseMessage], float, str | None]:
    """Return the conversation of the newest logged prompt, when it was, and its session."""
    store = TraceStore(places.traces_place())
    if not store.exists():
        return [], 0.0, None
    for run in store.recent(50):
        trace = store.trace(run.trace_id or run.id) if run.name == "foldline chat" else None
        models = [child for child in _all_runs(trace) if child.run_type == "llm"] if trace else []
        if trace is None or not models or not models[-1].outputs:
            continue
        try:
            question = load(models[-1].inputs["messages"][0], allowed_objects="messages")
            answer = load(
                models[-1].outputs["generations"][0][0]["message"], allowed_objects="messages"
            )
        except (FoldlineError, ValueError, KeyError, IndexError, TypeError):
            continue  # written by another version, or damaged
        return [*question, answer], run.start_time.timestamp(), run.metadata.get("session_id")
    return [], 0.0, None
