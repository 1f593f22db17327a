"""Request bodies for messages, media, tools, thinking and schemas; the URL, and the key."""

from __future__ import annotations

import pytest
from google.genai import types
from pydantic import BaseModel

from foldline.exceptions import UsageError
from foldline.messages import (
    AIMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from foldline.providers.google import (
    ChatGoogle,
    ChatGoogleGenerativeAI,
    HarmBlockThreshold,
    HarmCategory,
)

MODEL = ChatGoogle(model="gemini-2.5-flash", api_key="key")
THREE = ChatGoogle(model="gemini-3-flash-preview", api_key="key")


def search(query: str, limit: int = 3) -> str:
    """Search the web."""
    return query * limit


def now() -> str:
    """Tell the time."""
    return ""


def body_of(input, model=MODEL, **options):
    body = model.explain(input, **options).body
    for turn in body["contents"]:  # Google's own types take it
        types.Content.model_validate(turn)
    for tool in body.get("tools", ()):
        types.Tool.model_validate(tool)
    types.GenerationConfig.model_validate(body.get("generationConfig", {}))
    types.ToolConfig.model_validate(body.get("toolConfig", {}))
    return body


def parts_of(*blocks):
    return body_of([HumanMessage(list(blocks))])["contents"][0]["parts"]


def test_system_messages_become_the_instruction():
    body = body_of([("system", "Be brief."), ("system", "Be kind."), ("human", "Hi")])

    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}, {"text": "Be kind."}]}
    assert body["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]


def test_a_late_system_message_is_told_in_tags_and_noted():
    explanation = MODEL.explain(
        [("human", "Hi"), ("ai", "Hello"), ("system", "In French."), ("human", "More")]
    )

    assert explanation.body["contents"][2]["parts"] == [
        {"text": "<system>\nIn French.\n</system>"},
        {"text": "More"},
    ]
    assert "system message" in explanation.notes[0]


def test_neighbours_of_one_role_are_one_turn_and_nothing_empty_is_sent():
    explanation = MODEL.explain(
        [("human", "One"), ("human", "Two"), AIMessage(""), ("human", "Three")]
    )

    (turn,) = explanation.body["contents"]
    assert turn["parts"] == [{"text": "One"}, {"text": "Two"}, {"text": "Three"}]
    assert explanation.notes == ["an empty message was left out"]
    with pytest.raises(UsageError, match="at least one message"):
        MODEL.explain([SystemMessage("Be brief.")])


def test_results_carry_the_name_and_only_googles_ids():
    calls = [
        {"id": "gemini-call-r-1", "name": "search", "args": {"query": "a"}, "type": "tool_call"},
        {"id": "given-1", "name": "now", "args": {}, "type": "tool_call"},
    ]
    body = body_of(
        [
            HumanMessage("Go"),
            AIMessage("", tool_calls=calls, response_metadata={"model_provider": "google_genai"}),
            ToolMessage("found", tool_call_id="gemini-call-r-1"),
            ToolMessage("late", tool_call_id="given-1", status="error"),
        ]
    )

    assert body["contents"][1]["parts"][1] == {
        "functionCall": {"name": "now", "args": {}, "id": "given-1"}
    }
    assert body["contents"][2]["parts"] == [
        {"functionResponse": {"name": "search", "response": {"output": "found"}}},
        {"functionResponse": {"name": "now", "response": {"error": "late"}, "id": "given-1"}},
    ]


@pytest.mark.parametrize(("model", "inside"), [(MODEL, False), (THREE, True)])
def test_a_picture_in_a_result_goes_where_the_model_takes_it(model, inside):
    call = {"id": "c", "name": "draw", "args": {}, "type": "tool_call"}
    image = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
    result = ToolMessage([{"type": "text", "text": "Seen"}, image], tool_call_id="c")
    parts = body_of([HumanMessage("Go"), AIMessage("", tool_calls=[call]), result], model)[
        "contents"
    ][2]["parts"]

    inline_data = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    assert (parts[0]["functionResponse"].get("parts") == [inline_data]) is inside
    assert (parts[1:] == [inline_data]) is not inside


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (
            {"type": "image", "base64": "AAAA"},
            {"inlineData": {"mimeType": "image/jpeg", "data": "AAAA"}},
        ),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        ),
        (
            {"type": "audio", "base64": "AAAA", "mime_type": "audio/mp3"},
            {"inlineData": {"mimeType": "audio/mp3", "data": "AAAA"}},
        ),
        (
            {"type": "video", "url": "https://x/a.webm", "extras": {"video_metadata": {"fps": 2}}},
            {
                "fileData": {"fileUri": "https://x/a.webm", "mimeType": "video/webm"},
                "videoMetadata": {"fps": 2},
            },
        ),
        (
            {"type": "file", "url": "gs://bucket/a.pdf"},
            {"fileData": {"fileUri": "gs://bucket/a.pdf", "mimeType": "application/pdf"}},
        ),
        (
            {"type": "file", "file_id": "files/abc", "mime_type": "text/csv"},
            {
                "fileData": {
                    "fileUri": "https://generativelanguage.googleapis.com/v1beta/files/abc",
                    "mimeType": "text/csv",
                }
            },
        ),
        (
            {"type": "media", "mime_type": "video/mp4", "file_uri": "https://youtu.be/x"},
            {"fileData": {"fileUri": "https://youtu.be/x", "mimeType": "video/mp4"}},
        ),
        ({"type": "text-plain", "text": "Notes"}, {"text": "Notes"}),
    ],
)
def test_media_come_inline_or_by_address(block, part):
    assert parts_of({"type": "text", "text": "See"}, block) == [{"text": "See"}, part]


