"""Bytes of an event stream -> events of ours: server-sent events, JSON, the vendor's decoder, one after another. Pure.

Events that came before a fault are given before it is raised, also where both were in one piece of the body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from foldline._sse import SSEDecoder
from foldline.exceptions import FoldlineError, MalformedStreamError
from foldline.protocol.events import Event
from foldline.providers._wire import WireDecoder
from foldline.transports import Limits

__all__ = ["StreamReading", "guarded"]

Malformed = Callable[..., MalformedStreamError]

ODD: Final = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)
"""What a decoder may stumble with over JSON that is not of the vendor's shape."""


class StreamReading:
    """One stream, read piece by piece."""

    __slots__ = ("_decoder", "_is_end", "_is_heard", "_malformed", "_parse", "_sse", "is_over")

    def __init__(
        self,
        decoder: WireDecoder,
        is_end: Callable[[str], bool],
        parse: Callable[[str], Any],
        malformed: Malformed,
        limits: Limits,
    ) -> None:
        self._decoder = decoder
        self._is_end = is_end
        self._parse = parse
        self._malformed = malformed
        self._sse = SSEDecoder(limits.sse_line, limits.sse_event)
        self._is_heard = False
        self.is_over = False
        """Whether the answer has come to its end, by the vendor's marker or its last event."""

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Take a piece of the body; after the end nothing is heard any more (F-S11)."""
        if self.is_over:
            return
        decoder, parse, is_end = self._decoder, self._parse, self._is_end
        for name, data, _ in self._sse.feed(chunk):
            if not data:
                continue
            self._is_heard = True
            if is_end(data):
                self.is_over = True
                yield from guarded(self._malformed, decoder.end, marked=True)
                return
            parsed = parse(data)
            try:
                events = decoder.feed(parsed, name)
            except FoldlineError:
                raise
            except ODD as error:
                raise _odd(self._malformed, error) from error
            yield from events
            if events and events[-1]["event"] == "message-finish":
                self.is_over = True
                return
        if self._sse.error is not None:
            raise self._sse.error  # now, and not when more comes: nothing may come for a long time

    def end(self) -> Iterator[Event]:
        """The body is over."""
        if self.is_over:
            return
        if not self._is_heard and not self._sse.is_begun:
            raise self._malformed("the answer is no event stream", is_retryable=True)
        self._sse.end()
        yield from guarded(self._malformed, self._decoder.end, marked=False)


def guarded(
    malformed: Malformed, hear: Callable[..., list[Event]], *args: Any, **kwargs: Any
) -> list[Event]:
    """Call a decoder; what it stumbles over is the vendor's fault, and said to be."""
    try:
        return hear(*args, **kwargs)
    except FoldlineError:
        raise
    except ODD as error:
        raise _odd(malformed, error) from error


def _odd(malformed: Malformed, error: Exception) -> MalformedStreamError:
    return malformed(f"the provider sent what its format has no place for: {error!r:.200}")
