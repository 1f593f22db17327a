"""Mistakes that a type checker must find. Never run.

Both checkers report an ignore comment that hides nothing, so each line here is an error of each of them.
"""

from foldline.messages import (
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    RemoveMessage,
    ToolMessage,
    ToolMessageChunk,
)
from foldline.output_parsers import StrOutputParser
from foldline.providers.openai import ChatOpenAI
from foldline.providers.openai_compatible import ChatGroq

CHAIN = ChatOpenAI(model="gpt-5", api_key="k") | StrOutputParser()


def test_required_fields_of_messages() -> None:
    ToolMessage("x")  # type: ignore[call-arg]
    ToolMessageChunk("x")  # type: ignore[call-arg]
    ChatMessage("x")  # type: ignore[call-arg]
    ChatMessageChunk("x")  # type: ignore[call-arg]
    FunctionMessage("x")  # type: ignore[call-arg]
    RemoveMessage()  # type: ignore[call-arg]


def test_the_same_with_them() -> None:
    ToolMessage("x", tool_call_id="1")
    ToolMessage(content="x", tool_call_id="1", name="add", status="error", artifact=[1])
    ToolMessageChunk("x", tool_call_id="1")
    ToolMessage(content_blocks=[{"type": "text", "text": "x"}], tool_call_id="1")
    ChatMessage("x", role="chair")
    ChatMessage(role="chair", content="x")
    ChatMessageChunk("x", role="chair")
    FunctionMessage("x", name="add")
    FunctionMessage(name="add", content="x")
    RemoveMessage(id="1")


def test_only_what_ends_in_a_model_has_its_events() -> None:
    CHAIN.stream_v2("x")  # type: ignore[misc]
    CHAIN.stream_events("x", version="v3")  # type: ignore[arg-type]


def test_names_that_no_setting_has() -> None:
    ChatOpenAI(modle="gpt-5")  # type: ignore[call-arg]
    ChatOpenAI(anthropic_api_key="k")  # type: ignore[call-arg]
    ChatGroq(openai_organization="o")  # type: ignore[call-arg]
