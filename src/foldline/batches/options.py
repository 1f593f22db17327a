"""The options of a job, as `batch_job` takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from typing_extensions import TypedDict

from foldline._config import RunnableConfig
from foldline.batches.records import BatchReport
from foldline.exceptions import UsageError
from foldline.language_models._call.policies.usage_scope import Limits
from foldline.rate_limiters import BaseRateLimiter

__all__ = [
    "BatchOptions",
]

Mode = Literal["auto", "live", "provider"]
ReportCallback = Callable[[BatchReport], Any]


class BatchOptions(TypedDict, total=False):
    """The options of `batch_job`."""

    store: str | Path
    """A SQLite file or a `postgresql://…` address. Default: memory, which no other process can resume."""
    name: str
    """The name of the job in its store; default "job"."""
    mode: Mode
    """"live": calls. "provider": batches of the provider. "auto": batches from `batch_from` items on, where the model
    is at its provider's own URL and has them; the remaining items are live calls."""
    key: str | Callable[[Any], Any] | None
    """The key of a row: a column, or a function of the row. Default: its number."""
    budget: Limits | None
    """The budget of the job, for all its processes together; it stops before the limit is passed."""
    max_concurrency: int
    """Live calls at once; default 16."""
    rate_limiter: BaseRateLimiter | None
    """Limits the rate of the live calls of a chat model, instead of its own rate limiter."""
    executor: Any
    """Where live calls run: any `concurrent.futures` executor, or a `RayExecutor`. Default: here."""
    secrets: Mapping[str, str]
    """Environment variables for an executor's workers: models are sent to them without keys."""
    progress: bool | ReportCallback | None
    """True: a bar or lines on the terminal. A function: called with the report, at most four times a second."""
    config: RunnableConfig | None
    """The config of every call."""
    dedupe: bool
    """Run equal inputs once; default True."""
    output_type: Any
    """The type of an answer, where the chain does not have it: a Pydantic model, a dataclass."""
    max_attempts: int
    """Attempts for an item with a retryable error; default 3. (The model's own retries come before.)"""
    give_up_after: int | None
    """Stop where this many items have failed and none has an answer; default 50. None: never."""
    batch_from: int
    """The number of items from which "auto" prefers batches; default 1000."""
    part_requests: int | None
    """Requests in one batch; default: the provider's maximum."""
    part_bytes: int
    """Bytes of one batch, which is in memory while it is sent; default 64 MB."""
    poll_seconds: float
    """Seconds between two checks whether a batch has ended; default 30."""


MODES: Final = ("auto", "live", "provider")
NAMES: Final = frozenset(BatchOptions.__annotations__)
COUNTS: Final = ("max_concurrency", "max_attempts", "batch_from", "part_bytes", "part_requests")


def check_options(options: Mapping[str, Any]) -> None:
    """Raise `UsageError` for unknown options and invalid values."""
    unknown = sorted(options.keys() - NAMES)
    if unknown:
        raise UsageError(
            f"batch_job does not know {unknown[0]!r}: it takes {', '.join(sorted(NAMES))}"
        )
    if options.get("mode", "auto") not in MODES:
        raise UsageError(f"mode={options['mode']!r}: choose one of {', '.join(MODES)}")
    for name in COUNTS:
        value = options.get(name)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int) or value < 1
        ):
            raise UsageError(f"{name}={value!r}: use an integer from 1")
    progress = options.get("progress")
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise UsageError(f"progress={progress!r:.60}: use True, or a function of the report")
