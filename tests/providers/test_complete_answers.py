"""A complete answer of every wire: its message, and the events of that message, are those of the decoder."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from foldline._streams.answer import CompleteAnswer, chat_result
from foldline.exceptions import LimitExceededError
from foldline.messages import AIMessage
from foldline.protocol.fold import fold, fold_complete
from foldline.protocol.folded_message import FoldLimits
from foldline.providers._completions.decode import CompletionsDecoder
from foldline.providers.anthropic.decode import AnthropicDecoder
from foldline.providers.openai._decode import ResponsesDecoder
from foldline.providers.openai._host import OPENAI
from foldline.providers.openai_compatible._hosts import HOSTS
from tests.providers import recordings
from tests.providers.bedrock import answers as bedrock
from tests.providers.google import recordings as google


def decoder(folder: str, name: str) -> Any:
    """The decoder of a recording."""
    if folder == "google":
        return google.decoder()
    if folder == "anthropic" or name.startswith("messages-"):
        return AnthropicDecoder(recordings.fail, model="m")
    if name.startswith("responses-"):
        return ResponsesDecoder(recordings.fail)
    host = HOSTS[name.split("-")[0]] if folder == "openai_compatible" else OPENAI
    return CompletionsDecoder(host, recordings.fail, audio_format="wav", others=[])


def recorded(folder: str) -> list[Any]:
    names = [name for name in recordings.names(folder, ending=".json") if "request" not in name]
    return [
        pytest.param(
            lambda name=name: decoder(folder, name),
            recordings.whole_answer(folder, name),
            id=f"{folder}/{name}",
        )
        for name in names
    ]


FOLDERS = ("anthropic", "google", "llama", "openai", "openai_compatible")
CASES = [
    *(case for folder in FOLDERS for case in recorded(folder)),
    *(
        pytest.param(bedrock.decoder, bedrock.whole_of(name), id=f"bedrock/{name}")
        for name in bedrock.NAMES
    ),
]


@pytest.mark.parametrize(("make", "answer"), CASES)
def test_the_message_of_an_answer_is_the_one_its_events_fold_to(
    make: Callable[[], Any], answer: Any
) -> None:
    untouched = copy.deepcopy(answer)
    folded = fold(make().decode_answer(answer))

    message = fold_complete(make().decode_answer(answer), FoldLimits())

    assert message == folded
    assert answer == untouched, "an answer is not changed by reading it: it may be read again"


@pytest.mark.parametrize(("make", "answer"), CASES)
def test_the_events_of_a_message_have_its_blocks_in_order_and_one_delta_for_text(
    make: Callable[[], Any], answer: Any
) -> None:
    folded = fold(make().decode_answer(answer))
    events = CompleteAnswer(chat_result(AIMessage.from_fold(folded))).events

    starts = [event["index"] for event in events if event["event"] == "content-block-start"]
    deltas = [event["index"] for event in events if event["event"] == "content-block-delta"]
    finishes = [event["content"] for event in events if event["event"] == "content-block-finish"]
    assert starts == list(range(len(folded.blocks)))
    assert len(deltas) == len(set(deltas))
    assert finishes == folded.blocks
    assert events[0]["id"] == (folded.id or "")


def test_an_answer_that_may_exceed_a_limit_is_left_to_the_fold() -> None:
    name = "chat-text-and-parallel-tool-calls"
    events = decoder("openai", name).decode_answer(recordings.whole_answer("openai", name))

    assert fold_complete(events, FoldLimits(blocks=1)) is None
    with pytest.raises(LimitExceededError):
        fold(events, limits=FoldLimits(blocks=1))
