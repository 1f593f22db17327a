"""Types of real models, prompts, parsers, tools, agents and retrievers, as a type checker sees them. Never run."""

from collections.abc import AsyncGenerator, Iterator
from typing import Any, TypedDict, assert_type

from pydantic import BaseModel, SecretStr

from foldline._streams.stream import ChatModelStream
from foldline.agents import create_agent
from foldline.chat_models import ConfigurableChatModel, init_chat_model
from foldline.documents import Document
from foldline.language_models import BaseChatModel, FakeListChatModel
from foldline.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    HumanMessage,
    SystemMessage,
)
from foldline.output_parsers import JsonOutputParser, PydanticOutputParser, StrOutputParser
from foldline.prompts import ChatPromptTemplate
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.bedrock import ChatBedrockConverse
from foldline.providers.google import ChatGoogle
from foldline.providers.openai import ChatOpenAI
from foldline.providers.openai_compatible import ChatGroq
from foldline.providers.vertex import ChatAnthropicVertex
from foldline.retrievers import BaseRetriever
from foldline.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from foldline.tools import BaseTool, tool


class Joke(BaseModel):
    setup: str


class Place(TypedDict):
    city: str


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def length(text: str) -> int:
    return len(text)


async def alength(text: str) -> int:
    return len(text)


def letters(text: str) -> Iterator[str]:
    yield from text


MODEL = ChatOpenAI(model="gpt-5", api_key="k", temperature=0.2, max_tokens=100)
CLAUDE = ChatAnthropic(model="claude-sonnet-4-5", api_key="k", max_tokens=100)
PROMPT = ChatPromptTemplate.from_messages([("system", "Be short."), ("human", "{question}")])


def test_the_other_names_of_settings() -> None:
    old = ChatOpenAI(model_name="gpt-5", openai_api_key=SecretStr("k"), request_timeout=3)
    assert_type(old.model_name, str)
    assert_type(old.max_completion_tokens, int | None)
    ChatOpenAI(openai_api_base="http://x", openai_organization="o", stop_sequences=["x"])
    ChatGroq(model_name="x", max_completion_tokens=3)
    ChatAnthropic(
        model_name="claude-sonnet-4-5",
        anthropic_api_key="k",
        anthropic_api_url="http://x",
        max_tokens_to_sample=3,
        default_request_timeout=3,
    )
    ChatGoogle(model_name="gemini-3", google_api_key="k", max_output_tokens=3)
    ChatBedrockConverse(model_id="x", region="eu-west-1", credentials_profile_name="p")
    ChatAnthropicVertex(model_name="claude-sonnet-4-5", project_id="p", max_output_tokens=3)


def test_a_model_gives_messages_and_chunks() -> None:
    assert_type(MODEL.invoke("x"), AIMessage)
    assert_type(CLAUDE.invoke([SystemMessage("x"), ("human", "y")]), AIMessage)
    assert_type(FakeListChatModel(responses=["x"]).invoke([HumanMessage("x")]), AIMessage)
    assert_type(MODEL.stream("x"), Iterator[AIMessageChunk])
    assert_type(MODEL.batch(["x"]), list[AIMessage])
    assert_type(MODEL.batch(["x"], return_exceptions=True), list[AIMessage | Exception])
    assert_type(next(iter(MODEL.batch_as_completed(["x"]))), tuple[int, AIMessage])


async def test_an_async_call_gives_the_same() -> None:
    assert_type(await MODEL.ainvoke("x"), AIMessage)
    assert_type(await MODEL.abatch(["x"]), list[AIMessage])
    assert_type(MODEL.astream("x"), AsyncGenerator[AIMessageChunk, None])


def test_a_stream_of_events_knows_its_views() -> None:
    with MODEL.stream_v2("x") as stream:
        assert_type(stream, ChatModelStream)
        for piece in stream.text:
            assert_type(piece, str)


def test_a_model_by_name_is_a_chat_model() -> None:
    assert_type(init_chat_model("openai:gpt-5"), BaseChatModel)
    assert_type(init_chat_model("openai:gpt-5", temperature=0).invoke("x"), AIMessage)
    assert_type(init_chat_model(), ConfigurableChatModel)
    assert_type(init_chat_model("openai:gpt-5", configurable_fields="any"), ConfigurableChatModel)