def test_messages_of_other_kinds():
    assert body_of([ChatMessage(role="user", content="Hi")])["contents"][0]["role"] == "user"
    with pytest.raises(UsageError, match="function"):
        MODEL.explain([HumanMessage("x"), FunctionMessage(name="f", content="1")])
    with pytest.raises(UsageError, match="base64"):
        parts_of({"type": "image", "mime_type": "image/png"})


def test_functions_are_declared_together_and_googles_tools_beside_them():
    given_tools = [
        search,
        {"google_search": {}},
        now,
        {"codeExecution": {}},
        {"type": "url_context"},
    ]
    tools = body_of("Hi", tools=given_tools)["tools"]

    functions = tools[0]["functionDeclarations"]
    assert [function["name"] for function in functions] == ["search", "now"]
    assert functions[0]["parametersJsonSchema"]["required"] == ["query"]
    assert "parametersJsonSchema" not in functions[1]
    assert tools[1:] == [{"googleSearch": {}}, {"codeExecution": {}}, {"urlContext": {}}]


@pytest.mark.parametrize(
    ("options", "config"),
    [
        ({}, None),
        ({"tool_choice": "auto"}, {"mode": "AUTO"}),
        ({"tool_choice": "any"}, {"mode": "ANY"}),
        ({"tool_choice": "none"}, {"mode": "NONE"}),
        ({"tool_choice": "search"}, {"mode": "ANY", "allowedFunctionNames": ["search"]}),
        ({"strict": True}, {"mode": "VALIDATED"}),
        (
            {
                "tool_choice": {
                    "type": "allowed_tools",
                    "mode": "required",
                    "tools": [{"name": "now"}],
                }
            },
            {"mode": "ANY", "allowedFunctionNames": ["now"]},
        ),
        ({"tool_config": {"function_calling_config": {"mode": "ANY"}}}, {"mode": "ANY"}),
    ],
)
def test_every_way_to_choose_a_tool(options, config):
    tool_config = body_of("Hi", tools=[search, now], **options).get("toolConfig")

    assert tool_config == (None if config is None else {"functionCallingConfig": config})


def test_a_tool_nobody_has_cannot_be_chosen():
    with pytest.raises(UsageError, match="nosuch"):
        body_of("Hi", tools=[search], tool_choice="nosuch")


def test_effort_is_a_level_or_a_budget_as_the_model_takes_it():
    assert thinking_of(THREE, reasoning_effort="low") == {"thinkingLevel": "LOW"}
    assert thinking_of(MODEL, reasoning_effort="high") == {"thinkingBudget": 24576}
    assert thinking_of(MODEL, reasoning_effort="none") == {"thinkingBudget": 0}
    assert thinking_of(MODEL, thinking_budget=-1, include_thoughts=True) == {
        "thinkingBudget": -1,
        "includeThoughts": True,
    }
    assert thinking_of(THREE, thinking_level="high") == {"thinkingLevel": "HIGH"}


def test_effort_of_a_call_overrules_thinking_of_the_model_and_beside_it_gives_way():
    budgeted = MODEL.model_copy(update={"thinking_budget": 100})
    eager = MODEL.model_copy(update={"reasoning_effort": "high"})
    model = budgeted.model_copy(update={"reasoning_effort": "high"})

    assert thinking_of(budgeted, reasoning_effort="none") == {"thinkingBudget": 0}
    assert thinking_of(eager, thinking_budget=7) == {"thinkingBudget": 7}
    assert thinking_of(model) == {"thinkingBudget": 100}
    assert model.explain("Hi").notes == ["reasoning_effort='high' gave way to thinking_budget=100"]


def thinking_of(model, **options):
    return body_of("Hi", model, **options)["generationConfig"]["thinkingConfig"]


