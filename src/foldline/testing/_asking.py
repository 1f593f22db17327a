"""Calls a model, sync or async, and records its callbacks: helpers of the conformance classes."""

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

__all__ = []


class RecordedCallbacks(BaseCallbackHandler):
    """Records the callbacks of a run."""

    run_inline = True

    def __init__(self) -> None:
        self.names: list[str] = []
        self.events: list[Event] = []
        self.responses: list[Any] = []
        self.errors: list[BaseException] = []

    def on_chat_model_start(self, *args: object, **kwargs: object) -> None:
        """Record the start."""
        self.names.append("start")

    on_llm_start = on_chat_model_start

    def on_stream_event(self, event: Event, **kwargs: object) -> None:
        """Record the event."""
        self.events.append(event)

    def on_llm_end(self, response: object, **kwargs: object) -> None:
        """Record the answer."""
        self.names.append("end")
        self.responses.append(response)

    def on_llm_error(self, error: BaseException, **kwargs: object) -> None:
        """Record the error and the partial answer."""
        self.names.append("error")
        self.errors.append(error)
        self.responses.append(kwargs.get("response"))


class RecordedEvents(RecordedCallbacks, V2StreamingHandler):
    """Receives events from `invoke` too."""


class Asker:
    """Calls a model, sync or async."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.is_blocking: bool = mode == "blocking"

    def invoke(self, model: Any, prompt: Any, config: object = None, **options: object) -> Any:  # noqa: ANN401  any model, and any input it takes
        """Return the answer."""
        if self.is_blocking:
            return model.invoke(prompt, config, **options)
        return self.wait(lambda: model.ainvoke(prompt, config, **options))

    def stream(
        self,
        model: Any,  # noqa: ANN401  any model, and any input it takes
        prompt: Any,  # noqa: ANN401  any model, and any input it takes
        config: object = None,
        **options: object,
    ) -> list[Any]:
        """Return the chunks of `stream`."""
        if self.is_blocking:
            return list(model.stream(prompt, config, **options))
        return cast(
            "list[Any]", self.wait(lambda: _collect(model.astream(prompt, config, **options)))
        )

    def batch(self, model: Any, prompts: list[Any]) -> list[Any]:  # noqa: ANN401  any model, and any input it takes
        """Return the answers of `batch`."""
        if self.is_blocking:
            return cast("list[Any]", model.batch(prompts))
        return cast("list[Any]", self.wait(lambda: model.abatch(prompts)))

    def read(
        self,
        model: Any,  # noqa: ANN401  any model, and any input it takes
        prompt: Any,  # noqa: ANN401  any model, and any input it takes
        config: object = None,
        *,
        events: int | None = None,
        **options: object,
    ) -> tuple[list[Event], Any]:
        """Read the first `events` events of a `stream_v2` (or all), close it, and return them and the stream."""
        if self.is_blocking:
            stream = model.stream_v2(prompt, config, **options)
            with stream:
                return list(islice(stream, events)), stream

        async def body() -> Any:  # noqa: ANN401  any model, and any input it takes
            stream = await model.astream_v2(prompt, config, **options)
            received: list[Event] = []
            async with stream:
                if events == 0:
                    return received, stream
                async for event in stream:
                    received.append(event)
                    if len(received) == events:
                        break
            return received, stream

        return cast("tuple[list[Event], Any]", self.wait(body))

    def output(self, stream: Any) -> AIMessage:  # noqa: ANN401  any model, and any input it takes
        """Return the message of a stream that was read."""
        if self.is_blocking:
            return cast("AIMessage", stream.output)
        return cast("AIMessage", self.wait(stream._final_message))

    def wait(self, body: Callable[[], Coroutine[Any, Any, Any]]) -> Any:  # noqa: ANN401  any model, and any input it takes
        """Run an async body in a new loop."""

        async def await_body() -> object:
            return await body()

        return drive(BLOCKING.settle(await_body()))


async def _collect(stream: AsyncIterable[Any]) -> list[Any]:
    return [item async for item in stream]
