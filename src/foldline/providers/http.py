"""For authors of providers: a chat model behind an HTTP API, and the decoder that reads its answers.

`HttpChatModel` sends and reads; a provider on it says what is sent (`_encode`) and what the answer means (a `Decoder`).
Both are pure, so that recordings test them.
"""

from __future__ import annotations

from typing import Any

from foldline._lazy import publish
from foldline.exceptions import StreamTruncatedError
from foldline.language_models.call.request import ChatRequest
from foldline.protocol.events import Event
from foldline.protocol.writer import EventWriter
from foldline.providers._endpoint import Body, Endpoint
from foldline.providers._http import HttpChatModel
from foldline.providers._wire import ErrorTable, Failure, WireDecoder

__all__ = [
    "Body",
    "ChatRequest",
    "Decoder",
    "Endpoint",
    "ErrorTable",
    "Failure",
    "HttpChatModel",
    "WireDecoder",
]

publish(__name__, HttpChatModel, Endpoint, Failure, WireDecoder)


class Decoder:
    """Turns one answer of a provider into events: subclass it, and pass on what came to `self.writer`.

    ```python
    from foldline.providers.http import Decoder


    class AcmeDecoder(Decoder):
        def feed(self, data, event):
            if data.get("done"):
                return self.writer.finish(data["done"])
            return self.writer.text(data["text"])

        def whole(self, data):
            return self.writer.text(data["text"]) + self.writer.finish(data["done"])


    decoder = AcmeDecoder("acme", "anvil-1")
    events = decoder.feed({"text": "Hello"}, "") + decoder.feed({"done": "stop"}, "")
    print([event["event"] for event in events][-2:])
    #> ['content-block-finish', 'message-finish']
    ```
    """

    def __init__(self, provider: str, model: str) -> None:
        """Begin to read an answer of this model."""
        self.writer: EventWriter = EventWriter(metadata={"provider": provider, "model": model})

    def feed(self, data: Any, event: str) -> list[Event]:  # noqa: ANN401
        """Return the events of one payload of a stream, parsed; `event` is the name that the stream gave it."""
        raise NotImplementedError(f"{type(self).__name__}.feed: write it to read streams")

    def whole(self, data: Any) -> list[Event]:  # noqa: ANN401
        """Return the events of an answer that came in one piece, parsed."""
        raise NotImplementedError(
            f"{type(self).__name__}.whole: write it to read answers that are no streams"
        )

    def end(self, *, marked: bool) -> list[Event]:
        """Return the last events; raise where the stream ended and the provider never said that it was done.

        `marked` says whether the end marker (`[DONE]`) came. A stream with it and no finish reason ends with "stop".
        """
        if self.writer.is_over:
            return []
        if marked:
            return self.writer.finish("stop")
        raise StreamTruncatedError("the stream ended before the answer did")

    def heard(self) -> dict[str, Any]:
        """Return usage and metadata so far, for the partial message of a stream that broke."""
        return {"usage": self.writer.usage_so_far, "metadata": self.writer.metadata_so_far}
