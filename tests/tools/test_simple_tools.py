"""The small makers: `Tool`, renderers, retriever tools."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from foldline.callbacks import BaseCallbackHandler
from foldline.documents.base import Document
from foldline.exceptions import ToolException, UsageError
from foldline.runnables import RunnableLambda
from foldline.tools import (
    Tool,
    create_retriever_tool,
    render_text_description,
    render_text_description_and_args,
    tool,
)
from foldline.utils.function_calling import convert_to_openai_tool


def shout(text: str) -> str:
    """Shout."""
    return text.upper()


# -- Tool


def test_a_tool_of_one_string_takes_a_string_or_one_value(call):
    shout_tool = Tool("shout", shout, "Shout.")

    assert call.invoke(shout_tool, "a") == call.invoke(shout_tool, {"anything": "a"}) == "A"
    assert shout_tool.is_single_input
    assert shout_tool.args == {"tool_input": {"type": "string"}}
    parameters = convert_to_openai_tool(shout_tool)["function"]["parameters"]
    assert list(parameters["properties"]) == parameters["required"] == ["__arg1"]


@pytest.mark.parametrize("args", [{}, {"a": 1, "b": 2}], ids=str)
def test_more_or_less_than_one_value_is_a_tool_exception(call, args):
    shout_tool = Tool("shout", shout, "Shout.")

    with pytest.raises(ToolException, match="shout takes one input"):
        call.invoke(shout_tool, args)
    assert "takes one input" in call.invoke(
        shout_tool.model_copy(update={"handle_tool_error": True}), args
    )


def test_a_tool_of_one_string_may_have_a_schema(call):
    class Query(BaseModel):
        query: int

    plus_tool = Tool.from_function(lambda query: query + 1, "plus", "d", args_schema=Query)

    assert call.invoke(plus_tool, {"query": "3"}) == 4
    assert list(plus_tool.args) == ["query"]


# -- renderers


def test_tools_are_said_in_lines():
    shout_tool = tool(shout)

    assert render_text_description([shout_tool, shout_tool]) == "\n".join(
        ["shout(text: 'str') -> 'str' - Shout."] * 2
    )
    assert render_text_description_and_args([shout_tool]).endswith(
        "Shout., args: {'text': {'title': 'Text', 'type': 'string'}}"
    )


# -- retrievers

FOUND = [
    Document(page_content="one", metadata={"page": 1}),
    Document(page_content="two", metadata={"page": 2}),
]


class Prompt:
    input_variables = ["page", "page_content"]  # noqa: RUF012

    def format(self, **kwargs: Any) -> str:
        return "p. {page}: {page_content}".format(**kwargs)


class RetrieverRecorder(BaseCallbackHandler):
    def __init__(self) -> None:
        self.parents: list[Any] = []

    def on_chain_start(self, *args: Any, parent_run_id: Any, **kwargs: Any) -> None:
        self.parents.append(parent_run_id)


def test_a_retriever_is_a_tool_that_gives_text(call):
    retriever: Any = RunnableLambda(lambda query: FOUND)
    recorder = RetrieverRecorder()

    search_tool = create_retriever_tool(retriever, "search", "Search.", document_separator=" | ")

    assert call.invoke(search_tool, "q", {"callbacks": [recorder]}) == "one | two"
    assert recorder.parents != [None]
    assert search_tool.args["query"]["description"] == "query to look up in retriever"


def test_a_retriever_tool_keeps_its_documents_and_uses_a_prompt(call):
    retriever: Any = RunnableLambda(lambda query: FOUND)
    search_tool = create_retriever_tool(
        retriever, "search", "d", document_prompt=Prompt(), response_format="content_and_artifact"
    )

    message = call.invoke(
        search_tool, {"type": "tool_call", "name": "search", "args": {"query": "q"}, "id": "1"}
    )

    assert message.content == "p. 1: one\n\np. 2: two"
    assert message.artifact == FOUND


def test_a_prompt_that_wants_what_documents_lack_says_so(call):
    retriever: Any = RunnableLambda(lambda query: [Document(page_content="x")])
    search_tool = create_retriever_tool(retriever, "search", "d", document_prompt=Prompt())

    with pytest.raises(UsageError, match="wants 'page', and a document has only page_content"):
        call.invoke(search_tool, "q")
