"""`RunnableRetry`: tries again when a runnable fails; what `with_retry` makes.

Of a batch only the inputs that failed are tried again; a stream only before its first piece was delivered. While it
tries, it is the one owner of the retries: a model inside, or another retry, leaves to it what it would try again.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from typing_extensions import TypedDict

from foldline._retry import RETRY_AFTER_CAP, RetryOwner
from foldline._run import Run
from foldline.exceptions import (
    BlockingCallError,
    BudgetExceeded,
    MissingExtraError,
    ModelError,
    SecurityError,
    UsageError,
)
from foldline.runnables._opening import EventStream, Opening
from foldline.runnables._relay import Attempts, relayed
from foldline.runnables._rereadable import Rereadable
from foldline.runnables._trace import NOTHING
from foldline.runnables.base import Runnable
from foldline.runnables.binding import RunnableBindingBase

__all__ = ["ExponentialJitterParams", "RunnableRetry"]

Input = TypeVar("Input", contravariant=True)
Output = TypeVar("Output", covariant=True)
Kinds = tuple[type[BaseException], ...] | Callable[[BaseException], bool]

SETTLED = (BlockingCallError, BudgetExceeded, MissingExtraError, SecurityError, UsageError)
"""Errors that come again however often one tries; they are tried again only where named."""


class ExponentialJitterParams(TypedDict, total=False):
    """How long to wait: `min(max, initial * exp_base ** (attempt - 1) + a random part up to jitter)` seconds."""

    initial: float
    """The first wait."""
    max: float
    """The longest wait."""
    exp_base: float
    """By how much each wait is longer than the one before."""
    jitter: float
    """The longest random part."""


DEFAULT_WAIT = ExponentialJitterParams(initial=1.0, max=60.0, exp_base=2.0, jitter=1.0)


class RunnableRetry(RunnableBindingBase[Input, Output]):  # type: ignore[no-redef]  # its field is called kwargs
    """A runnable that is tried again when it fails.

    ```python
    from foldline.runnables import RunnableLambda

    calls = []

    def flaky(x: int) -> int:
        calls.append(x)
        if len(calls) < 3:
            raise ValueError("not yet")
        return x

    print(RunnableLambda(flaky).with_retry(wait_exponential_jitter=False).invoke(7), len(calls))
    #> 7 3
    ```
    """

    retry_exception_types: tuple[type[BaseException], ...] | Callable[[BaseException], bool] = (
        Exception,
    )
    """What is tried again: these errors, or those a function says yes to."""
    wait_exponential_jitter: bool = True
    """Whether to wait between attempts, longer each time; a provider's Retry-After is honoured either way."""
    exponential_jitter_params: ExponentialJitterParams | None = None
    """How long to wait."""
    max_attempt_number: int = 3
    """How often to try in all."""
    retry_after_cap: float = RETRY_AFTER_CAP
    """Seconds a provider may make us wait; an error that asks for more is raised."""

    def __init__(self, *, bound: Runnable[Input, Output], **fields: Any) -> None:
        """Retry a runnable."""
        kinds = fields.get("retry_exception_types")
        if isinstance(kinds, type):
            fields["retry_exception_types"] = (kinds,)
        if fields.get("max_attempt_number", 1) < 1:
            raise UsageError(
                f"stop_after_attempt must be at least 1, not {fields['max_attempt_number']}"
            )
        super().__init__(bound=bound, **fields)

    # -- behaviours: unlike a binding, a retry is a run of its own with one child for each attempt

    _traced = Runnable._traced
    _traced_stream = Runnable._traced_stream
    _traced_transform = Runnable._traced_transform

    async def _once(self, input: Input, run: Run) -> object:
        trying = _Trying(self, run)
        while True:
            try:
                with trying.owner:
                    return await self.bound._step(input, trying.attempt())
            except Exception as error:  # noqa: BLE001  raised again unless it may be tried again
                failure = error
            await trying.failed(failure)

    def _pieces(self, input: Input, run: Run) -> AsyncGenerator[Any, None]:
        return self._streamed(
            lambda attempt: self.bound._step_stream(input, attempt), run, Rereadable()
        )

    def _flow(self, inputs: AsyncGenerator[Any, None], run: Run) -> AsyncGenerator[Any, None]:
        source = Rereadable(inputs)
        return self._streamed(
            lambda attempt: self.bound._step_transform(source.reader(), attempt), run, source
        )

    async def _streamed(
        self,
        open_attempt: Callable[[Run], AsyncGenerator[Any, None]],
        run: Run,
        source: Rereadable,
    ) -> AsyncGenerator[Any, None]:
        trying = _Trying(self, run)
        async with aclosing(source):
            while True:
                async with aclosing(open_attempt(trying.attempt())) as pieces:
                    try:
                        with trying.owner:
                            piece = await anext(pieces, NOTHING)
                    except Exception as error:
                        if source.is_broken:
                            raise
                        failure = error
                    else:
                        trying.delivered(source)
                        if piece is not NOTHING:
                            yield piece
                            async for more in pieces:
                                yield more
                        return
                await trying.failed(failure)

    def _open_stream_v2(self, opening: Opening) -> EventStream:
        return relayed(self.bound, _Retried(self, opening))

    # -- what is tried again, and when

    def _handles(self, error: BaseException) -> bool:
        kinds = self.retry_exception_types
        if not isinstance(kinds, tuple):
            return bool(kinds(error))
        if not isinstance(error, kinds):
            return False
        hopeless = isinstance(error, SETTLED) or (
            isinstance(error, ModelError) and not error.is_retryable
        )
        return not hopeless or type(error) in kinds

    def _allows(self, error: Exception, attempt: int) -> bool:
        asked = getattr(error, "retry_after", None)
        too_long = (
            isinstance(error, ModelError) and asked is not None and asked > self.retry_after_cap
        )
        return attempt < self.max_attempt_number and not too_long and self._handles(error)

    def _delay(self, error: Exception, attempt: int) -> float:
        if isinstance(error, ModelError) and error.retry_after is not None:
            return max(0.0, error.retry_after)
        if not self.wait_exponential_jitter:
            return 0.0
        wait: dict[str, Any] = {**DEFAULT_WAIT, **(self.exponential_jitter_params or {})}
        longest = float(wait["max"])
        try:
            grown = float(wait["initial"] * wait["exp_base"] ** (attempt - 1))
        except OverflowError:
            return longest
        return max(0.0, min(longest, grown + random.uniform(0, wait["jitter"])))


