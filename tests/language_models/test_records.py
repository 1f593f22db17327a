"""AIGNE's records: both spellings, nothing vanishes, deltas add up, options with context, files by their bytes."""

from __future__ import annotations

import asyncio
import base64
from typing import Any, ClassVar

import pytest
from pydantic import Field, ValidationError

from foldline.callbacks import BaseCallbackHandler
from foldline.exceptions import ContextOverflowError, ModelConnectionError, UsageError
from foldline.language_models import (
    AgentInvokeOptions,
    BaseChatModel,
    ChatModel,
    ChatModelInput,
    ChatModelOutput,
    FileResolver,
    Limits,
    RetryPolicy,
    add_deltas,
    usage_scope,
)
from foldline.messages import AIMessage, HumanMessage
from foldline.outputs import ChatGeneration, ChatResult
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

    seen: list[Any] = Field(default_factory=list)
    answer: Any = "ok"

    def process(self, input, options):
        self.seen.append((input, options))
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

    assert model.seen[0][0].model_options == SNAKE_OPTIONS


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

    assert model.seen[0][0].model_options == {"top_p": 0.5, "top_k": 3, "max_tokens": 7}
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
    sent = openai().explain({"messages": USER, "modelOptions": {"fooBar": 1}})

    assert sent.body["fooBar"] == 1
    assert any("'fooBar'" in note for note in sent.notes)


def test_an_option_of_the_authors_own_is_passed_as_written(call):
    model = Look()

    message = call.invoke(model, "x", model_options={"fooBar": 1})

    assert model.seen[0][0].model_options == {"fooBar": 1}
    assert "lost" not in message.response_metadata


def test_an_option_that_the_constructor_does_not_have_is_an_error():
    with pytest.raises(ValueError, match="Look has no option 'temprature'"):
        Look(temprature=1)


def test_the_model_of_the_constructor_is_the_model_of_the_answer(call):
    assert call.run(Look(model="m9"), "run", {"messages": "x"}).model == "m9"
    named = Look(model="m9", answer={"text": "x", "model": "m9-0613"})
    assert call.run(named, "run", {"messages": "x"}).model == "m9-0613"
    over = {"messages": "x", "modelOptions": {"model": "m10"}}
    assert call.run(Look(model="m9"), "run", over).model == "m10"
    assert openai().explain({"messages": USER, "modelOptions": {"model": "x"}}).body["model"] == "x"


# -- records at every door


@pytest.mark.parametrize("kind", KINDS)
def test_every_door_takes_a_record(call, kind):
    record = {"messages": USER, "modelOptions": {"topP": 0.3}}
    for given in (record, ChatModelInput(**record)):
        model = kind(answers=["hi"])

        assert call.invoke(model, given).text.strip() == "hi"
        assert "".join(chunk.text for chunk in call.stream(model, given)).strip() == "hi"
        assert call.batch(model, [given])[0].text.strip() == "hi"
        events = call.stream_v2(model, given)
        assert events[-1]["event"] == "message-finish"
        assert [asked.options["top_p"] for asked in model.seen] == [0.3] * 4
        assert model.seen[0].messages == [HumanMessage("x")]


def test_a_record_at_invoke_is_checked_like_one_at_run(call):
    wanted = {"type": "json_schema", "jsonSchema": {"name": "A", "schema": SCHEMA}}
    model = Speaking(answers=["no", '{"a": 1}'])

    message = call.invoke(model, {"messages": USER, "responseFormat": wanted})

    assert message.text.strip() == '{"a": 1}'
    assert len(model.seen) == 2


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
    if call.colour == "async":

        async def read() -> list[Any]:
            stream = await model.arun(record, streaming=True, **options)
            return [delta async for delta in stream]

        return asyncio.run(read())
    return list(model.run(record, streaming=True, **options))


@pytest.mark.parametrize("kind", [Pieces, Rich, Corrected])
def test_the_deltas_add_up_to_the_whole(call, kind):
    whole = call.run(kind(), "run", {"messages": "x"})

    assert add_deltas(deltas_of(call, kind(), {"messages": "x"})).model_dump() == whole.model_dump()


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
    whole = call.run(kind(answers=[answer]), "run", {"messages": "x"})

    deltas = deltas_of(call, kind(answers=[answer]), {"messages": "x"})

    assert add_deltas(deltas).model_dump() == whole.model_dump()
    assert deltas[0]["delta"].keys() == {"text"}


def test_deltas_of_checked_json_have_no_text(call):
    wanted = {"type": "json_schema", "jsonSchema": {"name": "A", "schema": SCHEMA}}
    model = Speaking(answers=["no", '{"a": 1}'])

    deltas = deltas_of(call, model, {"messages": "x", "responseFormat": wanted})

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

    assert "streaming" not in model.seen[0][0].model_options


# -- nothing vanishes


