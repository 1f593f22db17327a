"""AIGNE's records: both spellings, nothing vanishes, deltas add up, options with context, files by their bytes."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from pydantic import Field, ValidationError

from foldline.exceptions import ModelConnectionError, UsageError
from foldline.language_models import (
    ChatModel,
    ChatModelInput,
    ChatModelOutput,
    RetryPolicy,
    add_deltas,
    usage_scope,
)
from foldline.messages import AIMessage, HumanMessage
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.google import ChatGoogle
from foldline.providers.openai import ChatOpenAI
from foldline.testing import ScriptedChatModel
from tests.language_models.scripted import KINDS, Speaking, calls, usage

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 40).decode()
USER = [{"role": "user", "content": "x"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def openai(**fields: Any) -> ChatOpenAI:
    return ChatOpenAI(model="gpt-4o", api_key="k", **fields)


def claude(**fields: Any) -> ChatAnthropic:
    return ChatAnthropic(model="claude-sonnet-4-5", api_key="k", max_tokens=9, **fields)


class Look(ChatModel):
    """Keeps what `process` was given."""

    calls: list[Any] = Field(default_factory=list)
    answer: Any = "ok"

    def process(self, input, options):
        self.calls.append((input, options))
        return {"text": self.answer} if isinstance(self.answer, str) else self.answer


# -- both spellings

CAMEL_OPTIONS = {
    "topP": 0.9,
    "frequencyPenalty": 0.1,
    "presencePenalty": 0.2,
    "parallelToolCalls": False,
    "maxTokens": 5,
}
SNAKE_OPTIONS = {
    "top_p": 0.9,
    "frequency_penalty": 0.1,
    "presence_penalty": 0.2,
    "parallel_tool_calls": False,
    "max_tokens": 5,
}


@pytest.mark.parametrize("options", [CAMEL_OPTIONS, SNAKE_OPTIONS])
def test_options_of_the_model_reach_the_process_in_snake_case(call, options):
    model = Look()

    call.run(model, "run", {"messages": "x", "modelOptions": options})

    assert model.calls[0][0].model_options == SNAKE_OPTIONS


@pytest.mark.parametrize("options", [CAMEL_OPTIONS, SNAKE_OPTIONS])
def test_options_in_either_spelling_make_the_same_request(options):
    record = {"messages": USER, "modelOptions": options}
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}

    body = openai().explain({**record, "tools": [tool]}).body

    assert (body["top_p"], body["frequency_penalty"], body["presence_penalty"]) == (0.9, 0.1, 0.2)
    assert body["parallel_tool_calls"] is False
    assert not {"topP", "frequencyPenalty", "parallelToolCalls", "maxTokens"} & body.keys()


@pytest.mark.parametrize("name", ["reasoningEffort", "reasoning_effort"])
def test_reasoning_effort_is_mapped_in_either_spelling(name):
    model = ChatOpenAI(model="gpt-5-mini", api_key="k")

    body = model.explain({"messages": USER, "modelOptions": {name: "low"}}).body

    assert body["reasoning_effort"] == "low"


def test_options_in_camel_case_of_the_constructor_the_call_and_the_config_are_read(call):
    model = Look(modelOptions={"topP": 0.1, "topK": 3}, retryOnError=False, model="m9")

    call.invoke(
        model,
        "x",
        {"configurable": {"modelOptions": {"maxTokens": 7}}},
        modelOptions={"topP": 0.5},
    )

    assert model.calls[0][0].model_options == {"top_p": 0.5, "top_k": 3, "max_tokens": 7}
    assert (model.retry_on_error, model.model) == (False, "m9")


@pytest.mark.parametrize("make", [openai, claude])
def test_providers_read_the_options_of_the_constructor_in_camel_case(make):
    model = make(modelOptions={"topP": 0.5}, retryOnError={"retries": 1})

    assert model._retry_policy == RetryPolicy(max_retries=1)
    assert model.explain("x").body["top_p"] == 0.5


def test_one_option_in_both_spellings_is_an_error(call):
    with pytest.raises(UsageError, match="topP and top_p mean the same"):
        call.invoke(Look(model_options={"top_p": 1, "topP": 2}), "x")
    with pytest.raises(ValueError, match="mean the same"):
        Look(retryOnError=True, retry_on_error=False)


def test_an_option_that_no_provider_knows_is_sent_as_written_and_noted():
    explanation = openai().explain({"messages": USER, "modelOptions": {"fooBar": 1}})

    assert explanation.body["fooBar"] == 1
    assert any("'fooBar'" in note for note in explanation.notes)


def test_an_option_of_the_authors_own_is_passed_as_written(call):
    model = Look()

    message = call.invoke(model, "x", model_options={"fooBar": 1})

    assert model.calls[0][0].model_options == {"fooBar": 1}
    assert "lost" not in message.response_metadata


def test_an_option_that_the_constructor_does_not_have_is_an_error():
    with pytest.raises(ValueError, match="Look has no option 'temprature'"):
        Look(temprature=1)


def test_the_model_of_the_constructor_is_the_model_of_the_answer(call):
    assert call.run(Look(model="m9"), "run", {"messages": "x"}).model == "m9"
    model = Look(model="m9", answer={"text": "x", "model": "m9-0613"})
    assert call.run(model, "run", {"messages": "x"}).model == "m9-0613"
    record = {"messages": "x", "modelOptions": {"model": "m10"}}
    assert call.run(Look(model="m9"), "run", record).model == "m10"
    assert openai().explain({"messages": USER, "modelOptions": {"model": "x"}}).body["model"] == "x"


# -- records at every door


@pytest.mark.parametrize("kind", KINDS)
def test_every_door_takes_a_record(call, kind):
    record = {"messages": USER, "modelOptions": {"topP": 0.3}}
    for model_input in (record, ChatModelInput(**record)):
        model = kind(answers=["hi"])

        assert call.invoke(model, model_input).text.strip() == "hi"
        assert "".join(chunk.text for chunk in call.stream(model, model_input)).strip() == "hi"
        assert call.batch(model, [model_input])[0].text.strip() == "hi"
        events = call.stream_v2(model, model_input)
        assert events[-1]["event"] == "message-finish"
        assert [request.options["top_p"] for request in model.requests] == [0.3] * 4
        assert model.requests[0].messages == [HumanMessage("x")]


def test_a_record_at_invoke_is_checked_like_one_at_run(call):
    response_format = {"type": "json_schema", "jsonSchema": {"name": "A", "schema": SCHEMA}}
    model = Speaking(answers=["no", '{"a": 1}'])

    message = call.invoke(model, {"messages": USER, "responseFormat": response_format})

    assert message.text.strip() == '{"a": 1}'
    assert len(model.requests) == 2


BOGUS = [
    {"messages": [], "bogus": 1},
    {"messages": [{"role": "user", "content": "x", "bogus": 1}]},
    {"messages": [], "responseFormat": {"type": "text", "bogus": 1}},
    {
        "messages": [],
        "responseFormat": {"type": "json_schema", "jsonSchema": {"schema": SCHEMA, "bogus": 1}},
    },
]


@pytest.mark.parametrize("record", BOGUS)
def test_a_key_nobody_knows_is_an_error_on_every_door(call, record):
    model = Look()

    for method in ("run", "invoke"):
        with pytest.raises(UsageError, match="bogus"):
            call.run(model, method, record)
    with pytest.raises((ValidationError, UsageError), match="bogus"):
        ChatModelInput.model_validate(record)
    with pytest.raises((ValidationError, UsageError), match="bogus"):
        ChatModelInput(**record)


def test_a_dict_without_messages_is_no_record(call):
    with pytest.raises(UsageError, match="list of messages, not dict"):
        call.invoke(Look(), {"question": "x"})


# -- streaming

RICH = {
    "thoughts": "hm",
    "text": "hello",
    "toolCalls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}],
    "files": [{"type": "image", "base64": "aGk=", "mime_type": "image/png"}],
    "usage": {"inputTokens": 3, "outputTokens": 2, "aigneHubCredits": 0.5},
    "model": "tiny",
}  # fmt: skip


class Pieces(ChatModel):
    def process(self, input, options):
        yield {"thoughts": "h"}
        yield {"thoughts": "m"}
        yield {"text": "hel"}
        yield {"delta": {"text": {"text": "lo"}}}
        yield {"delta": {"json": {"toolCalls": RICH["toolCalls"], "usage": RICH["usage"]}}}
        yield {"files": RICH["files"], "model": "tiny"}


class Rich(ChatModel):
    def process(self, input, options):
        return RICH


class Corrected(Pieces):
    def postprocess(self, input, output, options):
        return {"text": "corrected", "json": {"b": 2}}


def deltas_of(call: Any, model: Any, record: Any, **options: Any) -> list[Any]:
    if call.is_async:

        async def read() -> list[Any]:
            stream = await model.arun(record, streaming=True, **options)
            return [delta async for delta in stream]

        return asyncio.run(read())
    return list(model.run(record, streaming=True, **options))


@pytest.mark.parametrize("kind", [Pieces, Rich, Corrected])
def test_the_deltas_add_up_to_the_whole(call, kind):
    output = call.run(kind(), "run", {"messages": "x"})

    assert (
        add_deltas(deltas_of(call, kind(), {"messages": "x"})).model_dump() == output.model_dump()
    )


def test_deltas_come_as_the_model_speaks(call):
    first, second, third, fourth, fifth, last = deltas_of(call, Pieces(), {"messages": "x"})

    assert [first["delta"], second["delta"]] == [
        {"text": {"thoughts": "h"}},
        {"text": {"thoughts": "m"}},
    ]
    assert [third["delta"], fourth["delta"]] == [
        {"text": {"text": "hel"}},
        {"text": {"text": "lo"}},
    ]
    assert fifth["delta"]["json"]["tool_calls"][0]["function"]["name"] == "f"
    assert last["delta"]["json"].keys() == {"usage", "model", "files"}


@pytest.mark.parametrize("kind", KINDS)
def test_any_model_streams_records(call, kind):
    answer = calls(("f", {"x": 2}), ("g", {}), text="on it", usage_metadata=usage(7, 3))
    output = call.run(kind(answers=[answer]), "run", {"messages": "x"})

    deltas = deltas_of(call, kind(answers=[answer]), {"messages": "x"})

    assert add_deltas(deltas).model_dump() == output.model_dump()
    assert deltas[0]["delta"].keys() == {"text"}


def test_deltas_of_checked_json_have_no_text(call):
    response_format = {"type": "json_schema", "jsonSchema": {"name": "A", "schema": SCHEMA}}
    model = Speaking(answers=["no", '{"a": 1}'])

    deltas = deltas_of(call, model, {"messages": "x", "responseFormat": response_format})

    assert [delta["delta"] for delta in deltas] == [{"json": {"json": {"a": 1}}}]


def test_an_attempt_that_begins_anew_takes_back_what_was_out(call):
    class Breaking(ChatModel):
        calls: int = 0

        def process(self, input, options):
            self.calls += 1
            yield {"text": "wrong" if self.calls == 1 else "right"}
            if self.calls == 1:
                raise ConnectionResetError("x")

    policy = RetryPolicy(initial=0.0, on_partial="reset")

    deltas = deltas_of(call, Breaking(retry_on_error=policy), {"messages": "x"})

    assert deltas[:2] == [{"delta": {"text": {"text": "wrong"}}}, {"delta": {"json": {"text": None}}}]  # fmt: skip
    assert add_deltas(deltas).text == "right"
    with pytest.raises(ModelConnectionError):
        deltas_of(call, Breaking(retry_on_error=0), {"messages": "x"})


def test_deltas_in_camel_case_are_added_too():
    output = add_deltas(
        [{"delta": {"text": {"text": "a"}}}, {"delta": {"json": {"toolCalls": RICH["toolCalls"]}}}]
    )

    assert (output.text, output.tool_calls) == ("a", RICH["toolCalls"])
    with pytest.raises(UsageError, match="a delta record is"):
        add_deltas([{"text": "a"}])


def test_streaming_is_no_option_of_the_model(call):
    model = Look()

    call.run(model, "run", {"messages": "x"}, streaming=False)

    assert "streaming" not in model.calls[0][0].model_options


# -- nothing vanishes


def test_strict_and_description_of_a_schema_reach_the_wire():
    json_schema = {"name": "A", "description": "what a is", "strict": True, "schema": SCHEMA}
    record = {
        "messages": USER,
        "responseFormat": {"type": "json_schema", "jsonSchema": json_schema},
    }

    sent_schema = openai().explain(record).body["response_format"]["json_schema"]

    assert (sent_schema["name"], sent_schema["strict"], sent_schema["description"]) == (
        "A",
        True,
        "what a is",
    )
    assert sent_schema["schema"]["additionalProperties"] is False


def test_credits_of_aigne_hub_are_kept_and_summed(call):
    output = call.run(Rich(), "run", {"messages": "x"})

    assert output.usage.aigne_hub_credits == 0.5
    assert output.message.usage_metadata["aigne_hub_credits"] == 0.5
    assert output.model_dump(by_alias=True)["usage"]["aigneHubCredits"] == 0.5
    with usage_scope() as scope:
        call.run(Rich(), "run", {"messages": "x"})
        call.run(Rich(), "run", {"messages": "x"})
    assert scope.usage["aigne_hub_credits"] == 1.0


@pytest.mark.parametrize("by_alias", [True, False])
def test_a_signature_of_gemini_survives_a_loop_of_records_alone(call, by_alias):
    block = {
        "type": "tool_call",
        "id": "c1",
        "name": "f",
        "args": {"x": 1},
        "extras": {"thought_signature": "c2ln"},
    }
    model = ScriptedChatModel(script=[AIMessage([block])])
    output = call.run(model, "run", {"messages": USER}).model_dump(by_alias=by_alias)

    tool_calls = output["toolCalls" if by_alias else "tool_calls"]
    result = {"role": "tool", "toolCallId": "c1", "content": "1"}
    history = [*USER, {"role": "agent", "toolCalls": tool_calls}, result]
    body = ChatGoogle(model="gemini-2.5-flash", api_key="k").explain({"messages": history}).body

    assert tool_calls[0]["metadata"] == {"thought_signature": "c2ln"}
    assert body["contents"][1]["parts"][0]["thoughtSignature"] == "c2ln"


def test_metadata_of_a_call_in_camel_case_is_read_and_given_by_process(call):
    tool_call = {**RICH["toolCalls"][0], "metadata": {"thoughtSignature": "c2ln"}}
    output = call.run(Look(answer={"toolCalls": [tool_call]}), "run", {"messages": "x"})

    assert output.tool_calls[0]["metadata"] == {"thought_signature": "c2ln"}
    assert output.message.tool_calls[0]["args"] == {"a": 1}


@pytest.mark.parametrize("key", ["cacheControl", "cache_control"])
def test_marks_for_the_prompt_cache_are_kept_on_messages_blocks_and_tools(key):
    mark = {"type": "ephemeral"}
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}, key: mark}  # fmt: skip
    record = {
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "long", key: mark}]},
            {"role": "user", "content": "x", key: mark},
        ],
        "tools": [tool],
    }

    body = claude().explain(record).body

    assert body["system"][0]["cache_control"] == mark
    assert body["messages"][0]["content"][0]["cache_control"] == mark
    assert body["tools"][0]["cache_control"] == mark


def test_text_and_json_are_separate(call):
    output = call.run(Look(answer={"text": "t", "json": {"a": 1}}), "run", {"messages": "x"})
    alone = call.run(Look(answer={"json": {"a": 1}}), "run", {"messages": "x"})

    assert (output.text, output.json) == ("t", {"a": 1})
    assert (alone.text, alone.json) == (None, {"a": 1})
    assert output.message.text == "t"
    assert alone.message.text == '{"a":1}'


def test_json_between_pieces_of_text_leaves_the_text_whole(call):
    class Mixed(ChatModel):
        def process(self, input, options):
            yield {"text": "Hello "}
            yield {"json": {"a": 1}}
            yield {"text": "world"}

    output = call.run(Mixed(), "run", {"messages": "x"})

    assert (output.text, output.json) == ("Hello world", {"a": 1})


@pytest.mark.parametrize("answer", [{"text": "t", "json": {"a": 1}}, {"json": {"a": 1}}])
def test_json_that_process_gives_is_checked_by_a_schema(call, answer):
    response_format = {"type": "json_schema", "jsonSchema": {"name": "A", "schema": SCHEMA}}

    output = call.run(
        Look(answer=answer), "run", {"messages": "x", "responseFormat": response_format}
    )
    read = call.invoke(
        Look(answer=answer).with_structured_output(SCHEMA, method="json_schema"), "x"
    )

    assert output.json == read == {"a": 1}
    assert output.text == answer.get("text")


def test_files_are_written_in_aignes_shape_in_the_camel_case_dump(call):
    output = call.run(Rich(), "run", {"messages": "x"})

    assert output.files == RICH["files"]
    assert output.model_dump(by_alias=True)["files"] == [
        {"type": "file", "data": "aGk=", "mimeType": "image/png"}
    ]
    second_output = call.run(
        Look(answer=output.model_dump(by_alias=True)), "run", {"messages": "x"}
    )
    assert second_output.model_dump() == output.model_dump()


def test_an_output_keeps_its_fields_in_both_spellings():
    output = ChatModelOutput.model_validate({"text": "a", "toolCalls": RICH["toolCalls"]})

    assert output.tool_calls == RICH["toolCalls"]
    with pytest.raises(ValidationError, match="bogus"):
        ChatModelOutput(text="a", bogus=1)
