"""Request bodies for messages, pictures and documents; fields, headers, betas."""

from __future__ import annotations

import base64

import pytest

from foldline.exceptions import UsageError
from foldline.messages import (
    AIMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from foldline.providers.anthropic import ChatAnthropic

MODEL = ChatAnthropic(model="claude-sonnet-4-5", api_key="key", max_tokens=1000)
NEW = ChatAnthropic(model="claude-opus-5", api_key="key", max_tokens=1000)


def search(query: str) -> str:
    """Search the web."""
    return query


def other(place: str) -> str:
    """Do something else."""
    return place


def body_of(input, model=MODEL, **options):
    return model.explain(input, **options).body


def content_of(*blocks):
    return body_of([HumanMessage(list(blocks))])["messages"][0]["content"]


# -- turns


def test_system_messages_become_the_system_prompt():
    body = body_of([("system", "Be brief."), ("system", "Be kind."), ("human", "Hi")])

    assert body["system"] == [
        {"type": "text", "text": "Be brief."},
        {"type": "text", "text": "Be kind."},
    ]
    assert body["messages"] == [{"role": "user", "content": "Hi"}]


def test_a_late_system_message_is_native_where_the_model_takes_it():
    history = [
        ("human", "Hi"),
        ("ai", "Hello"),
        ("human", "More"),
        ("system", "Now in French."),
        ("ai", "Oui"),
    ]

    assert [turn["role"] for turn in body_of(history, NEW)["messages"]] == [
        "user", "assistant", "user", "system", "assistant",
    ]  # fmt: skip


@pytest.mark.parametrize("model", [MODEL, NEW])
def test_a_late_system_message_elsewhere_is_told_in_tags_and_noted(model):
    explanation = model.explain(
        [("human", "Hi"), ("ai", "Hello"), ("system", "Now in French."), ("human", "More")]
    )

    assert explanation.body["messages"][2] == {
        "role": "user",
        "content": [
            {"type": "text", "text": "<system>\nNow in French.\n</system>"},
            {"type": "text", "text": "More"},
        ],
    }
    assert "system message" in explanation.notes[0]


def test_neighbours_of_one_role_are_one_turn():
    body = body_of(
        [("human", "One"), ("human", "Two"), ("ai", "Three"), ("ai", "Four"), ("human", "Five")]
    )

    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "One"},
        {"type": "text", "text": "Two"},
    ]


def test_results_of_parallel_calls_and_the_next_question_are_one_turn():
    calls = [
        {"id": f"toolu_{n}", "name": "search", "args": {"query": str(n)}, "type": "tool_call"}
        for n in (1, 2)
    ]
    image = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
    body = body_of(
        [
            HumanMessage("Search"),
            AIMessage("", tool_calls=calls),
            ToolMessage([{"type": "text", "text": "Seen"}, image], tool_call_id="toolu_1"),
            ToolMessage("boom", tool_call_id="toolu_2", status="error"),
            HumanMessage("Well?"),
        ]
    )

    assert [block["type"] for block in body["messages"][1]["content"]] == ["tool_use", "tool_use"]
    first, second, question = body["messages"][2]["content"]
    assert first["content"][1]["source"] == {
        "type": "base64",
        "media_type": "image/png",
        "data": "AAAA",
    }
    assert second == {
        "type": "tool_result",
        "tool_use_id": "toolu_2",
        "content": "boom",
        "is_error": True,
    }
    assert question == {"type": "text", "text": "Well?"}


def test_an_empty_tool_result_has_no_content():
    call = {"id": "toolu_1", "name": "search", "args": {}, "type": "tool_call"}
    body = body_of(
        ["Go", AIMessage("", tool_calls=[call]), ToolMessage("", tool_call_id="toolu_1")]
    )

    assert body["messages"][2]["content"] == [{"type": "tool_result", "tool_use_id": "toolu_1"}]


def test_empty_text_is_never_sent():
    explanation = MODEL.explain(
        [HumanMessage([{"type": "text", "text": " "}, "Hi"]), AIMessage(""), HumanMessage("Yes")]
    )

    assert explanation.body["messages"][0]["content"] == [
        {"type": "text", "text": "Hi"},
        {"type": "text", "text": "Yes"},
    ]
    assert explanation.notes == ["an empty message was left out"]


def test_nothing_to_say_is_an_error_that_says_so():
    with pytest.raises(UsageError, match="at least one message"):
        MODEL.explain([SystemMessage("Be brief.")])


def test_an_answer_begun_for_the_model_has_no_space_at_its_end():
    assert (
        body_of([("human", "Hi"), ("ai", "The answer is \n")])["messages"][1]["content"]
        == "The answer is"
    )


