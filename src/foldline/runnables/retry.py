"""`RunnableRetry`: retries a runnable that fails; the result of `with_retry`.

Only the inputs of a batch that failed are retried; a stream only before its first chunk is delivered. While it is
active it owns all retries: a model inside, or another retry, does not retry the same errors itself.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from typing_extensions import TypedDict

from foldline._retry import RETRY_AFTER_CAP, Backoff, RetryOwner, added
from foldline._run import Run
from foldline.exceptions import (
    BlockingCallError,
    BudgetExceeded,
    MissingExtraError,
    ModelError,
    SecurityError,
    UsageError,
)
from foldline.runnables._rereadable import Rereadable
from foldline.runnables._stream_attempts import StreamAttempts, stream_of_attempts
from foldline.runnables._stream_call import EventStream, StreamCall
from foldline.runnables._trace import NOTHING
from foldline.runnables.base import Chunk, Input, Output, Runnable
from foldline.runnables.binding import RunnableBindingBase

__all__ = ["ExponentialJitterParams", "RunnableRetry"]

Kinds = tuple[type[BaseException], ...] | Callable[[BaseException], bool]

PERMANENT_ERRORS = (BlockingCallError, BudgetExceeded, MissingExtraError, SecurityError, UsageError)
"""Errors that a retry cannot change; they are retried only if they are listed explicitly."""


class ExponentialJitterParams(TypedDict, total=False):
    """How long to wait: `min(max, initial * exp_base ** (attempt - 1) + a random part up to jitter)` seconds."""

    initial: float
    """The first wait, in seconds."""
    max: float
    """The longest wait, in seconds."""
    exp_base: float
    """The factor by which the wait grows."""
    jitter: float
    """The largest random part, in seconds."""


DEFAULT_WAIT = ExponentialJitterParams(initial=1.0, max=60.0, exp_base=2.0, jitter=1.0)


class RunnableRetry(RunnableBindingBase[Input, Output, Chunk]):  # type: ignore[no-redef]  # its field is called kwargs
    """A runnable that is retried when it fails.

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
    """What is retried: these errors, or those for which a function returns True."""
    wait_exponential_jitter: bool = True
    """Whether to wait between attempts, longer each time; a provider's Retry-After is honoured either way."""
    exponential_jitter_params: ExponentialJitterParams | None = None
    """How long to wait."""
    max_attempt_number: int = 3
    """The number of attempts in all."""
    retry_after_cap: float = RETRY_AFTER_CAP
    """The longest Retry-After in seconds that is honoured; an error that asks for more is raised."""

    def __init__(self, *, bound: Runnable[Input, Output, Chunk], **fields: Any) -> None:
        """Retry a runnable."""
        kinds = fields.get("retry_exception_types")
        if isinstance(kinds, type):
            fields["retry_exception_types"] = (kinds,)
        if fields.get("max_attempt_number", 1) < 1:
            raise UsageError(
                f"stop_after_attempt must be at least 1, not {fields['max_attempt_number']}"
            )
        super().__init__(bound=bound, **fields)

    # -- behaviours: unlike a binding, a retry is a run itself, with one child for each attempt

    _invoke_traced = Runnable._invoke_traced
    _stream_traced = Runnable._stream_traced
    _transform_traced = Runnable._transform_traced

    async def _invoke_body(self, input: Input, run: Run) -> object:
        loop = _AttemptLoop(self, run)
        while True:
            try:
                with loop.owner:
                    return await self.bound._step(input, loop.attempt())
            except Exception as error:  # noqa: BLE001  raised again unless it may be retried
                failure = error
            await loop.on_failure(failure)

    def _stream_body(self, input: Input, run: Run) -> AsyncGenerator[Any, None]:
        return self._stream_attempts(
            lambda attempt: self.bound._step_stream(input, attempt), run, Rereadable()
        )

    def _transform_body(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        source = Rereadable(inputs)
        return self._stream_attempts(
            lambda attempt: self.bound._step_transform(source.reader(), attempt), run, source
        )

    async def _stream_attempts(
        self,
        open_attempt: Callable[[Run], AsyncGenerator[Any, None]],
        run: Run,
        source: Rereadable,
    ) -> AsyncGenerator[Any, None]:
        loop = _AttemptLoop(self, run)
        async with aclosing(source):
            while True:
                async with aclosing(open_attempt(loop.attempt())) as chunks:
                    try:
                        with loop.owner:
                            chunk = await anext(chunks, NOTHING)
                    except Exception as error:
                        if source.is_broken:
                            raise
                        failure = error
                    else:
                        loop.on_delivery(source)
                        if chunk is not NOTHING:
                            yield chunk
                            async for next_chunk in chunks:
                                yield next_chunk
                        return
                await loop.on_failure(failure)

    def _open_stream_v2(self, call: StreamCall) -> EventStream:
        return stream_of_attempts(self.bound, _RetryAttempts(self, call))

    # -- what is retried, and when

    def _handles(self, error: BaseException) -> bool:
        kinds = self.retry_exception_types
        if not isinstance(kinds, tuple):
            return bool(kinds(error))
        if not isinstance(error, kinds):
            return False
        is_permanent = isinstance(error, PERMANENT_ERRORS) or (
            isinstance(error, ModelError) and not error.is_retryable
        )
        return not is_permanent or type(error) in kinds

    def _allows(self, error: Exception, attempt: int) -> bool:
        retry_after = getattr(error, "retry_after", None)
        is_too_long = (
            isinstance(error, ModelError)
            and retry_after is not None
            and retry_after > self.retry_after_cap
        )
        return attempt < self.max_attempt_number and not is_too_long and self._handles(error)

    def _delay(self, error: Exception, attempt: int) -> float:
        if isinstance(error, ModelError) and error.retry_after is not None:
            return max(0.0, error.retry_after)
        if not self.wait_exponential_jitter:
            return 0.0
        wait: dict[str, Any] = {**DEFAULT_WAIT, **(self.exponential_jitter_params or {})}
        longest, jitter = float(wait["max"]), added(wait["jitter"])
        backoff = Backoff(wait["initial"], wait["exp_base"], longest, jitter=jitter)
        return max(0.0, min(longest, backoff.delay(attempt)))


class _RetryAttempts(StreamAttempts):
    """The attempts of one `stream_v2` call."""

    def __init__(self, retry: RunnableRetry[Any, Any], call: StreamCall) -> None:
        super().__init__(retry, call)
        self._retry = retry

    def prepare(self, value: object, run: Run) -> None:
        self._loop = _AttemptLoop(self._retry, run)
        self.around = self._loop.owner

    def open(self) -> EventStream:
        call = StreamCall(self._value, self._loop.attempt(), self._call.view)
        return self._retry.bound._open_stream_v2(call)

    def on_delivery(self) -> None:
        self._loop.owner.is_active = False

    async def on_failure(self, error: Exception) -> None:
        await self._loop.on_failure(error)


class _AttemptLoop:
    """The attempts of one call."""

    def __init__(self, retry: RunnableRetry[Any, Any], run: Run) -> None:
        self.owner = RetryOwner(retry._handles)
        self._retry = retry
        self._run = run
        self._number = 1

    def attempt(self) -> Run:
        """Return the run of the next attempt."""
        child = self._run.child(f"retry:attempt:{self._number}" if self._number > 1 else None)
        if self._run.kwargs:
            child = child.patched(kwargs=self._run.kwargs)
        return self._retry._bound_run(child)

    def on_delivery(self, source: Rereadable) -> None:
        """Stop reloop."""
        self.owner.is_active = False
        source.stop_storing()

    async def on_failure(self, error: Exception) -> None:
        """Wait until the next attempt, or raise."""
        is_owned = self.owner.outer is not None and self.owner.outer.takes(error)
        if is_owned or not self._retry._allows(error, self._number):
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
