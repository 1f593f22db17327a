"""`foldline traces`: what the SQLite tracer wrote, as trees with timing and tokens."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from foldline.cli import places
from foldline.cli.terminal import note, say
from foldline.exceptions import UsageError
from foldline.tracers import TraceStore
from foldline.tracers.schemas import Run

__all__ = ["traces"]


def traces(
    trace: str | None, *, file: Path | None, limit: int, only_errors: bool, as_json: bool
) -> int:
    """Show the newest traces."""
    path = places.traces_file(file)
    if not path.exists():
        note(f"no traces: {path} is not there; `foldline chat --trace` and SQLiteTracer write one")
        return 0
    store = TraceStore(path)
    ids = [trace] if trace else _newest(store, limit, only_errors=only_errors)
    roots = [root for root in map(store.trace, ids) if root is not None]
    if trace and not roots:
        raise UsageError(
            f"{path}: there is no trace {trace!r}; foldline traces --json shows the ids"
        )
    if as_json:
        say(json.dumps([_to_json(root) for root in roots], ensure_ascii=False, default=str))
        return 0
    for root in roots:
        for line in _lines(root):
            say(line)
    if not roots:
        note(f"no {'failed runs' if only_errors else 'runs'} in {path}")
    return 0


def _newest(store: TraceStore, limit: int, *, only_errors: bool) -> list[str]:
    if not only_errors:
        return [str(run.trace_id or run.id) for run in store.recent(limit)]
    failed = dict.fromkeys(str(run.trace_id or run.id) for run in store.errors(limit * 10))
    return list(failed)[:limit]


def _lines(root: Run) -> Iterator[str]:
    when = root.start_time.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    yield f"{when}  {root.name}  {_facts(root)}"
    yield from _below(root, "")


def _below(run: Run, indent: str) -> Iterator[str]:
    branch, last, through = ("├─ ", "└─ ", "│  ") if _draws() else ("|- ", "`- ", "|  ")
    for at, child in enumerate(run.child_runs):
        is_last = at == len(run.child_runs) - 1
        yield f"{indent}{last if is_last else branch}{child.run_type} {child.name}  {_facts(child)}"
        yield from _below(child, indent + ("   " if is_last else through))


def _draws() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def _facts(run: Run) -> str:
    facts = [_seconds(run)]
    if run.first_token_time:
        facts.append(f"first token {(run.first_token_time - run.start_time).total_seconds():.2f} s")
    usage = usage_of(run)
    if usage:
        facts.append(f"{usage[0]} in + {usage[1]} out tokens")
    if run.error:
        facts.append(f"ERROR {run.error.strip().splitlines()[-1][:200]}")
    return ", ".join(facts)


def _seconds(run: Run) -> str:
    if run.end_time is None:
        return "not ended"
    return f"{(run.end_time - run.start_time).total_seconds():.2f} s"


def usage_of(run: Run) -> tuple[int, int] | None:
    """Sum the tokens of a run and those below it."""
    found = [pair for child in run.child_runs if (pair := usage_of(child))]
    own = _own_usage(run.outputs) if run.run_type == "llm" else None
    if own:
        found.append(own)
    return (sum(one for one, _ in found), sum(two for _, two in found)) if found else None


def _own_usage(outputs: Any) -> tuple[int, int] | None:
    try:
        usage = outputs["generations"][0][0]["message"]["kwargs"]["usage_metadata"]
        return int(usage["input_tokens"]), int(usage["output_tokens"])
    except (KeyError, IndexError, TypeError):
        return None


def _to_json(run: Run) -> dict[str, Any]:
    usage = usage_of(run)
    return {
        "id": str(run.id),
        "trace_id": str(run.trace_id),
        "name": run.name,
        "type": run.run_type,
        "start": run.start_time.isoformat(),
        "seconds": (run.end_time - run.start_time).total_seconds() if run.end_time else None,
        "error": run.error,
        "tokens": {"input": usage[0], "output": usage[1]} if usage else None,
        "runs": [_to_json(child) for child in run.child_runs],
    }
