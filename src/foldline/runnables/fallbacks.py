"""`RunnableWithFallbacks`: when a runnable fails, the next one gets the input; the result of `with_fallbacks`.

Each input of a batch falls back independently; a stream only before its first chunk is delivered. If all fail, the
first error is raised, with a note for each later one; a batch raises the last, which is `last_failure` of the first.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel

from foldline._config import Configs, RunnableConfig
from foldline._io import IO
from foldline._run import Run
from foldline.exceptions import UsageError
from foldline.runnables import _types
from foldline.runnables._rereadable import Rereadable
from foldline.runnables._stream_attempts import StreamAttempts, stream_of_attempts
from foldline.runnables._stream_call import EventStream, StreamCall
from foldline.runnables._trace import NOTHING
from foldline.runnables.base import Chunk, Input, Output, Runnable
from foldline.runnables.serializable import RunnableSerializable

__all__ = ["RunnableWithFallbacks"]


class RunnableWithFallbacks(RunnableSerializable[Input, Output, Chunk]):
    """A runnable, and others that run in its place when it fails.

    Other methods are called on all of them, so `bind_tools` and `with_structured_output` work.

    ```python
    from foldline.runnables import RunnableLambda

    safe = RunnableLambda(lambda x: 1 / x).with_fallbacks([RunnableLambda(lambda x: "infinite")])
    print(safe.batch([2, 0]))
    #> [0.5, 'infinite']
    ```
    """

    runnable: Runnable[Any, Any]
    """The runnable that gets the input first."""
    fallbacks: Sequence[Runnable[Any, Any]]
    """The others, in order."""
    exceptions_to_handle: tuple[type[BaseException], ...] = (Exception,)
    """Errors after which the next one is tried; others are raised. Cancellation is never handled."""
    exception_key: str | None = None
    """The key of the error in the input of the next one; the input must then be a dict."""

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return whether this can be serialized: yes, if its runnables can."""
        return True

    @property
    def runnables(self) -> Iterator[Runnable[Any, Any]]:
        """All of them, in the order in which they are tried."""
        yield self.runnable
        yield from self.fallbacks

    # -- behaviours

    async def _invoke_body(self, input: Input, run: Run) -> object:
        self._check(input)
        failures = _Failures(self)
        for runnable in self.runnables:
            try:
                return await runnable._step(failures.input_for(input), self._child(run))
            except Exception as error:  # noqa: BLE001  raised again unless handled
                failures.add(error)
        raise failures.first_error

    def _stream_body(self, input: Input, run: Run) -> AsyncGenerator[Any, None]:
        failures = _Failures(self)

        def open_stream(runnable: Runnable[Any, Any]) -> AsyncGenerator[Any, None]:
            self._check(input)
            return runnable._step_stream(failures.input_for(input), self._child(run))

        return self._stream_attempts(open_stream, failures, Rereadable())

    def _transform_body(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        if self.exception_key is not None:
            return super()._transform_body(inputs, run)  # the error is added to the complete input
        source = Rereadable(inputs)
        return self._stream_attempts(
            lambda runnable: runnable._step_transform(source.reader(), self._child(run)),
            _Failures(self),
            source,
        )

    async def _stream_attempts(
        self,
        open_stream: Callable[[Runnable[Any, Any]], AsyncGenerator[Any, None]],
        failures: _Failures,
        source: Rereadable,
    ) -> AsyncGenerator[Any, None]:
        async with aclosing(source):
            for runnable in self.runnables:
                async with aclosing(open_stream(runnable)) as chunks:
                    try:
                        chunk = await anext(chunks, NOTHING)
                    except Exception as error:
                        if source.is_broken:
                            raise
                        failures.add(error)
                        continue
                    source.stop_storing()
                    if chunk is not NOTHING:
                        yield chunk
                        async for next_chunk in chunks:
                            yield next_chunk
                    return
            raise failures.first_error

    def _open_stream_v2(self, call: StreamCall) -> EventStream:
        return stream_of_attempts(self.runnable, _FallbackAttempts(self, call))

    async def _as_completed(
        self,
        inputs: Sequence[Any],
        config: Configs,
        io: IO,
        kwargs: dict[str, Any],
        *,
        keep_errors: bool,
    ) -> AsyncGenerator[tuple[int, Any], None]:
        """Yield the results; for an input at which all failed, the last error, as LangChain does for a batch."""
        results = super()._as_completed(inputs, config, io, kwargs, keep_errors=True)
        async with aclosing(results):
            async for index, result in results:
                outcome = result
                if isinstance(result, Exception):
                    outcome = getattr(result, "last_failure", result)
                    if not keep_errors:
                        raise outcome
                yield index, outcome

    def _child(self, run: Run) -> Run:
        child = run.child()
        return child.patched(kwargs=run.kwargs) if run.kwargs else child

    def _check(self, value: object) -> None:
        if self.exception_key is not None and not isinstance(value, Mapping):
            raise UsageError(
                f"exception_key={self.exception_key!r} puts the error into the input, which must then be a dict, "
                f"not {type(value).__name__}"
            )

    # -- types

    @property
    def InputType(self) -> object:
        """The input type of the first."""
        return self.runnable.InputType

    @property
    def OutputType(self) -> object:
        """The output type of the first."""
        return self.runnable.OutputType

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the input schema of the first."""
        return self.runnable.get_input_schema(config)

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the output schema of the first."""
        return self.runnable.get_output_schema(config)

    @property
    def config_specs(self) -> list[Any]:
        """The configurable fields of all of them."""
        return _types.unique_specs(runnable.config_specs for runnable in self.runnables)

    # -- attributes of the runnables

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Return an attribute of the first; a method that returns a runnable is called on all."""
            if name.startswith("_") or "runnable" not in self.__dict__:
                return super().__getattr__(name)
            attribute = getattr(self.runnable, name)
            return self._for_all(name, attribute) if callable(attribute) else attribute

    def _for_all(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: object, **kwargs: object) -> object:
            result = method(*args, **kwargs)
            if not isinstance(result, Runnable):
                return result
            fallbacks = [getattr(fallback, name)(*args, **kwargs) for fallback in self.fallbacks]
            return self.model_copy(update={"runnable": result, "fallbacks": fallbacks})

        return call


class _FallbackAttempts(StreamAttempts):
    """The runnables of one `stream_v2` call, in order."""

    def __init__(self, owner: RunnableWithFallbacks[Any, Any], call: StreamCall) -> None:
        super().__init__(owner, call)
        self._owner = owner
        self._remaining = list(owner.runnables)
        self._failures = _Failures(owner)

    def open(self) -> EventStream:
        self._owner._check(self._value)
        input = self._failures.input_for(self._value)
        run = self._owner._child(cast("Run", self._run))
        call = StreamCall(input, run, self._call.view)
        return self._remaining.pop(0)._open_stream_v2(call)

    async def on_failure(self, error: Exception) -> None:
        self._failures.add(error)
        if not self._remaining:
            raise self._failures.first_error


class _Failures:
    """The errors of one call so far."""

    def __init__(self, owner: RunnableWithFallbacks[Any, Any]) -> None:
        self._owner = owner
        self._errors: list[Exception] = []

    def add(self, error: Exception) -> None:
        """Record an error; raise it if it is not to be handled."""
        if not isinstance(error, self._owner.exceptions_to_handle):
            raise error
        self._errors.append(error)

    def input_for(self, input: Any) -> Any:  # noqa: ANN401  an input; a dict if the error is added to it
        """Return the input of the next runnable."""
        key = self._owner.exception_key
        return {**input, key: self._errors[-1]} if key is not None and self._errors else input

    @property
    def first_error(self) -> Exception:
        """The error to raise if none is left."""
        first_error, *later_errors = self._errors
        for number, error in enumerate(later_errors, start=1):
            note = f"fallback {number} failed too: {type(error).__name__}: {error}"
            if note not in getattr(first_error, "__notes__", ()):
                first_error.add_note(note)
        if later_errors:
            with contextlib.suppress(AttributeError):  # a class with slots
                first_error.last_failure = later_errors[-1]  # type: ignore[attr-defined]
        return first_error
