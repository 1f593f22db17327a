"""Section 5 of the streaming spec: whatever hook its author wrote, every API works sync and async (T88-T92)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foldline.exceptions import ModelError, StreamInterruptedError, UsageError
from foldline.language_models import BaseChatModel, SimpleChatModel
from foldline.messages import AIMessage, HumanMessage
from foldline.outputs import ChatResult
from foldline.testing import Call, Finish, ScriptedChatModel
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
    Scripted,
    answer,
    read,
    start,
    text_events,
)

EVENTS = [start(), *text_events("Hel", "lo"), FINISH]
CHUNKS = ["Hel", "lo"]


class StreamAndGenerate(Chunked):
    """Its author wrote `_stream` and `_generate`, as most LangChain models do."""

    _generate = GenerateOnly._generate  # type: ignore[assignment]


class BothTwins(AChunked):
    """Its author wrote `_astream` and `_agenerate`."""

    _agenerate = AsyncGenerateOnly._agenerate  # type: ignore[assignment]


class AllFour(Chunked):
    """Its author wrote the sync and the async form of both."""

    _astream = AChunked._astream  # type: ignore[assignment]
    _generate = GenerateOnly._generate  # type: ignore[assignment]
    _agenerate = AsyncGenerateOnly._agenerate  # type: ignore[assignment]


class NativeTwins(Native):
    """Its author wrote the sync and the async form of the native hook."""

    _astream_chat_model_events = ANative._astream_chat_model_events


class Simple(SimpleChatModel):
    """Its author wrote `_call`."""

    calls: Any = None

    def _call(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> str:
        if self.calls is not None:
            self.calls.append((messages, {"stop": stop, **kwargs}))
        return "Hello"


def with_async(cls: type[Scripted]) -> Any:
    """A model whose `_stream` yields two pieces and whose `_generate` returns the whole answer."""

    def items(self: Any, messages: Any, kwargs: Any) -> Any:
        return Scripted.answer_to(self, messages, kwargs)

    class WithAnswerTo(cls):  # type: ignore[misc,valid-type]
        def answer_to(self, messages: Any, kwargs: Any) -> Any:
            import sys

            caller = sys._getframe(1).f_code.co_name
            self.items = ["Hello"] if "generate" in caller else CHUNKS
            return items(self, messages, kwargs)

    WithAnswerTo.__name__ = cls.__name__
    return WithAnswerTo


MODELS = {
    "_events": lambda: Events(items=EVENTS, calls=[]),
    "_stream_chat_model_events": lambda: Native(items=EVENTS, calls=[]),
    "_astream_chat_model_events": lambda: ANative(items=EVENTS, calls=[]),
    "both native": lambda: NativeTwins(items=EVENTS, calls=[]),
    "_stream": lambda: Chunked(items=CHUNKS, calls=[]),
    "_astream": lambda: AChunked(items=CHUNKS, calls=[]),
    "_generate": lambda: GenerateOnly(items=["Hello"], calls=[]),
    "_agenerate": lambda: AsyncGenerateOnly(items=["Hello"], calls=[]),
    "_stream, _generate": lambda: with_async(StreamAndGenerate)(calls=[]),
    "_astream, _agenerate": lambda: with_async(BothTwins)(calls=[]),
    "all four": lambda: with_async(AllFour)(calls=[]),
    "_call": lambda: Simple(calls=[]),
}


@pytest.fixture(params=list(MODELS))
def model(request: pytest.FixtureRequest) -> Any:
    return MODELS[request.param]()


APIS = {
    "invoke": lambda call, model: call.invoke(model, "hi").text,
    "stream": lambda call, model: "".join(chunk.text for chunk in call.stream(model, "hi")),
    "transform": lambda call, model: "".join(
        chunk.text for chunk in call.transform(model, ["h", "i"])
    ),
    "batch": lambda call, model: call.batch(model, ["a", "b"])[1].text,
    "batch_as_completed": lambda call, model: call.batch_as_completed(model, ["a"])[0][1].text,
    "generate": lambda call, model: (
        call.generate(model, [[HumanMessage("hi")]]).generations[0][0].text
    ),
    "stream_v2": lambda call, model: answer(call, model).text,
    "v2 text": lambda call, model: read(call, model, "text").value,
    "disabled stream": lambda call, model: disabled(call, model, "stream"),
    "disabled v2": lambda call, model: disabled(call, model, "v2"),
}


def disabled(call: Any, model: Any, api: str) -> str:
    still = model.model_copy(update={"disable_streaming": True})
    if api == "v2":
        return str(answer(call, still).text)
    return "".join(chunk.text for chunk in call.stream(still, "hi"))


@pytest.mark.parametrize("api", list(APIS))
def test_T88_T90_every_api_works_whatever_the_author_wrote(call, model, api):
    assert APIS[api](call, model) == "Hello"


def test_T88_every_model_gives_a_valid_event_stream_and_tells_its_listeners_the_same(call, model):
    listener = Listener()

    reading = read(call, model, "events", "output", config={"callbacks": [listener]})

    assert reading.error is None
    assert listener.arguments_of("on_stream_event") == reading.values[0]
    assert listener.events[0][0] == "on_chat_model_start"
    assert listener.ends == ["on_llm_end"]
    (generation,) = listener.arguments_of("on_llm_end")[0].generations[0]
    assert generation.message is reading.value


def test_T96_bound_and_call_time_options_reach_every_hook_and_the_call_wins(call, model):
    bound = model.bind(temperature=1, top_k=2, stop=["a"])

    call.invoke(bound, "hi", temperature=3)
    answer(call, bound, temperature=3)
    call.stream(bound, "hi", temperature=3)

    for messages, options in model.calls:
        assert [message.text for message in messages] == ["hi"]
        assert options["temperature"] == 3
        assert options["top_k"] == 2
        assert options["stop"] == ["a"]
    assert len(model.calls) == 3


def test_errors_pass_every_api(call, model):
    if isinstance(model, Simple):
        model = model.model_copy()
        object.__setattr__(model, "__class__", type("Broken", (Simple,), {"_call": _broken}))
    else:
        model.items = [ModelError("no")]
        type(model).answer_to = (
            Scripted.answer_to if "answer_to" in vars(type(model)) else type(model).answer_to
        )  # type: ignore[misc]

    for ask in (
        lambda: call.invoke(model, "x"),
        lambda: call.stream(model, "x"),
        lambda: answer(call, model),
        lambda: call.generate(model, [[HumanMessage("x")]]),
    ):
        with pytest.raises(ModelError, match="no") as excinfo:
            ask()
        assert excinfo.value.partial.status == "incomplete"


def _broken(*args: Any, **kwargs: Any) -> str:
    raise ModelError("no")


def test_a_model_without_any_hook_says_what_to_write(call):
    class Empty(BaseChatModel):
        pass

    with pytest.raises(
        UsageError, match="implement `_events`, `_stream`, `_generate` or `process`"
    ):
        call.invoke(Empty(), "x")


def test_n_generations_are_kept_and_each_has_an_id(call):
    model = GenerateOnly(items=["one", AIMessage("two", id="given")])

    result = call.generate(model, [[HumanMessage("a")], [HumanMessage("b")]])

    assert [[generation.text for generation in row] for row in result.generations] == [
        ["one", "two"]
    ] * 2
    first, second = (generation.message.id for generation in result.generations[0])
    assert first.endswith("-0")
    assert second == "given"
    assert call.invoke(model, "x").text == answer(call, model).text == "one"


def test_no_generation_at_all_is_a_typed_error(call):
    with pytest.raises(ModelError, match="returned no generation"):
        call.invoke(GenerateOnly(items=[]), "x")


def test_T92_disable_streaming_only_with_tools(call):
    model = with_async(StreamAndGenerate)(calls=[], disable_streaming="tool_calling")

    plain = read(call, model, "texts").value
    with_tools = read(call, model, "texts", tools=[{"type": "function"}]).value

    assert plain == ["Hel", "lo"]
    assert with_tools == ["Hello"]


def test_T92_a_model_that_only_streams_answers_at_once_where_streaming_is_disabled(call):
    model = ScriptedChatModel(
        script=[
            [
                "Hel",
                "lo",
                Call("f", {"a": 1}),
                Finish("tool_use", {"input_tokens": 1, "output_tokens": 2}),
            ]
        ],
        is_cyclic=True,
        disable_streaming=True,
    )

    reading = read(call, model, "texts", "output")

    assert reading.values[0] == ["Hello"]
    assert reading.value.tool_calls[0]["args"] == {"a": 1}
    assert reading.value.finish_reason == "tool_use"
    assert [chunk.text for chunk in call.stream(model, "hi") if chunk.text] == ["Hello"]
    assert call.invoke(model, "hi").usage_metadata == reading.value.usage_metadata


def test_T92_what_was_said_before_a_break_is_kept_where_streaming_is_disabled(call):
    model = ScriptedChatModel(
        script=["Hello there"], fail_at=3, disable_streaming=True, retry_on_error=False
    )

    with pytest.raises(StreamInterruptedError) as excinfo:
        call.stream(model, "hi")

    assert excinfo.value.partial.text == "Hello"


def test_generation_info_joins_the_metadata_and_the_messages_own_wins(call):
    class Informed(GenerateOnly):
        def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
            result = super()._generate(*args, **kwargs)
            result.generations[0].generation_info = {"a": 1, "b": 2}
            return result

    model = Informed(items=[AIMessage("x", response_metadata={"b": 3})])

    assert call.invoke(model, "x").response_metadata == {"a": 1, "b": 3}
    assert answer(call, model).response_metadata == {"a": 1, "b": 3, "output_version": "v1"}


# -- concurrency


def test_F_C04_one_model_serves_loop_after_loop():
    model = Chunked(items=CHUNKS, calls=[])

    answers = [asyncio.run(model.ainvoke(str(number))).text for number in range(20)]

    assert answers == ["Hello"] * 20
    assert len(model.calls) == 20


def test_F_C06_many_threads_share_one_model_without_mixing_answers():
    model = ScriptedChatModel(script=lambda request: [request.messages[-1].text, " ", "ok"])
    inputs = [f"question {number}" for number in range(256)]

    answers = model.batch(inputs, {"max_concurrency": 64})

    assert [answer.text for answer in answers] == [f"{text} ok" for text in inputs]


@pytest.mark.parametrize("hook", ["_stream", "_generate", "_events", "_agenerate"])
def test_F_C11_an_awaited_call_never_blocks_the_loop_and_leaves_nothing_behind(
    hook, no_blocking, no_leaks
):
    async def body() -> None:
        model = MODELS[hook]()
        assert (await model.ainvoke("x")).text == "Hello"
        async with await model.astream_v2("x") as stream:
            async for _ in stream.text:
                break
        assert stream.done

    asyncio.run(body())


def test_F_C10_blocking_calls_inside_a_running_loop_work():
    async def body() -> None:
        for hook in ("_stream", "_astream", "_generate", "_agenerate", "_events"):
            model = MODELS[hook]()
            assert model.invoke("x").text == model.stream_v2("x").output.text == "Hello"

    asyncio.run(body())


# -- subclasses of models


def test_what_a_subclass_writes_is_nearer_than_what_it_inherits(call):
    class UpperCaseEvents(Events):
        def _stream(
            self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
        ) -> Any:
            for chunk in super()._stream(messages, stop=stop, **kwargs):
                chunk.message.content = chunk.message.content.upper()
                yield chunk

        async def _agenerate(
            self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
        ) -> Any:
            result = await super()._agenerate(messages, stop=stop, **kwargs)
            result.generations[0].message.content += "!"
            return result

    model = UpperCaseEvents(items=EVENTS)

    assert answer(call, model).text == "HELLO"
    assert call.invoke(model, "x").text == "Hello!"


def test_newer_events_are_folded_by_invoke_although_an_older_generate_is_inherited(call):
    class Newer(GenerateOnly):
        async def _events(self, request: Any, run: Any) -> Any:
            for event in EVENTS:
                yield event

    assert call.invoke(Newer(items=["old"]), "x").text == "Hello"


def test_a_hook_that_cannot_be_derived_says_so():
    with pytest.raises(NotImplementedError, match="no `_stream`"):
        list(GenerateOnly(items=["a"])._stream([]))
