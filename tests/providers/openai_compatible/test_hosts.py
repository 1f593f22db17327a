"""Hosts of the chat-completions wire: their rows, their habits on recordings, reasoning that is never dropped."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from foldline.exceptions import ModelAuthenticationError, StreamTruncatedError, UsageError
from foldline.load import dumps, loads
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from foldline.protocol.grammar import assert_valid_event_stream
from foldline.providers import openai_compatible
from foldline.providers._completions import CompletionsDecoder, Host
from foldline.providers.openai import ChatOpenAI
from foldline.providers.openai_compatible import HOSTS, ChatOpenAICompatible
from foldline.providers.openai_compatible._hosts import host_of
from tests.providers import recordings
from tests.servers import FaultServer, json_answer, sse_answer

CASES = recordings.names("openai_compatible")
CLASSES = [
    getattr(openai_compatible, name)
    for name in openai_compatible.__all__
    if name.startswith(("Chat", "Azure"))
]


def decoder(name: str) -> CompletionsDecoder:
    return CompletionsDecoder(HOSTS[name.split("-")[0]], recordings.fail)


def answer(name: str) -> AIMessage:
    return recordings.message(recordings.stream_events(decoder(name), "openai_compatible", name))


@pytest.mark.parametrize("name", CASES)
def test_stream_and_whole_answer_are_one_message(name: str) -> None:
    streamed_message, whole_message = recordings.both_messages(
        lambda: decoder(name), "openai_compatible", name
    )
    streamed_fields, right = streamed_message.model_dump(), whole_message.model_dump()
    if name == "moonshot-usage-in-choice":
        assert streamed_fields["usage_metadata"] == right["usage_metadata"]
    assert streamed_fields == right


@pytest.mark.parametrize("name", CASES)
def test_events_are_well_formed(name: str) -> None:
    assert_valid_event_stream(recordings.stream_events(decoder(name), "openai_compatible", name))


@pytest.mark.parametrize(
    ("name", "reasoning", "text"),
    [
        ("deepseek-reasoning", "Compare 9.80 and 9.11.", "9.8"),
        ("groq-reasoning", "2+2", "Four."),
        ("mistral-thinking", "Let me think.", "Done."),
        ("openrouter-reasoning-details", "Hmm, yes", "Yes."),
        ("ollama-reasoning", "The sky", "Blue."),
    ],
)
def test_reasoning_is_a_block_wherever_the_host_puts_it(
    name: str, reasoning: str, text: str
) -> None:
    message = answer(name)
    reasoning_block, text_block = message.content_blocks
    assert (reasoning_block["type"], reasoning_block["reasoning"], text_block["text"]) == (
        "reasoning",
        reasoning,
        text,
    )


def test_reasoning_is_kept_by_chat_openai_too(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(
        "/v1/chat/completions",
        json_answer(recordings.whole_answer("openai_compatible", "deepseek-reasoning")),
    )
    answer = call.invoke(ChatOpenAI(base_url=f"{fault_server.url}/v1", api_key="k"), "Hi")
    assert answer.content_blocks[0]["reasoning"] == "Compare 9.80 and 9.11."


def test_counts_and_sources_of_hosts() -> None:
    deepseek = answer("deepseek-reasoning").usage_metadata
    assert deepseek["input_token_details"] == {"cache_read": 4}
    assert deepseek["output_token_details"] == {"reasoning": 6}
    assert answer("groq-usage-beside").usage_metadata["total_tokens"] == 3
    assert answer("moonshot-usage-in-choice").usage_metadata["total_tokens"] == 16
    assert answer("perplexity-sources").response_metadata["citations"] == [
        "https://example.com/oslo"
    ]
    assert answer("openrouter-image").content_blocks[1]["type"] == "image"
    assert [b["type"] for b in answer("groq-executed-tools").content_blocks] == [
        "server_tool_call",
        "server_tool_result",
        "text",
    ]


def back(model: ChatOpenAICompatible, message: AIMessage, *, calls: bool = False) -> Any:
    messages: list[Any] = [HumanMessage("x"), message]
    if calls:
        message.tool_calls = [
            {"type": "tool_call", "name": "f", "args": {}, "id": "call_abcdefghij"}
        ]
        messages.append(ToolMessage("ok", tool_call_id="call_abcdefghij"))
    return model.explain(messages)


def test_reasoning_goes_back_as_each_host_wants_it() -> None:
    def of(provider: str) -> ChatOpenAICompatible:
        return ChatOpenAICompatible(provider=provider, model="m", api_key="k")

    with_tools = back(of("deepseek"), answer("deepseek-reasoning"), calls=True)
    assert with_tools.body["messages"][1]["reasoning_content"] == "Compare 9.80 and 9.11."
    without = back(of("deepseek"), answer("deepseek-reasoning"))
    assert "reasoning_content" not in without.body["messages"][1]
    assert without.notes == ["reasoning was not sent back: deepseek has no place for it"]
    assert back(of("groq"), answer("groq-reasoning")).body["messages"][1]["reasoning"] == "2+2"
    details = back(of("openrouter"), answer("openrouter-reasoning-details")).body["messages"][1][
        "reasoning_details"
    ]
    assert (
        details
        == recordings.whole_answer("openai_compatible", "openrouter-reasoning-details")["choices"][
            0
        ]["message"]["reasoning_details"]
    )
    parts = back(of("mistral"), answer("mistral-thinking")).body["messages"][1]["content"]
    assert (
        parts
        == recordings.whole_answer("openai_compatible", "mistral-thinking")["choices"][0][
            "message"
        ]["content"]
    )


def test_reasoning_of_another_host_is_foreign() -> None:
    explanation = back(
        ChatOpenAICompatible(provider="groq", model="m", api_key="k"), answer("deepseek-reasoning")
    )
    assert explanation.body["messages"][1]["content"].startswith("<thinking>")
    assert explanation.notes == ["reasoning by deepseek was told as text"]


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def test_quirks_are_data() -> None:
    def body(provider: str, **options: Any) -> Any:
        return ChatOpenAICompatible(
            provider=provider, model="m", api_key="k", max_tokens=3, seed=1
        ).explain("x", stream=True, tools=[add], **options)

    mistral = body("mistral", tool_choice="any")
    assert (
        mistral.body["random_seed"],
        mistral.body["tool_choice"],
        mistral.body["max_tokens"],
    ) == (1, "any", 3)
    assert "stream_options" not in mistral.body
    groq = body("groq", strict=True, parallel_tool_calls=False)
    assert "strict" not in groq.body["tools"][0]["function"]
    assert groq.body["max_completion_tokens"] == 3
    assert groq.notes == ["groq does not take strict tools"]
    deepseek = body(
        "deepseek",
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {}}},
        parallel_tool_calls=True,
    )
    assert deepseek.body["response_format"] == {"type": "json_object"}
    assert "parallel_tool_calls" not in deepseek.body
    assert len(deepseek.notes) == 2


def test_mistral_gets_ids_it_accepts() -> None:
    explanation = back(
        ChatOpenAICompatible(provider="mistral", model="m", api_key="k"), AIMessage("x"), calls=True
    )
    _, assistant, tool = explanation.body["messages"]
    assert assistant["tool_calls"][0]["id"] == tool["tool_call_id"]
    assert len(tool["tool_call_id"]) == 9
    assert tool["tool_call_id"].isalnum()


@pytest.mark.parametrize("name", sorted(HOSTS))
def test_every_host_says_which_key_it_wants(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host = HOSTS[name]
    for variable in (*host.keys, *host.url_variables):
        monkeypatch.delenv(variable, raising=False)
    address = host.base_url or "https://mine.example/openai/v1"
    if not host.base_url:
        monkeypatch.setenv(host.url_variables[0], address)
    model = ChatOpenAICompatible(provider=name, model="m")
    if host.needs_key:
        with pytest.raises(ModelAuthenticationError, match=host.keys[0]):
            model.invoke("x")
    else:
        assert "authorization" not in model.explain("x").headers
    monkeypatch.setenv(host.keys[0], "k")
    explanation = model.explain("x")
    assert explanation.url == f"{address}/chat/completions"
    assert explanation.headers["authorization"] == "***"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_named_classes_are_rows(kind: type[ChatOpenAICompatible]) -> None:
    needs_address = kind is ChatOpenAICompatible or kind.__name__.startswith("Azure")
    extra = {"base_url": "http://localhost:1/v1"} if needs_address else {}
    model = kind(model="m", api_key="k", **extra)
    assert model.explain("x").body["model"] == "m"
    assert model._provider in (*HOSTS, "openai_compatible")


def test_langchains_names_for_keys() -> None:
    model = openai_compatible.ChatGroq(
        model="m", groq_api_key="k", groq_api_base="https://example.com/v1"
    )
    assert model.explain("x").url == "https://example.com/v1/chat/completions"


@pytest.mark.parametrize(
    ("kind", "settings", "url"),
    [
        ("ChatCohere", {"cohere_api_key": "k"}, "https://api.cohere.ai/compatibility/v1"),
        ("ChatHuggingFace", {"huggingfacehub_api_token": "k"}, "https://router.huggingface.co/v1"),
        ("ChatNVIDIA", {"nvidia_api_key": "k", "base_url": "http://nim:1/v1"}, "http://nim:1/v1"),
        (
            "ChatAIGNEHub",
            {"aigne_hub_api_key": "k", "base_url": "https://hub.example/ai-kit/"},
            "https://hub.example/ai-kit/api/v2",
        ),
        (
            "AzureAIChatCompletionsModel",
            {"api_key": "k", "endpoint": "https://r.services.ai.azure.com"},
            "https://r.services.ai.azure.com/openai/v1",
        ),
        (
            "AzureAIOpenAIApiChatModel",
            {"api_key": "k", "endpoint": "https://r.services.ai.azure.com/openai/v1/"},
            "https://r.services.ai.azure.com/openai/v1",
        ),
        (
            "ChatWatsonx",
            {"api_key": "k", "url": "https://eu-de.ml.cloud.ibm.com"},
            "https://eu-de.ml.cloud.ibm.com/ml/gateway/v1",
        ),
    ],
)
def test_names_and_addresses_as_their_own_packages_take_them(kind, settings, url) -> None:
    explanation = getattr(openai_compatible, kind)(model="m", **settings).explain("x")
    assert (explanation.url, explanation.headers["authorization"]) == (
        f"{url}/chat/completions",
        "***",
    )


def test_a_host_without_an_address_of_its_own_says_how_to_give_one(monkeypatch) -> None:
    for variable in HOSTS["azure_ai"].url_variables:
        monkeypatch.delenv(variable, raising=False)
    model = openai_compatible.AzureAIChatCompletionsModel(model="m", api_key="k")
    with pytest.raises(UsageError, match=r"base_url=.*AZURE_AI_OPENAI_ENDPOINT"):
        model.invoke("x")


def test_the_key_of_another_host_is_refused() -> None:
    with pytest.raises(ValidationError, match="groq_api_key is the key of another host"):
        openai_compatible.ChatCohere(model="m", groq_api_key="k")


def test_an_unknown_host_needs_an_address() -> None:
    with pytest.raises(ValidationError, match="there is no host 'acme'"):
        ChatOpenAICompatible(provider="acme", model="m")
    assert host_of("acme", "https://example.com").keys == ("ACME_API_KEY",)
    assert host_of("kimi", None).name == "moonshot"


def test_E3_is_off_only_where_a_row_says_so(call: Any, fault_server: FaultServer) -> None:
    chunk = {"id": "1", "choices": [{"index": 0, "delta": {"content": "Hi"}}]}
    fault_server.script("/v1/chat/completions", sse_answer([chunk]))
    model = openai_compatible.ChatVLLM(model="m", base_url=f"{fault_server.url}/v1")
    with pytest.raises(StreamTruncatedError):
        call.stream(model, "x")

    reader = CompletionsDecoder(Host("odd", "", may_end_silently=True), recordings.fail)
    events = reader.feed(chunk) + reader.end(marked=False)  # type: ignore[arg-type]
    assert recordings.message(events).text == "Hi"


@pytest.mark.parametrize(
    "kind",
    [kind for kind in CLASSES if kind is not ChatOpenAICompatible],
    ids=lambda kind: kind.__name__,
)
def test_models_of_hosts_are_written_and_read(kind: type[ChatOpenAICompatible]) -> None:
    model = kind(model="m", api_key="sk-canary", temperature=0.5)
    text = dumps(model)
    assert "sk-canary" not in text
    read = loads(text, allowed_objects="all")
    assert (type(read), read.model, read.temperature, read.api_key) == (kind, "m", 0.5, None)
