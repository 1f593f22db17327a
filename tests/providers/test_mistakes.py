"""Mistakes of a newcomer: each error names the place and what to write instead."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest

from foldline import _config
from foldline.chat_history import InMemoryChatMessageHistory, SQLiteChatMessageHistory
from foldline.chat_models import init_chat_model
from foldline.exceptions import ModelAPIError, UsageError
from foldline.language_models import FakeListChatModel
from foldline.messages import AIMessage, AIMessageChunk
from foldline.providers.openai import ChatOpenAI
from foldline.transports import Request, _faults
from foldline.utils import _suggest as suggest
from tests.servers.script import Answer


@pytest.fixture(autouse=True)
def unseen():
    """Let every warning be new."""
    _config._warn_misspelt.cache_clear()
    suggest.checked_names.clear()


def test_an_option_of_a_call_that_is_misspelt_is_warned_of():
    model = ChatOpenAI(model="gpt-4o", api_key="k")

    with pytest.warns(UserWarning, match=r"option temprature \(did you mean 'temperature'\?\)"):
        body = model.explain("x", temprature=0).body

    assert body["temprature"] == 0


@pytest.mark.parametrize(
    ("typo", "expected"),
    [("tols", "tools"), ("tool_choise", "tool_choice"), ("respones_format", "response_format"),
     ("strct", "strict")],
)  # fmt: skip
def test_an_option_that_only_calls_have_is_known_too(typo, expected):
    model = ChatOpenAI(model="gpt-4o", api_key="k")

    with pytest.warns(UserWarning, match=rf"option {typo} \(did you mean '{expected}'\?\)"):
        model.explain("x", **{typo: "a"})


def test_an_option_that_is_like_none_is_sent_without_a_word():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        body = ChatOpenAI(model="gpt-4o", api_key="k").explain("x", safety_zone="b").body

    assert body["safety_zone"] == "b"


def test_a_field_that_is_misspelt_is_warned_of():
    with pytest.warns(UserWarning, match=r"temprature \(did you mean 'temperature'\?\): sent as"):
        ChatOpenAI(model="gpt-4o", api_key="k", temprature=0)


def test_a_key_of_a_config_that_is_misspelt_is_warned_of(call):
    with pytest.warns(UserWarning, match=r"'callback' is not a key of a config .*'callbacks'"):
        call.invoke(FakeListChatModel(responses=["x"]), "?", {"callback": []})


@pytest.mark.parametrize("inputs", ["abc", b"abc"])
def test_a_text_is_no_list_of_inputs(call, inputs):
    with pytest.raises(UsageError, match=r"batch takes a list of inputs, not b?'abc'"):
        call.run(FakeListChatModel(responses=["x"]), "batch", inputs)


@pytest.mark.parametrize("schema", [{"a": 1}, {"title": "Pet", "fields": ["name"]}])
def test_a_dict_that_is_no_schema_is_refused(schema):
    with pytest.raises(UsageError, match="is not a JSON Schema: write"):
        FakeListChatModel(responses=["x"]).with_structured_output(schema)


def test_a_provider_that_is_misspelt_is_guessed():
    with pytest.raises(UsageError, match=r"did you mean 'openai'\?"):
        init_chat_model("opnai:gpt-4o")
    with pytest.raises(UsageError, match=r"did you mean 'openai'\?"):
        init_chat_model("gpt-4o", model_provider="opnai")


def test_a_web_page_in_the_place_of_an_error_is_told(call, fault_server):
    page = b"<html><head><title>502  Bad Gateway</title></head><body>nginx</body></html>"
    headers = {"content-type": "text/html"}
    fault_server.script("/v1/chat/completions", Answer(page, status=502, headers=headers))
    model = ChatOpenAI(model="c", api_key="k", base_url=f"{fault_server.url}/v1", max_retries=0)

    with pytest.raises(ModelAPIError, match=r"HTTP 502, a web page \(502 Bad Gateway\): a proxy"):
        call.invoke(model, "x")


def test_tls_to_a_plain_port_asks_for_the_scheme():
    error = _faults.not_reached(Request(url="https://h.test"), "[SSL: WRONG_VERSION_NUMBER] x")

    assert "is the address http:// and not https://?" in str(error)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_history_keeps_whole_messages(call, tmp_path, kind):
    sqlite_history = SQLiteChatMessageHistory("s", tmp_path / "h.db")
    history = InMemoryChatMessageHistory() if kind == "memory" else sqlite_history

    call.run(history, "add_messages", [AIMessageChunk(content="a") + AIMessageChunk(content="b")])

    (message,) = history.messages
    assert (type(message), message.content) == (AIMessage, "ab")


def test_a_profile_is_found_before_its_provider_is_imported():
    program = """
from foldline.language_models import find_profile
print(bool(find_profile("openai", "gpt-4o-mini")), bool(find_profile("anthropic", "claude-sonnet-4")))
print(find_profile("nobody", "x"))
"""
    result = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert result.stdout == "True True\nNone\n"


def test_a_command_that_is_misspelt_is_one_sentence():
    pytest.importorskip("typer")
    result = subprocess.run(
        [sys.executable, "-m", "foldline", "chta"], check=False, capture_output=True, text=True
    )

    assert "Did you mean 'chat'? See `" in result.stderr
