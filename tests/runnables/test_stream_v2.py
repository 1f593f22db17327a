"""`stream_v2` of real models behind retries, configurable runnables and histories."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.chat_history import InMemoryChatMessageHistory
from foldline.language_models.fake_chat_models import FakeListChatModel
from foldline.runnables import ConfigurableField, RunnableLambda, RunnableWithMessageHistory

CONFIG: Any = {"configurable": {"session_id": "ann", "who": "b", "said": ["chosen"]}}


def text_of(events: list[Any]) -> str:
    return "".join(
        event["delta"]["text"] for event in events if event["event"] == "content-block-delta"
    )


def model(text: str) -> Any:
    return FakeListChatModel(responses=[text])


@pytest.mark.parametrize(
    ("runnable", "text"),
    [
        (model("hi").with_retry(), "hi"),
        (model("hi").configurable_fields(responses=ConfigurableField(id="said")), "chosen"),
        (model("a").configurable_alternatives(ConfigurableField(id="who"), b=model("b's")), "b's"),
        (RunnableLambda(lambda x: x) | model("last").with_config(tags=["t"]).with_retry(), "last"),
    ],
    ids=["retry", "fields", "alternatives", "sequence"],
)
def test_the_stream_of_the_model_inside_comes_through(call, runnable, text):
    assert text_of(call.stream_v2(runnable, "hi", CONFIG)) == text


def test_a_history_keeps_what_was_streamed_once(call):
    history = InMemoryChatMessageHistory()
    chain = RunnableWithMessageHistory(model("hello"), lambda session_id: history)

    assert text_of(call.stream_v2(chain, "hi", CONFIG)) == "hello"
    assert [(message.type, message.text) for message in history.messages] == [
        ("human", "hi"),
        ("ai", "hello"),
    ]


def test_E6_a_stream_that_is_left_early_keeps_nothing():
    history = InMemoryChatMessageHistory()
    chain = RunnableWithMessageHistory(model("hello"), lambda session_id: history)

    stream = chain.stream_v2("hi", CONFIG)
    next(iter(stream))
    stream.close()

    assert history.messages == []
