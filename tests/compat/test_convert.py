"""Parts of the real langchain-core used here, and ours used there."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("langchain_core")

import langchain_core.callbacks as their_callbacks
import langchain_core.documents as their_documents
import langchain_core.embeddings as their_embeddings
import langchain_core.language_models as their_models
import langchain_core.messages as their_messages
import langchain_core.outputs as their_outputs
import langchain_core.prompts as their_prompts
import langchain_core.retrievers as their_retrievers
import langchain_core.runnables as their_runnables
import langchain_core.tools as their_tools
import langchain_core.vectorstores as their_stores
from langchain_core.language_models.fake_chat_models import (
    FakeListChatModel as TheirFakeListChatModel,
    GenericFakeChatModel as TheirFake,
)
from langchain_core.output_parsers import StrOutputParser as TheirStrOutputParser

from foldline.agents import create_agent
from foldline.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from foldline.compat import from_langchain, to_langchain
from foldline.documents import Blob, Document
from foldline.embeddings import DeterministicFakeEmbedding, Embeddings
from foldline.exceptions import UsageError
from foldline.language_models import BaseChatModel, BaseLLM, FakeListChatModel, FakeListLLM
from foldline.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from foldline.output_parsers import StrOutputParser
from foldline.outputs import ChatGeneration, LLMResult
from foldline.prompts import ChatPromptTemplate
from foldline.retrievers import BaseRetriever
from foldline.runnables import Runnable, RunnableLambda
from foldline.tools import BaseTool, tool
from foldline.vectorstores import InMemoryVectorStore

CALL = {"name": "add", "args": {"a": 1, "b": 2}, "id": "c1", "type": "tool_call"}
MESSAGES = [
    HumanMessage("hi", name="ann", id="h1"),
    SystemMessage([{"type": "text", "text": "be brief"}]),
    AIMessage(
        "",
        tool_calls=[CALL],
        invalid_tool_calls=[
            {"name": "x", "args": "{", "id": "c2", "error": "cut", "type": "invalid_tool_call"}
        ],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        response_metadata={"model_name": "m"},
        finish_reason="tool_use",
        status="incomplete",
    ),
    AIMessage([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "yes"}]),
    ToolMessage("3", tool_call_id="c1", artifact={"raw": object}, status="error"),
    ChatMessage("x", role="critic"),
    FunctionMessage("x", name="f"),
    RemoveMessage("h1"),
    AIMessageChunk(
        "a",
        tool_call_chunks=[
            {"name": "add", "args": '{"a"', "id": "c1", "index": 0, "type": "tool_call_chunk"}
        ],
        chunk_position="last",
    ),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_crosses_and_comes_back_whole(message):
    their_message = to_langchain(message)

    assert isinstance(their_message, getattr(their_messages, type(message).__name__))
    assert their_message.content == message.content
    assert from_langchain(their_message) == message


def test_their_message_keeps_its_calls_and_its_extra_fields():
    their_message = their_messages.AIMessage("", tool_calls=[CALL], id="1", colour_of_sky="blue")

    our_message = from_langchain(their_message)

    assert our_message.tool_calls == [CALL]
    assert our_message.colour_of_sky == "blue"
    assert to_langchain(our_message) == their_message


def test_a_class_of_the_programs_own_becomes_its_nearest_kind():
    class MoodMessage(their_messages.HumanMessage):
        mood: str = "fine"

    message = from_langchain(MoodMessage("hi", mood="good"))

    assert (type(message), message.content, message.mood) == (HumanMessage, "hi", "good")


def test_documents_results_and_containers_cross():
    document = Document("x", id="1", metadata={"page": 2})
    result = LLMResult(generations=[[ChatGeneration(message=AIMessage("a"))]], llm_output={"n": 1})

    their_values = to_langchain({"documents": [document, Blob.from_data("x")], "result": (result,)})

    assert isinstance(their_values["documents"][0], their_documents.Document)
    assert isinstance(their_values["result"][0], their_outputs.LLMResult)
    assert isinstance(their_values["result"][0].generations[0][0].message, their_messages.AIMessage)
    assert from_langchain(their_values) == {
        "documents": [document, Blob.from_data("x")],
        "result": (result,),
    }


def test_what_is_of_neither_library_is_refused():
    with pytest.raises(UsageError, match=r"from_langchain knows messages.*not int"):
        from_langchain(3)


# -- models


@pytest.fixture
def their_model():
    return TheirFake(messages=iter([their_messages.AIMessage("one two")]))


def test_their_model_streams_and_answers_here(call, their_model):
    model = from_langchain(their_model)

    assert isinstance(model, BaseChatModel)
    pieces = call.stream(ChatPromptTemplate.from_template("{x}") | model, {"x": "hi"})
    assert [piece.content for piece in pieces if piece.content] == ["one", " ", "two"]


def test_our_model_streams_and_answers_there():
    model = to_langchain(FakeListChatModel(responses=["abc", "def"]))
    chain = their_prompts.ChatPromptTemplate.from_template("{x}") | model | TheirStrOutputParser()

    assert isinstance(model, their_models.BaseChatModel)
    assert chain.invoke({"x": "hi"}) == "abc"
    assert [piece for piece in chain.stream({"x": "hi"}) if piece] == ["d", "e", "f"]

    async def stream():
        return [piece async for piece in chain.astream({"x": "hi"}) if piece]

    assert asyncio.run(stream()) == ["a", "b", "c"]
    assert asyncio.run(chain.ainvoke({"x": "hi"})) == "def"


def test_text_models_cross_both_ways(call):
    their_model = to_langchain(FakeListLLM(responses=["ab"]))
    assert isinstance(their_model, their_models.BaseLLM)
    assert their_model.invoke("x") == "ab"
    assert "".join(their_model.stream("x")) == "ab"

    our_model = from_langchain(their_models.FakeListLLM(responses=["cd"]))
    assert isinstance(our_model, BaseLLM)
    assert call.invoke(our_model, "x") == "cd"
    assert "".join(call.stream(our_model, "x")) == "cd"


def test_converting_back_returns_the_object_itself(their_model):
    assert to_langchain(from_langchain(their_model)) is their_model
    model = FakeListChatModel(responses=["a"])
    assert from_langchain(to_langchain(model)) is model


# -- tools and agents


@their_tools.tool(response_format="content_and_artifact")
def their_add(a: int, b: int) -> tuple[str, dict]:
    """Add two numbers."""
    return str(a + b), {"sum": a + b}


@tool
def our_add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_their_tool_runs_here_with_its_schema_and_artifact(call):
    our_tool = from_langchain(their_add)

    assert isinstance(our_tool, BaseTool)
    assert (our_tool.name, our_tool.description) == ("their_add", "Add two numbers.")
    assert list(our_tool.args) == ["a", "b"]
    message = call.invoke(our_tool, {**CALL, "name": "their_add"})
    assert (type(message), message.content, message.artifact) == (ToolMessage, "3", {"sum": 3})
    assert call.invoke(our_tool, {"a": 2, "b": 2}) == "4"


def test_our_tool_runs_there():
    their_tool = to_langchain(our_add)

    assert isinstance(their_tool, their_tools.BaseTool)
    assert list(their_tool.args) == ["a", "b"]
    message = their_tool.invoke({**CALL, "name": "our_add"})
    assert (type(message), message.content) == (their_messages.ToolMessage, "3")
    assert their_tool.run({"a": 1, "b": 1}) == 2
    assert asyncio.run(their_tool.ainvoke({"a": 1, "b": 5})) == 6


class TheirCaller(TheirFake):
    def bind_tools(self, tools, **kwargs):
        return self.bind(tools=[tool.name for tool in tools])


def test_an_agent_of_ours_uses_their_model_and_their_tool(call):
    answers = [
        their_messages.AIMessage("", tool_calls=[{**CALL, "name": "their_add"}]),
        their_messages.AIMessage("it is 3"),
    ]
    model = from_langchain(TheirCaller(messages=iter(answers)))

    state = call.invoke(create_agent(model, [from_langchain(their_add)]), {"messages": "1 + 2?"})

    assert [message.type for message in state["messages"]] == ["human", "ai", "tool", "ai"]
    assert state["messages"][2].artifact == {"sum": 3}


def test_structured_output_is_the_models_own(call):
    class Model(TheirFakeListChatModel):
        def with_structured_output(self, schema, **kwargs):
            return self | TheirStrOutputParser() | (lambda text: {schema["title"]: text})

    model = from_langchain(Model(responses=["a"]))

    assert call.invoke(model.with_structured_output({"title": "T"}), "x") == {"T": "a"}


# -- runnables, prompts and handlers


def test_their_runnable_streams_in_a_chain_of_ours(call):
    def shout(pieces):
        for piece in pieces:
            yield piece.upper()

    async def ashout(pieces):
        async for piece in pieces:
            yield piece.upper()

    chain = FakeListChatModel(responses=["abc"]) | StrOutputParser()
    chain = chain | from_langchain(their_runnables.RunnableGenerator(shout, ashout))

    assert isinstance(chain.last, Runnable)
    assert [piece for piece in call.stream(chain, "x") if piece] == ["A", "B", "C"]


def test_our_runnable_streams_in_a_chain_of_theirs():
    their_runnable = to_langchain(RunnableLambda(lambda message: HumanMessage(message.content * 2)))
    chain = TheirFakeListChatModel(responses=["ab"]) | their_runnable

    result = chain.invoke("x")

    assert (type(result), result.content) == (their_messages.HumanMessage, "abab")
    assert chain.batch(["x", "y"])[1].content == "abab"
    assert asyncio.run(chain.ainvoke("x")).content == "abab"


def test_prompts_become_prompts():
    their_prompt = to_langchain(
        ChatPromptTemplate.from_messages([("system", "s"), ("human", "{x}")])
    )
    assert isinstance(their_prompt, their_prompts.ChatPromptTemplate)
    assert their_prompt.invoke({"x": "hi"}).messages[1].content == "hi"

    our_prompt = from_langchain(their_prompts.PromptTemplate.from_template("a {b}"))
    assert our_prompt.format(b="c") == "a c"


class Log(BaseCallbackHandler):
    def __init__(self):
        self.events = []

    def on_chain_start(self, serialized, inputs, *, run_id, parent_run_id=None, **kwargs):
        self.events.append(("chain", run_id, parent_run_id))

    def on_chat_model_start(self, serialized, messages, *, run_id, parent_run_id=None, **kwargs):
        self.events.append((type(messages[0][0]).__module__, run_id, parent_run_id))

    def on_llm_end(self, response, *, run_id, **kwargs):
        self.events.append((type(response.generations[0][0].message).__module__, run_id, None))


def test_a_handler_of_ours_sees_runs_inside_theirs_under_their_parent(call):
    log = Log()
    inner = their_prompts.PromptTemplate.from_template("{x}") | TheirFakeListChatModel(
        responses=["a"]
    )
    chain = RunnableLambda(lambda x: {"x": x}) | from_langchain(inner)

    call.invoke(chain, "hi", {"callbacks": [log]})

    starts = [event for event in log.events if event[0].startswith("foldline")]
    assert len(starts) == 2, log.events
    runs = {run: parent for kind, run, parent in log.events if kind == "chain"}
    assert list(runs.values()).count(None) == 1
    assert all(parent in runs for parent in runs.values() if parent is not None)


def test_an_async_handler_of_ours_sees_runs_of_theirs():
    class AsyncLog(AsyncCallbackHandler):
        tokens: list[str]

        async def on_llm_new_token(self, token, **kwargs):
            self.tokens.append(token)

    log = AsyncLog()
    log.tokens = []
    model = TheirFakeListChatModel(responses=["abc"])

    async def stream():
        config = {"callbacks": [to_langchain(log)]}
        return [piece async for piece in model.astream("x", config)]

    asyncio.run(stream())
    assert [token for token in log.tokens if token] == ["a", "b", "c"]


def test_a_handler_of_theirs_sees_runs_of_ours(call):
    class Tokens(their_callbacks.BaseCallbackHandler):
        def __init__(self):
            self.tokens, self.answers = [], []

        def on_llm_new_token(self, token, **kwargs):
            self.tokens.append(token)

        def on_llm_end(self, response, **kwargs):
            self.answers.append(response.generations[0][0].message)

    tokens = Tokens()
    model = FakeListChatModel(responses=["abc"])

    call.stream(model, "x", {"callbacks": [from_langchain(tokens)]})

    assert [token for token in tokens.tokens if token] == ["a", "b", "c"]
    assert [type(answer).__module__.partition(".")[0] for answer in tokens.answers] == [
        "langchain_core"
    ]


def test_events_show_the_tokens_of_a_model_inside_the_other_library():
    inner = their_prompts.PromptTemplate.from_template("{x}") | TheirFakeListChatModel(
        responses=["abc"]
    )
    chain = RunnableLambda(lambda x: {"x": x}) | from_langchain(inner)

    async def tokens():
        return [
            event["data"]["chunk"]
            async for event in chain.astream_events("hi", version="v2")
            if event["event"] == "on_chat_model_stream"
        ]

    chunks = asyncio.run(tokens())
    assert [chunk.content for chunk in chunks if chunk.content] == ["a", "b", "c"]
    assert all(isinstance(chunk, AIMessageChunk) for chunk in chunks)


# -- retrieval


class TheirRetriever(their_retrievers.BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [their_documents.Document(query * 2, metadata={"n": 1})]


def test_retrievers_cross_both_ways(call):
    our_retriever = from_langchain(TheirRetriever(tags=["t"]))
    assert isinstance(our_retriever, BaseRetriever)
    assert our_retriever.tags == ["t"]
    assert call.invoke(our_retriever, "ab") == [Document("abab", metadata={"n": 1})]

    store = InMemoryVectorStore.from_texts(["x", "y"], DeterministicFakeEmbedding(size=4))
    their_retriever = to_langchain(store.as_retriever(search_kwargs={"k": 1}))
    assert isinstance(their_retriever, their_retrievers.BaseRetriever)
    assert [type(document) for document in their_retriever.invoke("x")] == [
        their_documents.Document
    ]


def test_embeddings_cross_both_ways(call):
    our_embeddings = from_langchain(their_embeddings.DeterministicFakeEmbedding(size=4))
    assert isinstance(our_embeddings, Embeddings)
    assert len(call.run(our_embeddings, "embed_query", "x")) == 4

    their_embedding = to_langchain(DeterministicFakeEmbedding(size=5))
    assert isinstance(their_embedding, their_embeddings.Embeddings)
    assert [len(vector) for vector in their_embedding.embed_documents(["a", "b"])] == [5, 5]


def test_their_vector_store_works_here(call):
    their_store = their_stores.InMemoryVectorStore(
        their_embeddings.DeterministicFakeEmbedding(size=8)
    )
    store = from_langchain(their_store)

    call.run(store, "add_documents", [Document("a", id="1"), Document("b", id="2")])

    assert call.run(store, "similarity_search", "a", k=1) == [Document("a", id="1")]
    document, score = call.run(store, "similarity_search_with_score", "a", k=1)[0]
    assert (document.page_content, round(score, 3)) == ("a", 1.0)
    assert call.invoke(store.as_retriever(search_kwargs={"k": 1}), "b") == [Document("b", id="2")]
    call.run(store, "delete", ["1"])
    assert call.run(store, "get_by_ids", ["1", "2"]) == [Document("b", id="2")]
    assert isinstance(store.embeddings, Embeddings)
    with pytest.raises(UsageError, match="make it with its own library"):
        type(store).from_texts(["a"], DeterministicFakeEmbedding(size=8))


def test_our_vector_store_works_there():
    store = to_langchain(InMemoryVectorStore(DeterministicFakeEmbedding(size=8)))
    assert isinstance(store, their_stores.VectorStore)

    ids = store.add_texts(["a", "b"], [{"n": 1}, {"n": 2}])

    assert len(ids) == 2
    assert store.similarity_search("b", k=1)[0].metadata == {"n": 2}
    assert store.as_retriever(search_kwargs={"k": 1}).invoke("a")[0].page_content == "a"
    assert asyncio.run(store.asimilarity_search("b", k=1))[0].page_content == "b"