def test_strict_and_description_of_a_schema_reach_the_wire():
    described = {"name": "A", "description": "what a is", "strict": True, "schema": SCHEMA}
    record = {
        "messages": USER,
        "responseFormat": {"type": "json_schema", "jsonSchema": described},
    }

    sent = openai().explain(record).body["response_format"]["json_schema"]

    assert (sent["name"], sent["strict"], sent["description"]) == ("A", True, "what a is")
    assert sent["schema"]["additionalProperties"] is False


def test_credits_of_aigne_hub_are_kept_and_summed(call):
    output = call.run(Rich(), "run", {"messages": "x"})

    assert output.usage.aigne_hub_credits == 0.5
    assert output.message.usage_metadata["aigne_hub_credits"] == 0.5
    assert output.model_dump(by_alias=True)["usage"]["aigneHubCredits"] == 0.5
    with usage_scope() as spent:
        call.run(Rich(), "run", {"messages": "x"})
        call.run(Rich(), "run", {"messages": "x"})
    assert spent.usage["aigne_hub_credits"] == 1.0


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

    made = output["toolCalls" if by_alias else "tool_calls"]
    result = {"role": "tool", "toolCallId": "c1", "content": "1"}
    history = [*USER, {"role": "agent", "toolCalls": made}, result]
    body = ChatGoogle(model="gemini-2.5-flash", api_key="k").explain({"messages": history}).body

    assert made[0]["metadata"] == {"thought_signature": "c2ln"}
    assert body["contents"][1]["parts"][0]["thoughtSignature"] == "c2ln"


def test_metadata_of_a_call_in_camel_case_is_read_and_given_by_process(call):
    made = {**RICH["toolCalls"][0], "metadata": {"thoughtSignature": "c2ln"}}
    output = call.run(Look(answer={"toolCalls": [made]}), "run", {"messages": "x"})

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
    both = call.run(Look(answer={"text": "t", "json": {"a": 1}}), "run", {"messages": "x"})
    alone = call.run(Look(answer={"json": {"a": 1}}), "run", {"messages": "x"})

    assert (both.text, both.json) == ("t", {"a": 1})
    assert (alone.text, alone.json) == (None, {"a": 1})
    assert both.message.text == "t"
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
    wanted = {"type": "json_schema", "jsonSchema": {"name": "A", "schema": SCHEMA}}

    output = call.run(Look(answer=answer), "run", {"messages": "x", "responseFormat": wanted})
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
    again = call.run(Look(answer=output.model_dump(by_alias=True)), "run", {"messages": "x"})
    assert again.model_dump() == output.model_dump()


# -- preprocess, process and postprocess on any model


class Shouting(ChatOpenAI):
    seen: ClassVar[list[Any]] = []

    async def preprocess(self, input, options):
        await asyncio.sleep(0)
        input.model_options["top_p"] = 0.7
        return input


def test_providers_are_chat_models():
    for model in (openai(), claude(), ChatGoogle(api_key="k")):
        assert isinstance(model, ChatModel)
    assert issubclass(ChatOpenAI, ChatModel)
    assert not isinstance(openai(), Look)
    assert not isinstance("x", ChatModel)


def test_preprocess_of_a_providers_subclass_is_called():
    model = Shouting(model="gpt-4o", api_key="k")

    assert model.explain("x").body["top_p"] == 0.7


class LangChains(BaseChatModel):
    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        message = AIMessage(messages[-1].text)
        return ChatResult(generations=[ChatGeneration(message=message)])


class Both(LangChains):
    def preprocess(self, input, options):
        return {"messages": [HumanMessage(input.messages[0].text.upper())]}

    async def postprocess(self, input, output, options):
        await asyncio.sleep(0)
        return {"text": output.text + "!"}


def test_any_model_may_have_preprocess_and_postprocess(call):
    assert call.invoke(Both(), "x").text == "X!"


class Overriding(LangChains):
    def process(self, input, options):
        return {"text": super().process(input, options).text + "?"}

    async def aprocess(self, input, options):
        return {"text": (await super().aprocess(input, options)).text + "?"}


def test_process_of_any_model_asks_it_once_and_may_be_overridden(call):
    record = ChatModelInput(messages="x")

    assert call.run(LangChains(), "process", record).text == "x"
    assert call.invoke(Overriding(), "x").text == "x?"
    assert "".join(chunk.text for chunk in call.stream(Overriding(), "x")) == "x?"


def test_a_helper_named_process_beside_langchains_methods_is_the_authors_own(call):
    class Helper(BaseChatModel):
        def process(self, text):
            return text.upper()

        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            message = AIMessage(self.process(messages[-1].text))
            return ChatResult(generations=[ChatGeneration(message=message)])

    assert call.invoke(Helper(), "x").text == "X"


def test_names_of_tools_are_made_to_fit_for_process_and_restored(call):
    seen: list[Any] = []

    class Calling(ChatModel):
        def process(self, input, options):
            seen.append(input.tools[0]["function"]["name"])
            call = {"name": seen[-1], "args": {}}
            return {"tool_calls": [call]}

    tool = {"type": "function", "function": {"name": "get weather.now", "parameters": {}}}

    output = call.run(Calling(), "run", {"messages": "x", "tools": [tool]})

    assert all(char.isalnum() or char in "_-" for char in seen[0])
    assert output.tool_calls[0]["function"]["name"] == "get weather.now"


