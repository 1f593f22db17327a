"""The older runnables for answers in a form, over the wires of OpenAI."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from foldline.chains import create_openai_fn_runnable, create_structured_output_runnable
from foldline.exceptions import UsageError
from foldline.language_models import GenericFakeChatModel
from foldline.messages import AIMessage
from foldline.prompts import ChatPromptTemplate
from foldline.providers.openai import ChatOpenAI
from tests.servers.wires import serve_wires

SCHEMA = {
    "name": "record_dog",
    "description": "Record a dog.",
    "parameters": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "color": {"type": "string"}},
        "required": ["name", "color"],
    },
}
PROMPT = ChatPromptTemplate([("human", "{input}")])


class Dog(BaseModel):
    """A dog."""

    name: str


@pytest.fixture(scope="module")
def model():
    with serve_wires() as url:
        yield ChatOpenAI(model="gpt-3.5-turbo-0125", base_url=f"{url}/v1", api_key="k")


class CallRecordingModel(GenericFakeChatModel):
    """Keeps the options that it was asked with."""

    calls: list[dict[str, Any]] = Field(default_factory=list)

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.calls.append(kwargs)
        return super()._generate(messages, stop, run_manager)


def calling(name, arguments):
    call = {"name": name, "arguments": arguments}
    message = AIMessage("", additional_kwargs={"function_call": call})
    return CallRecordingModel(messages=iter([message]), calls=[])


def test_a_tool_gives_its_arguments(call, model):
    tool = {"type": "function", "function": SCHEMA}
    chain = create_structured_output_runnable(tool, model, mode="openai-tools")

    assert call.invoke(chain, "Harry is brown") == {"name": "word", "color": "word"}


def test_a_tool_gives_a_model_and_takes_a_prompt(call, model):
    chain = create_structured_output_runnable(
        Dog, model, PROMPT, mode="openai-tools", return_single=False
    )

    assert call.invoke(chain, {"input": "Harry"}) == [Dog(name="word")]


def test_a_function_gives_a_model_or_a_dict(call):
    fake = calling("OutputFormatter", '{"output": {"name": "Harry"}}')
    assert call.invoke(create_structured_output_runnable(Dog, fake), "?") == Dog(name="Harry")
    assert fake.calls[0]["function_call"] == {"name": "OutputFormatter"}

    fake = calling("output_formatter", '{"name": "Harry"}')
    chain = create_structured_output_runnable(SCHEMA["parameters"], fake)
    assert call.invoke(chain, "?") == {"name": "Harry"}


def test_functions_are_told_apart_by_name(call):
    class Cat(BaseModel):
        """A cat."""

        name: str

    fake = calling("Cat", '{"name": "Tom"}')
    chain = create_openai_fn_runnable([Dog, Cat], fake, PROMPT)

    assert call.invoke(chain, {"input": "Tom"}) == Cat(name="Tom")
    assert "function_call" not in fake.calls[0]


def test_json_mode_fills_the_schema_in(call):
    fake = CallRecordingModel(messages=iter([AIMessage('{"name": "Harry"}')]), calls=[])
    prompt = ChatPromptTemplate([("system", "{output_schema}"), ("human", "{input}")])
    chain = create_structured_output_runnable(
        Dog, fake, prompt, mode="openai-json", enforce_function_usage=False
    )

    assert call.invoke(chain, {"input": "?"}) == Dog(name="Harry")
    assert fake.calls[0]["response_format"] == {"type": "json_object"}


def test_what_cannot_be_is_named(model):
    with pytest.raises(UsageError, match="calls no function"):
        create_structured_output_runnable(Dog, model, mode="openai-json")
    with pytest.raises(UsageError, match="mode='x'"):
        create_structured_output_runnable(Dog, model, mode="x")
    with pytest.raises(TypeError, match="no temprature"):
        create_structured_output_runnable(Dog, model, mode="openai-tools", temprature=1)
    with pytest.raises(UsageError, match="needs a function"):
        create_openai_fn_runnable([], model)
