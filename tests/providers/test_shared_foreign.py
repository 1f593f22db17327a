"""Messages that another provider wrote: converted, dropped or refused by policy, and losses are noted."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.callbacks import BaseCallbackHandler
from foldline.exceptions import UsageError
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from foldline.providers._foreign_messages import blocks_for, is_own
from foldline.providers._wire import check_messages
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.google import ChatGoogle
from foldline.providers.openai import ChatOpenAI
from foldline.providers.openai_compatible import ChatDeepSeek
from tests.servers import FaultServer, json_answer

FOREIGN = AIMessage(
    [
        {"type": "reasoning", "reasoning": "Hmm.", "extras": {"signature": "sig"}},
        {
            "type": "text",
            "text": "Found it.",
            "annotations": [{"type": "citation", "url": "https://example.com"}],
        },
        {"type": "server_tool_call", "id": "srv_1", "name": "web_search", "args": {"query": "x"}},
        {
            "type": "server_tool_result",
            "tool_call_id": "srv_1",
            "status": "success",
            "output": "a page",
        },
        {
            "type": "tool_call",
            "id": "toolu_1",
            "name": "add",
            "args": {"a": 1},
            "extras": {"thought": "t"},
        },
        {"type": "non_standard", "value": {"type": "container_upload"}},
    ],
    response_metadata={"model_provider": "anthropic", "output_version": "v1"},
    tool_calls=[{"id": "toolu_1", "name": "add", "args": {"a": 1}}],
)
TALK = [HumanMessage("Go"), FOREIGN, ToolMessage("2", tool_call_id="toolu_1")]


def test_converted_blocks_are_told_as_text_and_noted() -> None:
    notes: list[str] = []
    blocks = blocks_for(FOREIGN, frozenset({"openai"}), "convert", notes)

    assert [block["type"] for block in blocks] == ["text", "text", "text", "text", "tool_call"]
    assert blocks[0]["text"] == "<thinking>\nHmm.\n</thinking>"
    assert blocks[1] == {"type": "text", "text": "Found it."}
    assert blocks[2]["text"] == '[called web_search with {"query": "x"}]'
    assert blocks[3]["text"] == "[it returned: a page]"
    assert blocks[4] == {"type": "tool_call", "id": "toolu_1", "name": "add", "args": {"a": 1}}
    assert "reasoning by anthropic was told as text" in notes
    assert "citations by anthropic were left out" in notes
    assert "non_standard by anthropic was left out" in notes
    assert any("signatures" in note for note in notes)


def test_dropped_blocks_are_left_out_and_noted() -> None:
    notes: list[str] = []
    blocks = blocks_for(FOREIGN, frozenset({"openai"}), "drop", notes)

    assert [block["type"] for block in blocks] == ["text", "tool_call"]
    assert "reasoning by anthropic was left out" in notes


def test_refused_blocks_are_an_error_that_names_them() -> None:
    with pytest.raises(
        UsageError, match="anthropic and holds non_standard, reasoning, server_tool_call"
    ):
        blocks_for(FOREIGN, frozenset({"openai"}), "refuse", [])


def test_own_and_unsigned_messages_are_left_alone() -> None:
    notes: list[str] = []
    own_message = FOREIGN.model_copy(
        update={"response_metadata": {"model_provider": "openai", "output_version": "v1"}}
    )
    assert len(blocks_for(own_message, frozenset({"openai"}), "refuse", notes)) == 6
    assert is_own(AIMessage("x"), frozenset({"openai"}))
    assert not notes


@pytest.mark.parametrize("responses", [False, True])
def test_the_answer_says_what_was_lost(
    call: Any, fault_server: FaultServer, responses: bool
) -> None:
    chat = {"id": "1", "choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}
    answer = {"id": "resp_1", "status": "completed", "output": []}
    fault_server.script("/v1/chat/completions", json_answer(chat))
    fault_server.script("/v1/responses", json_answer(answer))
    model = ChatOpenAI(
        base_url=f"{fault_server.url}/v1", api_key="k", model="m", use_responses_api=responses
    )

    message = call.invoke(model, TALK)

    assert "reasoning by anthropic was told as text" in message.response_metadata["lost"]
    assert message.response_metadata["lost"] == model.explain(TALK).notes


def test_the_policy_is_a_field() -> None:
    with pytest.raises(UsageError, match="foreign_blocks"):
        ChatOpenAI(api_key="k", foreign_blocks="refuse").explain(TALK)
    body = ChatDeepSeek(api_key="k", foreign_blocks="drop").explain(TALK).body
    assert body["messages"][1]["content"] == "Found it."


@pytest.mark.parametrize(
    "call",
    [
        {"type": "tool_use", "id": "c1", "name": "f", "input": {}},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "tool_call", "id": "c1", "name": "f", "args": {}},
    ],
)
def test_F_U09_a_call_that_only_a_block_makes_has_its_result(call: dict[str, Any]) -> None:
    call_message = AIMessage([call], response_metadata={"model_provider": "openai"})
    messages = [HumanMessage("x"), call_message, ToolMessage("y", tool_call_id="c1")]

    sent_messages = ChatOpenAI(api_key="k").explain(messages).body["messages"]

    assert call_message.tool_calls == []
    assert sent_messages[1]["tool_calls"][0]["id"] == sent_messages[2]["tool_call_id"] == "c1"


def test_F_U09_a_result_without_its_call_is_refused_before_it_is_sent() -> None:
    with pytest.raises(UsageError, match=r"messages\[1\] is the result of the call 'c9'"):
        check_messages([HumanMessage("x"), ToolMessage("y", tool_call_id="c9")])
    for responses in (False, True):
        with pytest.raises(UsageError, match="no message before it"):
            ChatOpenAI(api_key="k", use_responses_api=responses).explain(
                [ToolMessage("y", tool_call_id="c9")]
            )


MARKED = {
    "name": "files.read",
    "input_schema": {"type": "object", "properties": {}},
    "cache_control": {"type": "ephemeral"},
}


def test_a_tool_keeps_what_it_says_for_its_provider_and_another_tells_that_it_does_not() -> None:
    explanation = ChatAnthropic(api_key="k").bind_tools([MARKED]).explain("Hi")
    other = ChatOpenAI(api_key="k").bind_tools([MARKED]).explain("Hi")

    assert explanation.body["tools"][0]["cache_control"] == {"type": "ephemeral"}
    assert other.body["tools"][0].keys() == {"type", "function"}
    assert "openai takes no cache_control of the tool 'files_read'" in other.notes
    assert "Gemini takes no cache_control" in str(
        ChatGoogle(api_key="k").bind_tools([MARKED]).explain("Hi").notes
    )


def test_explain_tells_which_tools_are_sent_under_another_name_and_tells_no_callback() -> None:
    events: list[str] = []

    class Listener(BaseCallbackHandler):
        def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
            events.append("start")

    explanation = (
        ChatAnthropic(api_key="k")
        .bind_tools([MARKED])
        .explain("Hi", config={"callbacks": [Listener()]})
    )

    assert explanation.notes == ["the tool 'files.read' is sent as 'files_read'"]
    assert events == []