def test_a_request_beyond_the_limit_never_reaches_process(call):
    model = Look(max_input_tokens=3)

    with pytest.raises(ContextOverflowError):
        call.run(model, "run", {"messages": "many more words than three tokens can hold"})
    assert model.seen == []


# -- options


class Listener(BaseCallbackHandler):
    run_inline = True


def test_process_gets_options_with_context_limits_config_metadata_and_callbacks(call):
    model, listener = Look(), Listener()
    config = {
        "callbacks": [listener],
        "metadata": {"who": "me"},
        "tags": ["t"],
        "configurable": {"user": "u1"},
    }

    with usage_scope(Limits(model_calls=5)) as scope:
        call.invoke(model, "x", config, temperature=0)

    options = model.seen[0][1]
    assert isinstance(options, AgentInvokeOptions)
    assert options["temperature"] == 0
    assert options.streaming is False
    assert options.limits == Limits(model_calls=5) == options.context.limits
    assert options.context.usage is scope
    assert options.context.user_context["user"] == "u1"
    assert options.context.id is not None
    assert options.metadata["who"] == "me"
    assert "t" in options.tags
    assert listener in options.callbacks.handlers
    assert options.config["metadata"]["who"] == "me"


def test_options_outside_of_a_scope_have_no_limits(call):
    model = Look()

    call.invoke(model, "x")

    options = model.seen[0][1]
    assert (options.limits, options.context.usage, options.callbacks) == (Limits(), None, None)


def test_postprocess_sees_the_tokens_in_the_context(call):
    seen: list[Any] = []

    class Counting(Rich):
        def postprocess(self, input, output, options):
            seen.append(options.context.usage.input_tokens)

    with usage_scope():
        call.run(Counting(), "run", {"messages": "x"})

    assert seen == [3]


# -- files


@pytest.mark.parametrize(
    ("file", "kind", "mime"),
    [
        ({"type": "url", "url": "https://e.test/x.png?s=1"}, "image", "image/png"),
        ({"type": "url", "url": "https://e.test/x.pdf"}, "file", "application/pdf"),
        ({"type": "local", "path": "a.png"}, "image", "image/png"),
        ({"type": "local", "path": "a.mp3"}, "audio", "audio/mpeg"),
        ({"type": "file", "data": PNG}, "image", "image/png"),
        ({"type": "file", "data": "aGk=", "filename": "a.mp4"}, "video", "video/mp4"),
        ({"type": "file", "data": "aGk=", "fileName": "a.jpg"}, "image", "image/jpeg"),
        ({"type": "file", "data": "aGk="}, "file", None),
        ({"type": "url", "url": "https://e.test/x"}, "file", None),
    ],
)
def test_a_file_without_a_mime_type_is_known_by_its_name_or_bytes(call, file, kind, mime):
    record = ChatModelInput(messages=[{"role": "user", "content": [file]}])
    output = call.run(Look(answer={"files": [file]}), "run", {"messages": "x"})

    for block in (record.messages[0].content[0], output.files[0]):
        assert (block["type"], block.get("mime_type")) == (kind, mime)


def test_a_picture_without_a_mime_type_is_sent_as_a_picture():
    parts = [{"type": "url", "url": "https://e.test/x.png"}, {"type": "file", "data": PNG}]

    body = openai().explain({"messages": [{"role": "user", "content": parts}]}).body

    by_url, by_data = body["messages"][0]["content"]
    assert by_url["image_url"]["url"] == "https://e.test/x.png"
    assert by_data["image_url"]["url"].startswith("data:image/png;base64,")


def test_a_local_file_that_no_name_tells_is_known_when_it_is_read(tmp_path):
    (tmp_path / "picture").write_bytes(base64.b64decode(PNG))
    local = {"type": "local", "path": str(tmp_path / "picture")}
    model = openai(file_resolver=FileResolver(allow_dirs=[tmp_path]))

    body = model.explain({"messages": [{"role": "user", "content": [local]}]}).body

    assert body["messages"][0]["content"][0]["image_url"]["url"].startswith("data:image/png")


def test_files_by_url_are_refused_without_a_resolver_where_bytes_are_preferred(call):
    record = {
        "messages": [{"role": "user", "content": [{"type": "url", "url": "https://e.test/x.png"}]}],
        "modelOptions": {"preferInputFileType": "file"},
    }

    with pytest.raises(Exception, match="FileResolver"):
        call.run(Look(), "run", record)


def test_an_output_keeps_its_fields_in_both_spellings():
    output = ChatModelOutput.model_validate({"text": "a", "toolCalls": RICH["toolCalls"]})

    assert output.tool_calls == RICH["toolCalls"]
    with pytest.raises(ValidationError, match="bogus"):
        ChatModelOutput(text="a", bogus=1)
