"""Runs an async body without an event loop: the sync version of every behaviour.

Every behaviour is written once, as an async body. What suspends a coroutine is never `await` itself: it is a future at
the bottom, which is yielded to an event loop. A body that waits only through `io` reaches such a future only if `io` is
asynchronous; the methods of the blocking `IO` wait in the thread and return. So the same body, given the blocking one,
never suspends: sending it one `None` runs it to its end, and its result is the value of `StopIteration`. No loop is
made, no thread is started, context variables are those of the caller, and it works inside a running loop (Jupyter).

A body that does suspend has waited for something else, such as somebody's `asyncio.sleep`. Nothing here could ever wake
it, so this is an error with advice (`BlockingCallError`). Its coroutine is closed at once, and not when it is
collected: its `finally` blocks run here, in the thread and the context of the call.

Streams are async generators: `__anext__` gives one coroutine per item, which is driven in the same way. Closing must be
explicit, because without a loop nobody finalizes an async generator: whoever iterates one drives its `aclose` too.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Generator, Sequence
from contextlib import ExitStack, suppress
from typing import Any, TypeVar, cast

from foldline._traceback import cut_traceback
from foldline.exceptions import BlockingCallError

T = TypeVar("T")

ADVICE = "it waits for an event loop: use the async method (ainvoke, astream, …)"


def drive(body: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends to its end."""
    try:
        body.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    except Exception as error:
        cut_traceback(error)
        raise
    else:  # it has suspended, and nobody will ever resume it
        raise BlockingCallError(f"{body!r} cannot run in a blocking call: {ADVICE}")
    finally:
        body.close()


class GeneratorStream(AsyncGenerator[T, None]):
    """A sync generator in the shape of a stream, which `drive_each` unwraps again.

    Consecutive sync steps then cost as little as plain generators: a step reads the `items` of the previous one, and
    only the last reader closes them all.
    """

    def __init__(
        self, items: Generator[T, None, None], previous: Sequence[Generator[Any, None, None]] = ()
    ) -> None:
        self.items = items
        self.chain = (*previous, items)
        """This generator and those it reads from, the first one first."""

    async def asend(self, value: None) -> T:
        """Return the next item."""
        item = next(self.items, _END)
        if item is _END:  # not by `StopIteration`: inside a coroutine that becomes a RuntimeError
            raise StopAsyncIteration
        return cast("T", item)

    async def athrow(self, *error: Any) -> T:
        """Raise an error in the generator."""
        return self.items.throw(*error)

    async def aclose(self) -> None:
        """Close the generators, the last one first."""
        self.close()

    def close(self) -> None:
        """Close the generators, the last one first; one that fails to close does not leave the others open."""
        with ExitStack() as stack:
            for items in self.chain:
                stack.callback(items.close)

    def each(self) -> Generator[T, None, None]:
        """Yield the items, then close the generators."""
        try:
            yield from self.items
        except Exception as error:
            cut_traceback(error)
            raise
        finally:
            self.close()


_END = object()


def drive_each(stream: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Iterate an async generator that never suspends; closing the result closes it, `finally` blocks included."""
    return stream.each() if isinstance(stream, GeneratorStream) else _drive_items(stream)


def _drive_items(stream: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    advance: Any = stream.__anext__  # looked up once: this loop runs for every chunk of a stream
    try:
        while True:
            step = advance()
            try:
                step.send(None)
            except StopIteration as item:
                yield item.value
            except StopAsyncIteration:
                return
            else:
                raise _throw_into(
                    step, BlockingCallError(f"{stream!r} cannot run in a blocking call: {ADVICE}")
                )
    except Exception as error:
        cut_traceback(error)
        raise
    finally:
        drive(stream.aclose())


def _throw_into(step: Any, error: BlockingCallError) -> BlockingCallError:  # noqa: ANN401  a coroutine, or a step of an async generator
    """Raise the error where the body waits, so that its `finally` blocks run and it can be closed."""
    with suppress(BlockingCallError, StopIteration, StopAsyncIteration):
        step.throw(error)
    return error
