"""Samples and claims of the documents that no other test shows: as written, imports renamed, without a network."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foldline import AIMessageChunk, ContentBlock
from foldline.agents import AgentExecutor
from foldline.callbacks import BaseCallbackHandler
from foldline.chains import RUN_KEY, Chain
from foldline.documents import Document
from foldline.exceptions import UsageError
from foldline.language_models import (
    BaseChatModel,
    BaseLanguageModel,
    BaseLLM,
    FakeListChatModel,
    FakeListLLM,
)
from foldline.language_models.chat_model_stream import ChatModelStream
from foldline.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from foldline.output_parsers import BaseOutputParser, StrOutputParser
from foldline.outputs import ChatGeneration, ChatResult
from foldline.prompt_values import PromptValue
from foldline.prompts import BasePromptTemplate, PromptTemplate
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.openai import ChatOpenAI
from foldline.retrievers import BaseRetriever
from foldline.runnables import Runnable, RunnableLambda, RunnableSequence, RunnableSerializable
from foldline.testing import Call, Finish, ScriptedChatModel
from foldline.tools import BaseTool, tool

USAGE = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
BOOK = ["A whale ", "is hunted. ", Call("look_up", {"title": "Moby-Dick"}), Finish("stop", USAGE)]


@tool
def shout(text: str) -> str:
    """Say it louder."""
    return text.upper() + "!"


class Echo(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(query)]


class RecordedCallbacks(BaseCallbackHandler):
    """Remembers the names of the events."""

    def __init__(self) -> None:
        self.names: list[str] = []


def _remember(name: str) -> Any:
    return lambda self, *args, **kwargs: self.names.append(name)


EVENTS = [
    "on_chat_model_start",
    "on_llm_new_token",
    "on_llm_end",
    "on_llm_error",
    "on_chain_start",
    "on_chain_end",
    "on_tool_start",
    "on_tool_end",
    "on_retriever_start",
    "on_retriever_end",
]
for _name in EVENTS:
    setattr(RecordedCallbacks, _name, _remember(_name))


# -- 000


def test_the_hierarchy_of_a_chat_model():
    for model in (ChatOpenAI, ChatAnthropic):
        order = [BaseChatModel, BaseLanguageModel, RunnableSerializable, Runnable]
        places = [model.__mro__.index(cls) for cls in order]
        assert places == sorted(places)
        for name in ("to_json", "configurable_fields", "configurable_alternatives", "bind_tools"):
            assert callable(getattr(model, name))


def test_invoke_takes_the_steps_of_the_chapter_in_order(call: Any):
    steps: list[str] = []

    class Model(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "steps"

        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            steps.append(f"generate {messages[0].content}")
            generations = [ChatGeneration(message=AIMessage(text)) for text in ("first", "second")]
            return ChatResult(generations=generations)

    class Steps(BaseCallbackHandler):
        run_inline = True

        def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
            steps.append(f"start {messages[0][0].content}")

        def on_llm_end(self, response: Any, **kwargs: Any) -> None:
            steps.append(f"end {len(response.generations[0])}")

    message = call.invoke(Model(), "hi", {"callbacks": [Steps()]})

    assert steps == ["start hi", "generate hi", "end 2"]
    assert message.content == "first"


def test_an_error_is_told_and_raised(call: Any):
    recorder = RecordedCallbacks()

    with pytest.raises(ZeroDivisionError):
        call.invoke(ScriptedChatModel(script=[ZeroDivisionError()]), "x", {"callbacks": [recorder]})

    assert recorder.names == ["on_chat_model_start", "on_llm_error"]


def test_every_message_has_its_type_and_the_common_fields():
    messages: dict[str, BaseMessage] = {
        "human": HumanMessage("x"),
        "ai": AIMessage("x"),
        "system": SystemMessage("x"),
        "tool": ToolMessage("x", tool_call_id="1"),
        "function": FunctionMessage("x", name="f"),
        "chat": ChatMessage("x", role="critic"),
    }

    assert {kind: message.type for kind, message in messages.items()} == {
        kind: kind for kind in messages
    }
    for message in messages.values():
        for field in ("content", "additional_kwargs", "response_metadata", "name", "id"):
            assert hasattr(message, field)
    assert issubclass(AIMessageChunk, BaseMessageChunk)


def test_every_event_of_the_table_is_told(call: Any):
    recorder = RecordedCallbacks()
    config = {"callbacks": [recorder]}

    call.stream(FakeListChatModel(responses=["a"]), "x", config)
    call.invoke(RunnableLambda(lambda x: x), "x", config)
    call.invoke(shout, {"text": "x"}, config)
    call.invoke(Echo(), "x", config)
    with pytest.raises(ZeroDivisionError):
        call.invoke(ScriptedChatModel(script=[ZeroDivisionError()]), "x", config)

    assert set(recorder.names) == set(EVENTS)


def test_text_models_take_no_tools():
    assert not hasattr(FakeListLLM(responses=["x"]), "bind_tools")
    assert hasattr(FakeListChatModel(responses=["x"]), "bind_tools")


def test_a_provider_has_a_transport_and_no_client():
    model = ChatOpenAI(model="gpt-4o", api_key="none", temperature=0.5)

    assert (model.model_name, model.temperature) == ("gpt-4o", 0.5)
    assert "transport" in ChatOpenAI.model_fields
    assert not hasattr(model, "client")
    assert ChatAnthropic(model="m", api_key="none", max_tokens=5).max_tokens == 5


# -- 001


def test_the_sync_sample_of_the_streaming_document():
    model = ScriptedChatModel(script=[BOOK])
    stream = model.stream_v2("Summarize the book")
    texts = []

    # Iterate text deltas
    for delta in stream.text:
        texts.append(delta)  # noqa: PERF402  the sample prints it

    # Or read accumulated values directly (drains the stream)
    full_text: str = str(stream.text)
    tool_calls = stream.tool_calls.get()
    usage = stream.usage
    message: AIMessage = stream.output

    assert isinstance(stream, ChatModelStream)
    assert "".join(texts) == full_text == message.text == "A whale is hunted. "
    assert [(call["name"], call["args"]) for call in tool_calls] == [
        ("look_up", {"title": "Moby-Dick"})
    ]
    assert usage == USAGE
    # Raw protocol event iteration, after the projections
    assert [event["event"] for event in stream] == [
        "message-start",
        "content-block-start",
        *["content-block-delta"] * len(texts),
        "content-block-finish",
        "content-block-start",
        *["content-block-delta"] * (len(list(stream)) - len(texts) - 6),
        "content-block-finish",
        "message-finish",
    ]


def test_the_async_sample_of_the_streaming_document():
    async def read() -> None:
        stream = await ScriptedChatModel(script=[BOOK]).astream_v2("Summarize the book")
        texts = [delta async for delta in stream.text]

        message: AIMessage = await stream
        full_text: str = await stream.text
        tool_calls = await stream.tool_calls

        assert "".join(texts) == full_text == message.text == "A whale is hunted. "
        assert tool_calls[0]["args"] == {"title": "Moby-Dick"}

    asyncio.run(read())


def test_stream_v2_of_what_is_no_model_says_so():
    with pytest.raises(UsageError, match="stream_v2"):
        RunnableLambda(lambda x: x).bind().stream_v2("x")


# -- 003


def test_an_ai_message_has_the_fields_of_the_guide(call: Any):
    model = ScriptedChatModel(script=[BOOK])

    response = call.invoke(model, "Explain AI")

    assert type(response) is AIMessage
    assert response.text == response.content == "A whale is hunted. "
    assert [block["type"] for block in response.content_blocks] == ["text", "tool_call"]
    assert response.tool_calls[0]["name"] == "look_up"
    assert response.id
    assert response.usage_metadata == USAGE
    assert isinstance(response.response_metadata, dict)
    text_block: ContentBlock = {"type": "text", "text": "Hello world"}
    assert HumanMessage(content_blocks=[text_block]).text == "Hello world"


# -- 004


def test_the_subclasses_of_runnable():
    kinds = [Chain, BasePromptTemplate, BaseLanguageModel, BaseOutputParser, BaseRetriever]

    assert all(issubclass(kind, Runnable) for kind in [*kinds, BaseTool])
    assert issubclass(AgentExecutor, Chain)
    assert issubclass(BaseLLM, BaseLanguageModel)
    assert issubclass(BaseChatModel, BaseLanguageModel)


def test_a_sequence_is_made_of_a_list(call: Any):
    steps = [RunnableLambda(lambda x: x + 1), RunnableLambda(lambda x: x * 2)]

    for sequence in (RunnableSequence(steps), RunnableSequence(*steps)):
        assert call.invoke(sequence, 1) == 4
        assert call.batch(sequence, [1, 2, 3]) == [4, 6, 8]
    with pytest.raises(UsageError, match="at least 2 steps"):
        RunnableSequence(steps[:1])


def test_astream_log_shows_the_steps():
    async def read() -> Any:
        chain = RunnableLambda(lambda x: x + 1) | RunnableLambda(lambda x: x * 2)
        log = None
        async for patch in chain.astream_log(1):
            log = patch if log is None else log + patch
        return log

    state = asyncio.run(read()).state

    assert state["final_output"] == 4
    assert len(state["logs"]) == 2


def test_what_each_kind_takes_and_gives(call: Any):
    prompt = PromptTemplate.from_template("Say {word}")

    assert isinstance(call.invoke(prompt, {"word": "x"}), PromptValue)
    for model_input in ("x", prompt.invoke({"word": "x"}), [HumanMessage("x")]):
        assert call.invoke(FakeListLLM(responses=["a"]), model_input) == "a"
        assert isinstance(call.invoke(FakeListChatModel(responses=["a"]), model_input), BaseMessage)
    for parser_input in ("a", AIMessage("a")):
        assert call.invoke(StrOutputParser(), parser_input) == "a"
    assert call.invoke(Echo(), "x") == [Document("x")]
    for arguments in ("x", {"text": "x"}):
        assert call.invoke(shout, arguments) == "X!"


def test_a_chain_returns_what_is_asked_for(call: Any):
    class Shout(Chain):
        input_keys = ["text"]  # noqa: RUF012
        output_keys = ["loud"]  # noqa: RUF012

        def _call(self, inputs, run_manager=None):
            return {"loud": inputs["text"].upper()}

    outputs = call.invoke(Shout(), {"text": "a"})
    only = call.invoke(Shout(), {"text": "a"}, return_only_outputs=True, include_run_info=True)

    assert outputs == {"text": "a", "loud": "A"}
    assert only["loud"] == "A"
    assert only[RUN_KEY].run_id
    assert "text" not in only
