"""ChatOpenAI against a real server (llama.cpp): both APIs, streamed and not, tools and schemas."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from foldline.exceptions import ContextOverflowError, ModelAuthenticationError
from foldline.messages import HumanMessage, ToolMessage
from foldline.providers.openai import ChatOpenAI
from foldline.providers.openai_compatible import ChatLlamaServer
from tests.servers.llama import LlamaServer

pytestmark = pytest.mark.slow

QUESTION = [("system", "You are a helpful assistant."), ("human", "What is the capital of France?")]


class Person(BaseModel):
    """A person."""

    name: str = Field(max_length=20)
    age: int = Field(ge=0, le=120)


def get_weather(city: str) -> str:
    """Get the weather of a city."""
    return f"sunny in {city}"


def chat(llama: LlamaServer, responses: bool, **fields: Any) -> ChatOpenAI:
    given = {
        "base_url": llama.openai_url,
        "api_key": llama.api_key,
        "model": llama.model,
        "temperature": 0,
    }
    return ChatOpenAI(**{**given, "max_tokens": 40, "use_responses_api": responses, **fields})


@pytest.mark.parametrize("responses", [False, True], ids=["chat", "responses"])
def test_text_streamed_and_whole(call: Any, llama: LlamaServer, responses: bool) -> None:
    model = chat(llama, responses, seed=None)
    whole = call.invoke(model, QUESTION)
    pieces = call.stream(model, QUESTION)

    assert "Paris" in str(whole.text)
    assert "".join(str(piece.text) for piece in pieces) == str(whole.text)
    assert len(pieces) > 5
    assert whole.finish_reason in ("stop", "length")
    total = pieces[0]
    for piece in pieces[1:]:
        total = total + piece
    assert total.usage_metadata["total_tokens"] == whole.usage_metadata["total_tokens"] > 10


@pytest.mark.parametrize("responses", [False, True], ids=["chat", "responses"])
def test_a_tool_is_called_and_its_result_goes_back(
    call: Any, llama: LlamaServer, responses: bool
) -> None:
    model = chat(llama, responses).bind_tools(
        [get_weather], tool_choice="required", parallel_tool_calls=False
    )
    asked = [("system", "You are a helpful assistant."), ("human", "What is the weather in Paris?")]

    said = call.invoke(model, asked)
    streamed = call.stream(model, asked)
    total = streamed[0]
    for piece in streamed[1:]:
        total = total + piece

    assert (
        [c["name"] for c in said.tool_calls]
        == [c["name"] for c in total.tool_calls]
        == ["get_weather"]
    )
    assert said.tool_calls[0]["args"].keys() == {"city"}
    assert said.finish_reason == total.finish_reason == "tool_use"
    result = ToolMessage("sunny", tool_call_id=said.tool_calls[0]["id"])
    answer = call.invoke(chat(llama, responses, max_tokens=10), [*asked, said, result])
    assert answer.status == "complete"


def test_a_schema_is_kept_to(call: Any, llama: LlamaServer) -> None:
    model = chat(llama, False).with_structured_output(Person, method="json_schema")
    assert call.invoke(model, "Ann is 31 years old. Give her name and age as JSON.") == Person(
        name="Ann", age=31
    )


def test_the_compatible_class_speaks_to_it_too(call: Any, llama: LlamaServer) -> None:
    model = ChatLlamaServer(
        base_url=llama.openai_url,
        api_key=llama.api_key,
        model=llama.model,
        max_tokens=8,
        temperature=0,
    )
    said = call.invoke(model, QUESTION)
    assert (said.response_metadata["model_provider"], said.finish_reason) == ("llamacpp", "stop")


def test_real_errors_are_typed(call: Any, llama: LlamaServer) -> None:
    with pytest.raises(ModelAuthenticationError):
        call.invoke(chat(llama, False, api_key="wrong"), "x")
    with pytest.raises(ContextOverflowError):
        call.invoke(chat(llama, False), [HumanMessage("word " * 20000)])
