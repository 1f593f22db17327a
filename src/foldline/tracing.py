"""Trace every run of a program: `enable()`, or `FOLDLINE_TRACES=1` without a change to the code.

Runs are written into one file, or into a PostgreSQL database by its URL.

`foldline traces` and `foldline studio` read the file. Nothing leaves the machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Unpack

from foldline.callbacks import hooks
from foldline.exceptions import StoreError, UsageError
from foldline.tracers._database_tracer import DatabaseTracer, TracerOptions
from foldline.tracers._environment import file_tracer
from foldline.tracers._open import open_tracer
from foldline.tracers.store import TraceStore
from foldline.utils._data_places import is_url, sessions_file, traces_place
from foldline.utils._options import check_options

__all__ = ["disable", "enable", "flush", "forget", "is_enabled", "prune"]


def __dir__() -> list[str]:
    return sorted(__all__)


_enabled: list[DatabaseTracer] = []


@check_options()
def enable(path: str | Path | None = None, **options: Unpack[TracerOptions]) -> DatabaseTracer:
    """Write every run from now on into a trace file, or a PostgreSQL database by its URL, and return the tracer.

    By default it is the file that `foldline traces` reads. The options are those of `SQLiteTracer`.

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
    place = traces_place(path)
    for tracer in _enabled:
        if tracer.place == place:
            return tracer
    tracer = open_tracer(place, **options)
    _enabled.append(tracer)
    hooks.EVERYWHERE.append(tracer)
    return tracer


def disable() -> None:
    """Stop the tracing that `enable` started; pending runs are written first."""
    while _enabled:
        tracer = _enabled.pop()
        hooks.EVERYWHERE.remove(tracer)
        tracer.close()


def flush() -> None:
    """Write the pending runs."""
    for tracer in _tracers():
        tracer.flush()


def is_enabled() -> bool:
    """Return whether all runs are traced: by `enable`, or by `FOLDLINE_TRACES`."""
    return bool(_tracers())


def _tracers() -> list[DatabaseTracer]:
    variable_tracer = file_tracer()
    return [*_enabled, *([variable_tracer] if variable_tracer is not None else [])]


@check_options()
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
    """Delete all data of one run, thread or user, and return how many rows of each kind were deleted.

    This covers the traces, the conversations of `foldline chat` (or the `histories` that you pass), and the stores of
    `checkpoints` and of `foldline serve`'s run log that you pass: SQLite files, or PostgreSQL by URL. The threads of a
    user, and the runs of the server for them, are those in the traces. With `trace`, conversations and checkpoints
    stay: they belong to the thread.
    """
    from foldline._storage import forget as stores  # noqa: PLC0415  needed once a year

    if sum(value is not None for value in (trace, thread, user)) != 1:
        raise UsageError("forget() takes one of `trace`, `thread` and `user`")
    flush()
    store = TraceStore(traces_place(traces))
    histories = None if histories is None else list(histories)
    checkpoints, run_logs = list(checkpoints), list(run_logs)
    _check_files([traces or "", *(histories or ()), *checkpoints, *run_logs])
    counts = {"traces": 0, "histories": 0, "checkpoints": 0, "run_logs": 0}
    names = {name for name in (thread, user) if name is not None}
    served_runs, checkpoint_threads = set[str](), set[str]()
    if store.exists():
        related_names = store.names_of(trace=trace, thread=thread, user=user)
        names |= related_names.threads | related_names.sessions if user else set()
        served_runs = related_names.served_runs
        checkpoint_threads = related_names.checkpoints if trace is None else set()
        counts["traces"] = store.delete(trace=trace, thread=thread, user=user)
        store.close()
    own_file = sessions_file()
    if histories is None:
        histories = [own_file] if own_file.exists() else []
    for place in histories:
        counts["histories"] += stores.delete_messages(place, names)
    for place in checkpoints:
        counts["checkpoints"] += stores.delete_checkpoints(place, names | checkpoint_threads)
    for place in run_logs:
        counts["run_logs"] += stores.delete_served_runs(place, served_runs, names)
    return counts


def _check_files(places: Iterable[str | Path]) -> None:
    """Raise before anything is deleted where a file was named that is not there: a typo would leave its data."""
    for place in places:
        if place and not is_url(place) and not Path(place).exists():
            raise StoreError(
                f"{place}: there is no such file; nothing was deleted anywhere: check the path, or leave it out"
            )


@check_options(at_least={"max_age": 0, "max_bytes": 0})
def prune(
    *,
    max_age: float | None = None,
    max_bytes: int | None = None,
    path: str | Path | None = None,
) -> int:
    """Delete traces older than `max_age` seconds, then the oldest until the file is at most `max_bytes` large."""
    store = TraceStore(traces_place(path))
    if not store.exists():
        raise StoreError(f"{store.name}: there are no traces to prune")
    return store.prune(max_age=max_age, max_bytes=max_bytes)
