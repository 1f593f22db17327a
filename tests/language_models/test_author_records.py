"""AIGNE's hooks on any model: `preprocess`, `process`, `postprocess`, options and files."""

from __future__ import annotations

import asyncio
import base64
from typing import Any, ClassVar

import pytest
from pydantic import Field

from foldline.callbacks import BaseCallbackHandler
from foldline.exceptions import ContextOverflowError
from foldline.language_models import (
    AgentInvokeOptions,
    BaseChatModel,
    ChatModel,
    ChatModelInput,
    FileResolver,
    Limits,
    usage_scope,
)
from foldline.messages import AIMessage, HumanMessage
from foldline.outputs import ChatGeneration, ChatResult
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.google import ChatGoogle
from foldline.providers.openai import ChatOpenAI

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


class Rich(ChatModel):
    def process(self, input, options):
        return RICH


RICH = {"text": "hello", "usage": {"inputTokens": 3, "outputTokens": 2}}


# -- preprocess, process and postprocess on any model


class Shouting(ChatOpenAI):
    calls: ClassVar[list[Any]] = []

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


class WithHooks(LangChains):
    def preprocess(self, input, options):
        return {"messages": [HumanMessage(input.messages[0].text.upper())]}

    async def postprocess(self, input, output, options):
        await asyncio.sleep(0)
        return {"text": output.text + "!"}


def test_any_model_may_have_preprocess_and_postprocess(call):
    assert call.invoke(WithHooks(), "x").text == "X!"


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
    names: list[Any] = []

    class Calling(ChatModel):
        def process(self, input, options):
            names.append(input.tools[0]["function"]["name"])
            call = {"name": names[-1], "args": {}}
            return {"tool_calls": [call]}

    tool = {"type": "function", "function": {"name": "get weather.now", "parameters": {}}}

    output = call.run(Calling(), "run", {"messages": "x", "tools": [tool]})

    assert all(char.isalnum() or char in "_-" for char in names[0])
    assert output.tool_calls[0]["function"]["name"] == "get weather.now"


def test_a_request_beyond_the_limit_never_reaches_process(call):
    model = Look(max_input_tokens=3)

    with pytest.raises(ContextOverflowError):
        call.run(model, "run", {"messages": "many more words than three tokens can hold"})
    assert model.calls == []


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

    options = model.calls[0][1]
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

    options = model.calls[0][1]
    assert (options.limits, options.context.usage, options.callbacks) == (Limits(), None, None)


def test_postprocess_sees_the_tokens_in_the_context(call):
    token_counts: list[Any] = []

    class Counting(Rich):
        def postprocess(self, input, output, options):
            token_counts.append(options.context.usage.input_tokens)

    with usage_scope():
        call.run(Counting(), "run", {"messages": "x"})

    assert token_counts == [3]


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
