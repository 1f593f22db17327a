"""`dumps(..., namespace="langchain")` is read by LangChain's own `loads`."""

from __future__ import annotations

import warnings

import pytest

from foldline.chains import LLMChain
from foldline.documents import Document
from foldline.exceptions import SchemaError, UsageError
from foldline.language_models import FakeListChatModel
from foldline.load import dumpd, dumps, loads
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from foldline.output_parsers import StrOutputParser
from foldline.outputs import ChatGeneration
from foldline.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from foldline.runnables import RunnableParallel, RunnablePassthrough

their_load = pytest.importorskip("langchain_core.load")

CALL = {"name": "f", "args": {"a": 1}, "id": "1", "type": "tool_call"}
PROMPT = ChatPromptTemplate.from_messages(
    [("system", "s {y}"), MessagesPlaceholder("h"), ("human", "{x}")]
)
VALUES = [
    HumanMessage("hi"),
    AIMessage("a", tool_calls=[CALL], finish_reason="tool_use"),
    ToolMessage("a", tool_call_id="1"),
    Document("x", metadata={"a": 1}),
    ChatGeneration(message=AIMessage("a")),
    PromptTemplate.from_template("{x}"),
    PROMPT,
    RunnableParallel(a=RunnablePassthrough(), b=PROMPT | StrOutputParser()),
]


def read_there(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return their_load.loads(text, allowed_objects="all")


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_langchain_reads_what_we_write(value):
    text = dumps(value, namespace="langchain")

    their_value = read_there(text)

    assert type(their_value).__module__.startswith("langchain_core")
    assert type(their_value).__name__ == type(value).__name__
    assert dumps(loads(text)) == dumps(value)


def test_a_class_that_langchain_cannot_load_is_named():
    chain = LLMChain(llm=FakeListChatModel(responses=["a"]), prompt=PROMPT)

    with pytest.raises(SchemaError, match="LangChain has no class that it would load as"):
        dumpd(chain, namespace="langchain")


def test_another_namespace_is_refused():
    with pytest.raises(UsageError, match="namespace is one of foldline, langchain, not 'x'"):
        dumps([], namespace="x")