def test_a_schema_asks_for_json():
    class Person(BaseModel):
        """Somebody."""

        name: str

    config = body_of("Hi", response_format=Person)["generationConfig"]

    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"]["required"] == ["name"]
    assert body_of("Hi", response_format={"type": "json_object"})["generationConfig"] == {
        "responseMimeType": "application/json"
    }
    openai = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    assert body_of("Hi", response_format=openai)["generationConfig"]["responseJsonSchema"] == {
        "type": "object"
    }


def test_langchains_names_are_accepted_and_options_overrule_fields():
    model = ChatGoogleGenerativeAI(
        model_name="gemini-2.5-pro", google_api_key="key", max_output_tokens=7, temperature=0.1, stop=["x"],
        safety_settings={HarmCategory.HARM_CATEGORY_HARASSMENT: HarmBlockThreshold.BLOCK_NONE},
        cached_content="cachedContents/1",
    )  # fmt: skip
    body = body_of("Hi", model, temperature=0.9, top_k=4, seed=1, logprobs=True, top_logprobs=2)

    assert body["generationConfig"] == {
        "temperature": 0.9, "maxOutputTokens": 7, "stopSequences": ["x"], "topK": 4, "seed": 1,
        "responseLogprobs": True, "logprobs": 2,
    }  # fmt: skip
    assert body["safetySettings"] == [
        {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}
    ]
    assert body["cachedContent"] == "cachedContents/1"
    with pytest.raises(ValueError, match="mean the same"):
        ChatGoogle(model="a", model_name="b")


def test_where_it_is_sent_and_with_what_key():
    api = MODEL.explain("Hi", stream=True)
    vertex = ChatGoogle(
        model="gemini-2.5-pro", project="p", location="europe-west4", api_key=lambda: "ya29.token"
    )
    vertex_url = vertex.explain("Hi")

    assert api.url.endswith("/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse")
    assert api.headers["x-goog-api-key"] == "***"
    assert vertex_url.url == (
        "https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/publishers/google"
        "/models/gemini-2.5-pro:generateContent"
    )
    assert vertex._auth_headers("ya29.token") == {"authorization": "Bearer ya29.token"}
    tuned = ChatGoogle(model="tunedModels/mine", api_key="key").explain("Hi")
    assert tuned.url.endswith("/v1beta/tunedModels/mine:generateContent")


@pytest.mark.parametrize("name", ["../secrets", "a/../../b", "a?key=x", "a#b", "", "a b", "/etc"])
def test_F_H10_a_name_that_leads_elsewhere_is_refused(name):
    with pytest.raises(UsageError, match="no name of a model"):
        ChatGoogle(model=name, api_key="key").explain("Hi")


def test_several_answers_are_not_streamed():
    with pytest.raises(UsageError, match="generate"):
        ChatGoogle(api_key="key", n=2).explain("Hi", stream=True)


def test_a_result_needs_the_name_of_its_tool_and_broken_calls_are_shown_if_answered():
    broken = {"type": "invalid_tool_call", "id": "c", "name": "f", "args": '{"a": ', "error": "cut"}
    messages = [HumanMessage("Go"), AIMessage("", invalid_tool_calls=[broken])]
    body = body_of([*messages, ToolMessage("not JSON", tool_call_id="c", status="error")])
    left_out = MODEL.explain([*messages, HumanMessage("Well?")])

    assert body["contents"][1]["parts"][0]["functionCall"]["args"] == {"INVALID_JSON": '{"a": '}
    assert "a tool call that did not parse was left out" in left_out.notes


def test_options_nobody_knows_go_to_the_generation_config():
    body = body_of(
        "Hi",
        generation_config={"top_p": 0.5},
        audio_timestamp=True,
        extra_body={"labels": {"a": "b"}},
    )

    assert body["generationConfig"] == {"topP": 0.5, "audioTimestamp": True}
    assert body["labels"] == {"a": "b"}
    with pytest.warns(UserWarning, match="brand_new"):
        assert ChatGoogle(brand_new=1).model_kwargs == {"brand_new": 1}


def test_a_schema_in_openapis_form_is_sent_as_it_is():
    schema = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}

    assert body_of("Hi", response_schema=schema)["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseSchema": schema,
    }


def test_what_cannot_be_said_is_noted():
    explanation = ChatGoogle(
        model="gemini-2.0-flash", api_key="key", reasoning_effort="high"
    ).explain("Hi", tools=[search], parallel_tool_calls=False)

    assert explanation.notes == [
        "Gemini cannot be told to call one tool at a time: parallel_tool_calls was left out",
        "gemini-2.0-flash does not reason: reasoning_effort was left out",
    ]