def test_chat_messages_speak_by_their_role_and_function_messages_are_refused():
    assert body_of([ChatMessage(role="user", content="Hi")])["messages"][0]["role"] == "user"
    with pytest.raises(UsageError, match="function"):
        MODEL.explain([HumanMessage("x"), FunctionMessage(name="f", content="1")])


def test_F_U09_a_result_without_its_call_is_refused():
    with pytest.raises(UsageError, match="toolu_9"):
        MODEL.explain([HumanMessage("Hi"), ToolMessage("1", tool_call_id="toolu_9")])


def test_a_call_that_did_not_parse_is_shown_if_it_was_answered():
    broken = {
        "type": "invalid_tool_call",
        "id": "toolu_1",
        "name": "f",
        "args": '{"a": ',
        "error": "cut",
    }
    messages = [HumanMessage("Go"), AIMessage("", invalid_tool_calls=[broken])]
    body = body_of([*messages, ToolMessage("not JSON", tool_call_id="toolu_1", status="error")])
    left_out = MODEL.explain([*messages, HumanMessage("Well?")])

    assert body["messages"][1]["content"][0]["input"] == {"INVALID_JSON": '{"a": '}
    assert [turn["role"] for turn in left_out.body["messages"]] == ["user"]
    assert "a tool call that did not parse was left out" in left_out.notes


# -- pictures and documents


@pytest.mark.parametrize(
    ("block", "source"),
    [
        (
            {"type": "image", "base64": "AAAA"},
            {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"},
        ),
        ({"type": "image", "url": "https://x/a.png"}, {"type": "url", "url": "https://x/a.png"}),
        ({"type": "image", "file_id": "file_1"}, {"type": "file", "file_id": "file_1"}),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "base64", "media_type": "image/png", "data": "AAAA"},
        ),
        (
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/gif", "data": "BBBB"},
            },
            {"type": "base64", "media_type": "image/gif", "data": "BBBB"},
        ),
    ],
)
def test_pictures_come_from_anywhere(block, source):
    assert content_of({"type": "text", "text": "See"}, block)[1] == {
        "type": "image",
        "source": source,
    }


def test_documents_are_pdf_or_text():
    text = base64.b64encode("Grüße".encode()).decode()
    content = content_of(
        {
            "type": "file",
            "base64": "JVBE",
            "mime_type": "application/pdf",
            "extras": {"filename": "a.pdf"},
        },
        {"type": "file", "url": "https://x/a.pdf"},
        {"type": "file", "file_id": "file_1", "extras": {"citations": {"enabled": True}}},
        {"type": "file", "base64": text, "mime_type": "text/plain"},
        {"type": "text-plain", "text": "Plain.", "title": "Notes", "context": "mine"},
        {
            "type": "document",
            "source": {"type": "content", "content": [{"type": "text", "text": "One"}]},
            "citations": {"enabled": True},
        },
        {
            "type": "search_result",
            "source": "s",
            "title": "t",
            "content": [{"type": "text", "text": "x"}],
        },
    )

    assert [block["type"] for block in content] == ["document"] * 6 + ["search_result"]
    assert content[0]["source"]["media_type"] == "application/pdf"
    assert content[0]["title"] == "a.pdf"
    assert content[2]["citations"] == {"enabled": True}
    assert content[3]["source"] == {"type": "text", "media_type": "text/plain", "data": "Grüße"}
    assert (content[4]["title"], content[4]["context"]) == ("Notes", "mine")
    assert content[5]["source"]["type"] == "content"


@pytest.mark.parametrize("kind", ["audio", "video"])
def test_sound_and_film_are_refused_clearly(kind):
    with pytest.raises(UsageError, match=kind):
        content_of({"type": kind, "base64": "AAAA", "mime_type": f"{kind}/mp4"})


# -- fields and headers


def test_langchains_names_are_accepted_and_contradictions_refused():
    model = ChatAnthropic(
        model_name="claude-opus-5", anthropic_api_key="key", max_tokens_to_sample=7, stop_sequences=["x"],
        anthropic_api_url="https://proxy.example.com/v1", default_request_timeout=3,
    )  # fmt: skip
    explanation = model.explain("Hi")

    assert explanation.url == "https://proxy.example.com/v1/messages"
    assert explanation.body["stop_sequences"] == ["x"]
    assert (explanation.body["model"], explanation.body["max_tokens"], model.timeout) == (
        "claude-opus-5",
        7,
        3,
    )
    with pytest.raises(ValueError, match="mean the same"):
        ChatAnthropic(model="a", model_name="b")


