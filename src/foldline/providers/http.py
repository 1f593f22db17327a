"""For authors of providers: the base class of a chat model over HTTP, and the decoder of its answers.

`HttpChatModel` sends and receives; a provider encodes the request (`_encode`) and decodes the answer (a `Decoder`).
Both are pure, so they can be tested with recordings.
"""

from __future__ import annotations

from typing import Any

from foldline._lazy import publish
from foldline.exceptions import StreamTruncatedError
from foldline.language_models._call.request import ChatRequest
from foldline.protocol.events import Event
from foldline.protocol.writer import EventWriter
from foldline.providers._endpoint import Body, Endpoint
from foldline.providers._http import HttpChatModel
from foldline.providers._wire import ErrorTable, WireDecoder, WireFailure

__all__ = [
    "Body",
    "ChatRequest",
    "Decoder",
    "Endpoint",
    "ErrorTable",
    "HttpChatModel",
    "WireDecoder",
]

publish(__name__, HttpChatModel, Endpoint, WireFailure, WireDecoder)


class Decoder:
    """Decodes one answer of a provider into events: subclass it and pass the content to `self.writer`.

    ```python
    from foldline.providers.http import Decoder


    class AcmeDecoder(Decoder):
        def feed(self, data, event):
            if data.get("done"):
                return self.writer.finish(data["done"])
            return self.writer.text(data["text"])

        def decode_answer(self, data):
            return self.writer.text(data["text"]) + self.writer.finish(data["done"])


    decoder = AcmeDecoder("acme", "anvil-1")
    events = decoder.feed({"text": "Hello"}, "") + decoder.feed({"done": "stop"}, "")
    print([event["event"] for event in events][-2:])
    #> ['content-block-finish', 'message-finish']
    ```
    """

    def __init__(self, provider: str, model: str) -> None:
        """Create the decoder of one answer of this model."""
        self.writer: EventWriter = EventWriter(metadata={"provider": provider, "model": model})

    def feed(self, data: Any, event: str) -> list[Event]:  # noqa: ANN401  the provider's JSON
        """Return the events of one parsed payload of a stream; `event` is its SSE event name."""
        raise NotImplementedError(f"{type(self).__name__}.feed: write it to read streams")

    def decode_answer(self, data: Any) -> list[Event]:  # noqa: ANN401  the provider's JSON
        """Return the events of a parsed answer that is not streamed."""
        raise NotImplementedError(
            f"{type(self).__name__}.decode_answer: write it to read answers that are not streamed"
        )

    def end(self, *, marked: bool) -> list[Event]:
        """Return the last events; raise `StreamTruncatedError` if the answer is incomplete.

        `marked`: whether the end marker (`[DONE]`) was received; then an answer without finish reason ends with "stop".
        """
        if self.writer.is_over:
            return []
        if marked:
            return self.writer.finish("stop")
        raise StreamTruncatedError("the stream ended before the answer did")

    def partial_state(self) -> dict[str, Any]:
        """Return usage and metadata so far, for the partial message of an interrupted stream."""
        return {"usage": self.writer.usage_so_far, "metadata": self.writer.metadata_so_far}
