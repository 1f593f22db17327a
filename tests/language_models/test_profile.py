from __future__ import annotations

import pytest

from foldline.exceptions import ContextOverflowError
from foldline.language_models import TokenCount, find_profile, register_profile, register_profiles
from foldline.language_models.profile import ModelProfile, known_profiles
from foldline.messages import AIMessage, HumanMessage, SystemMessage
from tests.language_models.scripted import Speaking


class Acme(Speaking):
    model: str = "anvil-1"

    @property
    def _provider(self):
        return "acme"


@pytest.fixture
def acme(monkeypatch):
    monkeypatch.setattr("foldline.language_models.profile._registry", {})
    monkeypatch.setattr("foldline.language_models.profile._row_functions", {})
    register_profiles("acme", {"": {"tool_calling": True}, "anvil": {"max_input_tokens": 1000}})
    register_profile("acme", "anvil-1", {"structured_output": True})


def test_a_vendor_is_rows_in_a_table_the_longer_name_over_the_shorter(acme):
    assert Acme().profile == {
        "tool_calling": True,
        "max_input_tokens": 1000,
        "structured_output": True,
    }
    assert Acme(model="other").profile == {"tool_calling": True}
    assert find_profile("nobody", "x") is None
    assert set(known_profiles("acme")) == {"", "anvil", "anvil-1"}
    assert set(known_profiles()) == {"acme"}


def test_rows_that_come_when_they_are_looked_for_do_not_win_over_those_said_since(acme):
    lookups: list[str] = []

    def give() -> dict[str, ModelProfile]:
        lookups.append("rows")
        return {"a": {"json_mode": True}, "b": {"json_mode": True}}

    register_profiles("later", give)
    assert lookups == []
    register_profile("later", "a", {"json_mode": False})

    assert find_profile("later", "a-1") == {"json_mode": False}
    assert find_profile("later", "b-1") == {"json_mode": True}
    assert set(known_profiles()) == {"acme", "later"}
    assert lookups == ["rows"]


def test_a_profile_that_is_given_wins(acme):
    assert Acme(profile={"json_mode": True}).profile == {"json_mode": True}


def test_a_request_longer_than_the_window_raises_before_anything_is_sent(call, acme):
    model = Acme(answers=["hi"])

    with pytest.raises(
        ContextOverflowError, match=r"acme:anvil-1: the request is about \d+ tokens"
    ) as excinfo:
        call.invoke(model, "word " * 2000)

    assert model.requests == []
    assert excinfo.value.is_retryable is False


def test_the_oldest_messages_are_left_out_where_asked_for(call):
    model = Speaking(answers=["hi"], max_input_tokens=60, on_overflow="trim")
    history = [
        SystemMessage("be brief"),
        HumanMessage("word " * 100),
        AIMessage("well"),
        HumanMessage("and?"),
    ]

    answer = call.invoke(model, history)

    assert [message.text for message in model.requests[0].messages] == ["be brief", "and?"]
    assert len(history) == 4
    assert answer.text.strip() == "hi"
    assert answer.response_metadata["lost"] == ["left out the oldest 2 messages to fit 60 tokens"]


def test_a_last_message_that_is_too_long_is_not_left_out(call):
    model = Speaking(answers=["hi"], max_input_tokens=20, on_overflow="trim")

    with pytest.raises(ContextOverflowError):
        call.invoke(model, "word " * 100)


def test_counting_says_whether_it_is_exact():
    guessed = Speaking(answers=["hi"]).count_tokens([HumanMessage("12345678")])
    token_count = Speaking(
        answers=["hi"], custom_get_token_ids=lambda text: [0] * len(text)
    ).count_tokens([HumanMessage("12345678")])

    assert guessed == TokenCount(guessed.n, False)
    assert token_count.exact
    assert token_count.n == 8 + 3


def test_a_short_request_is_not_counted(monkeypatch):
    model = Speaking(answers=["hi"], max_input_tokens=1000)
    monkeypatch.setattr("foldline.language_models.base_chat_model.count_tokens", None)

    assert model.invoke("short").text.strip() == "hi"
