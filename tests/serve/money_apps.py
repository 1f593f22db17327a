"""Apps of every kind whose models ask the stub provider; each answers with up to `WORDS` tokens."""

from __future__ import annotations

import os
from typing import Any

from foldline.agents import create_agent
from foldline.graph import END, START, MessagesState, StateGraph
from foldline.output_parsers import StrOutputParser
from foldline.prompts import ChatPromptTemplate
from foldline.providers.openai import ChatOpenAI, OpenAIEmbeddings
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
unknown = make(max_tokens=WORDS)
open_ended = make(profile=PRICES)
chain = ChatPromptTemplate([("human", "{text}")]) | model | StrOutputParser()


def look() -> str:
    """Look."""
    return "seen"


agent = create_agent(model, [look], name="agent")
unknown_agent = create_agent(unknown, [look], name="unknown_agent")


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


vectors = OpenAIEmbeddings(model="stub", base_url=f"{URL}/v1", api_key="k", max_retries=0)
KINDS = ("model", "chain", "agent", "graph", "flow")


def input_of(kind: str, text: str) -> Any:
    """What an app of a kind takes."""
    if kind == "chain":
        return {"text": text}
    if kind in ("agent", "unknown_agent", "graph"):
        return {"messages": [["user", text]]}
    return text
