"""`foldline traces`: a list of traces with their first words, or one trace as a tree with inputs and outputs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from foldline._cli import places
from foldline._cli.terminal import echo, note, table
from foldline._cli.trace_tree import money, seconds, trace_lines
from foldline._io import BLOCKING
from foldline._io.drive import drive
from foldline.exceptions import UsageError
from foldline.tracers import TraceStore
from foldline.tracers._export import all_runs, export_trace, run_to_json
from foldline.tracers._rows import StoredRun
from foldline.tracers._summary import TraceSummary
from foldline.tracers.store import TraceFilters
from foldline.tracing import forget

__all__ = ["TraceOptions", "traces"]

FOLLOWED_EVERY = 0.5
"""Seconds between two reads of `--follow`."""
HEADER = ("id", "time", "model", "tokens", "cost", "took", "question", "answer")
CELL_WIDTH = 48
"""Characters of a question or an answer in the list."""
AGES = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
SIZES = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}
FORMATS = ("otel", "jsonl", "pytest")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """The options of the command."""

    file: str | None = None
    limit: int = 20
    only_errors: bool = False
    only_waiting: bool = False
    as_json: bool = False
    search: str | None = None
    model: str | None = None
    tag: str | None = None
    thread: str | None = None
    user: str | None = None
    since: str | None = None
    follow: bool = False
    replay: bool = False
    replay_model: str | None = None
    export: str | None = None
    prune_age: str | None = None
    prune_size: str | None = None
    delete: bool = False

    def filters(self) -> TraceFilters:
        """Return the filters of the options."""
        return TraceFilters(
            text=self.search,
            only_errors=self.only_errors,
            only_waiting=self.only_waiting,
            model=self.model,
            tag=self.tag,
            thread_id=self.thread,
            user_id=self.user,
            since=None if self.since is None else read_time(self.since),
        )


def traces(trace: str | None, options: TraceOptions) -> int:
    """Show the newest traces, or one."""
    store = TraceStore(places.traces_place(options.file))
    if not store.exists():
        note(
            f"no traces: {store.name} is not there; FOLDLINE_TRACES=1 traces any program of yours, "
            "`foldline chat --trace` one answer"
        )
        return 0
    if options.prune_age or options.prune_size:
        return _prune(store, options)
    if options.delete:
        return _delete(store, trace, options)
    if trace is not None:
        return _show_one(store, trace, options)
    if options.export or options.replay:
        raise UsageError("name a trace: foldline traces ID --export ...")
    if options.follow:
        return _follow(store, options)
    summaries = store.find(options.filters(), limit=options.limit)
    if options.as_json:
        echo(json.dumps([summary.to_json() for summary in summaries], ensure_ascii=False))
    elif summaries:
        table(HEADER, [_cells(summary) for summary in summaries])
    else:
        note(f"no {'failed runs' if options.only_errors else 'runs'} like that in {store.name}")
    return 0


# -- the list


def _cells(summary: TraceSummary) -> tuple[str, ...]:
    tokens = ""
    if summary.input_tokens is not None or summary.output_tokens is not None:
        tokens = f"{summary.input_tokens or 0} + {summary.output_tokens or 0}"
    answer = summary.answer or ""
    if summary.error_class:
        answer = f"ERROR {summary.error or summary.error_class}"
    elif summary.status == "waiting":
        answer = f"WAITS FOR AN ANSWER {summary.asks or ''}"
    if summary.incomplete:
        answer = f"(INCOMPLETE) {answer}"
    return (
        short_id(summary.id),
        time.strftime("%m-%d %H:%M:%S", time.localtime(summary.start_time)),
        ", ".join(summary.models) or summary.name,
        tokens,
        money(summary.cost),
        seconds(summary.seconds),
        _cut(summary.question or summary.name),
        _cut(answer),
    )


def short_id(run_id: str) -> str:
    """Return the end of an id; its beginning is the time, and equal for traces of one moment."""
    return run_id.replace("-", "")[-8:]


def _cut(text: str) -> str:
    return text if len(text) <= CELL_WIDTH else f"{text[: CELL_WIDTH - 1]}…"


def _follow(store: TraceStore, options: TraceOptions) -> int:
    """Print each trace when it has ended, until interrupted."""
    filters = options.filters()
    open_traces = {
        summary.id for summary in store.find(filters, limit=200) if summary.end_time is None
    }
    place = store.newest_place()
    note("(waiting for runs; Ctrl-C ends)")
    if not options.as_json:
        echo("\t".join(HEADER))
    try:
        while True:
            drive(BLOCKING.sleep(FOLLOWED_EVERY))
            place, changed = store.changed_since(place)
            matches = (
                {summary.id for summary in store.find(filters, limit=500)} if changed else set()
            )
            open_traces |= {trace for trace in changed if trace in matches}
            for summary in reversed(store.summaries(sorted(open_traces))):
                if summary.end_time is None:
                    continue
                open_traces.discard(summary.id)
                line = json.dumps(summary.to_json(), ensure_ascii=False)
                echo(line if options.as_json else "\t".join(_cells(summary)))
    except KeyboardInterrupt:
        return 0


# -- one trace


def _show_one(store: TraceStore, trace: str, options: TraceOptions) -> int:
    root = _find(store, trace)
    if options.export is not None:
        if options.export not in FORMATS:
            raise UsageError(f"--export takes {', '.join(FORMATS)}, not {options.export!r}")
        echo(export_trace(root, options.export), end="")  # type: ignore[arg-type]
    elif options.replay:
        _replay(root, options.replay_model)
    elif options.as_json:
        echo(json.dumps(_tree_to_json(root), ensure_ascii=False))
    else:
        for line, style in trace_lines(root):
            echo(line, style=style)
    return 0


def _find(store: TraceStore, trace: str) -> StoredRun:
    trace_id = store.resolve(trace)
    root = None if trace_id is None else store.trace(trace_id)
    if root is None:
        raise UsageError(
            f"{store.name}: there is no trace {trace!r}; `foldline traces` shows the ids"
        )
    return root


def _tree_to_json(run: StoredRun) -> dict[str, Any]:
    children = [child for child in run.child_runs if isinstance(child, StoredRun)]
    return {**run_to_json(run), "runs": [_tree_to_json(child) for child in children]}


def _replay(root: StoredRun, model: str | None) -> None:
    """Play the answers of a trace back at their speed, or run another model on the same messages."""
    from foldline._cli.exchange import ChatExchange
    from foldline._cli.shows import TextShow
    from foldline.load import load
    from foldline.testing._recorded import RecordedChatModel

    calls = [run for run in all_runs(root) if run.run_type == "llm" and "messages" in run.inputs]
    if not calls:
        raise UsageError(
            f"{root.name}: there is no call of a chat model in this trace to replay: "
            "choose another (`foldline traces` shows them)"
        )
    for run in calls:
        messages = load(run.inputs["messages"][0])
        if model is not None:
            from foldline._cli.choose import choose_model, prepare

            chat_model = choose_model(model, {})
            prepare(chat_model, has_tools=False)
            ChatExchange(chat_model, [], TextShow()).run(messages)
            continue
        answer = ((run.outputs or {}).get("generations") or [[{}]])[0][0].get("message")
        if answer is None:
            note(f"({run.name}: {run.error_class or 'it did not answer'})")
            continue
        drive(BLOCKING.sleep(min(run.time_to_first_token or run.latency or 0.0, 5.0)))
        call = {"messages": run.inputs["messages"][0], "answer": answer}
        ChatExchange(RecordedChatModel.of([call]), [], TextShow()).run(messages)


# -- deleting


def _prune(store: TraceStore, options: TraceOptions) -> int:
    deleted = store.prune(
        max_age=None if options.prune_age is None else read_age(options.prune_age),
        max_bytes=None if options.prune_size is None else read_size(options.prune_size),
    )
    note(f"{deleted} runs are deleted from {store.name}")
    return 0


def _delete(store: TraceStore, trace: str | None, options: TraceOptions) -> int:
    choices = [value for value in (trace, options.thread, options.user) if value]
    if len(choices) != 1:
        raise UsageError("delete what? foldline traces ID --delete, or --thread or --user NAME")
    trace_id = None
    if trace is not None:
        trace_id = store.resolve(trace)
        if trace_id is None:
            raise UsageError(
                f"{store.name}: there is no trace {trace!r}; `foldline traces` shows the ids"
            )
    counts = forget(trace=trace_id, thread=options.thread, user=options.user, traces=store.path)
    kinds: Sequence[tuple[str, str]] = (("traces", "runs"), ("histories", "kept messages"))
    note(", ".join(f"{counts[kind]} {word}" for kind, word in kinds) + " are deleted")
    return 0


# -- what people write


def read_age(text: str) -> float:
    """Parse a length of time to seconds: `90s`, `30m`, `12h`, `7d`, `2w`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*", text.lower())
    if match is None:
        raise UsageError(f"{text!r} is not a length of time: write 90s, 30m, 12h, 7d or 2w")
    return float(match[1]) * AGES[match[2]]


def read_time(text: str) -> float:
    """Parse a time: relative (`2h`), or a date (`2026-11-17`, or with a time)."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        pass
    try:
        return time.time() - read_age(text)
    except UsageError:
        raise UsageError(
            f"--since {text!r}: write 30m, 2h, 7d, or a date like 2026-11-17"
        ) from None


def read_size(text: str) -> int:
    """Parse a size to bytes: `500k`, `200M`, `1G`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]?)b?\s*", text.lower())
    if match is None:
        raise UsageError(f"{text!r} is not a size: write 500k, 200M or 1G")
    return int(float(match[1]) * SIZES[match[2]])