def test_options_of_a_call_overrule_fields_and_unknown_ones_pass():
    body = body_of(
        "Hi", temperature=0.5, stop=["END"], max_tokens=5, metadata={"user_id": "u"}, top_secret=1
    )

    assert body["temperature"] == 0.5
    assert body["stop_sequences"] == ["END"]
    assert (body["max_tokens"], body["metadata"], body["top_secret"]) == (5, {"user_id": "u"}, 1)
    with pytest.warns(UserWarning, match="brand_new"):
        assert ChatAnthropic(brand_new=1).model_kwargs == {"brand_new": 1}


def test_betas_are_named_for_what_is_used():
    model = ChatAnthropic(
        api_key="key",
        betas=["mine-2026"],
        default_headers={"Anthropic-Beta": "theirs-2026", "x-own": "1"},
        mcp_servers=[{"type": "url", "url": "https://x", "name": "m"}],
        context_management={"edits": [{"type": "compact_20260112"}]},
    )
    explanation = model.explain(
        [HumanMessage([{"type": "image", "file_id": "file_1"}, "What is it?"])],
        tools=[
            {"type": "computer_20251124", "name": "computer"},
            {"type": "mcp_toolset", "mcp_server_name": "m"},
        ],
    )

    assert explanation.headers["anthropic-beta"].split(",") == [
        "mine-2026", "theirs-2026", "computer-use-2025-11-24", "mcp-client-2025-11-20",
        "context-management-2025-06-27", "compact-2026-01-12", "files-api-2025-04-14",
    ]  # fmt: skip
    assert explanation.headers["anthropic-version"] == "2023-06-01"
    assert explanation.headers["x-api-key"] == "***"
    assert "betas" not in explanation.body


def test_a_setting_that_the_model_refuses_is_left_out_and_noted():
    explanation = ChatAnthropic(model="claude-opus-5", api_key="key", temperature=0).explain("Hi")

    assert "temperature" not in explanation.body
    assert explanation.notes == ["claude-opus-5 does not take temperature: left out"]


def test_the_key_is_read_from_the_environment_when_it_is_needed(monkeypatch):
    model = ChatAnthropic()
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token")

    assert "authorization" in model.explain("Hi").headers
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    assert "x-api-key" in model.explain("Hi").headers
    assert "key" not in repr(ChatAnthropic(api_key="the-key")).replace("api_key", "")


def test_the_last_container_can_be_used_again():
    previous_answer = AIMessage(
        "Done",
        response_metadata={"container": {"id": "container_1"}, "model_provider": "anthropic"},
    )
    history = ["Go", previous_answer, "On"]

    assert (
        body_of(history, ChatAnthropic(api_key="key", reuse_last_container=True))["container"]
        == "container_1"
    )
    assert "container" not in body_of(history)


def test_langchains_native_content_is_taken():
    call = {"id": "toolu_1", "name": "search", "args": {"query": "x"}, "type": "tool_call"}
    tool_use = {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"query": "x"}}
    thinking_block = {"type": "thinking", "thinking": "hm", "signature": "Eq"}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "found"}
    answer = AIMessage(
        [thinking_block, {"type": "text", "text": "Looking."}, tool_use], tool_calls=[call]
    )
    body = body_of(["Find x", answer, HumanMessage([result])])

    assert body["messages"][1]["content"] == [
        thinking_block,
        {"type": "text", "text": "Looking."},
        tool_use,
    ]
    assert body["messages"][2]["content"] == [result]


def test_citations_of_others_and_broken_documents_are_not_sent():
    note = {"type": "citation", "url": "https://x", "title": "X"}
    answer = AIMessage([{"type": "text", "text": "Yes", "annotations": [note]}])
    explanation = MODEL.explain(["Hi", answer, "And?"])

    assert explanation.body["messages"][1]["content"] == "Yes"
    assert explanation.notes == ["citations that Anthropic did not write were left out"]
    with pytest.raises(UsageError, match="is not text"):
        content_of({"type": "file", "base64": "/w==", "mime_type": "text/plain"})
    with pytest.raises(UsageError, match="base64"):
        content_of({"type": "image", "mime_type": "image/png"})


def test_a_file_can_be_put_into_the_container():
    upload = {"type": "container_upload", "file_id": "file_1"}

    assert content_of({"type": "text", "text": "Use it"}, upload)[1] == upload


def test_a_large_document_is_not_taken_for_a_long_text():
    pdf = {"type": "file", "base64": "A" * 4_000_000, "mime_type": "application/pdf"}
    source = {"type": "base64", "media_type": "application/pdf", "data": "A" * 4_000_000}
    native = {"type": "document", "source": source}

    assert MODEL.explain([HumanMessage([pdf, native, "What is it?"])]).tokens < 1000
