from __future__ import annotations

import asyncio
import json

import pytest

from foldline.exceptions import MalformedStreamError, StructuredOutputError, UsageError
from foldline.language_models import ChatModel, ChatModelInput, ChatModelOutput
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from tests.language_models.scripted import KINDS, Speaking, calls, usage

CAMEL = {
    "messages": [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "agent",
            "toolCalls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
            ],
        },
        {"role": "tool", "toolCallId": "c1", "content": "done"},
        {"role": "assistant", "content": "well"},
    ],
    "toolChoice": "auto",
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "modelOptions": {"temperature": 0.5},
    "outputFileType": "file",
}


class Record(ChatModel):
    def process(self, input, options):
        return ChatModelOutput(
            text="hello",
            tool_calls=[
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
            ],
            usage={"inputTokens": 3, "outputTokens": 2, "cacheReadInputTokens": 1},
            model="tiny",
            thoughts="hm",
        )


class AsyncRecord(ChatModel):
    async def process(self, input, options):
        await asyncio.sleep(0)
        return {"text": "hello", "model": "tiny"}


class Deltas(ChatModel):
    def process(self, input, options):
        yield {"text": "hel"}
        yield {"delta": {"text": {"text": "lo"}}}
        yield {"usage": {"inputTokens": 3, "outputTokens": 2}}


class AsyncDeltas(ChatModel):
    async def process(self, input, options):
        for piece in ("hel", "lo"):
            await asyncio.sleep(0)
            yield {"text": piece}


class Returned(ChatModel):
    def process(self, input, options):
        return iter([{"text": "hel"}, {"text": "lo"}])


@pytest.mark.parametrize("kind", [Record, AsyncRecord, Deltas, AsyncDeltas, Returned])
def test_one_method_gives_every_api(call, kind):
    model = kind()

    assert call.invoke(model, "x").text == "hello"
    assert "".join(chunk.text for chunk in call.stream(model, "x")) == "hello"
    events = [event["event"] for event in call.stream_v2(model, "x")]
    assert (events[0], events[-1]) == ("message-start", "message-finish")
    assert call.run(model, "run", {"messages": "x"}).text == "hello"
    assert [answer.text for answer in call.batch(model, ["x", "y"])] == ["hello", "hello"]


def test_a_record_keeps_its_blocks_in_order_and_its_usage(call):
    message = call.invoke(Record(), "x")

    assert [block["type"] for block in message.content_blocks] == ["reasoning", "text", "tool_call"]
    assert message.tool_calls[0]["args"] == {"a": 1}
    assert message.usage_metadata["input_token_details"] == {"cache_read": 1}
    assert message.response_metadata["model_name"] == "tiny"
    assert message.finish_reason == "tool_use"


def test_json_deltas_are_folded(call):
    class Json(ChatModel):
        def process(self, input, options):
            yield {"json": {"a": 1}}
            yield {"json": {"b": [2], "c": {"d": 3}}}
            yield {"json": {"c": {"e": 4}}}

    output = call.run(Json(), "run", {"messages": "x"})

    assert output.json == {"a": 1, "b": [2], "c": {"d": 3, "e": 4}}
    assert json.loads(output.message.text) == output.json


def test_process_gets_the_record_of_the_call(call):
    calls = []

    class Look(ChatModel):
        def process(self, input, options):
            calls.append((input, options))
            return {"text": "ok"}

    tool = CAMEL["tools"][0]
    call.invoke(Look().bind_tools([tool], tool_choice="f"), "x", temperature=0, stop=["!"])

    record, options = calls[0]
    assert isinstance(record, ChatModelInput)
    assert record.messages == [HumanMessage("x")]
    assert record.tools[0]["function"]["name"] == "f"
    assert record.tool_choice == {"type": "function", "function": {"name": "f"}}
    assert record.model_options == {"temperature": 0, "stop": ["!"]}
    assert options["stream"] is False


