"""Answers of OpenAI's responses interface, as LangChain 0.3 kept them: read in full."""

from foldline.messages import AIMessage, AIMessageChunk


def test_items_beside_the_content_become_blocks_in_their_order():
    message = AIMessage(
        "Sunny.",
        id="msg_1",
        additional_kwargs={
            "reasoning": {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"text": "a"}, {"text": "b"}],
            },
            "refusal": "not that",
            "tool_outputs": [{"type": "web_search_call", "id": "ws_1", "status": "completed"}],
            "__openai_function_call_ids__": {"call_1": "fc_1"},
        },
        tool_calls=[{"name": "f", "args": {}, "id": "call_1"}],
        response_metadata={"model_provider": "openai"},
    )
    blocks = message.content_blocks

    assert [block["type"] for block in blocks] == [
        "reasoning",
        "reasoning",
        "text",
        "refusal",
        "tool_call",
        "server_tool_call",
        "server_tool_result",
    ]
    assert [block["reasoning"] for block in blocks[:2]] == ["a", "b"]
    assert blocks[2]["id"] == "msg_1"
    assert blocks[3] == {"type": "refusal", "refusal": "not that"}
    assert blocks[4]["extras"] == {"item_id": "fc_1"}


def test_parts_of_a_reasoning_item_are_joined():
    first = AIMessageChunk("", additional_kwargs={"reasoning": {"id": "rs_1", "summary": []}})
    second = AIMessageChunk("", additional_kwargs={"reasoning": {"summary": [{"text": "a"}]}})

    item = (first + second).additional_kwargs["reasoning"]
    assert item == {"id": "rs_1", "summary": [{"text": "a"}]}
