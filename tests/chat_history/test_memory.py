"""Histories: the one in memory, and what an author's own gets for free."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from foldline.chat_history import BaseChatMessageHistory, InMemoryChatMessageHistory
from foldline.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage


class InBulk(BaseChatMessageHistory):
    """Written with `add_messages`."""

    def __init__(self) -> None:
        self.messages = []

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self.messages = [*self.messages, *messages]

    def clear(self) -> None:
        self.messages = []


class OneByOne(InBulk):
    """Written with `add_message`, as older programs do."""

    add_messages = BaseChatMessageHistory.add_messages

    def add_message(self, message: BaseMessage) -> None:
        self.messages.append(message)


@pytest.fixture(params=[InMemoryChatMessageHistory, InBulk, OneByOne])
def history(request):
    return request.param()


def messages_of(call, history):
    return history.messages if not call.is_async else call.run(history, "get_messages")


def test_messages_are_kept_in_order_and_forgotten(call, history):
    call.run(history, "add_messages", [SystemMessage("be kind"), HumanMessage("hi")])
    history.add_ai_message("hello")
    history.add_user_message("how are you?")
    history.add_message(AIMessage("fine"))

    assert [m.type for m in messages_of(call, history)] == ["system", "human", "ai", "human", "ai"]
    assert str(history).splitlines()[-1] == "AI: fine"

    call.run(history, "clear")
    assert messages_of(call, history) == []


def test_messages_are_taken_as_they_are(history):
    human, ai = HumanMessage("hi", id="1"), AIMessage("hello", id="2")

    history.add_user_message(human)
    history.add_ai_message(ai)

    assert history.messages[0] is human
    assert history.messages[1] is ai


def test_FK04_threads_lose_nothing_and_stay_together():
    history = InMemoryChatMessageHistory()

    def talk(number: int) -> None:
        for turn in range(50):
            history.add_messages([HumanMessage(f"{number}-{turn}"), AIMessage(f"{number}-{turn}")])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(talk, range(8)))

    texts = [message.text for message in history.messages]
    assert len(texts) == 800
    assert texts[::2] == texts[1::2]


def test_it_is_a_model_that_can_be_dumped_and_read():
    history = InMemoryChatMessageHistory(messages=[HumanMessage("hi"), AIMessage("hello")])

    assert InMemoryChatMessageHistory.model_validate(history.model_dump()).messages[0].text == "hi"


def test_a_history_that_cannot_add_says_what_to_write():
    class ReadOnlyHistory(BaseChatMessageHistory):
        messages = ()  # type: ignore[assignment]

        def clear(self) -> None:
            """Nothing to forget."""

    with pytest.raises(NotImplementedError, match="neither `add_messages` nor `add_message`"):
        ReadOnlyHistory().add_user_message("hi")