def test_a_model_that_the_config_chooses_is_typed_too(name: str | None) -> None:
    model = init_chat_model(temperature=0)
    assert_type(model.invoke("x", {"configurable": {"model": "openai:gpt-5"}}), AIMessage)
    assert_type(model.stream("x"), Iterator[AIMessageChunk])
    assert_type(model.batch(["x"]), list[AIMessage])
    assert_type(model.with_config(tags=["x"]), ConfigurableChatModel)
    assert_type(model.with_config(tags=["x"]).bind_tools([add]).invoke("x"), AIMessage)
    assert_type(model.bind_tools([add], tool_choice="any").stream("x"), Iterator[AIMessageChunk])
    assert_type(model.bind(stop=["x"]).stream("x"), Iterator[AIMessageChunk])
    assert_type(model.with_structured_output(Joke).invoke("x"), Joke)
    assert_type(model.with_structured_output(Place, method="json_schema").invoke("x"), Place)
    whole = model.with_structured_output(Joke, include_raw=True).invoke("x")
    assert_type(whole["parsed"], Joke | None)
    assert_type(model.with_structured_output({"title": "Joke"}).invoke("x"), dict[str, Any])
    assert_type((PROMPT | model | StrOutputParser()).invoke({}), str)
    either = init_chat_model(name, model_provider="openai")
    assert_type(either, BaseChatModel | ConfigurableChatModel)
    assert_type(either.invoke("x"), AIMessage)
    some = init_chat_model("openai:gpt-5", configurable_fields=("temperature",), config_prefix="a")
    assert_type(some.invoke("x"), AIMessage)


async def test_an_async_call_of_it() -> None:
    assert_type(await init_chat_model().ainvoke("x"), AIMessage)
    assert_type(init_chat_model().astream("x"), AsyncGenerator[AIMessageChunk, None])


def test_structured_output_is_of_its_schema() -> None:
    assert_type(MODEL.with_structured_output(Joke).invoke("x"), Joke)
    assert_type(MODEL.with_structured_output(Place).invoke("x"), Place)
    assert_type(MODEL.with_structured_output({"title": "Joke"}).invoke("x"), dict[str, Any])
    result = MODEL.with_structured_output(Joke, include_raw=True).invoke("x")
    assert_type(result["raw"], AIMessage)
    assert_type(result["parsed"], Joke | None)


def test_a_chain_knows_what_comes_out() -> None:
    chain = PROMPT | MODEL | StrOutputParser()
    assert_type(chain.invoke({"question": "x"}), str)
    assert_type(chain.batch([{}]), list[str])
    assert_type(chain.stream({}), Iterator[str])
    assert_type((PROMPT | MODEL).invoke({}), AIMessage)
    assert_type((PROMPT | MODEL | PydanticOutputParser(pydantic_object=Joke)).invoke({}), Joke)
    assert_type((PROMPT | MODEL | JsonOutputParser()).invoke({}), Any)
    assert_type(({"question": RunnablePassthrough[str]()} | PROMPT | MODEL).invoke("x"), AIMessage)
    assert_type((chain | RunnableLambda(length)).invoke({}), int)


def test_a_function_gives_its_types() -> None:
    assert_type(RunnableLambda(length), RunnableLambda[str, int])
    assert_type(RunnableLambda(alength), RunnableLambda[str, int])
    assert_type(RunnableLambda(length).batch(["x"]), list[int])


def test_branches_give_a_dict() -> None:
    assert_type(RunnableParallel(a=MODEL, b=length).invoke("x"), dict[str, Any])


def test_what_changes_a_model_keeps_its_types() -> None:
    assert_type(MODEL.bind(stop=["x"]).invoke("x"), AIMessage)
    assert_type(MODEL.bind_tools([add]).invoke("x"), AIMessage)
    assert_type(MODEL.with_retry().invoke("x"), AIMessage)
    assert_type(MODEL.with_fallbacks([CLAUDE]).invoke("x"), AIMessage)
    assert_type(MODEL.with_config(tags=["x"]).invoke("x"), AIMessage)


def test_tools_agents_and_retrievers(retriever: BaseRetriever) -> None:
    assert_type(add, BaseTool)
    agent = create_agent(MODEL, [add])
    assert_type(agent.invoke({"messages": [("human", "x")]})["messages"], list[AnyMessage])
    assert_type(retriever.invoke("x"), list[Document])
