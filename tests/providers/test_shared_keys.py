"""Keys and requests of providers over HTTP, shown on ChatOpenAI: where keys come from, that none shows, `explain`."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from foldline.exceptions import ModelAuthenticationError, UsageError
from foldline.load import dumps
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.openai import ChatOpenAI
from foldline.providers.openai_compatible import ChatOpenAICompatible
from tests.providers.test_shared_http import CHAT, WHOLE, error_body, model
from tests.servers import FaultServer, json_answer


def test_the_environment_is_read_at_the_call(
    call: Any, fault_server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    fault_server.script(CHAT, json_answer(WHOLE))
    chat = model(fault_server, api_key=None)
    with pytest.raises(ModelAuthenticationError, match="OPENAI_API_KEY"):
        call.invoke(chat, "Hi")

    monkeypatch.setenv("OPENAI_API_KEY", "sk-late")
    call.invoke(chat, "Hi")
    assert fault_server.requests()[0].headers["authorization"] == "Bearer sk-late"


@pytest.mark.parametrize("blank", ["", "  ", SecretStr("")])
def test_a_blank_key_is_none_and_no_other_takes_its_place(
    call: Any, fault_server: FaultServer, monkeypatch: pytest.MonkeyPatch, blank: Any
) -> None:
    """As `api_key=os.getenv("MINE", "")` gives it: the key of somebody else must not go there instead."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another")
    with pytest.raises(ModelAuthenticationError, match="OPENAI_API_KEY"):
        call.invoke(model(fault_server, api_key=blank), "Hi")
    monkeypatch.setenv("OPENAI_API_KEY", "  ")
    with pytest.raises(ModelAuthenticationError, match="OPENAI_API_KEY"):
        call.invoke(model(fault_server, api_key=None), "Hi")
    assert fault_server.requests() == []


def test_a_host_without_keys_is_sent_none(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(CHAT, json_answer(WHOLE))
    chat = ChatOpenAICompatible(
        provider="mine", base_url=f"{fault_server.url}/v1", model="m", api_key=""
    )
    call.invoke(chat, "Hi")

    assert "authorization" not in fault_server.requests()[0].headers
    assert "authorization" not in chat.explain("Hi").headers


@pytest.mark.parametrize("key", ["", " ", SecretStr("")])
def test_a_function_that_gives_an_empty_key_is_told_so(
    call: Any, fault_server: FaultServer, key: Any
) -> None:
    with pytest.raises(UsageError, match="returned an empty text"):
        call.invoke(model(fault_server, api_key=lambda: key), "Hi")


def test_a_function_gives_the_key_each_time(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(CHAT, json_answer(WHOLE))
    keys = iter(["one", "two"])
    chat = model(fault_server, api_key=lambda: next(keys))
    call.invoke(chat, "Hi")
    call.invoke(chat, "Hi")
    assert [request.headers["authorization"] for request in fault_server.requests()] == [
        "Bearer one",
        "Bearer two",
    ]


def test_an_async_function_gives_the_key(fault_server: FaultServer) -> None:
    async def key() -> str:
        return "three"

    fault_server.script(CHAT, json_answer(WHOLE))
    asyncio.run(model(fault_server, api_key=key).ainvoke("Hi"))
    assert fault_server.requests()[0].headers["authorization"] == "Bearer three"


def test_F_V08_the_key_is_nowhere_to_be_seen(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(CHAT, json_answer(error_body("invalid_api_key"), status=401))
    chat = model(fault_server, default_headers={"x-secret": "sk-canary"})
    with pytest.raises(ModelAuthenticationError) as excinfo:
        call.invoke(chat, "Hi")
    representations = [
        repr(chat),
        str(chat),
        dumps(chat),
        str(chat.model_dump()),
        str(excinfo.value),
        repr(excinfo.value),
    ]
    representations.append(str(chat.explain("Hi")))
    with pytest.raises(ValidationError) as invalid:
        ChatOpenAI(api_key="sk-canary", temperature="warm")
    with pytest.raises(ValidationError) as twice:
        ChatOpenAI(api_key="sk-canary", openai_api_key="sk-canary-2")
    representations += [str(invalid.value), str(twice.value)]
    assert isinstance(chat.api_key, SecretStr)
    assert b"sk-canary" not in pickle.dumps(chat)
    assert pickle.loads(pickle.dumps(chat)).base_url == chat.base_url
    assert chat.model_copy(deep=True).api_key == chat.api_key
    assert not [text for text in representations if "sk-canary" in text]
    assert b"sk-canary" not in pickle.dumps(excinfo.value)


def test_explain_shows_what_would_be_sent_and_sends_nothing(
    fault_server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    chat = model(
        fault_server, api_key=None, temperature=0.5, default_query={"v": "1"}, organization="org"
    )
    explanation = chat.explain("Hello there", max_tokens=5)

    assert explanation.url == f"{fault_server.url}{CHAT}?v=1"
    assert explanation.body == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello there"}],
        "temperature": 0.5,
        "max_completion_tokens": 5,
    }
    assert explanation.headers["openai-organization"] == "org"
    assert explanation.tokens > 2
    assert fault_server.hits() == 0


def test_what_cannot_be_json_is_a_usage_error(call: Any, fault_server: FaultServer) -> None:
    circle: list[Any] = []
    circle.append(circle)
    for value in (float("nan"), object(), circle):
        with pytest.raises(UsageError, match="cannot be written as JSON"):
            call.invoke(model(fault_server), "Hi", extra=value)


def test_a_field_that_changes_between_calls_is_sent_as_it_is_then(
    call: Any, fault_server: FaultServer
) -> None:
    fault_server.script(CHAT, *[json_answer(WHOLE)] * 5)
    chat = model(fault_server)
    call.invoke(chat, "first")
    chat.temperature = 0.5
    call.invoke(chat, "second")
    chat.model_kwargs["seed"] = 7
    call.invoke(chat.model_copy(update={"stop": "!"}), "third")
    chat.temperature = None
    chat.logprobs = 1
    call.invoke(chat, "fourth")
    chat.logprobs = True  # equal, and not the same JSON
    call.invoke(chat, "fifth")

    bodies = [request.json() for request in fault_server.requests()]
    assert [(body.get("temperature"), body.get("seed"), body.get("stop")) for body in bodies] == [
        (None, None, None),
        (0.5, None, None),
        (0.5, 7, ["!"]),
        (None, 7, None),
        (None, 7, None),
    ]
    assert [type(body.get("logprobs")) for body in bodies[3:]] == [int, bool]


def test_F_S08_a_lone_surrogate_is_sent_escaped(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(CHAT, json_answer(WHOLE))
    call.invoke(model(fault_server), "odd", user="\ud83d")
    assert fault_server.requests()[0].json()["user"] == "\ud83d"


def test_explain_asks_nobody_for_the_key(fault_server: FaultServer) -> None:
    def key() -> str:
        raise AssertionError("asked for the key")

    assert model(fault_server, api_key=key).explain("Hi").headers["authorization"] == "***"


@pytest.mark.parametrize(
    ("model", "name", "variable"),
    [
        (ChatOpenAI, "openai_api_key", "OPENAI_API_KEY"),
        (ChatAnthropic, "anthropic_api_key", "ANTHROPIC_API_KEY"),
    ],
)
def test_the_older_name_of_a_key_reads_the_variable(model, name, variable, monkeypatch):
    monkeypatch.setenv(variable, "from-variable")

    assert getattr(model(model="m"), name).get_secret_value() == "from-variable"
    assert getattr(model(model="m", api_key="given"), name).get_secret_value() == "given"
