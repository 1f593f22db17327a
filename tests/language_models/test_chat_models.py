"""The public face of chat models: input, callbacks, markers, rate limits, retries, composition."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foldline._run import Run
from foldline.caches import InMemoryCache
from foldline.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from foldline.exceptions import ModelError, ModelRateLimitError, UsageError
from foldline.language_models import RetryPolicy
from foldline.language_models._call.call import ChatCall
from foldline.language_models.chat_models import agenerate_from_stream, generate_from_stream
from foldline.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from foldline.outputs import ChatGenerationChunk
from foldline.prompt_values import ChatPromptValue, StringPromptValue
from foldline.prompts import ChatPromptTemplate
from foldline.rate_limiters import BaseRateLimiter
from foldline.runnables import ConfigurableField, RunnableLambda
from foldline.testing import Call, Fail, Finish, ScriptedChatModel
from foldline.tracers._streaming import StreamingHandler, V2StreamingHandler
from foldline.tracers.run_collector import RunCollectorCallbackHandler
from tests.language_models.reading import (
    FINISH,
    Chunked,
    Events,
    GenerateOnly,
    Listener,
    TokenListener,
    answer,
    read,
    read_again,
    start,
    text_events,
)
from tests.language_models.scripted import Speaking

USED = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
AT_ONCE = RetryPolicy(max_retries=2, initial=0.0, jitter=False)


def scripted(*script: Any, **fields: Any) -> ScriptedChatModel:
    return ScriptedChatModel(script=list(script) or ["Hello there"], is_cyclic=True, **fields)


# -- input


@pytest.mark.parametrize(
    "model_input",
    [
        "hi",
        StringPromptValue(text="hi"),
        ChatPromptValue(messages=[HumanMessage("hi")]),
        HumanMessage("hi"),
        [HumanMessage("hi")],
        [("human", "hi")],
        [{"role": "user", "content": "hi"}],
        ["hi"],
        (("user", "hi"),),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_form_of_input_is_understood(call, model_input):
    model = scripted()

    call.invoke(model, model_input)

    assert [(message.type, message.text) for message in model.requests[0].messages] == [
        ("human", "hi")
    ]


def test_what_is_no_input_is_refused_before_anything_starts(call):
    listener = Listener()

    with pytest.raises(UsageError, match="a model takes text"):
        call.invoke(scripted(), 7, {"callbacks": [listener]})
    assert isinstance(read(call, scripted(), "output", input=7).error, UsageError)
    assert listener.events == []


APIS = {
    "invoke": lambda call, model: call.invoke(model, "q"),
    "stream": lambda call, model: _sum(call.stream(model, "q")),
    "v2": lambda call, model: answer(call, model, input="q"),
}


def _sum(chunks: list[Any]) -> Any:
    total = chunks[0]
    for chunk in chunks[1:]:
        total = total + chunk
    return total


# -- callbacks


def test_the_start_says_who_is_asked_what_with_which_options(call):
    listener = Listener()
    model = scripted(tags=["mine"], metadata={"team": "a"})

    config = {"callbacks": [listener], "tags": ["call"], "metadata": {"z": 1}, "run_name": "ask"}
    call.invoke(model, [SystemMessage("s"), HumanMessage("h")], config, stop=["x"], temperature=0.5)

    start = listener.arguments_of("on_chat_model_start")[0]
    assert [message.text for message in start["messages"][0]] == ["s", "h"]
    assert start["invocation_params"]["temperature"] == 0.5
    assert start["invocation_params"]["_type"] == "scripted"
    assert start["options"]["stop"] == ["x"]
    assert (start["name"], start["batch_size"]) == ("ask", 1)
    assert set(start["tags"]) == {"call", "mine"}
    expected = {
        "z": 1,
        "team": "a",
        "ls_provider": "scripted",
        "ls_model_name": "scripted",
        "ls_model_type": "chat",
        "ls_stop": ["x"],
        "ls_temperature": 0.5,
    }
    assert expected.items() <= start["metadata"].items()


def test_tokens_are_told_under_v1_stream_and_events_under_v2(call):
    under_stream, under_v2, under_invoke = TokenListener(), TokenListener(), TokenListener()
    model = scripted()

    call.stream(model, "x", {"callbacks": [under_stream]})
    answer(call, model, config={"callbacks": [under_v2]})
    call.invoke(model, "x", {"callbacks": [under_invoke]})

    tokens = [token for token, _ in under_stream.arguments_of("on_llm_new_token")]
    assert "".join(tokens) == "Hello there"
    assert under_v2.arguments_of("on_llm_new_token") == []
    assert under_invoke.arguments_of("on_llm_new_token") == []
    assert under_stream.arguments_of("on_stream_event") == []
    assert under_v2.arguments_of("on_stream_event")


@pytest.mark.parametrize("api", list(APIS))
def test_the_error_is_told_with_the_partial_message(call, api):
    listener = Listener()
    broken = ["Hello", " th", Fail(ModelError("cut"))]

    with pytest.raises(ModelError, match="cut") as excinfo:
        APIS[api](call, scripted(broken, callbacks=[listener], retry_on_error=False))

    assert listener.ends == ["on_llm_error"]
    ((error, partial),) = listener.arguments_of("on_llm_error")
    assert error is excinfo.value
    assert partial.generations[0][0].text == error.partial.text == "Hello th"


@pytest.mark.parametrize(
    "model", [scripted, lambda **fields: Chunked(items=["Hello", " there"], **fields)]
)
@pytest.mark.parametrize("api", ["stream", "v2"])
def test_tracers_time_the_first_token_of_either_streaming_api(call, model, api):
    tracer = RunCollectorCallbackHandler()

    APIS[api](call, model(callbacks=[tracer]))

    (run,) = tracer.traced_runs
    assert run.time_to_first_token is not None
    assert 0 <= run.time_to_first_token <= run.latency


WRAPPERS = {
    "sequence": lambda model: ChatPromptTemplate.from_messages([("human", "{input}")]) | model,
    "binding": lambda model: model.bind(temperature=1),
    "config": lambda model: model.with_config(tags=["a"]),
    "retry": lambda model: model.with_retry(),
    "fallbacks": lambda model: scripted(ModelError("x")).with_fallbacks([model]),
    "fields": lambda model: model.configurable_fields(model=ConfigurableField(id="name")),
    "alternatives": lambda model: model.configurable_alternatives(
        ConfigurableField(id="which"), other=scripted("no")
    ),
}


@pytest.mark.parametrize("wrapper", list(WRAPPERS))
def test_T98_wrappers_pass_v2_through_with_the_options_of_the_call(call, wrapper):
    model, listener = scripted(), Listener()
    config = {"callbacks": [listener]}
    options = (
        {} if wrapper == "sequence" else {"top_k": 2}
    )  # those of a sequence are its first step's

    wrapped = WRAPPERS[wrapper](model)
    reading = read(call, wrapped, "events", "texts", "output", config=config, input="x", **options)

    assert reading.error is None
    assert reading.values[1] == ["Hello", " there"]
    assert (reading.value.text, reading.value.id) == ("Hello there", "msg_1")
    assert listener.arguments_of("on_stream_event") == reading.values[0]
    assert options.items() <= model.requests[0].options.items()


@pytest.mark.parametrize("model", [scripted, lambda: Chunked(items=["Hello", " there"])])
def test_a_v1_marker_makes_invoke_stream_tokens_without_changing_what_it_returns(call, model):
    class StreamingTokenListener(TokenListener, StreamingHandler):
        pass

    handler = StreamingTokenListener()

    plain, marked_answer = (
        call.invoke(model(), "x"),
        call.invoke(model(), "x", {"callbacks": [handler]}),
    )

    assert "".join(token for token, _ in handler.arguments_of("on_llm_new_token")) == "Hello there"
    assert type(marked_answer) is type(plain) is AIMessage
    assert marked_answer.content == plain.content == "Hello there"


@pytest.mark.parametrize(
    "model",
    [
        scripted,
        lambda: Chunked(items=["Hello", " there"]),
        lambda: GenerateOnly(items=["Hello there"]),
    ],
)
@pytest.mark.parametrize("version", ["v0", "v1"])
def test_T95_a_v2_marker_routes_invoke_through_events_without_changing_its_shape(
    call, model, version
):
    class StreamingTokenListener(Listener, V2StreamingHandler):
        pass

    handler = StreamingTokenListener()
    versioned_model = model().model_copy(update={"output_version": version})

    plain = call.invoke(versioned_model, "x")
    marked_answer = call.invoke(versioned_model, "x", {"callbacks": [handler]})

    assert handler.arguments_of("on_stream_event")[-1]["event"] == "message-finish"
    assert handler.ends == ["on_llm_end"]
    assert marked_answer.text == plain.text
    assert isinstance(marked_answer.content, str) is (version == "v0")


@pytest.mark.parametrize(
    "hook", ["on_chat_model_start", "on_stream_event", "on_llm_end", "on_llm_error"]
)
@pytest.mark.parametrize("raises", [False, True])
def test_T82_F_C08_a_handler_that_raises_does_not_cost_the_message(call, hook, raises):
    class Broken(BaseCallbackHandler):
        raise_error = raises

    def boom(self: Any, *args: Any, **kwargs: Any) -> None:
        raise ValueError("handler")

    setattr(Broken, hook, boom)
    quiet = Listener()
    reading = read(call, scripted(), "events", "output", config={"callbacks": [Broken(), quiet]})

    # A handler may ask for its errors to break the run (`raise_error`); after the end there is nothing to break.
    is_broken = raises and hook in ("on_chat_model_start", "on_stream_event")
    assert (reading.error is not None) is is_broken
    assert quiet.ends == ["on_llm_error" if is_broken else "on_llm_end"]
    if not is_broken:
        assert reading.value.text == "Hello there"


def test_T82_every_handler_hears_the_end_even_if_one_before_it_breaks(call):
    class Broken(BaseCallbackHandler):
        raise_error = True

        def on_llm_end(self, response: Any, **kwargs: Any) -> None:
            raise ValueError("handler")

    quiet = Listener()
    with pytest.raises(ValueError, match="handler"):
        call.invoke(scripted(), "x", {"callbacks": [Broken(), quiet]})

    assert quiet.ends == ["on_llm_end"]


def test_T81_the_end_is_told_before_the_message_is_given():
    events: list[str] = []

    class Slow(AsyncCallbackHandler):
        async def on_llm_end(self, response: Any, **kwargs: Any) -> None:
            await asyncio.sleep(0.01)
            events.append("end")

    async def body() -> None:
        await (await scripted().astream_v2("x", {"callbacks": [Slow()]}))
        assert events == ["end"]

    asyncio.run(body())


def test_the_end_is_told_even_if_the_caller_is_cancelled_meanwhile():
    events: list[str] = []

    class Slow(AsyncCallbackHandler):
        async def on_llm_end(self, response: Any, **kwargs: Any) -> None:
            events.append("begun")
            await asyncio.sleep(0.02)
            events.append("end")

    async def body() -> None:
        task = asyncio.ensure_future(scripted().ainvoke("x", {"callbacks": [Slow()]}))
        while not events:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.05)
        assert events == ["begun", "end"]

    asyncio.run(body())


def test_F_C08_a_handlers_base_exception_passes():
    class Rude(BaseCallbackHandler):
        def on_stream_event(self, event: Any, **kwargs: Any) -> None:
            raise KeyboardInterrupt

    stream = scripted().stream_v2("x", {"callbacks": [Rude()]})
    with pytest.raises(KeyboardInterrupt):
        stream.output  # noqa: B018
    assert stream.done


def test_verbose_adds_the_handler_that_prints():
    def handlers(**fields: Any) -> list[str]:
        call = ChatCall(scripted(**fields), "x", Run.blocking(), stream=False)
        return [type(handler).__name__ for handler in call.run.handlers]

    assert handlers(verbose=True) == ["StdOutCallbackHandler"]
    assert handlers() == []


# -- limits and retries


class RecordingLimiter(BaseRateLimiter):
    def __init__(self, events: list[Any]) -> None:
        self.events = events

    def acquire(self, *, blocking: bool = True) -> bool:
        self.events.append(("limit", None))
        return True

    async def aacquire(self, *, blocking: bool = True) -> bool:
        return self.acquire()


@pytest.mark.parametrize("api", list(APIS))
def test_T94_the_rate_limiter_waits_after_the_start_was_told(call, api):
    listener = Listener()
    model = scripted(rate_limiter=RecordingLimiter(listener.events), callbacks=[listener])

    APIS[api](call, model)

    assert [name for name, _ in listener.events][:2] == ["on_chat_model_start", "limit"]


@pytest.mark.parametrize("api", list(APIS))
def test_E4_what_fails_before_its_first_content_is_tried_again_without_a_trace(call, api):
    slow = ModelRateLimitError("slow down", is_retryable=True)
    first = [start("lost"), Fail(slow)]
    model = scripted(first, slow, "fine", retry_on_error=AT_ONCE)
    listener = Listener()
    model = model.model_copy(update={"callbacks": [listener]})

    assert APIS[api](call, model).text == "fine"
    assert len(listener.arguments_of("on_retry")) == 2
    assert listener.ends == ["on_llm_end"]
    starts = [
        event
        for event in listener.arguments_of("on_stream_event")
        if event["event"] == "message-start"
    ]
    assert len(starts) == (api == "v2")


@pytest.mark.parametrize("managed", [{}, {"max_input_tokens": 1000}])
def test_E4_a_listener_that_breaks_between_attempts_is_no_failed_attempt(call, managed):
    class Broken(BaseCallbackHandler):
        raise_error = True

        def on_retry(self, retry_state: Any, **kwargs: Any) -> None:
            raise ModelRateLimitError("the listener's own", is_retryable=True)

    slow = ModelRateLimitError("slow down", is_retryable=True)
    model = Speaking(answers=[slow, "fine"], callbacks=[Broken()], **managed)

    with pytest.raises(ModelRateLimitError, match="the listener's own"):
        call.stream(model, "x")
    assert len(model.requests) == 1


def test_E4_after_content_nothing_is_tried_again(call):
    model = scripted(
        ["a", Fail(ModelRateLimitError("slow", is_retryable=True))], retry_on_error=AT_ONCE
    )

    reading = read(call, model, "output")

    assert isinstance(reading.error, ModelRateLimitError)
    assert reading.error.attempts == 1
    assert len(model.requests) == 1


def test_E4_retries_are_counted_and_told(call):
    model = scripted(ModelRateLimitError("x", is_retryable=True), "ok", retry_on_error=AT_ONCE)

    assert answer(call, model).response_metadata["retries"] == 1


def test_an_error_event_at_the_start_is_tried_again(call):
    failure = {"event": "error", "message": "busy", "retryable": True}
    model = scripted([failure], "ok", retry_on_error=AT_ONCE)

    assert answer(call, model).text == "ok"


# -- composition


def test_v2_passes_through_sequences_bindings_retries_and_fallbacks(call):
    model = scripted()
    upper = RunnableLambda(lambda text: text.upper())
    chains = {
        "sequence": upper | model,
        "binding": model.bind(temperature=1),
        "config": model.with_config(tags=["t"]),
        "retry": model.with_retry(),
        "fallbacks": model.with_fallbacks([scripted("other")]),
        "nested": (upper | model.bind(stop=["x"]).with_retry()).with_fallbacks([scripted("b")]),
    }

    for name, chain in chains.items():
        assert answer(call, chain).text == "Hello there", name


def test_v2_of_a_sequence_does_nothing_before_it_is_read(call):
    inputs: list[str] = []

    def note(text: str) -> str:
        inputs.append(text)
        return text

    chain = RunnableLambda(note) | scripted()
    reading = read(call, chain)
    assert inputs == []
    assert read_again(call, reading.stream, "output").text == "Hello there"
    assert inputs == ["hi"]


def test_v2_of_a_sequence_tells_its_runs_in_order_and_once(call):
    events: list[str] = []

    class Order(BaseCallbackHandler):
        run_inline = True

    for event in (
        "on_chain_start",
        "on_chain_end",
        "on_chain_error",
        "on_chat_model_start",
        "on_llm_end",
    ):
        setattr(Order, event, lambda self, *args, _event=event, **kwargs: events.append(_event))

    answer(call, RunnableLambda(lambda x: x) | scripted(), config={"callbacks": [Order()]})

    assert events == [
        "on_chain_start",
        "on_chain_start",
        "on_chain_end",
        "on_chat_model_start",
        "on_llm_end",
        "on_chain_end",
    ]


def test_v3_event_streams_lead_to_the_same_objects(call):
    model = scripted()
    for runnable in (model, model.bind(stop=["x"]), RunnableLambda(lambda x: x) | model):
        if not call.is_async:
            message = runnable.stream_events("x", version="v3").output
        else:

            async def body(runnable: Any = runnable) -> Any:
                return await (await runnable.astream_events("x", version="v3"))

            message = call._finish(body)
        assert message.text == "Hello there"


def test_v1_chunks_add_up_to_what_invoke_gives(call):
    model = scripted(["Let me ", "see ", Call("f", {"a": 1}, id="c"), Finish("tool_use", USED)])

    total, answer = _sum(call.stream(model, "x")), call.invoke(model, "x")

    for field in ("content", "tool_calls", "usage_metadata", "finish_reason", "response_metadata"):
        assert getattr(total, field) == getattr(answer, field)
    assert total.chunk_position == "last"


# -- the rest of the face


def test_generate_prompt_and_its_run_infos(call):
    listener = Listener()

    result = call.run(
        scripted("a", "b"),
        "generate_prompt",
        [StringPromptValue(text="q")] * 2,
        callbacks=[listener],
    )

    assert sorted(generation[0].text for generation in result.generations) == ["a", "b"]
    assert len(result.run) == 2
    assert listener.ends == ["on_llm_end"] * 2


def test_counting_tokens_opens_nothing():
    model = scripted()

    assert model.get_num_tokens("12345678") == 2
    assert model.get_num_tokens_from_messages([HumanMessage("12345678")]) > 2
    counting_model = model.model_copy(
        update={"custom_get_token_ids": lambda text: [1] * len(text.split())}
    )
    assert counting_model.get_num_tokens("one two three") == 3
    assert counting_model.get_num_tokens_from_messages([HumanMessage("one two")]) == 5
    assert (
        counting_model.get_num_tokens_from_messages(
            [HumanMessage("one two")], tools=[{"name": "f"}]
        )
        > 5
    )


def test_what_identifies_a_model_as_a_dict():
    assert scripted().asdict() == scripted().dict() == {"model": "scripted", "_type": "scripted"}


def test_the_environment_says_the_output_version(monkeypatch, call):
    monkeypatch.setenv("LC_OUTPUT_VERSION", "v1")
    assert isinstance(call.invoke(scripted(), "x").content, list)
    monkeypatch.setenv("FOLDLINE_OUTPUT_VERSION", "v0")
    assert isinstance(call.invoke(scripted(), "x").content, str)


@pytest.mark.parametrize(
    "model", [scripted, lambda **fields: GenerateOnly(items=["Hello there"], **fields)]
)
@pytest.mark.parametrize("keeps", [False, True])
def test_the_output_version_holds_for_every_generation_of_every_kind_of_model(call, model, keeps):
    versioned_model = model(output_version="v1", cache=InMemoryCache() if keeps else False)
    blocks = [{"type": "text", "text": "Hello there"}]

    for _ in range(2):
        message = call.invoke(versioned_model, "x")
        (generation,) = call.generate(versioned_model, [[HumanMessage("x")]]).generations[0]

        assert message.content == generation.message.content == blocks
        assert message.response_metadata["output_version"] == "v1"


def test_chunks_can_be_added_up_by_hand():
    chunks = [ChatGenerationChunk(message=AIMessageChunk(content=word)) for word in ("a", "b")]

    async def supply() -> Any:
        for chunk in chunks:
            yield chunk

    assert generate_from_stream(iter(chunks)).generations[0].text == "ab"
    assert asyncio.run(agenerate_from_stream(supply())).generations[0].text == "ab"


def test_an_event_given_by_an_author_may_be_reused_by_him(call):
    events = [start(), *text_events("a"), FINISH]

    assert answer(call, Events(items=events)).text == answer(call, Events(items=events)).text == "a"
