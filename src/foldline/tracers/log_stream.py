"""`astream_log`: a run and the runs inside it as a JSON document, streamed as patches."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from foldline._config import RunnableConfig
from foldline._io import ASYNC, IO, mutex
from foldline.exceptions import UsageError
from foldline.outputs import LLMResult
from foldline.tracers._filter import Filters, shows, take_filters
from foldline.tracers._streaming import StreamingHandler
from foldline.tracers.base import BaseTracer
from foldline.tracers.core import SchemaFormat, llm_outputs
from foldline.tracers.memory_stream import read_while_running, with_handler
from foldline.tracers.schemas import Run
from foldline.utils._json_patch import apply_patch, make_patch, write_pointer
from foldline.utils._options import check_options

__all__ = [
    "LogEntry",
    "LogStreamCallbackHandler",
    "RunLog",
    "RunLogPatch",
    "RunState",
    "astream_log",
]


class LogEntry(TypedDict):
    """One run inside the root."""

    id: str
    name: str
    type: str
    tags: list[str]
    metadata: dict[str, Any]
    start_time: str
    streamed_output_str: list[str]
    streamed_output: list[Any]
    final_output: Any
    end_time: str | None


class RunState(TypedDict):
    """The root and, by name, the runs inside it."""

    id: str
    streamed_output: list[Any]
    final_output: Any
    name: str
    type: str
    logs: dict[str, LogEntry]


class RunLogPatch:
    """Some operations on the log of a run; patches add up to the log."""

    ops: list[dict[str, Any]]

    def __init__(self, *ops: dict[str, Any]) -> None:
        self.ops = list(ops)

    def __add__(self, other: object) -> RunLog:
        """Apply another patch after this one."""
        if type(other) is not RunLogPatch:
            raise UsageError(f"a log adds patches, not {type(other).__name__}")
        ops = [*self.ops, *other.ops]
        return RunLog(*ops, state=apply_patch(None, ops))

    def __repr__(self) -> str:
        return f"RunLogPatch({', '.join(map(repr, self.ops))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunLogPatch) and self.ops == other.ops

    __hash__: None = None  # type: ignore[assignment]


class RunLog(RunLogPatch):
    """The log of a run: its patches, and what they add up to."""

    state: RunState

    def __init__(self, *ops: dict[str, Any], state: RunState) -> None:
        super().__init__(*ops)
        self.state = state

    def __add__(self, other: object) -> RunLog:
        """Apply a patch."""
        if type(other) is not RunLogPatch:
            raise UsageError(f"a log adds patches, not {type(other).__name__}")
        return RunLog(*self.ops, *other.ops, state=apply_patch(self.state, other.ops))

    def __repr__(self) -> str:
        return f"RunLog({self.state!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunLog) and self.state == other.state and super().__eq__(other)

    __hash__: None = None


def _when(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat(timespec="milliseconds")


class LogStreamCallbackHandler(BaseTracer, StreamingHandler):
    """Turns runs into patches of a log and passes each to `send`, by default to the list `patches`."""

    run_inline = True
    keep_tokens = False

    @check_options()
    def __init__(
        self,
        *,
        send: Callable[[RunLogPatch], None] | None = None,
        auto_close: bool = True,
        _schema_format: SchemaFormat = "original",
        **filters: Any,
    ) -> None:
        super().__init__(_schema_format=_schema_format)
        self.auto_close = auto_close
        self.filters: Filters = take_filters(filters)
        if filters:
            raise UsageError(f"a log has no options {sorted(filters)}")
        self.patches: list[RunLogPatch] = []
        self.root_id: UUID | None = None
        self._send = send or self.patches.append
        self._names: dict[UUID, str] = {}
        self._counts: dict[str, int] = {}
        self._lock = mutex()

    def _persist_run(self, run: Run) -> None:
        """Nothing to keep: the patches were sent."""

    def _llm_outputs(self, response: LLMResult) -> dict[str, Any]:
        return llm_outputs(response, dump=False)

    def include_run(self, run: Run) -> bool:
        """Whether the log shows a run; the root always."""
        return run.id == self.root_id or shows(self.filters, run.name, run.run_type, run.tags or [])

    def _on_run_create(self, run: Run) -> None:
        if self.root_id is None:
            self.root_id = run.id
            state: RunState = {
                "id": str(run.id),
                "streamed_output": [],
                "final_output": None,
                "logs": {},
                "name": run.name,
                "type": run.run_type,
            }
            self._send(RunLogPatch({"op": "replace", "path": "", "value": state}))
        elif self.include_run(run):
            self._send(RunLogPatch({"op": "add", "path": self._path(run), "value": _entry(run)}))

    def _path(self, run: Run, *keys: str) -> str:
        with self._lock:
            if run.id not in self._names:
                count = self._counts[run.name] = self._counts.get(run.name, 0) + 1
                self._names[run.id] = run.name if count == 1 else f"{run.name}:{count}"
            return write_pointer("logs", self._names[run.id], *keys)

    def _on_run_update(self, run: Run) -> None:
        if run.id == self.root_id or run.id not in self._names:
            return
        self._send(
            RunLogPatch(
                {"op": "add", "path": self._path(run, "final_output"), "value": _final(run)},
                {"op": "add", "path": self._path(run, "end_time"), "value": _when(run.end_time)},
            )
        )

    def _on_llm_new_token(self, run: Run, token: object, chunk: object) -> None:
        if run.id not in self._names:
            return
        piece = token if chunk is None else getattr(chunk, "message", chunk)
        self._send(
            RunLogPatch(
                {"op": "add", "path": self._path(run, "streamed_output_str", "-"), "value": token},
                {"op": "add", "path": self._path(run, "streamed_output", "-"), "value": piece},
            )
        )

    def on_chunk(self, run_id: UUID | None, chunk: object) -> None:
        """A piece of a run's output passed by; the root's come from the stream itself."""
        run = self.run_map.get(str(run_id))
        if run is not None and run.id in self._names:
            path = self._path(run, "streamed_output", "-")
            self._send(RunLogPatch({"op": "add", "path": path, "value": chunk}))


def _entry(run: Run) -> LogEntry:
    return {
        "id": str(run.id),
        "name": run.name,
        "type": run.run_type,
        "tags": run.tags or [],
        "metadata": run.extra.get("metadata") or {},
        "start_time": run.start_time.isoformat(timespec="milliseconds"),
        "streamed_output": [],
        "streamed_output_str": [],
        "final_output": None,
        "end_time": None,
    }


def _final(run: Run) -> object:
    outputs = run.outputs or {}
    return outputs["output"] if run.run_type == "prompt" and "output" in outputs else run.outputs


class _RootOutput:
    """Turns the root's pieces into patches."""

    def __init__(self, send: Callable[[RunLogPatch], None], *, with_list: bool) -> None:
        self._send, self._with_list = send, with_list
        self._whole: Any = None
        self._is_first = True

    def __call__(self, piece: object) -> None:
        before = self._whole
        self._whole = piece if self._is_first else _plus(before, piece)
        self._is_first = False
        ops: list[dict[str, Any]] = []
        if self._with_list:
            ops.append({"op": "add", "path": "/streamed_output/-", "value": piece})
        ops += make_patch(before, self._whole, "/final_output")
        self._send(RunLogPatch(*ops))


