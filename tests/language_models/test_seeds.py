"""The samples of seeds 000 and 003 that call a model: as written, imports renamed, on models that need no network."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, Field

from foldline import init_chat_model
from foldline.callbacks import BaseCallbackHandler
from foldline.language_models import BaseChatModel
from foldline.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from foldline.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from foldline.prompt_values import ChatPromptValue, StringPromptValue
from foldline.providers.openai import ChatOpenAI
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool


@tool
def get_weather(city: str) -> str:
    """Get current weather for a city."""
    return f"72F and sunny in {city}"


class Completions:
    """Answers as the client of seed 000 does: chunks whose choices have a delta."""

    def create(self, *, model: str, messages: list[Any], stream: bool) -> Any:
        assert stream
        for text in (model, ": ", None, messages[-1].content):
            yield SimpleNamespace(choices=[SimpleNamespace(delta=SimpleNamespace(content=text))])


class SeedChatOpenAI(BaseChatModel):
    client: Any = SimpleNamespace(chat=SimpleNamespace(completions=Completions()))
    model_name: str = "gpt-4o"

    @property
    def _llm_type(self) -> str:
        return "seed"

    def _convert_messages(self, messages: list[Any]) -> list[Any]:
        return messages

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        message = AIMessage("whole")
        return ChatResult(generations=[ChatGeneration(message=message)], llm_output={"a": 1})

    # fmt: off
    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        # Call OpenAI with stream=True
        response = self.client.chat.completions.create(
            model=self.model_name,
            messages=self._convert_messages(messages),
            stream=True,
        )

        for chunk in response:
            delta = chunk.choices[0].delta

            # Convert to LangChain chunk format
            message_chunk = AIMessageChunk(
                content=delta.content or "",
                additional_kwargs={},
            )

            generation_chunk = ChatGenerationChunk(message=message_chunk)

            # Fire callback for this chunk
            if run_manager:
                run_manager.on_llm_new_token(
                    delta.content or "",
                    chunk=generation_chunk
                )

            yield generation_chunk
    # fmt: on


class Tokens(BaseCallbackHandler):
    run_inline = True

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.ends = 0

    def on_llm_new_token(self, token: Any, **kwargs: Any) -> None:
        self.tokens.append(token)

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        self.ends += 1


def test_seed_000_a_subclass_with_stream_speaks_piece_by_piece_and_tells_each_token_once(call: Any):
    handler = Tokens()
    full_response = None
    for chunk in call.stream(SeedChatOpenAI(), "Tell me a joke", {"callbacks": [handler]}):
        full_response = chunk if full_response is None else full_response + chunk

    assert full_response is not None
    assert full_response.content == "gpt-4o: Tell me a joke"
    assert "".join(handler.tokens) == "gpt-4o: Tell me a joke"
    assert [token for token in handler.tokens if token] == ["gpt-4o", ": ", "Tell me a joke"]
    assert handler.ends == 1


def test_seed_000_invoke_gives_the_first_generation_of_what_generate_returns(call: Any):
    assert call.invoke(SeedChatOpenAI(), "hi").content == "whole"


@pytest.mark.parametrize(
    "model_input",
    [
        "Hello",
        [HumanMessage(content="Hello")],
        ChatPromptValue(messages=[HumanMessage("Hello")]),
        StringPromptValue(text="Hello"),
        [{"role": "user", "content": "Hello"}],
    ],
)
def test_seed_000_all_of_these_inputs_work(call: Any, model_input: Any):
    model = ScriptedChatModel(script=["Hi!"])

    assert call.invoke(model, model_input).text == "Hi!"
    assert SeedChatOpenAI()._convert_input(model_input).to_messages() == [HumanMessage("Hello")]


def test_seed_000_any_other_input_is_a_value_error(call: Any):
    with pytest.raises(ValueError, match="text, a prompt value or a list of messages, not int"):
        call.invoke(SeedChatOpenAI(), 3)


def test_seed_000_a_generation_has_its_message_its_text_and_its_info():
    result = ChatResult(
        generations=[ChatGeneration(message=AIMessage("Hi"), generation_info={"n": 1})],
        llm_output={"model_name": "m"},
    )

    assert result.generations[0].text == result.generations[0].message.content == "Hi"
    assert (result.generations[0].generation_info, result.llm_output) == (
        {"n": 1},
        {"model_name": "m"},
    )


def test_seed_000_binding_a_tool_binds_its_schema():
    model = ChatOpenAI(model="gpt-4o", api_key="none")
    model_with_tools = model.bind_tools([get_weather])

    assert model_with_tools.kwargs == {
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "get_weather",
                    "description": "Get current weather for a city.",
                    "parameters": {
                        "type": "object",
                        "properties": {"city": {"type": "string"}},
                        "required": ["city"],
                    },
                },
            }
        ]
    }


class WeatherInfo(BaseModel):
    city: str = Field(description="City name")
    temperature: float = Field(description="Temperature in Fahrenheit")
    conditions: str = Field(description="Weather conditions")


def test_seed_000_structured_output_is_an_instance_of_the_schema(call: Any):
    text = '{"city": "San Francisco", "temperature": 72.0, "conditions": "sunny"}'
    structured_model = ScriptedChatModel(script=[text]).with_structured_output(WeatherInfo)

    result = call.invoke(structured_model, "What's the weather in SF?")

    assert isinstance(result, WeatherInfo)
    assert (result.city, result.temperature) == ("San Francisco", 72.0)


def test_seed_003_a_model_is_made_from_its_name_and_may_store_standard_blocks():
    model = init_chat_model("gpt-5-nano", api_key="none")
    standard = init_chat_model("gpt-5-nano", output_version="v1", api_key="none")

    assert isinstance(model, ChatOpenAI)
    assert standard.output_version == "v1"


@pytest.mark.parametrize(
    "messages",
    [
        [SystemMessage("You are a helpful assistant."), HumanMessage("Hello, how are you?")],
        "Write a haiku about spring",
        [
            {"role": "system", "content": "You are a poetry expert"},
            {"role": "user", "content": "Write a haiku about spring"},
            {"role": "assistant", "content": "Cherry blossoms bloom..."},
        ],
        [
            SystemMessage("You are a helpful assistant"),
            HumanMessage("Can you help me?"),
            AIMessage("I'd be happy to help you with that question!"),
            HumanMessage("Great! What's 2+2?"),
        ],
        [
            HumanMessage("What's the weather in San Francisco?"),
            AIMessage(
                content=[],
                tool_calls=[
                    {"name": "get_weather", "args": {"city": "San Francisco"}, "id": "call_123"}
                ],
            ),
            ToolMessage(content="Sunny, 72°F", tool_call_id="call_123"),
        ],
    ],
)
def test_seed_003_a_conversation_in_any_form_gets_an_ai_message(call: Any, messages: Any):
    response = call.invoke(ScriptedChatModel(script=["4"]), messages)

    assert type(response) is AIMessage
    assert response.text == "4"


def test_seed_003_the_calls_of_a_response_have_name_args_and_id(call: Any):
    model = ScriptedChatModel(script=[[Call("get_weather", {"city": "Paris"}, id="call_1")]])
    response = call.invoke(model.bind_tools([get_weather]), "What's the weather in Paris?")

    descriptions = [f"{call['name']} {call['args']} {call['id']}" for call in response.tool_calls]

    assert descriptions == ["get_weather {'city': 'Paris'} call_1"]
