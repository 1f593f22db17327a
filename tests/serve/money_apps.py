"""Apps of every kind whose models ask the stub provider; each answers with up to `WORDS` tokens. Some embed, too."""

from __future__ import annotations

import os
from typing import Any

from foldline.agents import create_agent
from foldline.graph import END, START, MessagesState, StateGraph
from foldline.output_parsers import StrOutputParser
from foldline.prices import register_prices
from foldline.prompts import ChatPromptTemplate
from foldline.providers.openai import ChatOpenAI, OpenAIEmbeddings
from foldline.runnables import RunnableLambda
from foldline.vectorstores import InMemoryVectorStore
from foldline.workflows import step, workflow

WORDS = 40
PRICES: Any = {"prices": {"input": 1000.0, "output": 1000.0}}
"""A token costs a tenth of a cent."""
URL = os.environ.get("STUB_URL", "http://127.0.0.1:9")


def make(**options: Any) -> ChatOpenAI:
    return ChatOpenAI(
        model="stub", base_url=f"{URL}/v1", api_key="k", retry_on_error=False, **options
    )


model = make(max_tokens=WORDS, profile=PRICES)
long = make(max_tokens=5_000, profile=PRICES)
open_ended = make(profile=PRICES)
chain = ChatPromptTemplate([("human", "{text}")]) | model | StrOutputParser()


def look() -> str:
    """Look."""
    return "seen"


agent = create_agent(model, [look], name="agent")


async def speak(state: MessagesState) -> Any:
    return {"messages": [await model.ainvoke(state["messages"])]}


builder = StateGraph(MessagesState)
builder.add_node("speak", speak)
builder.add_edge(START, "speak")
builder.add_edge("speak", END)
graph = builder.compile()


@step
def ask(text: str) -> str:
    return str(model.invoke(text).text)


@workflow()
def flow(text: str) -> str:
    return ask(text)


def make_vectors(model: str) -> OpenAIEmbeddings:
    return OpenAIEmbeddings(model=model, base_url=f"{URL}/v1", api_key="k", max_retries=0)


vectors = make_vectors("stub")
register_prices("openai", {"stub-vectors": {"input": 1000.0}})
priced_vectors = make_vectors("stub-vectors")


async def search(state: MessagesState) -> Any:
    """Embed a document and a query, without blocking the loop."""
    text = str(state["messages"][-1].content)
    store = InMemoryVectorStore(priced_vectors)
    await store.aadd_texts([text])
    (document,) = await store.as_retriever().ainvoke(text)
    return {"messages": [await model.ainvoke(document.page_content)]}


searcher = StateGraph(MessagesState)
searcher.add_node("search", search)
searcher.add_edge(START, "search")
searcher.add_edge("search", END)
search_graph = searcher.compile()


def look_up(text: str) -> str:
    """Embed a document and a query in a thread."""
    store = InMemoryVectorStore.from_texts([text], priced_vectors)
    return str(store.similarity_search(text)[0].page_content)


search_chain = RunnableLambda(look_up) | model | StrOutputParser()
unknown_search = RunnableLambda(vectors.embed_query)
KINDS = ("model", "chain", "agent", "graph", "flow")
SEARCHERS = ("search_graph", "search_chain")
"""They embed twice, and then ask their model."""


def input_of(kind: str, text: str) -> Any:
    """What an app of a kind takes."""
    if kind == "chain":
        return {"text": text}
    if kind in ("agent", "graph", "search_graph"):
        return {"messages": [["user", text]]}
    return text
