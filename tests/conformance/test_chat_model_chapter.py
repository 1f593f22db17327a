"""Document 000, the chapter on chat models: what its tables, diagrams and comments say beside its samples."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from foldline.caches import InMemoryCache
from foldline.callbacks import BaseCallbackHandler, CallbackManager
from foldline.documents import Document
from foldline.language_models import BaseChatModel, FakeListChatModel, FakeListLLM
from foldline.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    BaseMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from foldline.outputs import ChatGeneration, ChatGenerationChunk, ChatResult, LLMResult
from foldline.retrievers import BaseRetriever
from foldline.runnables import RunnableBinding, RunnableLambda, RunnableSequence
from foldline.testing import Call, Finish, ScriptedChatModel
from foldline.tools import tool
from foldline.utils.function_calling import convert_to_openai_tool

USAGE = {"input_tokens": 8, "output_tokens": 2, "total_tokens": 10}


@tool
def get_weather(city: str) -> str:
    """Get current weather for a city."""
    return f"72F and sunny in {city}"


class Echo(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(query)]


class Arguments(BaseCallbackHandler):
    """Remembers what each hook was given."""

    run_inline = True

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def of(self, name: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        return [(args, kwargs) for called, args, kwargs in self.calls if called == name]

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.calls]


def _remember(name: str) -> Any:
    def hook(self: Arguments, *args: Any, **kwargs: Any) -> None:
        self.calls.append((name, args, kwargs))

    return hook


for _event in (
    *("on_chat_model_start", "on_llm_start", "on_llm_new_token", "on_llm_end", "on_llm_error"),
    *("on_chain_start", "on_chain_end", "on_tool_start", "on_tool_end"),
    *("on_retriever_start", "on_retriever_end"),
):
    setattr(Arguments, _event, _remember(_event))


class Generating(BaseChatModel):
    """Its author wrote `_generate` alone; two generations."""

    calls: Any = Field(default=None, exclude=True)

    @property
    def _llm_type(self) -> str:
        return "generating"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        if self.calls is not None:
            self.calls.append((messages, stop, kwargs))
        messages = [AIMessage(text, usage_metadata=USAGE) for text in ("first", "second")]
        return ChatResult(
            generations=[ChatGeneration(message=message) for message in messages],
            llm_output={"model_name": "m"},
        )


# -- the template method


def test_what_the_author_writes_gets_messages_stop_and_the_options_of_the_call(call: Any):
    calls: list[Any] = []

    call.invoke(Generating(calls=calls), "hi", stop=["."], temperature=0.5)

    assert calls == [([HumanMessage("hi")], ["."], {"temperature": 0.5})]


def test_an_author_may_write_the_async_method_too_and_each_mode_uses_its_own(call: Any):
    class Both(Generating):
        async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
            return ChatResult(generations=[ChatGeneration(message=AIMessage("awaited"))])

    assert call.invoke(Both(), "hi").text == ("awaited" if call.is_async else "first")


def test_a_model_with_generate_alone_streams_its_answer(call: Any):
    chunks = call.stream(Generating(), "hi")

    assert all(isinstance(chunk, AIMessageChunk) for chunk in chunks)
    assert "".join(str(chunk.text) for chunk in chunks) == "first"


def test_caching_belongs_to_the_public_method_and_not_to_the_authors(call: Any):
    calls: list[Any] = []
    model = Generating(calls=calls, cache=InMemoryCache())

    answers = [call.invoke(model, "hi").text for _ in range(2)]

    assert answers == ["first", "first"]
    assert len(calls) == 1


# -- messages


def test_the_hierarchy_of_messages():
    kinds = (HumanMessage, AIMessage, SystemMessage, ToolMessage, FunctionMessage, ChatMessage)

    assert all(issubclass(kind, BaseMessage) for kind in (*kinds, BaseMessageChunk))
    assert issubclass(AIMessageChunk, BaseMessageChunk)
    assert ChatMessage("x", role="critic").role == "critic"
    assert FunctionMessage("x", name="f").name == "f"
    assert AIMessage("x").tool_calls == []
    assert AIMessage("x").usage_metadata is None
    assert AIMessageChunk("x").tool_call_chunks == []


@pytest.mark.parametrize(
    ("kind", "missing"), [(ToolMessage, "tool_call_id"), (FunctionMessage, "name")]
)
def test_what_a_message_must_have_is_asked_for(kind: Any, missing: str):
    with pytest.raises((ValueError, TypeError), match=missing):
        kind(content="x")


# -- callbacks


def test_every_event_of_the_table_brings_its_data(call: Any):
    handler = Arguments()
    config = {"callbacks": [handler]}
    error = ZeroDivisionError("no")
    model = ScriptedChatModel(script=[["a ", "b", Finish("stop", USAGE)], error])

    call.stream(model, "hi", config)
    with pytest.raises(ZeroDivisionError):
        call.invoke(model, "hi", config)
    call.invoke(RunnableLambda(lambda x: x + 1), 1, config)
    call.invoke(get_weather, {"city": "Paris"}, config)
    call.invoke(Echo(), "query", config)

    (serialized, messages), _ = handler.of("on_chat_model_start")[0]
    assert serialized["id"][-1] == "ScriptedChatModel"
    assert messages == [[HumanMessage("hi")]]
    tokens = handler.of("on_llm_new_token")
    assert [args for args, _ in tokens if args[0]] == [("a ",), ("b",)]
    assert all(isinstance(kwargs["chunk"], ChatGenerationChunk) for _, kwargs in tokens)
    (result,), _ = handler.of("on_llm_end")[0]
    assert isinstance(result, LLMResult)
    assert result.generations[0][0].message.usage_metadata == USAGE
    assert handler.of("on_llm_error")[0][0][0] is error
    assert handler.of("on_chain_start")[0][0][1] == 1
    assert handler.of("on_chain_end")[0][0][0] == 2
    (described, tool_input), _ = handler.of("on_tool_start")[0]
    assert described["name"] == "get_weather"
    assert "Paris" in tool_input
    assert handler.of("on_tool_end")[0][0][0] == "72F and sunny in Paris"
    assert handler.of("on_retriever_start")[0][0][1] == "query"
    assert handler.of("on_retriever_end")[0][0][0] == [Document("query")]


def test_invoke_stream_and_batch_report_the_same_sequence(call: Any):
    def names(use: Any) -> list[str]:
        handler = Arguments()
        use(ScriptedChatModel(script=["a b"]), {"callbacks": [handler]})
        return [name for name in handler.names if name != "on_llm_new_token"]

    expected = ["on_chat_model_start", "on_llm_end"]
    assert names(lambda model, config: call.invoke(model, "x", config)) == expected
    assert names(lambda model, config: call.stream(model, "x", config)) == expected
    assert names(lambda model, config: call.batch(model, ["x"], config)) == expected


def test_the_tokens_come_between_the_start_and_the_end_one_for_each_piece(call: Any):
    handler = Arguments()

    chunks = call.stream(FakeListChatModel(responses=["abc"]), "x", {"callbacks": [handler]})

    said = [args[0] for args, _ in handler.of("on_llm_new_token")]
    assert [text for text in said if text] == ["a", "b", "c"]
    assert len(said) == len(chunks)
    assert handler.names[0] == "on_chat_model_start"
    assert handler.names[-1] == "on_llm_end"


def test_handlers_of_the_constructor_are_of_this_model_and_those_of_the_config_reach_children(
    call: Any,
):
    own, shared = Arguments(), Arguments()
    quiet = ScriptedChatModel(script=["a"])
    counted = ScriptedChatModel(script=["b"], callbacks=[own])
    chain = RunnableLambda(lambda x: x) | quiet | (lambda message: message.text) | counted

    call.invoke(chain, "x", {"callbacks": [shared]})

    assert own.names == ["on_chat_model_start", "on_llm_end"]
    assert shared.names.count("on_chat_model_start") == 2
    assert "on_chain_start" not in own.names


def test_a_handler_of_one_call_is_not_called_by_the_next(call: Any):
    handler = Arguments()
    model = ScriptedChatModel(script=["a", "b"])
    manager = CallbackManager(handlers=[handler])

    call.invoke(model, "x", {"callbacks": manager})
    call.invoke(model, "x")

    assert handler.names == ["on_chat_model_start", "on_llm_end"]
    assert manager.handlers == [handler]


# -- results


def test_the_end_brings_every_generation_and_the_caller_gets_the_first(call: Any):
    handler = Arguments()

    message = call.invoke(Generating(), "x", {"callbacks": [handler]})

    (result,), _ = handler.of("on_llm_end")[0]
    assert [generation.text for generation in result.generations[0]] == ["first", "second"]
    assert result.llm_output["model_name"] == "m"
    assert message.text == "first"


# -- tools and structured output


def test_binding_tools_is_a_binding_of_what_the_converter_makes():
    model = FakeToolModel()
    bound = model.bind_tools([get_weather])

    assert isinstance(bound, RunnableBinding)
    assert bound.bound is model
    assert bound.kwargs["tools"] == [convert_to_openai_tool(get_weather)]


def test_the_bound_tools_reach_the_authors_method(call: Any):
    calls: list[Any] = []

    call.invoke(FakeToolModel(calls=calls).bind_tools([get_weather]), "x")

    assert calls[0][2]["tools"] == [convert_to_openai_tool(get_weather)]


class FakeToolModel(Generating):
    """Takes tools, as a provider's model does."""

    def bind_tools(self, tools, **kwargs):
        return self.bind(tools=[convert_to_openai_tool(each) for each in tools], **kwargs)


