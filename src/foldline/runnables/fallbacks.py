"""`RunnableWithFallbacks`: when a runnable fails, the next one gets the input; what `with_fallbacks` makes.

Each input of a batch falls back on its own; a stream only before its first piece was delivered. Where all fail, the
first error is raised, with a note of each later one; of a batch the last, which is the first one's `last_failure`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import BaseModel

from foldline._config import Configs, RunnableConfig
from foldline._io import IO
from foldline._run import Run
from foldline.exceptions import UsageError
from foldline.runnables import _types
from foldline.runnables._opening import EventStream, Opening
from foldline.runnables._relay import Attempts, relayed
from foldline.runnables._rereadable import Rereadable
from foldline.runnables._trace import NOTHING
from foldline.runnables.base import Runnable
from foldline.runnables.serializable import RunnableSerializable

__all__ = ["RunnableWithFallbacks"]

Input = TypeVar("Input", contravariant=True)
Output = TypeVar("Output", covariant=True)


class RunnableWithFallbacks(RunnableSerializable[Input, Output]):
    """A runnable, and others that stand in for it when it fails.

    A method that it does not have itself is called on all of them, so `bind_tools` and `with_structured_output` work.

    ```python
    from foldline.runnables import RunnableLambda

    safe = RunnableLambda(lambda x: 1 / x).with_fallbacks([RunnableLambda(lambda x: "infinite")])
    print(safe.batch([2, 0]))
    #> [0.5, 'infinite']
    ```
    """

    runnable: Runnable[Any, Any]
    """The first to get the input."""
    fallbacks: Sequence[Runnable[Any, Any]]
    """The others, in order."""
    exceptions_to_handle: tuple[type[BaseException], ...] = (Exception,)
    """Errors that make the next one try; others are raised. Cancellation is never handled."""
    exception_key: str | None = None
    """Where the next one finds the error in its input, which must then be a dict."""

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Whether this can be dumped: yes, if its runnables can."""
        return True

    @property
    def runnables(self) -> Iterator[Runnable[Any, Any]]:
        """All of them, in the order in which they are tried."""
        yield self.runnable
        yield from self.fallbacks

    # -- behaviours

    async def _once(self, input: Input, run: Run) -> object:
        self._check(input)
        failures = _Failures(self)
        for runnable in self.runnables:
            try:
                return await runnable._step(failures.input_for(input), self._child(run))
            except Exception as error:  # noqa: BLE001  raised again unless handled
                failures.add(error)
        raise failures.first

    def _pieces(self, input: Input, run: Run) -> AsyncGenerator[Any, None]:
        failures = _Failures(self)

        def opened(runnable: Runnable[Any, Any]) -> AsyncGenerator[Any, None]:
            self._check(input)
            return runnable._step_stream(failures.input_for(input), self._child(run))

        return self._streamed(opened, failures, Rereadable())

    def _flow(self, inputs: AsyncGenerator[Any, None], run: Run) -> AsyncGenerator[Any, None]:
        if self.exception_key is not None:
            return super()._flow(inputs, run)  # the error joins the whole input
        source = Rereadable(inputs)
        return self._streamed(
            lambda runnable: runnable._step_transform(source.reader(), self._child(run)),
            _Failures(self),
            source,
        )

    async def _streamed(
        self,
        open_stream: Callable[[Runnable[Any, Any]], AsyncGenerator[Any, None]],
        failures: _Failures,
        source: Rereadable,
    ) -> AsyncGenerator[Any, None]:
        async with aclosing(source):
            for runnable in self.runnables:
                async with aclosing(open_stream(runnable)) as pieces:
                    try:
                        piece = await anext(pieces, NOTHING)
                    except Exception as error:
                        if source.is_broken:
                            raise
                        failures.add(error)
                        continue
                    source.stop_keeping()
                    if piece is not NOTHING:
                        yield piece
                        async for more in pieces:
                            yield more
                    return
            raise failures.first

    def _open_stream_v2(self, opening: Opening) -> EventStream:
        return relayed(self.runnable, _InTurn(self, opening))

    async def _as_completed(
        self,
        inputs: Sequence[Any],
        config: Configs,
        io: IO,
        kwargs: dict[str, Any],
        *,
        keep_errors: bool,
    ) -> AsyncGenerator[tuple[int, Any], None]:
        """Run many: of an input that all failed at, the last error is told, as LangChain tells it of a batch."""
        done = super()._as_completed(inputs, config, io, kwargs, keep_errors=True)
        async with aclosing(done):
            async for place, result in done:
                outcome = result
                if isinstance(result, Exception):
                    outcome = getattr(result, "last_failure", result)
                    if not keep_errors:
                        raise outcome
                yield place, outcome

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
        """The first one's."""
        return self.runnable.InputType

    @property
    def OutputType(self) -> object:
        """The first one's."""
        return self.runnable.OutputType

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the first one's."""
        return self.runnable.get_input_schema(config)

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the first one's."""
        return self.runnable.get_output_schema(config)

    @property
    def config_specs(self) -> list[Any]:
        """The configurable fields of all of them."""
        return _types.unique_specs(one.config_specs for one in self.runnables)

    # -- attributes of the runnables

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Take what this does not have from the first; a method that gives a runnable is called on all."""
            if name.startswith("_") or "runnable" not in self.__dict__:
                return super().__getattr__(name)
            attribute = getattr(self.runnable, name)
            return self._for_all(name, attribute) if callable(attribute) else attribute

    def _for_all(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: object, **kwargs: object) -> object:
            made = method(*args, **kwargs)
            if not isinstance(made, Runnable):
                return made
            others = [getattr(one, name)(*args, **kwargs) for one in self.fallbacks]
            return self.model_copy(update={"runnable": made, "fallbacks": others})

        return call


class _InTurn(Attempts):
    """The runnables of one `stream_v2` call, in order."""

    def __init__(self, owner: RunnableWithFallbacks[Any, Any], opening: Opening) -> None:
        super().__init__(owner, opening)
        self._owner = owner
        self._left = list(owner.runnables)
        self._failures = _Failures(owner)

    def open(self) -> EventStream:
        self._owner._check(self._value)
        given = self._failures.input_for(self._value)
        opening = Opening(given, self._owner._child(cast("Run", self._run)))
        return self._left.pop(0)._open_stream_v2(opening)

    async def failed(self, error: Exception) -> None:
        self._failures.add(error)
        if not self._left:
            raise self._failures.first


class _Failures:
    """What went wrong so far in one call."""

    def __init__(self, owner: RunnableWithFallbacks[Any, Any]) -> None:
        self._owner = owner
        self._errors: list[Exception] = []

    def add(self, error: Exception) -> None:
        """Take an error note of; raise it where it is not to be handled."""
        if not isinstance(error, self._owner.exceptions_to_handle):
            raise error
        self._errors.append(error)

    def input_for(self, given: Any) -> Any:  # noqa: ANN401  an input; a dict where the error is put into it
        """Return the next one's input."""
        key = self._owner.exception_key
        return {**given, key: self._errors[-1]} if key is not None and self._errors else given

    @property
    def first(self) -> Exception:
        """The error to raise where nobody is left."""
        first, *others = self._errors
        for place, error in enumerate(others, start=1):
            note = f"fallback {place} failed too: {type(error).__name__}: {error}"
            if note not in getattr(first, "__notes__", ()):
                first.add_note(note)
        if others:
            with contextlib.suppress(AttributeError):  # a class with slots
                first.last_failure = others[-1]  # type: ignore[attr-defined]
        return first
