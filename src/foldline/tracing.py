"""Trace every run of a program into one file: `enable()`, or `FOLDLINE_TRACES=1` without a change to the code.

`foldline traces` and `foldline studio` read the file. Nothing leaves the machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from foldline.callbacks import hooks
from foldline.exceptions import StoreError, UsageError
from foldline.tracers._rows import RedactHook
from foldline.tracers._schema import make_folder
from foldline.tracers._switch import file_tracer
from foldline.tracers.sqlite import SQLiteTracer
from foldline.tracers.store import TraceStore
from foldline.utils.places import sessions_file, traces_file

__all__ = ["disable", "enable", "flush", "forget", "is_enabled", "prune"]

_enabled: list[SQLiteTracer] = []


def enable(
    path: str | Path | None = None,
    *,
    secrets: Iterable[str] = (),
    redact: RedactHook | None = None,
) -> SQLiteTracer:
    """Write every run from now on into a trace file, and return the tracer.

    By default the file is the one that `foldline traces` reads. `secrets` and `redact` are those of `SQLiteTracer`.

    ```python
    import tempfile
    from pathlib import Path
    from foldline import tracing
    from foldline.runnables import RunnableLambda
    from foldline.tracers import TraceStore

    path = Path(tempfile.mkdtemp()) / "traces.db"
    tracing.enable(path)
    RunnableLambda(lambda x: x + 1, name="add").invoke(1)
    tracing.disable()
    print(TraceStore(path).recent()[0].outputs)
    #> {'output': 2}
    ```
    """
    file = traces_file(None if path is None else Path(path).expanduser())
    for tracer in _enabled:
        if tracer.path == file:
            return tracer
    make_folder(file)
    tracer = SQLiteTracer(file, secrets=secrets, redact=redact)
    _enabled.append(tracer)
    hooks.EVERYWHERE.append(tracer)
    return tracer


def disable() -> None:
    """Trace no more what `enable` had traced; what waits is written first."""
    while _enabled:
        tracer = _enabled.pop()
        hooks.EVERYWHERE.remove(tracer)
        tracer.close()


def flush() -> None:
    """Write what is still to be written."""
    for tracer in _tracers():
        tracer.flush()


def is_enabled() -> bool:
    """Whether runs are traced without being asked to: by `enable`, or by `FOLDLINE_TRACES`."""
    return bool(_tracers())


def _tracers() -> list[SQLiteTracer]:
    by_variable = file_tracer()
    return [*_enabled, *([by_variable] if by_variable is not None else [])]


def forget(
    *,
    trace: str | None = None,
    thread: str | None = None,
    user: str | None = None,
    traces: str | Path | None = None,
    histories: Iterable[str | Path] | None = None,
    checkpoints: Iterable[str | Path] = (),
    run_logs: Iterable[str | Path] = (),
) -> dict[str, int]:
    """Delete all that is kept of one run, thread or user, and return how many rows of what were deleted.

    Looked through are the trace file, the conversations of `foldline chat` (or the SQLite `histories` that you name),
    and the SQLite files of `checkpoints` and of `foldline serve`'s run log that you name. The threads of a user, and
    the ids under which they ran, are those that the traces know.
    """
    from foldline._storage.forget import delete_rows  # noqa: PLC0415  needed once a year

    if sum(value is not None for value in (trace, thread, user)) != 1:
        raise UsageError("forget() takes one of `trace`, `thread` and `user`")
    flush()
    store = TraceStore(traces_file(None if traces is None else Path(traces)))
    counts = {"traces": 0, "histories": 0, "checkpoints": 0, "run_logs": 0}
    threads, sessions, runs = ({thread} if thread else set[str]()), set[str](), set[str]()
    if store.path.exists():
        threads_of, sessions_of, runs = store.names_of(trace=trace, thread=thread, user=user)
        threads |= threads_of if user else set()
        sessions |= sessions_of if user else set()
        counts["traces"] = store.delete(trace=trace, thread=thread, user=user)
    names = threads | sessions
    if user:
        names |= {user}
    for file in [sessions_file()] if histories is None else histories:
        counts["histories"] += delete_rows(file, "messages", "session", names)
    for file in checkpoints:
        counts["checkpoints"] += delete_rows(file, "checkpoints", "thread", names)
    for file in run_logs:
        counts["run_logs"] += delete_rows(file, "runs", "id", runs)
        counts["run_logs"] += delete_rows(file, "runs", "thread_id", names)
    return counts


def prune(
    *,
    max_age: float | None = None,
    max_bytes: int | None = None,
    path: str | Path | None = None,
) -> int:
    """Delete traces older than `max_age` seconds, then the oldest until the file holds `max_bytes`."""
    file = traces_file(None if path is None else Path(path))
    if not file.exists():
        raise StoreError(f"{file}: there is no file of traces to prune")
    return TraceStore(file).prune(max_age=max_age, max_bytes=max_bytes)
