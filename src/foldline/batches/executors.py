"""Live calls elsewhere: groups of items sent to an executor, whose workers run them and return what became of them.

What travels is pickled. A model carries no secret with it: workers take keys from their own environment, or from
`secrets=`. What would be lost on the way (headers or a transport set in code) is refused here, by name.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from time import perf_counter
from typing import Any, Final, Protocol

from foldline._io import BLOCKING
from foldline._io.drive import drive
from foldline.batches.records import ItemOutcome
from foldline.batches.targets.base import Target, digest_of
from foldline.exceptions import UsageError

__all__ = [
    "CHUNK",
    "Executor",
    "FutureLike",
    "PortableTarget",
    "check_portable",
    "run_chunk",
    "workers_of",
]

CHUNK: Final = 250
"""Items sent at once: sending costs about a millisecond, whatever is sent."""
QUICK: Final = 0.002
"""Seconds: calls that take less are made one after another, for threads would cost more than they save."""
MOST_TARGETS: Final = 8
_targets: dict[str, Target] = {}
"""What this worker was sent, by its hash."""


class FutureLike(Protocol):
    """What `concurrent.futures` and its relatives give for work under way."""

    def result(self) -> Any:  # noqa: ANN401
        """Return what the work gave, or raise its error."""

    def add_done_callback(self, function: Any) -> Any:  # noqa: ANN401
        """Call a function with the future when the work is done."""

    def cancel(self) -> Any:  # noqa: ANN401
        """Ask for the work to be dropped."""


class Executor(Protocol):
    """What takes work: `submit` of `concurrent.futures`."""

    def submit(self, function: Any, /, *args: Any) -> FutureLike:  # noqa: ANN401
        """Run a function somewhere."""


class PortableTarget:
    """A target, ready to be sent to workers."""

    def __init__(self, target: Target, secrets: Mapping[str, str], concurrency: int) -> None:
        check_portable(target.subject)
        try:
            self.blob = pickle.dumps(target)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{target.describe()} cannot be sent to the executor's workers: {error}. Functions in a chain must be "
                "defined in a module, not in place (lambda)"
            ) from error
        self.hash = digest_of(self.blob.hex())
        self.secrets = dict(secrets)
        self.concurrency = concurrency

    def submit(self, executor: Executor, items: Sequence[tuple[int, str]]) -> FutureLike:
        """Send a group of items."""
        return executor.submit(
            run_chunk, self.hash, self.blob, list(items), self.secrets, self.concurrency
        )


def run_chunk(
    hash: str, blob: bytes, items: list[tuple[int, str]], secrets: dict[str, str], concurrency: int
) -> list[tuple[Any, ...]]:
    """Run a group of items; the worker's side. Plain tuples go back: they pickle in a third of the time."""
    for name, value in secrets.items():
        os.environ.setdefault(name, value)
    if hash not in _targets:
        if len(_targets) >= MOST_TARGETS:
            _targets.clear()
        _targets[hash] = pickle.loads(blob)
    return [tuple(outcome) for outcome in drive(_run(_targets[hash], items, concurrency))]


async def _run(target: Target, items: list[tuple[int, str]], concurrency: int) -> list[ItemOutcome]:
    began = perf_counter()
    size = target.group_size or 1
    finished = await target.run_items(items[:size], BLOCKING, None)
    others = items[size:]
    if not others:
        return finished
    if (perf_counter() - began) / size < QUICK or concurrency == 1:
        return finished + await target.run_items(others, BLOCKING, None)
    groups = [others[start : start + size] for start in range(0, len(others), size)]
    outcomes = BLOCKING.as_completed(
        lambda group: target.run_items(group, BLOCKING, None), groups, limit=concurrency
    )
    async with aclosing(outcomes):
        async for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
            finished += outcome.value
    return finished


def workers_of(executor: Any) -> int:  # noqa: ANN401  any executor
    """Return how many groups an executor can run at once, where it says it."""
    for name in ("workers", "_max_workers"):
        count = getattr(executor, name, None)
        if isinstance(count, int) and count > 0:
            return count
    return os.cpu_count() or 1


def check_portable(subject: Any) -> None:  # noqa: ANN401  a runnable or embeddings
    """Refuse what a pickled model would lose without a word."""
    for part in _parts(subject, set()):
        name = f"{type(part).__name__}({getattr(part, 'model', '')})"
        for field in ("default_headers", "transport"):
            if getattr(part, field, None):
                raise UsageError(
                    f"{name} has {field} set in code, which is not sent to workers, for it may hold secrets: leave it "
                    "out, or run the job without executor="
                )
        if callable(getattr(part, "api_key", None)):
            raise UsageError(
                f"{name} has a function as api_key, which is not sent to workers: set the variable in their "
                "environment, or give secrets=…"
            )


def _parts(value: Any, seen: set[int]) -> Iterator[Any]:  # noqa: ANN401
    """Yield a runnable and everything in it that has settings of a connection."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if hasattr(value, "default_headers") and hasattr(value, "transport"):
        yield value
    if isinstance(value, Mapping):
        inner: list[Any] = list(value.values())
    elif isinstance(value, list | tuple):
        inner = list(value)
    elif hasattr(type(value), "model_fields"):
        inner = list(vars(value).values())
    else:
        inner = []
    for part in inner:
        if hasattr(part, "__dict__") or isinstance(part, Mapping | list | tuple):
            yield from _parts(part, seen)