def _plus(total: Any, piece: Any) -> object:  # noqa: ANN401  values that may have no `+`
    try:
        return total + piece
    except TypeError:
        return piece


async def log_of(
    io: IO,
    runnable: object,
    value: object,
    config: RunnableConfig | None,
    kwargs: dict[str, Any],
    *,
    diff: bool,
    with_streamed_output_list: bool,
) -> AsyncGenerator[RunLogPatch, None]:
    """Stream a runnable; yield the patches of its log, or the log after each."""
    channel = io.channel()
    handler = LogStreamCallbackHandler(send=channel.put, **take_filters(kwargs))
    config = with_handler(config, handler)
    output = _RootOutput(channel.put, with_list=with_streamed_output_list)
    log = RunLog(state=None)  # type: ignore[arg-type]
    async with aclosing(
        read_while_running(io, runnable, value, config, kwargs, channel, output)
    ) as patches:
        async for patch in patches:
            if diff:
                yield patch
            else:
                log = log + patch
                yield log


def astream_log(
    runnable: object,
    value: object,
    config: RunnableConfig | None = None,
    *,
    diff: bool = True,
    with_streamed_output_list: bool = True,
    **kwargs: object,
) -> AsyncGenerator[RunLogPatch, None]:
    """Return the log of a run as it grows: patches, or with `diff=False` the whole log after each."""
    return log_of(
        ASYNC,
        runnable,
        value,
        config,
        kwargs,
        diff=diff,
        with_streamed_output_list=with_streamed_output_list,
    )
