"""ChatLlamaCpp: a real model in this process, sync and async."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from foldline.chat_models import init_chat_model
from foldline.exceptions import ContextOverflowError, ModelError, ModelNotFoundError
from foldline.messages import HumanMessage, SystemMessage, ToolMessage
from foldline.protocol.grammar import assert_valid_event_stream
from foldline.providers.local import model_path
from foldline.providers.local.chat import ChatLlamaCpp

pytestmark = [pytest.mark.timing, pytest.mark.slow]

FRANCE = "What is the capital of France?"


class Person(BaseModel):
    """A person."""

    name: str = Field(max_length=20)
    age: int = Field(ge=0, le=120)


def get_weather(city: str) -> str:
    """Get the weather of a city."""
    return f"sunny in {city}"


@pytest.fixture
def model() -> ChatLlamaCpp:
    return ChatLlamaCpp(temperature=0, max_tokens=24)


def test_it_answers_and_streams_the_same(call: Any, model: ChatLlamaCpp) -> None:
    whole = call.invoke(model, FRANCE)
    pieces = call.stream(model, FRANCE)

    assert "Paris" in str(whole.text)
    assert "".join(str(piece.text) for piece in pieces) == str(whole.text)
    assert len(pieces) > 5
    assert whole.usage_metadata["output_tokens"] <= 24
    assert whole.response_metadata["model_provider"] == "local"


def test_its_events_are_well_formed(call: Any, model: ChatLlamaCpp) -> None:
    assert_valid_event_stream(call.stream_v2(model, FRANCE))


def test_the_count_before_is_the_count_after(call: Any, model: ChatLlamaCpp) -> None:
    talk = [SystemMessage("Be brief."), HumanMessage(FRANCE)]
    assert (
        model.get_num_tokens_from_messages(talk)
        == call.invoke(model, talk).usage_metadata["input_tokens"]
    )
    assert model.get_num_tokens("hello world") == 2


def test_tokens_are_counted_exactly_tools_included(call: Any, model: ChatLlamaCpp) -> None:
    bound = model.bind_tools([get_weather])
    for question in ("What is the weather in Paris?", "Who are you?"):
        counted = model.count_tokens([HumanMessage(question)], bound.kwargs["tools"])

        assert counted.exact
        assert counted.n == call.invoke(bound, question).usage_metadata["input_tokens"]


def test_without_the_file_tokens_are_counted_about_and_nothing_is_fetched(
    model: ChatLlamaCpp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FOLDLINE_CACHE_DIR", str(tmp_path))

    counted = model.count_tokens([HumanMessage("Who are you?")])
    explained = model.bind_tools([get_weather]).explain("What is the weather in Paris?")

    assert not counted.exact
    assert counted.n > 0
    assert explained.notes == ["the tool is chosen when the model is called"]
    assert not list(tmp_path.iterdir())


def test_explain_gives_the_request_that_llama_cpp_gets(model: ChatLlamaCpp) -> None:
    explained = model.bind_tools([get_weather], tool_choice="get_weather").explain("Paris?")

    assert (explained.method, explained.url) == ("IN-PROCESS", "local:smollm2-135m")
    assert [one["role"] for one in explained.body["messages"]] == ["system", "user", "assistant"]
    assert explained.body["messages"][2]["content"].startswith("<tool_call>")
    assert explained.body["max_tokens"] == 24
    assert explained.tokens > 100


def test_its_profile_says_what_it_can(model: ChatLlamaCpp) -> None:
    assert model.profile is not None
    assert (model.profile["structured_output"], model.profile["image_inputs"]) == (True, False)
    assert "image_inputs" not in (ChatLlamaCpp(model="/models/a.gguf").profile or {})


def test_a_schema_is_kept_to(call: Any, model: ChatLlamaCpp) -> None:
    structured = model.with_structured_output(Person, method="json_schema")
    assert call.invoke(structured, "Ann is 31 years old. Give her name and age as JSON.") == Person(
        name="Ann", age=31
    )


def test_tools_are_called_and_results_go_back(call: Any, model: ChatLlamaCpp) -> None:
    bound = model.bind_tools([get_weather], tool_choice="any")
    said = call.invoke(bound, "What is the weather in Paris?")

    assert (said.tool_calls[0]["name"], said.finish_reason) == ("get_weather", "tool_use")
    assert said.tool_calls[0]["args"].keys() == {"city"}
    result = ToolMessage("sunny", tool_call_id=said.tool_calls[0]["id"])
    assert call.invoke(model, [HumanMessage("What is the weather in Paris?"), said, result]).text


def test_a_stream_that_is_left_stops_the_model(model: ChatLlamaCpp) -> None:
    long = ChatLlamaCpp(temperature=0, max_tokens=2000)
    began = time.monotonic()
    stream = long.stream("Count from 1 to 1000, one number per line.")
    for _, _ in zip(range(3), stream, strict=False):
        pass
    stream.close()
    model.invoke(FRANCE)  # the slot is free again
    assert time.monotonic() - began < 20


def test_a_cancelled_call_stops_the_model(model: ChatLlamaCpp) -> None:
    async def body() -> None:
        long = ChatLlamaCpp(temperature=0, max_tokens=2000)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(long.ainvoke("Count from 1 to 1000, one number per line."), 0.5)
        assert "Paris" in str((await model.ainvoke(FRANCE)).text)

    asyncio.run(body())


def test_several_requests_at_once(call: Any) -> None:
    short = ChatLlamaCpp(temperature=0, max_tokens=5)
    answers = call.batch(short, [FRANCE, "Say hello.", FRANCE])
    assert len(answers) == 3
    assert all(answer.usage_metadata["output_tokens"] <= 5 for answer in answers)


def test_by_name_and_by_path(call: Any) -> None:
    by_name = init_chat_model("local:smollm2", temperature=0, max_tokens=3)
    assert by_name.model == "smollm2-135m"
    by_path = init_chat_model(f"local:{model_path()}", temperature=0, max_tokens=3)
    assert call.invoke(by_path, FRANCE).usage_metadata["output_tokens"] == 3


def test_errors_are_typed(call: Any, model: ChatLlamaCpp) -> None:
    with pytest.raises(ContextOverflowError):
        call.invoke(model, "word " * 20000)
    with pytest.raises((ModelNotFoundError, ModelError)):
        call.invoke(ChatLlamaCpp(model="/no/such/file.gguf"), "x")


def test_foreign_names_of_fields() -> None:
    model = ChatLlamaCpp(model_path="/a.gguf", n_ctx=512, n_threads=2, n_gpu_layers=-1)
    assert (model.model, model.context, model.threads, model.gpu_layers) == ("/a.gguf", 512, 2, -1)
