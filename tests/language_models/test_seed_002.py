"""Document 002 draws two paths of a call: a plain answer, and tool calls whose results are sent back. Records only."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import Field

from foldline.language_models import (
    BaseChatModel,
    ChatModel,
    ChatModelInputMessage,
    ChatModelInputTool,
    ChatModelOutputToolCall,
)
from foldline.runnables import Runnable

WEATHER: ChatModelInputTool = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
TOOLS = {"get_weather": lambda city: f"72F and sunny in {city}"}


class Provider(ChatModel):
    """A connector to a model that asks for the weather once, then answers with the tool's result."""

    inputs: list[Any] = Field(default_factory=list)

    async def process(self, input, options):
        self.inputs.append(input)
        last = input.messages[-1]
        if last.type == "tool":
            return {"text": f"It is {last.text}.", "usage": {"inputTokens": 30, "outputTokens": 8}}
        if input.tools:
            tool_call: ChatModelOutputToolCall = {
                "id": "call_1",
                "type": "function",
                "function": {"name": "get_weather", "arguments": {"city": "Paris"}},
            }
            return {"toolCalls": [tool_call], "usage": {"inputTokens": 20, "outputTokens": 5}}
        return {"text": "Hello!", "usage": {"inputTokens": 4, "outputTokens": 1}}


def test_path_a_a_plain_answer_comes_back_as_text(call):
    output = call.run(Provider(model="m"), "run", {"messages": [{"role": "user", "content": "Hi"}]})

    assert output.model_dump(exclude_none=True, by_alias=True) == {
        "text": "Hello!",
        "toolCalls": [],
        "usage": {"inputTokens": 4, "outputTokens": 1, "cacheReadInputTokens": 0, "cacheCreationInputTokens": 0},
        "model": "m",
        "files": [],
    }  # fmt: skip


@pytest.mark.parametrize("by_alias", [True, False])
def test_path_b_tool_calls_are_run_and_their_results_make_the_final_answer(call, by_alias):
    model = Provider()
    history: list[ChatModelInputMessage] = [
        {"role": "system", "content": "Answer briefly."},
        {"role": "user", "content": "How is the weather in Paris?"},
    ]
    calls_key, result_key = (
        ("toolCalls", "toolCallId") if by_alias else ("tool_calls", "tool_call_id")
    )
    while True:
        record = {"messages": history, "tools": [WEATHER], "toolChoice": "auto"}
        output = call.run(model, "run", record).model_dump(by_alias=by_alias)
        if not output[calls_key]:
            break
        history.append({"role": "agent", calls_key: output[calls_key]})
        for tool_call in output[calls_key]:
            result = TOOLS[tool_call["function"]["name"]](**tool_call["function"]["arguments"])
            history.append({"role": "tool", result_key: tool_call["id"], "content": result})

    assert output["text"] == "It is 72F and sunny in Paris."
    assert [message.type for message in model.inputs[1].messages] == [
        "system",
        "human",
        "ai",
        "tool",
    ]
    assert model.inputs[1].messages[2].tool_calls[0]["args"] == {"city": "Paris"}
    assert model.inputs[1].messages[3].tool_call_id == "call_1"
    assert model.inputs[0].tools == [WEATHER]


def test_a_chat_model_is_an_abstract_class_among_the_runnables():
    assert issubclass(ChatModel, BaseChatModel)
    assert issubclass(ChatModel, Runnable)
    with pytest.raises(TypeError, match=r"abstract.*process"):
        ChatModel()


def test_process_gets_the_standard_record_and_the_options(call):
    model = Provider()

    call.run(model, "run", {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]})  # fmt: skip

    assert model.inputs[0].messages[0].text == "x"
    assert (model.inputs[0].tools, model.inputs[0].tool_choice) == (None, None)


@pytest.mark.parametrize(
    "choice",
    ["auto", "none", "required", {"type": "function", "function": {"name": "get_weather"}}],
)
def test_every_form_of_tool_choice_reaches_process(call, choice):
    model = Provider()

    call.run(model, "run", {"messages": "x", "tools": [WEATHER], "toolChoice": choice})

    assert model.inputs[0].tool_choice == choice
