"""The checklist of the model's API, T88 to T98: one test for each number, as the specification words it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from foldline.caches import InMemoryCache
from foldline.exceptions import ModelError, ModelRateLimitError
from foldline.language_models import RetryPolicy
from foldline.prompts import ChatPromptTemplate
from foldline.protocol import assert_valid_event_stream
from foldline.rate_limiters import BaseRateLimiter
from foldline.runnables import ConfigurableField
from foldline.testing import Fail, ScriptedChatModel
from foldline.tracers._streaming import V2StreamingHandler
from tests.language_models.reading import (
    FINISH,
    AChunked,
    ANative,
    AsyncGenerateOnly,
    Chunked,
    Events,
    GenerateOnly,
    Listener,
    Native,
    TokenListener,
    answer,
    read,
    start,
    text_events,
)

AT_ONCE = RetryPolicy(max_retries=3, initial=0.0, jitter=False)


def scripted(*script: Any, **fields: Any) -> ScriptedChatModel:
    return ScriptedChatModel(script=list(script) or ["Hello there"], is_cyclic=True, **fields)


class StreamAndGenerate(Chunked, GenerateOnly):
    """Its author wrote `_stream` and `_generate`."""

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        answers = list(self.answer_to(messages, kwargs))
        return GenerateOnly(items=["".join(answers)])._generate(messages)


@pytest.mark.parametrize("kind", [GenerateOnly, AsyncGenerateOnly])
def test_T88_a_model_with_only_generate_gives_a_valid_replayed_stream(call, kind):
    reading = read(call, kind(items=["Hello"]), "events", "texts", "output")

    assert_valid_event_stream(reading.values[0], reading.value)
    assert reading.values[1] == ["Hello"]
    assert reading.value.content == [{"type": "text", "text": "Hello"}]


def test_T89_a_model_that_may_not_stream_is_replayed(call):
    reading = read(
        call, StreamAndGenerate(items=["Hel", "lo"], disable_streaming=True), "events", "texts"
    )

    assert_valid_event_stream(reading.values[0])
    assert reading.value == ["Hello"]


@pytest.mark.parametrize("kind", [AChunked, ANative, AsyncGenerateOnly])
def test_T90_an_async_only_model_answers_a_sync_call(kind):
    items = [start(), *text_events("Hel", "lo"), FINISH] if kind is ANative else ["Hello"]

    stream = kind(items=items).stream_v2("x")

    assert stream.output.text == "Hello"
    assert kind(items=items).invoke("x").text == "Hello"


@pytest.mark.parametrize("kind", [Chunked, Native, GenerateOnly])
def test_T91_a_sync_only_model_under_an_async_call_does_not_block_the_loop(kind):
    go = threading.Event()

    def wait() -> Any:
        assert go.wait(10), "the loop was blocked: nobody let the model go on"
        return FINISH if kind is Native else "lo"

    items = [start(), *text_events("Hello"), wait] if kind is Native else [wait]

    async def body() -> str:
        stream = await kind(items=items).astream_v2("x")
        reader = asyncio.ensure_future(stream.text.get())
        while not reader.done():
            await asyncio.sleep(0.005)
            go.set()
        return await reader

    assert asyncio.run(body()) == ("Hello" if kind is Native else "lo")


def test_T92_streaming_may_be_disabled_for_calls_with_tools_alone(call):
    model = StreamAndGenerate(items=["Hel", "lo"], disable_streaming="tool_calling")

    assert read(call, model, "texts").value == ["Hel", "lo"]
    assert read(call, model, "texts", tools=[{"type": "function"}]).value == ["Hello"]


def test_T93_a_cache_hit_replays_with_the_id_that_is_returned_and_v2_reads_and_writes_the_cache(
    call,
):
    model = scripted("Hello", "another", cache=InMemoryCache())

    first = read(call, model, "output", input="q").value
    cached = read(call, model, "events", "output", input="q")

    assert len(model.requests) == 1
    assert cached.values[0][0]["id"] == cached.value.id == first.id
    assert cached.value.text == call.invoke(model, "q").text == "Hello"
    assert len(model.requests) == 1


class RecordingLimiter(BaseRateLimiter):
    def __init__(self, events: list[tuple[str, Any]]) -> None:
        self.events = events

    def acquire(self, *, blocking: bool = True) -> bool:
        self.events.append(("limit", None))
        return True

    async def aacquire(self, *, blocking: bool = True) -> bool:
        return self.acquire()


@pytest.mark.parametrize("api", ["invoke", "stream", "v2"])
@pytest.mark.parametrize("kind", [Chunked, GenerateOnly, Events])
def test_T94_the_start_is_told_once_and_then_the_rate_limiter_asked_once(call, api, kind):
    listener = Listener()
    items = [start(), *text_events("a"), FINISH] if kind is Events else ["a"]
    model = kind(items=items, rate_limiter=RecordingLimiter(listener.events), callbacks=[listener])

    {"invoke": call.invoke, "stream": call.stream, "v2": lambda m, _: answer(call, m)}[api](
        model, "x"
    )

    names = [name for name, _ in listener.events]
    assert names[:2] == ["on_chat_model_start", "limit"]
    assert (names.count("on_chat_model_start"), names.count("limit")) == (1, 1)


class EventTokenListener(TokenListener, V2StreamingHandler):
    """Gets events under `invoke` too."""


MODELS = {
    "chunks": lambda **fields: Chunked(items=["Hel", "lo"], **fields),
    "async chunks": lambda **fields: AChunked(items=["Hel", "lo"], **fields),
    "native": lambda **fields: Native(items=[start(), *text_events("Hello"), FINISH], **fields),
    "events": lambda **fields: Events(items=[start(), *text_events("Hello"), FINISH], **fields),
    "whole": lambda **fields: GenerateOnly(items=["Hello"], **fields),
    "both": lambda **fields: StreamAndGenerate(items=["Hel", "lo"], **fields),
    "both, no stream": lambda **fields: StreamAndGenerate(
        items=["Hel", "lo"], disable_streaming=True, **fields
    ),
}


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("is_cached", [False, True], ids=["asked", "cached"])
def test_T95_on_stream_event_is_told_exactly_where_the_specification_says(call, name, is_cached):
    def stream_events(ask: Any, handler: Any) -> list[str]:
        model = MODELS[name](cache=InMemoryCache())
        if is_cached:
            call.invoke(model, "hi")
        ask(model, {"callbacks": [handler]})
        return [event["event"] for event in handler.arguments_of("on_stream_event")]

    def invoke(model: Any, config: Any) -> None:
        call.invoke(model, "hi", config)

    def stream(model: Any, config: Any) -> None:
        call.stream(model, "hi", config)

    def generate(model: Any, config: Any) -> None:
        call.generate(model, [["hi"]], callbacks=config["callbacks"])

    def stream_v2(model: Any, config: Any) -> None:
        reading = read(call, model, "events", config=config)
        (handler,) = config["callbacks"]
        assert handler.arguments_of("on_stream_event") == reading.value

    assert stream_events(invoke, TokenListener()) == []
    assert stream_events(generate, TokenListener()) == []
    assert stream_events(stream, TokenListener()) == []
    assert stream_events(stream, EventTokenListener()) == []
    assert stream_events(stream_v2, TokenListener())[-1] == "message-finish"
    events = stream_events(invoke, EventTokenListener())
    assert (events[0], events[-1]) == ("message-start", "message-finish")
    assert events.count("message-finish") == 1
    assert stream_events(generate, EventTokenListener())[-1] == "message-finish"


@pytest.mark.parametrize("kind", [Chunked, GenerateOnly, Events, Native])
def test_T96_bound_options_reach_v2_and_those_of_the_call_win(call, kind):
    is_events = kind in (Events, Native)
    items = [start(), *text_events("a"), FINISH] if is_events else ["a"]
    model = kind(items=items, calls=[])

    answer(call, model.bind(temperature=1, top_k=2), temperature=3)

    ((_, options),) = model.calls
    assert (options["temperature"], options["top_k"]) == (3, 2)


@pytest.mark.parametrize("wrapper", ["retries", "with_retry", "fallbacks"])
def test_T97_what_fails_before_the_first_content_leaves_no_trace_in_the_stream(call, wrapper):
    slow = ModelRateLimitError("slow down", is_retryable=True)
    failing_script = [start("lost"), Fail(slow)]
    if wrapper == "retries":
        model: Any = scripted(failing_script, "fine", retry_on_error=AT_ONCE)
    elif wrapper == "with_retry":
        model = scripted(failing_script, "fine", retry_on_error=False).with_retry(
            wait_exponential_jitter=False
        )
    else:
        model = scripted(failing_script, retry_on_error=False).with_fallbacks([scripted("fine")])
    listener = Listener()

    reading = read(call, model, "events", "texts", "output", config={"callbacks": [listener]})

    assert reading.error is None
    assert_valid_event_stream(reading.values[0])
    assert reading.values[0][0]["id"] != "lost"
    assert (reading.values[1], reading.value.text) == (["fine"], "fine")


def test_T97_what_fails_after_content_is_not_begun_again(call):
    broken = ["Hel", Fail(ModelError("cut", is_retryable=True))]
    model = scripted(broken, "fine", retry_on_error=AT_ONCE).with_fallbacks([scripted("other")])

    reading = read(call, model, "texts")

    assert reading.error.message == "cut"
    assert reading.stream.partial.text == "Hel"


WRAPPERS = {
    "sequence": lambda model: ChatPromptTemplate.from_messages([("human", "{input}")]) | model,
    "bind": lambda model: model.bind(top_k=2),
    "config": lambda model: model.with_config(tags=["a"]),
    "retry": lambda model: model.with_retry(),
    "fallbacks": lambda model: scripted(ModelError("x")).with_fallbacks([model]),
    "fields": lambda model: model.configurable_fields(model=ConfigurableField(id="name")),
    "alternatives": lambda model: model.configurable_alternatives(
        ConfigurableField(id="which"), other=scripted("no")
    ),
    "all of them": lambda model: (
        ChatPromptTemplate.from_messages([("human", "{input}")])
        | model.bind(top_k=2).with_retry().with_fallbacks([scripted("no")]).with_config(tags=["a"])
    ),
}


@pytest.mark.parametrize("wrapper", list(WRAPPERS))
def test_T98_sequences_and_wrappers_pass_v2_through(call, wrapper):
    listener = Listener()

    reading = read(
        call,
        WRAPPERS[wrapper](scripted()),
        "events",
        "texts",
        "output",
        config={"callbacks": [listener]},
        input="x",
    )

    assert reading.error is None
    assert_valid_event_stream(reading.values[0], reading.value)
    assert reading.values[1] == ["Hello", " there"]
    assert listener.arguments_of("on_stream_event") == reading.values[0]
