"""Answers kept: every API reads and writes the cache, only complete answers stay (T93, F-K03, F-K06, F-K07)."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.caches import BaseCache, InMemoryCache
from foldline.exceptions import ModelError, UsageError
from foldline.globals import set_llm_cache
from foldline.language_models import ChatModel
from foldline.language_models._call.cache_key import text_model_key
from foldline.messages import AIMessage, SystemMessage
from foldline.outputs import ChatGeneration, ChatResult
from foldline.providers.openai import ChatOpenAI
from foldline.testing import Call, Fail, Finish, ScriptedChatModel
from tests.language_models.reading import GenerateOnly, Listener, answer, read

USED = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}


def scripted(*script: Any, **fields: Any) -> ScriptedChatModel:
    return ScriptedChatModel(script=list(script) or ["Hello there"], is_cyclic=True, **fields)


@pytest.fixture
def cached() -> Any:
    return scripted(["Hel", "lo", Finish("stop", USED)], "second", cache=InMemoryCache())


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


@pytest.mark.parametrize("second", list(APIS))
@pytest.mark.parametrize("first", list(APIS))
def test_T93_every_api_reads_and_writes_the_cache(call, cached, first, second):
    first_answer = APIS[first](call, cached)
    second_answer = APIS[second](call, cached)

    assert len(cached.requests) == 1
    assert (
        (second_answer.text, second_answer.id)
        == (first_answer.text, first_answer.id)
        == ("Hello", "msg_1")
    )
    assert second_answer.usage_metadata == {**USED, "total_cost": 0}
    assert isinstance(second_answer.content, list) is (second == "v2")


def test_T93_a_hit_replays_events_with_the_id_that_is_returned(call, cached):
    listener = Listener()
    call.invoke(cached, "q")

    reading = read(call, cached, "events", "output", input="q", config={"callbacks": [listener]})

    assert reading.values[0][0]["id"] == reading.value.id == "msg_1"
    assert listener.arguments_of("on_stream_event") == reading.values[0]
    assert listener.ends == ["on_llm_end"]


def test_changing_a_kept_answer_changes_nobody_elses(call, cached):
    call.invoke(cached, "q").content = "spoiled"
    call.invoke(cached, "q").content = "spoiled"

    assert call.invoke(cached, "q").text == "Hello"


@pytest.mark.parametrize(
    "turn",
    [
        ["cut", Finish("length")],
        ["bad", Finish("content_filter")],
        ["no", Finish("refusal")],
        AIMessage([{"type": "refusal", "refusal": "No."}], finish_reason="stop"),
        [Call("f", '{"a": ')],
    ],
    ids=["length", "filtered", "refused", "a refusal", "invalid call"],
)
@pytest.mark.parametrize("api", list(APIS))
def test_F_K06_incomplete_answers_are_not_kept(call, turn, api):
    model = scripted(turn, cache=InMemoryCache())

    APIS[api](call, model)
    APIS[api](call, model)

    assert len(model.requests) == 2


def test_F_K06_a_broken_stream_is_not_kept(call):
    model = scripted(["a", Fail(ModelError("cut"))], "whole", cache=InMemoryCache())

    read(call, model, "output")

    assert call.invoke(model, "hi").text == "whole"


def test_F_K07_what_differs_is_kept_apart(call):
    cache = InMemoryCache()
    models = [scripted(f"{number}", cache=cache, model=f"m{number}") for number in range(2)]

    answers = [call.invoke(model, "q").text for model in models]
    model = scripted("a", "b", "c", "d", "e", cache=cache)
    varied = [
        call.invoke(model, "q").text,
        call.invoke(model, "q", temperature=1).text,
        call.invoke(model, "q", tools=[{"name": "t"}]).text,
        call.invoke(model, "q", stop=["x"]).text,
        call.invoke(model, [SystemMessage("q")]).text,
    ]

    assert answers == ["0", "1"]
    assert varied == ["a", "b", "c", "d", "e"]


def test_fields_tell_models_apart_where_the_author_said_nothing(call):
    class FlavouredModel(GenerateOnly):
        flavour: str = "sweet"

    cache = InMemoryCache()
    sweet, sour = (
        FlavouredModel(items=["1"], cache=cache),
        FlavouredModel(items=["1"], cache=cache, flavour="sour"),
    )

    call.invoke(sweet, "q")
    call.invoke(sour, "q")

    assert len(cache._answers) == 2


class Failing(BaseCache):
    def lookup(self, prompt: str, llm_string: str) -> Any:
        raise OSError("no disk")

    def update(self, prompt: str, llm_string: str, return_val: Any) -> None:
        raise OSError("no disk")

    def clear(self, **kwargs: Any) -> None:
        raise OSError("no disk")


@pytest.mark.parametrize("api", list(APIS))
def test_F_K03_a_failing_cache_is_a_miss_and_never_fails_the_call(call, api, caplog):
    assert APIS[api](call, scripted(cache=Failing())).text == "Hello there"
    assert "could not be read" in caplog.text


def test_the_global_cache_serves_models_that_name_none(call):
    set_llm_cache(InMemoryCache())
    try:
        cached_model, none = scripted("a", "b"), scripted("a", "b", cache=False, model="other")
        assert [call.invoke(cached_model, "q").text for _ in range(2)] == ["a", "a"]
        assert [call.invoke(none, "q").text for _ in range(2)] == ["a", "b"]
    finally:
        set_llm_cache(None)
    with pytest.raises(UsageError, match="set_llm_cache"):
        call.invoke(scripted(cache=True), "q")


def test_a_kept_answer_is_not_processed_twice(call):
    class PostprocessingModel(ChatModel):
        def process(self, input: Any, options: Any) -> Any:
            return {"text": "hello"}

        def postprocess(self, input: Any, output: Any, options: Any) -> Any:
            return output.model_copy(update={"text": f"{output.text}!"})

    model = PostprocessingModel(cache=InMemoryCache())

    assert [call.invoke(model, "q").text for _ in range(3)] == ["hello!"] * 3


def test_headers_that_may_choose_the_model_are_part_of_the_key_and_stay_secret() -> None:
    plain, routed = (
        ChatOpenAI(model="m", api_key="sk-canary", default_headers=headers)
        for headers in ({}, {"x-route": "canary-route"})
    )
    keys = [text_model_key(model, None, {}) for model in (plain, routed)]

    assert keys[0] != keys[1]
    assert "canary" not in "".join(keys)
    assert routed._identifying_params == plain._identifying_params


@pytest.mark.parametrize(
    ("metadata", "calls"),
    [
        ({}, 1),
        ({"finish_reason": "stop"}, 1),
        ({"finish_reason": "odd_word"}, 1),
        ({"finish_reason": "length"}, 2),
        ({"stop_reason": "max_tokens"}, 2),
        ({"finish_reason": "content_filter"}, 2),
    ],
)
def test_F_K06_what_generate_returns_is_cached_unless_its_reason_says_it_was_cut(
    call, metadata, calls
):
    class Generates(GenerateOnly):
        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            self.metadata["calls"] = self.metadata.get("calls", 0) + 1
            message = AIMessage("x", response_metadata=metadata)
            return ChatResult(generations=[ChatGeneration(message=message)])

    model = Generates(cache=InMemoryCache(), metadata={})

    for _ in range(2):
        call.invoke(model, "q")

    assert model.metadata["calls"] == calls
