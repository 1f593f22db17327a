"""`streaming` and `llm_output` on user-written models, with LangChain's hooks or ours."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import pytest

from foldline.caches import InMemoryCache
from foldline.callbacks import BaseCallbackHandler, UsageMetadataCallbackHandler
from foldline.language_models import BaseChatModel
from foldline.messages import AIMessage, AIMessageChunk, HumanMessage
from foldline.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from foldline.tracers._streaming import V2StreamingHandler

USAGE = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
SPENT = {"token_usage": {"total_tokens": 3}, "model_name": "x"}


class LangChainModel(BaseChatModel):
    """Written for LangChain: `_generate` and `_stream`."""

    streaming: bool = False

    @property
    def _llm_type(self) -> str:
        return "both"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        generation = ChatGeneration(message=AIMessage("whole"))
        return ChatResult(generations=[generation], llm_output=SPENT)

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        for text in ("a", "b"):
            yield ChatGenerationChunk(message=AIMessageChunk(text))


class Native(LangChainModel):
    """Written with the protocol's events."""

    def _stream_chat_model_events(self, messages, stop=None, **kwargs):
        yield {"event": "message-start"}
        yield {"event": "content-block-start", "index": 0, "content": {"type": "text", "text": ""}}
        for text in ("a", "b"):
            delta = {"type": "text-delta", "text": text}
            yield {"event": "content-block-delta", "index": 0, "delta": delta}
        block = {"type": "text", "text": "ab"}
        yield {"event": "content-block-finish", "index": 0, "content": block}
        yield {"event": "message-finish", "usage": USAGE, "finish_reason": "stop"}


class Recorder(BaseCallbackHandler):
    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.outputs: list[Any] = []

    def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
        self.tokens.append(token)

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        self.outputs.append(response.llm_output)


class EventRecorder(Recorder, V2StreamingHandler):
    """Wants events, and so no tokens of an `invoke`."""


@pytest.mark.parametrize("model", [LangChainModel, Native])
def test_streaming_answers_invoke_by_the_stream_and_tells_tokens(model: Any, call: Any):
    recorder = Recorder()

    message = call.invoke(model(streaming=True), "x", {"callbacks": [recorder]})

    assert message.text == "ab"
    assert [token for token in recorder.tokens if token] == ["a", "b"]


@pytest.mark.parametrize("model", [LangChainModel, Native])
def test_without_streaming_the_whole_answer_is_asked_for(model: Any, call: Any):
    recorder = Recorder()

    assert call.invoke(model(), "x", {"callbacks": [recorder]}).text == "whole"
    assert recorder.tokens == []


def test_streaming_without_a_listener_answers_by_the_stream_too(call: Any):
    assert call.invoke(LangChainModel(streaming=True), "x").text == "ab"


def test_disable_streaming_wins(call: Any):
    recorder = Recorder()
    model = LangChainModel(streaming=True, disable_streaming=True)

    assert call.invoke(model, "x", {"callbacks": [recorder]}).text == "whole"
    assert recorder.tokens == []


def test_a_listener_to_events_hears_no_tokens_of_an_invoke(call: Any):
    recorder = EventRecorder()

    call.invoke(LangChainModel(streaming=True), "x", {"callbacks": [recorder]})

    assert recorder.tokens == []


def test_what_an_author_says_in_llm_output_is_told(call: Any):
    recorder = Recorder()

    call.invoke(LangChainModel(), "x", {"callbacks": [recorder]})

    assert recorder.outputs == [SPENT]
    assert call.generate(LangChainModel(), [[], []]).llm_output == {
        "token_usage": {"total_tokens": 6},
        "model_name": "x",
    }


class Metered(BaseChatModel):
    """Written for LangChain: the metadata is in `llm_output`, in `generation_info` and in the message."""

    n: int = 1

    @property
    def _llm_type(self) -> str:
        return "metered"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        info = {"finish_reason": "stop", "of": "generation", "message": 0}
        message = {"usage_metadata": USAGE, "response_metadata": {"message": 1}}
        generations = [
            ChatGeneration(message=AIMessage("x", **message), generation_info=info)
            for _ in range(self.n)
        ]
        return ChatResult(
            generations=generations, llm_output={**SPENT, "of": "result", "message": 2}
        )


class AsyncMetered(Metered):
    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        return self._generate(messages, stop, run_manager, **kwargs)


MERGED = {**SPENT, "of": "generation", "message": 1, "finish_reason": "stop"}


@pytest.mark.parametrize("model", [Metered, AsyncMetered])
def test_what_the_message_lacks_comes_from_llm_output(model: Any, call: Any):
    answers = [
        call.invoke(model(), "x"),
        call.batch(model(), ["x"])[0],
        call.generate(model(), [[HumanMessage("x")]]).generations[0][0].message,
        sum_of(call.stream(model(), "x")),
    ]

    assert [answer.response_metadata for answer in answers] == [MERGED] * 4


@pytest.mark.parametrize("n", [1, 2])
def test_usage_is_counted_under_the_model_that_llm_output_names(n: int, call: Any):
    usage = UsageMetadataCallbackHandler()

    call.invoke(Metered(n=n), "x", {"callbacks": [usage]})

    assert usage.usage_metadata == {"x": USAGE}


def test_of_several_answers_none_has_the_bill_of_all(call: Any):
    result = call.generate(Metered(n=2), [[HumanMessage("x")]])

    for generation in result.generations[0]:
        assert generation.message.response_metadata["model_name"] == "x"
        assert "token_usage" not in generation.message.response_metadata
    assert result.llm_output["token_usage"] == SPENT["token_usage"]


def sum_of(chunks: Any) -> Any:
    return reduce(add, chunks)


def test_usage_of_events_is_told_under_openais_names(call: Any):
    recorder = Recorder()

    call.invoke(Native(streaming=True), "x", {"callbacks": [recorder]})

    counts = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    assert recorder.outputs == [{"token_usage": counts}]


def test_a_cached_answer_spent_nothing(call: Any):
    recorder = Recorder()
    model = Native(streaming=True, cache=InMemoryCache())

    for _ in range(2):
        call.invoke(model, "x", {"callbacks": [recorder]})

    assert recorder.outputs[1] == {}