@pytest.mark.parametrize("kind", KINDS)
def test_any_model_answers_a_record_in_camel_case(call, kind):
    model = kind(answers=[calls(("f", {"x": 2}), text="on it", usage_metadata=usage(7, 3))])

    output = call.run(model, "run", CAMEL)

    assert output.text.strip() == "on it"
    assert output.tool_calls == [
        {"id": "call_0", "type": "function", "function": {"name": "f", "arguments": {"x": 2}}}
    ]
    assert (output.usage.input_tokens, output.usage.output_tokens) == (7, 3)
    request = model.requests[0]
    assert [message.type for message in request.messages] == ["system", "human", "ai", "tool", "ai"]
    assert request.messages[2].tool_calls[0]["args"] == {"x": 1}
    assert isinstance(request.messages[3], ToolMessage)
    assert request.messages[3].tool_call_id == "c1"
    assert request.options["temperature"] == 0.5
    assert "model_options" not in request.options
    assert "output_file_type" not in request.options


def test_records_are_written_in_camel_case_where_asked_for():
    output = ChatModelOutput(text="a", tool_calls=[], usage={"input_tokens": 1, "output_tokens": 2})

    assert output.model_dump(by_alias=True, exclude_none=True)["usage"]["inputTokens"] == 1


def test_a_response_format_gives_checked_json(call):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    response_format = {"type": "json_schema", "jsonSchema": {"name": "A", "schema": schema}}
    model = Speaking(answers=['{"a": "x"}', '{"a": 1}'])

    output = call.run(model, "run", {"messages": "x", "responseFormat": response_format})

    assert output.json == {"a": 1}
    assert len(model.requests) == 2
    with pytest.raises(StructuredOutputError):
        call.run(
            Speaking(answers=["no"]), "run", {"messages": "x", "responseFormat": response_format}
        )


def test_files_and_thoughts_of_an_answer_are_views_of_its_blocks(call):
    answer = AIMessage(
        [
            {"type": "reasoning", "reasoning": "hm"},
            {"type": "image", "base64": "aGk=", "mime_type": "image/png"},
        ]
    )

    output = call.run(Speaking(answers=[answer]), "run", {"messages": "x"})

    assert output.thoughts == "hm"
    assert output.files[0]["mime_type"] == "image/png"
    assert [block["type"] for block in output.message.content_blocks] == ["reasoning", "image"]


def test_blocks_of_aigne_become_media_blocks():
    record = ChatModelInput(
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "url", "url": "https://x.test/a.png", "mimeType": "image/png"},
                    {
                        "type": "file",
                        "data": "aGk=",
                        "mimeType": "application/pdf",
                        "filename": "a.pdf",
                    },
                    {"type": "local", "path": "a.mp3", "mimeType": "audio/mpeg"},
                ],
            }
        ]
    )

    assert record.messages[0].content == [
        {"type": "image", "url": "https://x.test/a.png", "mime_type": "image/png"},
        {"type": "file", "base64": "aGk=", "mime_type": "application/pdf", "filename": "a.pdf"},
        {"type": "audio", "path": "a.mp3", "mime_type": "audio/mpeg"},
    ]


def test_preprocess_and_postprocess_are_awaited(call):
    class HookedModel(ChatModel):
        async def preprocess(self, input, options):
            await asyncio.sleep(0)
            return {"messages": [HumanMessage(input.messages[0].text.upper())]}

        def process(self, input, options):
            return {"text": input.messages[0].text}

        async def postprocess(self, input, output, options):
            await asyncio.sleep(0)
            return {"text": output.text + "!"}

    assert call.invoke(HookedModel(), "x").text == "X!"


def test_blocking_preprocess_and_postprocess_work_sync_and_async(call):
    class HookedModel(ChatModel):
        def preprocess(self, input, options):
            input.model_options["seed"] = 1
            return input

        def process(self, input, options):
            return {"text": str(input.model_options["seed"])}

        def postprocess(self, input, output, options):
            return ChatModelOutput(text=output.text + "!")

    assert call.invoke(HookedModel(), "x").text == "1!"


IMAGE = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
RICH = {
    "thoughts": "hm",
    "text": "hello",
    "tool_calls": [{"id": "c", "name": "f", "args": {"a": 1}}],
    "files": [IMAGE],
    "usage": {"input_tokens": 3, "output_tokens": 2},
    "model": "tiny",
}