class WeatherInfo(BaseModel):
    city: str
    temperature: float


class WeatherDict(TypedDict):
    city: str
    temperature: float


@pytest.mark.parametrize("schema", [WeatherInfo, WeatherDict])
def test_structured_output_is_a_chain_of_a_binding_and_a_parser(call: Any, schema: Any):
    arguments = {"city": "San Francisco", "temperature": 72.0}
    model = ScriptedChatModel(script=[[Call(schema.__name__, arguments)]])

    structured = model.with_structured_output(schema, method="function_calling")
    result = call.invoke(structured, "What's the weather in SF?")

    assert isinstance(structured, RunnableSequence)
    assert result == (WeatherInfo(**arguments) if schema is WeatherInfo else arguments)
    assert not isinstance(result, BaseMessage)


def test_structured_output_leaves_the_model_as_it_was(call: Any):
    model = ScriptedChatModel(script=["plain"])
    model.with_structured_output(WeatherInfo)
    model.bind_tools([get_weather])

    assert call.invoke(model, "x").text == "plain"
    assert not model.requests[0].tools


@pytest.mark.parametrize(
    "model", [FakeListChatModel(responses=["x"]), FakeListLLM(responses=["x"])]
)
def test_every_language_model_counts_tokens_as_a_number(model: Any):
    assert isinstance(model.get_num_tokens("one two three"), int)
    assert model.get_num_tokens("one two three") > model.get_num_tokens("one") > 0
