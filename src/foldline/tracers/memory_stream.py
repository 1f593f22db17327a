"""Run a runnable in the background: its stream is read to the end, and items sent meanwhile are yielded in order.

The reader waits through `io` alone. When it leaves early, the runnable is stopped and waited for.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from foldline._config import RunnableConfig, ensure_config
from foldline._io import IO, Channel, RunningBody
from foldline.callbacks.base import BaseCallbackHandler, BaseCallbackManager

_END = object()


def with_handler(config: RunnableConfig | None, handler: BaseCallbackHandler) -> RunnableConfig:
    """Add a handler, for children too, to a copy of a config."""
    config = ensure_config(config)
    callbacks = config.get("callbacks")
    if isinstance(callbacks, BaseCallbackManager):
        callbacks = callbacks.copy()
        callbacks.add_handler(handler, inherit=True)
        config["callbacks"] = callbacks
    else:
        config["callbacks"] = [*(callbacks or []), handler]
    return config


class _Reading:
    """A runnable whose stream is being read."""

    def __init__(self, channel: Channel, on_piece: Callable[[Any], None] | None) -> None:
        self.channel = channel
        self.on_piece = on_piece
        self.is_stopped = False

    async def read(self, pieces: AsyncGenerator[Any, None]) -> None:
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    if self.is_stopped:
                        break
                    if self.on_piece is not None:
                        self.on_piece(piece)
        finally:
            self.channel.put(_END)


async def read_while_running(
    io: IO,
    runnable: Any,  # noqa: ANN401  a Runnable, whose layer is above this one
    value: object,
    config: RunnableConfig,
    kwargs: dict[str, Any],
    channel: Channel,
    on_piece: Callable[[Any], None] | None = None,
) -> AsyncGenerator[Any, None]:
    """Stream a runnable; yield the items put into the channel meanwhile; raise its error."""
    reading = _Reading(channel, on_piece)
    stream = runnable.stream if io.blocking else runnable.astream
    job = io.start(reading.read(io.each(stream(value, config, **kwargs))))
    done = False
    try:
        while (item := await channel.get()) is not _END:
            yield item
        done = True
        await job.result()
    finally:
        if not done:
            reading.is_stopped = True
            await _stop(job)


async def _stop(job: RunningBody) -> None:
    job.cancel()
    try:
        await job.result()
    except BaseException as error:
        # Errors of a stopped runnable are dropped, but not Ctrl-C and exit.
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
