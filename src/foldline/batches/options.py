"""The options of a job, as `batch_job` takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from typing_extensions import TypedDict

from foldline._config import RunnableConfig
from foldline.batches.records import BatchReport
from foldline.exceptions import UsageError
from foldline.language_models.policies.usage_scope import Limits
from foldline.rate_limiters import BaseRateLimiter

__all__ = ["BatchOptions", "Mode", "ReportCallback", "check_options"]

Mode = Literal["auto", "live", "provider"]
ReportCallback = Callable[[BatchReport], Any]


class BatchOptions(TypedDict, total=False):
    """The options of `batch_job`."""

    store: str | Path
    """A SQLite file or a `postgresql://…` address. Default: memory, which no other process can resume."""
    name: str
    """Names the job in its store; default "job"."""
    mode: Mode
    """"live": calls. "provider": batches of the provider. "auto": batches from `batch_from` items on, where the model
    is at its provider's own address and has them; what they leave over goes live."""
    key: str | Callable[[Any], Any] | None
    """What names a row: a column, or a function of the row. Default: its number."""
    budget: Limits | None
    """What the whole job may spend, all its processes together; it stops before that is passed."""
    max_concurrency: int
    """Live calls at once; default 16."""
    rate_limiter: BaseRateLimiter | None
    """Paces the live calls of a chat model, in place of its own."""
    executor: Any
    """Where live calls run: any `concurrent.futures` executor, or a `RayExecutor`. Default: here."""
    secrets: Mapping[str, str]
    """Variables that an executor's workers get in their environment: keys are not part of what is sent to them."""
    progress: bool | ReportCallback | None
    """True: a bar or lines on the terminal. A function: called with the report, at most four times a second."""
    config: RunnableConfig | None
    """The config of every call."""
    dedupe: bool
    """Ask for equal inputs once; default True."""
    output_type: Any
    """What an answer is, where the chain does not say it: a Pydantic model, a dataclass."""
    max_attempts: int
    """How often an item is asked whose error may pass; default 3. (The model's own retries come before.)"""
    give_up_after: int | None
    """Stop where this many items have failed and none has an answer; default 50. None: never."""
    batch_from: int
    """The number of items from which "auto" prefers batches; default 1000."""
    part_requests: int | None
    """Requests in one batch; default: what the provider takes."""
    part_bytes: int
    """Bytes of one batch, which are held in memory while it is sent; default 64 MB."""
    poll_seconds: float
    """How often the provider is asked whether a batch has ended; default 30."""


MODES: Final = ("auto", "live", "provider")
NAMES: Final = frozenset(BatchOptions.__annotations__)
COUNTS: Final = ("max_concurrency", "max_attempts", "batch_from", "part_bytes", "part_requests")


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse options that a job does not have, and values that they do not take."""
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
            raise UsageError(f"{name}={value!r}: a whole number from 1")
    progress = options.get("progress")
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise UsageError(f"progress={progress!r:.60}: True, or a function of the report")
