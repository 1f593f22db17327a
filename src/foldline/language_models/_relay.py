"""Several turns in a row behind one stream: the first that delivers is the stream (retries, fallbacks)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from foldline.language_models._turn import Turn
from foldline.messages import AIMessage
from foldline.protocol.events import Event
from foldline.protocol.fold import MessageBuilder
from foldline.runnables._relay import Attempts


class Relay:
    """Passes on the turn of the attempt under way; what a stream asks of a turn it asks of that one."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._turn: Turn | None = None
        self._nothing = MessageBuilder()
        self._is_closing = False
        self.run: Any = None
        self.error: BaseException | None = None

    @property
    def is_closing(self) -> bool:
        """Whether somebody closes the stream while it is read."""
        return self._is_closing

    @is_closing.setter
    def is_closing(self, value: bool) -> None:
        self._is_closing = value
        if self._turn is not None:
            self._turn.is_closing = value

    @property
    def builder(self) -> MessageBuilder:
        """The fold of the attempt under way."""
        return self._turn.builder if self._turn is not None else self._nothing

    @property
    def message(self) -> AIMessage | None:
        """The message of the last attempt."""
        return self._turn.message if self._turn is not None else None

    @property
    def is_complete(self) -> bool:
        """Whether an attempt came to its end."""
        return self._turn is not None and self._turn.is_complete

    @property
    def tail(self) -> str:
        """What the block that finished just now said beyond its deltas."""
        return self._turn.tail if self._turn is not None else ""

    async def events(self) -> AsyncGenerator[Event, None]:
        """Give the events of the first attempt that delivers any."""
        attempts = self._attempts
        await attempts.begin()
        try:
            async with aclosing(self._tried()) as events:
                async for event in events:
                    yield event
        except BaseException as error:
            closed = self._turn.error if self._turn is not None else None
            if self._is_closing or isinstance(error, GeneratorExit):
                self.error = closed
                await attempts.end(self.message)
            else:
                self.error = error
                await attempts.fail(error)
            raise
        await attempts.end(self.message)

    async def _tried(self) -> AsyncGenerator[Event, None]:
        attempts = self._attempts
        while True:
            stream = attempts.open()
            turn = self._turn = cast("Turn", stream._turn)
            async with aclosing(turn.events()) as events:
                try:
                    with attempts.around:
                        first = await anext(events, None)
                except Exception as error:  # noqa: BLE001  raised again unless there is another attempt
                    failure = error
                else:
                    attempts.delivered()
                    if first is not None:
                        yield first
                    async for event in events:
                        yield event
                    return
            await attempts.failed(failure)
