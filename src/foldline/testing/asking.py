"""Asking a model in both colours, and listening to what its runs tell: what the conformance classes ask with."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Coroutine
from itertools import islice
from typing import Any, cast

from foldline._io import BLOCKING
from foldline._io.drive import drive
from foldline.callbacks import BaseCallbackHandler
from foldline.messages import AIMessage
from foldline.protocol.events import Event
from foldline.tracers._streaming import V2StreamingHandler

__all__ = ["Asker", "RecordedCallbacks", "RecordedEvents"]


class RecordedCallbacks(BaseCallbackHandler):
    """Remembers what a run told its listeners."""

    run_inline = True

    def __init__(self) -> None:
        self.names: list[str] = []
        self.events: list[Event] = []
        self.responses: list[Any] = []
        self.errors: list[BaseException] = []

    def on_chat_model_start(self, *args: object, **kwargs: object) -> None:
        """Count."""
        self.names.append("start")

    on_llm_start = on_chat_model_start

    def on_stream_event(self, event: Event, **kwargs: object) -> None:
        """Keep the event."""
        self.events.append(event)

    def on_llm_end(self, response: object, **kwargs: object) -> None:
        """Keep the answer."""
        self.names.append("end")
        self.responses.append(response)

    def on_llm_error(self, error: BaseException, **kwargs: object) -> None:
        """Keep the error and what had been said."""
        self.names.append("error")
        self.errors.append(error)
        self.responses.append(kwargs.get("response"))


class RecordedEvents(RecordedCallbacks, V2StreamingHandler):
    """Wants events from `invoke` too."""


class Asker:
    """Calls a model in one colour."""

    def __init__(self, colour: str) -> None:
        self.colour = colour
        self.is_blocking: bool = colour == "blocking"

    def invoke(self, model: Any, prompt: Any, config: object = None, **options: object) -> Any:  # noqa: ANN401  any model, asked as its author's users do
        """Return the answer."""
        if self.is_blocking:
            return model.invoke(prompt, config, **options)
        return self.wait(lambda: model.ainvoke(prompt, config, **options))

    def stream(
        self,
        model: Any,  # noqa: ANN401  any model, asked as its author's users do
        prompt: Any,  # noqa: ANN401  any model, asked as its author's users do
        config: object = None,
        **options: object,
    ) -> list[Any]:
        """Return the pieces of `stream`."""
        if self.is_blocking:
            return list(model.stream(prompt, config, **options))
        return cast(
            "list[Any]", self.wait(lambda: _listed(model.astream(prompt, config, **options)))
        )

    def batch(self, model: Any, prompts: list[Any]) -> list[Any]:  # noqa: ANN401  any model, asked as its author's users do
        """Return the answers of `batch`."""
        if self.is_blocking:
            return cast("list[Any]", model.batch(prompts))
        return cast("list[Any]", self.wait(lambda: model.abatch(prompts)))

    def read(
        self,
        model: Any,  # noqa: ANN401  any model, asked as its author's users do
        prompt: Any,  # noqa: ANN401  any model, asked as its author's users do
        config: object = None,
        *,
        events: int | None = None,
        **options: object,
    ) -> tuple[list[Event], Any]:
        """Read the first `events` events of a `stream_v2` (or all), close it, and give them and the stream."""
        if self.is_blocking:
            stream = model.stream_v2(prompt, config, **options)
            with stream:
                return list(islice(stream, events)), stream

        async def body() -> Any:  # noqa: ANN401  any model, asked as its author's users do
            stream = await model.astream_v2(prompt, config, **options)
            seen: list[Event] = []
            async with stream:
                if events == 0:
                    return seen, stream
                async for event in stream:
                    seen.append(event)
                    if len(seen) == events:
                        break
            return seen, stream

        return cast("tuple[list[Event], Any]", self.wait(body))

    def output(self, stream: Any) -> AIMessage:  # noqa: ANN401  any model, asked as its author's users do
        """Return the message of a stream that was read."""
        if self.is_blocking:
            return cast("AIMessage", stream.output)
        return cast("AIMessage", self.wait(stream._finished))

    def wait(self, body: Callable[[], Coroutine[Any, Any, Any]]) -> Any:  # noqa: ANN401  any model, asked as its author's users do
        """Run an async body in a loop of its own."""

        async def waited() -> object:
            return await body()

        return drive(BLOCKING.settle(waited()))


async def _listed(stream: AsyncIterable[Any]) -> list[Any]:
    return [item async for item in stream]