class _Retried(Attempts):
    """The attempts of one `stream_v2` call."""

    def __init__(self, retry: RunnableRetry[Any, Any], opening: Opening) -> None:
        super().__init__(retry, opening)
        self._retry = retry

    def ready(self, value: object, run: Run) -> None:
        self._trying = _Trying(self._retry, run)
        self.around = self._trying.owner

    def open(self) -> EventStream:
        return self._retry.bound._open_stream_v2(Opening(self._value, self._trying.attempt()))

    def delivered(self) -> None:
        self._trying.owner.is_active = False

    async def failed(self, error: Exception) -> None:
        await self._trying.failed(error)


class _Trying:
    """The attempts of one call."""

    def __init__(self, retry: RunnableRetry[Any, Any], run: Run) -> None:
        self.owner = RetryOwner(retry._handles)
        self._retry = retry
        self._run = run
        self._number = 1

    def attempt(self) -> Run:
        """Make the run of the next attempt."""
        child = self._run.child(f"retry:attempt:{self._number}" if self._number > 1 else None)
        if self._run.kwargs:
            child = child.patched(kwargs=self._run.kwargs)
        return self._retry._bound_run(child)

    def delivered(self, source: Rereadable) -> None:
        """From now on nothing is tried again."""
        self.owner.is_active = False
        source.stop_keeping()

    async def failed(self, error: Exception) -> None:
        """Wait until it is time to try again, or raise."""
        owned = self.owner.outer is not None and self.owner.outer.takes(error)
        if owned or not self._retry._allows(error, self._number):
            if isinstance(error, ModelError):
                error.attempts = max(error.attempts, self._number)
            raise error
        delay = self._retry._delay(error, self._number)
        await self._run.dispatch(
            "on_retry", {"attempt": self._number, "error": error, "delay": delay}
        )
        if delay > 0:
            await self._run.io.sleep(delay)
        self._number += 1