def rewritten(call, change):
    class Rewriting(ChatModel):
        def process(self, input, options):
            return dict(RICH)

        def postprocess(self, input, output, options):
            return change(output)

    return call.run(Rewriting(), "run", {"messages": "x"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", "bye"),
        ("thoughts", "well"),
        ("thoughts", None),
        ("files", []),
        ("files", [{"type": "audio", "base64": "aGk=", "mime_type": "audio/mpeg"}]),
        ("model", "other"),
        ("tool_calls", []),
    ],
)
def test_postprocess_changes_one_field_of_a_record_and_keeps_the_others(call, name, value):
    before = rewritten(call, lambda output: None)

    after = rewritten(call, lambda output: output.model_copy(update={name: value}))

    assert after.model_dump() == {**before.model_dump(), name: value}


def test_a_record_of_postprocess_stands_for_the_whole_answer_but_tokens_stay_spent(call):
    output = rewritten(call, lambda output: {"text": "no"})

    assert output.message.content == "no"
    assert output.message.tool_calls == []
    assert (output.usage.input_tokens, output.model) == (3, "tiny")


def test_postprocess_gives_usage_json_and_plain_calls(call):
    usage = {"inputTokens": 9, "outputTokens": 1, "cacheReadInputTokens": 4}
    call_ = {"name": "g", "args": {"b": 2}}

    output = rewritten(call, lambda _: {"json": {"a": 2}, "usage": usage, "tool_calls": [call_]})

    assert output.json == json.loads(output.message.text) == {"a": 2}
    assert output.text is None
    assert output.usage.cache_read_input_tokens == 4
    assert output.message.usage_metadata["total_tokens"] == 10
    assert output.tool_calls[0]["function"] == {"name": "g", "arguments": {"b": 2}}


@pytest.mark.parametrize(
    "change",
    [
        lambda output: AIMessage("mine"),
        lambda output: {"message": AIMessage("mine")},
        lambda output: output.model_copy(update={"message": AIMessage("mine")}),
    ],
)
def test_postprocess_may_give_a_message(call, change):
    assert rewritten(call, change).message.content == "mine"


def test_json_that_postprocess_leaves_out_is_gone(call):
    class Json(ChatModel):
        def process(self, input, options):
            return {"json": {"a": 1}}

        def postprocess(self, input, output, options):
            return self.change(output)

        def change(self, output):
            return {"text": "no", "json": None}

    class Same(Json):
        def change(self, output):
            return output

    assert call.run(Json(), "run", {"messages": "x"}).json is None
    assert call.run(Same(), "run", {"messages": "x"}).json == {"a": 1}


def test_a_message_that_process_gives_is_replayed_whole(call):
    message = AIMessage(
        "cut",
        id="mine",
        response_metadata={"finish_reason": "length", "x": 1},
        additional_kwargs={"k": 1},
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    )

    class Messages(ChatModel):
        def process(self, input, options):
            return message

    answer = call.invoke(Messages(), "x")

    assert answer.finish_reason == "length"
    assert answer == message.model_copy(update={"finish_reason": "length"})


def test_process_and_preprocess_see_how_files_are_wanted(call):
    file_types = []

    class Look(ChatModel):
        def preprocess(self, input, options):
            file_types.append(input.output_file_type)
            return {"messages": input.messages}

        def process(self, input, options):
            file_types.append(input.output_file_type)
            return {"files": [IMAGE]}

    output = call.run(Look(), "run", {"messages": "x", "outputFileType": "file"})

    assert file_types == ["file", "file"]
    assert output.files[0]["base64"] == "aGk="


def test_what_process_may_not_give_is_told(call):
    class ReturningModel(ChatModel):
        given: object = 7

        def process(self, input, options):
            return self.given

    with pytest.raises(UsageError, match="`process` gave int"):
        call.invoke(ReturningModel(), "x")
    with pytest.raises(MalformedStreamError, match="'txt'"):
        call.invoke(ReturningModel(given={"txt": "x"}), "x")
    with pytest.raises(UsageError, match="no 'temperature'"):
        call.run(ReturningModel(), "run", {"messages": "x", "temperature": 1})
    for model_input in ("x", [HumanMessage("x")]):
        with pytest.raises(UsageError, match="takes a ChatModelInput or a dict"):
            call.run(ReturningModel(), "run", model_input)


def test_a_model_without_process_cannot_be_made():
    with pytest.raises(TypeError, match="process"):
        ChatModel()
