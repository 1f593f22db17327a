"""Messages that another provider wrote: converted, dropped or refused by policy, and what was lost is said."""

from __future__ import annotations

from typing import Any

import pytest

from tests.servers import FaultServer, json_answer
from weft.exceptions import UsageError
from weft.messages import AIMessage, HumanMessage, ToolMessage
from weft.providers._foreign import blocks_for, check_tool_results, is_own
from weft.providers.openai import ChatOpenAI
from weft.providers.openai_compatible import ChatDeepSeek

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
    own = FOREIGN.model_copy(
        update={"response_metadata": {"model_provider": "openai", "output_version": "v1"}}
    )
    assert len(blocks_for(own, frozenset({"openai"}), "refuse", notes)) == 6
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

    said = call.invoke(model, TALK)

    assert "reasoning by anthropic was told as text" in said.response_metadata["lost"]
    assert said.response_metadata["lost"] == model.explain(TALK).notes


def test_the_policy_is_a_field() -> None:
    with pytest.raises(UsageError, match="foreign_blocks"):
        ChatOpenAI(api_key="k", foreign_blocks="refuse").explain(TALK)
    body = ChatDeepSeek(api_key="k", foreign_blocks="drop").explain(TALK).body
    assert body["messages"][1]["content"] == "Found it."


def test_F_U09_a_result_without_its_call_is_refused_before_it_is_sent() -> None:
    with pytest.raises(UsageError, match=r"messages\[1\] is the result of the call 'c9'"):
        check_tool_results([HumanMessage("x"), ToolMessage("y", tool_call_id="c9")])
    for responses in (False, True):
        with pytest.raises(UsageError, match="no message before it"):
            ChatOpenAI(api_key="k", use_responses_api=responses).explain(
                [ToolMessage("y", tool_call_id="c9")]
            )
