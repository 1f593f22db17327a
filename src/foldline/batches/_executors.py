"""Live calls on an executor: groups of items are sent to its workers, which run them and return the outcomes.

Targets are pickled without secrets: workers take keys from their own environment, or from `secrets=`. Settings that
pickling would lose (headers or a transport set in code) are refused here, by name.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from time import perf_counter
from typing import Any, Final, Protocol

from foldline._io import BLOCKING, BrokenExecutor
from foldline._io.drive import drive
from foldline.batches._targets.base import Target, digest_of, error_text
from foldline.batches.records import ItemOutcome
from foldline.exceptions import UsageError

__all__ = [
    "CHUNK",
    "Executor",
    "FutureLike",
    "PortableTarget",
    "check_portable",
    "is_lost",
    "run_chunk",
    "workers_of",
]

CHUNK: Final = 250
"""Items sent together: sending costs about a millisecond per group."""
QUICK: Final = 0.002
"""Seconds: shorter calls are made one after another, because threads would cost more than they save."""
MOST_TARGETS: Final = 8
_targets: dict[str, Target] = {}
"""The targets that this worker got, by hash."""


class FutureLike(Protocol):
    """A future of `concurrent.futures`, or one like it."""

    def result(self) -> Any:  # noqa: ANN401
        """Return the result of the work, or raise its error."""

    def add_done_callback(self, function: Callable[[Any], Any]) -> object:
        """Call a function with the future when the work is done."""

    def cancel(self) -> object:
        """Cancel the work, where it has not begun."""


class Executor(Protocol):
    """An executor of `concurrent.futures`, or one like it.

    It may have `dumps`, which pickles for its workers, and `is_lost`, which says whether an error of a future means
    that no worker is left.
    """

    def submit(self, function: Callable[..., Any], /, *args: Any) -> FutureLike:
        """Run a function on a worker."""


class PortableTarget:
    """A target, ready to be sent to workers."""

    def __init__(
        self, target: Target, executor: Executor, secrets: Mapping[str, str], concurrency: int
    ) -> None:
        check_portable(target.subject)
        dumps: Callable[[object], bytes] = getattr(executor, "dumps", pickle.dumps)
        try:
            self.blob: bytes = dumps(target)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{target.describe()} cannot be sent to the executor's workers: {error}. Functions in a chain must be "
                "defined in a module, not in place (lambda)"
            ) from error
        self.hash: str = digest_of(self.blob.hex())
        self.executor = executor
        self.secrets: dict[str, str] = dict(secrets)
        self.concurrency = concurrency

    def submit(self, items: Sequence[tuple[int, str]]) -> FutureLike:
        """Send a group of items."""
        return self.executor.submit(
            run_chunk, self.hash, self.blob, list(items), self.secrets, self.concurrency
        )


def run_chunk(
    hash: str, blob: bytes, items: list[tuple[int, str]], secrets: dict[str, str], concurrency: int
) -> list[tuple[Any, ...]]:
    """Run a group of items on a worker. Return plain tuples, which pickle in a third of the time."""
    for name, value in secrets.items():
        os.environ.setdefault(name, value)
    if hash not in _targets:
        if len(_targets) >= MOST_TARGETS:
            _targets.clear()
        try:
            _targets[hash] = pickle.loads(blob)
        except Exception as error:  # noqa: BLE001  whatever loading a user's chain raises is what became of its items
            reason = (
                f"the worker cannot load the chain: {error_text(error)}. Define its functions and classes in a module "
                "that the workers can import"
            )
            return [tuple(ItemOutcome(number, None, reason, None)) for number, _ in items]
    return [tuple(outcome) for outcome in drive(_run(_targets[hash], items, concurrency))]


async def _run(target: Target, items: list[tuple[int, str]], concurrency: int) -> list[ItemOutcome]:
    start_time = perf_counter()
    size = target.group_size or 1
    finished = await target.run_items(items[:size], BLOCKING, None)
    remaining = items[size:]
    if not remaining:
        return finished
    if (perf_counter() - start_time) / size < QUICK or concurrency == 1:
        return finished + await target.run_items(remaining, BLOCKING, None)
    groups = [remaining[start : start + size] for start in range(0, len(remaining), size)]
    outcomes = BLOCKING.as_completed(
        lambda group: target.run_items(group, BLOCKING, None), groups, limit=concurrency
    )
    async with aclosing(outcomes):
        async for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
            finished += outcome.value
    return finished


def is_lost(executor: object, error: BaseException) -> bool:
    """Whether an error of a group says that the executor has no workers left: it ended, or its pool broke."""
    if isinstance(error, BrokenExecutor):
        return True
    says_lost: Callable[[BaseException], bool] | None = getattr(executor, "is_lost", None)
    return says_lost is not None and says_lost(error)


def workers_of(executor: object) -> int:
    """Return how many groups an executor can run at once, where it is known."""
    for name in ("workers", "_max_workers"):
        count = getattr(executor, name, None)
        if isinstance(count, int) and count > 0:
            return count
    return os.cpu_count() or 1


def check_portable(subject: object) -> None:
    """Raise `UsageError` for settings that pickling would lose silently."""
    for part in _parts(subject, set()):
        name = f"{type(part).__name__}({getattr(part, 'model', '')})"
        for field in ("default_headers", "transport"):
            if getattr(part, field, None):
                raise UsageError(
                    f"{name} has {field} set in code, which is not sent to workers, as it may hold secrets: leave it "
                    "out, or run the job without executor="
                )
        if callable(getattr(part, "api_key", None)):
            raise UsageError(
                f"{name} has a function as api_key, which is not sent to workers: set the variable in their "
                "environment, or pass secrets=…"
            )


def _parts(value: object, seen: set[int]) -> Iterator[Any]:
    """Yield a runnable and the parts of it that may have connection settings."""
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
