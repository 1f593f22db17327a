"""Parsers that parse a stream while it arrives.

A parser makes a `Reader` for each stream: an object that takes the pieces and returns the outputs so far. A reader
never waits, so sync and async calls share it. A subclass may instead override LangChain's `_transform`, `_atransform`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Iterator
from contextlib import AsyncExitStack
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

from foldline._io.drive import GeneratorStream, drive_each
from foldline._run import Run
from foldline._traceback import closing
from foldline.messages import BaseMessage, BaseMessageChunk
from foldline.messages.dicts import message_to_chunk
from foldline.output_parsers._refusals import check_refusal
from foldline.output_parsers.base import PACKAGE_PREFIX, BaseOutputParser, generation_of
from foldline.outputs import ChatGenerationChunk, GenerationChunk

__all__ = [
    "BaseCumulativeTransformOutputParser",
    "BaseTransformOutputParser",
]

T = TypeVar("T")


class PieceReader(Protocol):
    """Parses a stream piece by piece."""

    def feed(self, piece: str | BaseMessage) -> Iterable[Any]:
        """Take a piece; return the outputs that it completes."""

    def finish(self) -> Iterable[Any]:
        """End the stream; return the remaining outputs, or raise if the text cannot be parsed."""


class BaseTransformOutputParser(BaseOutputParser[T], Generic[T]):
    """A parser that can parse every piece alone. A subclass implements `parse`."""

    _has_async_transform: ClassVar[bool] = False
    """Whether a subclass implements `_atransform` for its `_transform`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith(PACKAGE_PREFIX):
            return
        if "_transform" in cls.__dict__:
            cls._has_async_transform = False
        if "_atransform" in cls.__dict__:
            cls._has_async_transform = True

    def _reader(self) -> PieceReader:
        return _PieceReader(self)

    def _transform(self, input: Iterator[str | BaseMessage]) -> Iterator[T]:
        reader = self._reader()
        for piece in input:
            yield from reader.feed(piece)
        yield from reader.finish()

    async def _atransform(self, input: AsyncIterator[str | BaseMessage]) -> AsyncIterator[T]:
        reader = self._reader()
        async for piece in input:
            for output in reader.feed(piece):
                yield output
        for output in reader.finish():
            yield output

    def _transform_body(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[T, None]:
        if not self._is_ours:
            return self._overridden_flow(inputs, run)
        if not run.io.blocking:
            return self._async_flow(inputs)
        if isinstance(inputs, GeneratorStream):
            return GeneratorStream(_generator(self._transform(inputs.items)), inputs.chain)
        source = drive_each(inputs)
        return GeneratorStream(_generator(self._transform(source)), (source,))

    async def _async_flow(self, inputs: AsyncGenerator[Any, None]) -> AsyncGenerator[T, None]:
        reader = self._reader()
        async with closing(inputs):
            async for piece in inputs:
                for output in reader.feed(piece):
                    yield output
        for output in reader.finish():
            yield output

    async def _overridden_flow(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[T, None]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(closing(inputs))
            outputs: Any
            if self._has_async_transform and not run.io.blocking:
                outputs = self._atransform(inputs)
            else:
                source = await stack.enter_async_context(run.io.iterate(inputs))
                outputs = self._transform(source)
            steps = run.io.each(outputs, run.current())
            async for output in await stack.enter_async_context(closing(steps)):
                yield output


def _generator(items: Iterator[T]) -> Generator[T, None, None]:
    """Type a `_transform` as the generator that it is; LangChain's signature says only iterator."""
    return cast("Generator[T, None, None]", items)


class _PieceReader:
    def __init__(self, parser: BaseTransformOutputParser[Any]) -> None:
        self._parser = parser

    def feed(self, piece: str | BaseMessage) -> Iterable[Any]:
        return (self._parser.parse_result([generation_of(piece)]),)

    def finish(self) -> Iterable[Any]:
        return ()


class BaseCumulativeTransformOutputParser(BaseTransformOutputParser[T], Generic[T]):
    """A parser that parses all the text so far after each piece. A subclass implements `parse_result`.

    `parse_result` is called with `partial=True`, and returns None while there is no result yet.
    """

    diff: bool = False
    """Whether to stream the differences between results instead of the results; see `_diff`."""

    _rejects_refusals: ClassVar[bool] = False
    """Whether a refusal is an error at the end of a stream."""

    def _diff(self, prev: T | None, next: T) -> T:
        raise NotImplementedError(
            f"{type(self).__name__} cannot stream differences: use diff=False"
        )

    def _reader(self) -> PieceReader:
        return CumulativeReader(self)


class Results:
    """Emits results that differ from the previous one, or the differences."""

    def __init__(self, parser: BaseCumulativeTransformOutputParser[Any]) -> None:
        self._parser = parser
        self.last: Any = None

    def emit(self, result: object) -> Iterable[Any]:
        """Return the result if it differs from the last one, else nothing."""
        if result is None or result == self.last:
            return ()
        output = self._parser._diff(self.last, result) if self._parser.diff else result
        self.last = result
        return (output,)


class CumulativeReader:
    """Adds up the pieces and calls the parser after each."""

    def __init__(self, parser: BaseCumulativeTransformOutputParser[Any]) -> None:
        self._parser = parser
        self._results = Results(parser)
        self._total: Any = None

    def feed(self, piece: str | BaseMessage) -> Iterable[Any]:
        """Add a piece; return the result for all pieces so far, if it is new."""
        chunk = _chunk_of(piece)
        self._total = chunk if self._total is None else self._total + chunk
        return self._results.emit(self._parser.parse_result([self._total], partial=True))

    def finish(self) -> Iterable[Any]:
        """Return nothing: every piece has been parsed already; raise for a refusal, if the parser needs an answer."""
        if self._parser._rejects_refusals and self._total is not None:
            check_refusal([self._total])
        return ()


def _chunk_of(piece: str | BaseMessage) -> GenerationChunk | ChatGenerationChunk:
    if isinstance(piece, BaseMessageChunk):
        return ChatGenerationChunk._trusted(piece)
    if isinstance(piece, BaseMessage):
        return ChatGenerationChunk(message=message_to_chunk(piece))
    return GenerationChunk._trusted(generation_of(piece).text)
