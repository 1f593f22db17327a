"""Parsers that read while a model still speaks.

How a parser reads a stream is its *reader*: a small object fed piece by piece, which gives what can be said so far. It
does not wait, so it serves both colours. Authors may instead override LangChain's `_transform` and `_atransform`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from foldline._io.drive import GeneratorStream, drive_each
from foldline._run import Run
from foldline._traceback import closing
from foldline.messages import BaseMessage, BaseMessageChunk
from foldline.messages.dicts import message_to_chunk
from foldline.output_parsers.base import HERE, BaseOutputParser, generation_of
from foldline.outputs import ChatGenerationChunk, GenerationChunk

__all__ = ["BaseCumulativeTransformOutputParser", "BaseTransformOutputParser", "Reader"]

T = TypeVar("T")


class Reader(Protocol):
    """Reads a stream piece by piece."""

    def feed(self, piece: str | BaseMessage) -> Iterable[Any]:
        """Take a piece; give what can be said now."""

    def finish(self) -> Iterable[Any]:
        """Hear that this was all; give what is left to say, or raise if it cannot be read."""


class BaseTransformOutputParser(BaseOutputParser[T], Generic[T]):
    """A parser whose every piece can be read alone. A subclass writes `parse`."""

    _has_own_transform: ClassVar[bool] = False
    _has_own_twin: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith(HERE):
            return
        if "_transform" in cls.__dict__:
            cls._has_own_transform, cls._has_own_twin = True, False
        if "_atransform" in cls.__dict__:
            cls._has_own_twin = True

    def _reader(self) -> Reader:
        return _EachPiece(self)

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
            return self._authors_flow(inputs, run)
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

    async def _authors_flow(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[T, None]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(closing(inputs))
            outputs: Any
            if self._has_own_twin and not run.io.blocking:
                outputs = self._atransform(inputs)
            else:
                source = await stack.enter_async_context(run.io.iterate(inputs))
                outputs = self._transform(source)
            each = run.io.each(outputs, run.current())
            async for output in await stack.enter_async_context(closing(each)):
                yield output


def _generator(items: object) -> Any:
    """A `_transform` is a generator, though LangChain's signature says less."""
    return items


class _EachPiece:
    def __init__(self, parser: BaseTransformOutputParser[Any]) -> None:
        self._parser = parser

    def feed(self, piece: str | BaseMessage) -> Iterable[Any]:
        return (self._parser.parse_result([generation_of(piece)]),)

    def finish(self) -> Iterable[Any]:
        return ()


class BaseCumulativeTransformOutputParser(BaseTransformOutputParser[T], Generic[T]):
    """A parser that reads all there is so far, again and again. A subclass writes `parse_result`.

    It is given `partial=True` while more is to come, and says None as long as there is nothing to say.
    """

    diff: bool = False
    """Whether to stream the differences between results instead of the results; see `_diff`."""

    def _diff(self, prev: T | None, next: T) -> T:
        raise NotImplementedError(
            f"{type(self).__name__} cannot stream differences: use diff=False"
        )

    def _reader(self) -> Reader:
        return CumulativeReader(self)


class Results:
    """Passes on results that differ from the one before, or the differences."""

    def __init__(self, parser: BaseCumulativeTransformOutputParser[Any]) -> None:
        self._parser = parser
        self.last: Any = None

    def tell(self, result: Any) -> Iterable[Any]:
        """Return a result, if there is something new in it."""
        if result is None or result == self.last:
            return ()
        shown = self._parser._diff(self.last, result) if self._parser.diff else result
        self.last = result
        return (shown,)


class CumulativeReader:
    """Adds up the pieces and asks the parser after each."""

    def __init__(self, parser: BaseCumulativeTransformOutputParser[Any]) -> None:
        self._parser = parser
        self._results = Results(parser)
        self._whole: Any = None

    def feed(self, piece: str | BaseMessage) -> Iterable[Any]:
        """Add a piece; give the result of all so far, if it is new."""
        chunk = _chunk_of(piece)
        self._whole = chunk if self._whole is None else self._whole + chunk
        return self._results.tell(self._parser.parse_result([self._whole], partial=True))

    def finish(self) -> Iterable[Any]:
        """Nothing is left: every piece was asked about."""
        return ()


def _chunk_of(piece: str | BaseMessage) -> GenerationChunk | ChatGenerationChunk:
    if isinstance(piece, BaseMessageChunk):
        return ChatGenerationChunk._trusted(piece)
    if isinstance(piece, BaseMessage):
        return ChatGenerationChunk(message=message_to_chunk(piece))
    return GenerationChunk._trusted(generation_of(piece).text)
