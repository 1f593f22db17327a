"""Document 002, the guide to AIGNE's ChatModel: its steps in their order, under every way to call a model."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import Field

from foldline.exceptions import ContextOverflowError, ModelError
from foldline.language_models import ChatModel, usage_scope
from tests.language_models.test_records import deltas_of

WAYS = ["invoke", "stream", "stream_v2", "run", "deltas"]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
JSON_FORMAT = {"type": "json_schema", "jsonSchema": {"name": "answer", "schema": SCHEMA}}
ODD_TOOL = {
    "type": "function",
    "function": {"name": "get weather!", "parameters": {"type": "object", "properties": {}}},
}


def use(call: Any, way: str, model: Any, record: dict[str, Any]) -> Any:
    """Call a model in one way."""
    if way == "run":
        return call.run(model, "run", record)
    if way == "deltas":
        return deltas_of(call, model, record)
    return getattr(call, way)(model, record)


class Steps(ChatModel):
    """Notes its steps, and what it saw in each of them."""

    steps: list[Any] = Field(default_factory=list)

    async def preprocess(self, input, options):
        self.steps.append("preprocess")
        return input

    async def process(self, input, options):
        self.steps.append("process")
        return {"text": "hello", "usage": {"inputTokens": 3, "outputTokens": 2}}

    async def postprocess(self, input, output, options):
        self.steps.append(("postprocess", output.text, options.context.usage.input_tokens))


@pytest.mark.parametrize("way", WAYS)
def test_the_steps_run_once_and_in_their_order_however_a_model_is_called(call: Any, way: str):
    model = Steps()

    with usage_scope():
        use(call, way, model, {"messages": "x"})

    assert model.steps == ["preprocess", "process", ("postprocess", "hello", 3)]


@pytest.mark.parametrize("way", WAYS)
def test_a_request_over_the_limit_stops_before_process_however_a_model_is_called(
    call: Any, way: str
):
    model = Steps(profile={"max_input_tokens": 5})

    with pytest.raises(ContextOverflowError):
        use(call, way, model, {"messages": "word " * 500})

    assert "process" not in model.steps


class Calling(ChatModel):
    """Calls the tool it is given."""

    names: list[str] = Field(default_factory=list)

    async def process(self, input, options):
        name = input.tools[0]["function"]["name"]
        self.names.append(name)
        function = {"name": name, "arguments": {}}
        return {"toolCalls": [{"id": "c", "type": "function", "function": function}]}


@pytest.mark.parametrize("way", ["invoke", "run"])
def test_process_gets_names_that_a_model_takes_and_the_caller_its_own(call: Any, way: str):
    model = Calling()

    output = use(call, way, model, {"messages": "x", "tools": [ODD_TOOL]})

    [name] = model.names
    assert name.replace("_", "").replace("-", "").isalnum()
    if way == "invoke":
        assert output.tool_calls[0]["name"] == "get weather!"
    else:
        [tool_call] = output.model_dump(by_alias=True)["toolCalls"]
        assert tool_call["function"]["name"] == "get weather!"


class Failing(ChatModel):
    """Fails as often as it is told, then answers."""

    failures: list[Any] = Field(default_factory=list)
    calls: list[int] = Field(default_factory=list)

    async def process(self, input, options):
        self.calls.append(1)
        if self.failures:
            failure = self.failures.pop(0)
            if isinstance(failure, Exception):
                raise failure
            return {"text": failure}
        return {"text": '{"a": 1}'}


@pytest.mark.parametrize("way", ["invoke", "run", "deltas"])
@pytest.mark.parametrize("failure", [ConnectionResetError("gone"), "no json"])
def test_three_retries_follow_a_network_error_and_a_wrong_structure(
    call: Any, way: str, failure: Any
):
    record = {"messages": "x", "responseFormat": JSON_FORMAT}
    model = Failing(failures=[failure] * 3, retry_on_error={"minTimeout": 1, "maxTimeout": 1})
    hopeless = Failing(failures=[failure] * 9, retry_on_error={"minTimeout": 1, "maxTimeout": 1})

    use(call, way, model, record)
    with pytest.raises((ModelError, ValueError)):
        use(call, way, hopeless, record)

    assert (len(model.calls), len(hopeless.calls)) == (4, 4)


@pytest.mark.parametrize("failure", [ConnectionResetError("gone"), "no json"])
def test_without_retries_the_first_failure_is_the_last(call: Any, failure: Any):
    model = Failing(failures=[failure] * 9, retryOnError=False)

    with pytest.raises((ModelError, ValueError)):
        call.run(model, "run", {"messages": "x", "responseFormat": JSON_FORMAT})

    assert len(model.calls) == 1
