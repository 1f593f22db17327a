"""`Asked`: one request of a chat model under way, from its sending to the last event of its answer.

The one body that waits, for every provider over HTTP: an answer that comes whole is given to the same decoder as a
stream.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from foldline._run import Run
from foldline.exceptions import ModelError
from foldline.language_models.request import ChatRequest
from foldline.protocol.events import Event
from foldline.providers._endpoint import Body
from foldline.providers._reading import ODD, StreamReading, guarded
from foldline.providers._wire import request_id

if TYPE_CHECKING:
    from foldline.providers._http import HttpChatModel

__all__ = ["Asked"]


class Asked:
    """One request under way: sent when entered; what fails inside is told with all that was heard of it."""

    __slots__ = (
        "_decoder", "_model", "_more", "_opening", "_request", "_response", "_run", "_sent", "is_streamed",
    )  # fmt: skip

    def __init__(self, model: HttpChatModel, request: ChatRequest, run: Run) -> None:
        self._model = model
        self._request = request
        self._run = run

    async def __aenter__(self) -> Self:
        model, request, io = self._model, self._request, self._run.io
        self._sent = sent = await model._http_request(request, io)
        self._opening = opening = model._transport().open(sent, blocking=io.blocking)
        self._response = response = await opening.__aenter__()
        try:
            # Not before: of five hundred calls that wait, each would hold a decoder with nothing to decode.
            self._decoder = model._decoder(request)
            if response.status >= 400:
                raise model._status_error(response, await response.read_error())
            self._more = model._more_metadata(request, response)
            self.is_streamed = model._is_streamed(request, response)
        except BaseException as error:
            await self.__aexit__(type(error), error, None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is not None:
                self._explain(error)
        finally:
            await self._opening.__aexit__(kind, error, trace)

    def _explain(self, error: BaseException) -> None:
        decoder = getattr(self, "_decoder", None)  # none where it could not be made
        heard = getattr(decoder, "heard", None)
        if heard is not None:
            with suppress(*ODD):  # what is odd in it must not hide the error that is told
                self._request.note(**heard())
        if isinstance(error, ModelError):
            self._model._hidden(error, self._sent)
            error.request_id = error.request_id or request_id(self._response.headers)

    async def whole(self) -> list[Event]:
        """Read an answer that comes in one piece."""
        model, body = self._model, await self._response.read()
        if not body.strip():
            raise model._malformed("the answer is empty", is_retryable=True)
        data = model._parse(body)
        if isinstance(data, dict) and not data.get("id") and _is_error(data):
            raise model._stream_error(data)
        events = guarded(model._malformed, self._decoder.whole, data)
        return [self._with_more(event) for event in events] if self._more else events

    async def events(self) -> AsyncGenerator[Event, None]:
        """Read an answer that comes as an event stream, or else at once."""
        if not self.is_streamed:
            for event in await self.whole():
                yield event
            return
        model, response, more = self._model, self._response, self._more
        reading = StreamReading(
            self._decoder, model._is_end, model._parse, model._malformed, model.limits
        )
        async with aclosing(response.chunks(progress_only=True)) as chunks:
            async for chunk in chunks:
                for event in reading.feed(chunk):
                    response.progress()
                    yield self._with_more(event) if more else event
                if reading.is_over:
                    response.conclude()  # some servers leave the connection open
        for event in reading.end():
            yield self._with_more(event) if more else event

    def _with_more(self, event: Event) -> Event:
        if event["event"] == "message-finish":
            event["metadata"] = {**event.get("metadata", {}), **self._more}
        return event


def _is_error(data: Body) -> bool:
    """Say whether a whole answer tells of an error; some gateways send the event of a stream as the body."""
    return bool(data.get("error")) or data.get("type") == "error"
