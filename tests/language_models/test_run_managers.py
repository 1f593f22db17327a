"""The run manager that an author's method gets: tokens reach handlers once, and nested runs have their parent."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import Field

from foldline.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from foldline.language_models import BaseChatModel
from foldline.language_models.fake_chat_models import FakeListChatModel
from foldline.language_models.llms import BaseLLM
from foldline.messages import AIMessage, AIMessageChunk
from foldline.outputs import (
    ChatGeneration,
    ChatGenerationChunk,
    ChatResult,
    Generation,
    GenerationChunk,
    LLMResult,
)
from foldline.protocol.replay import message_to_events


class Tokens(BaseCallbackHandler):
    def __init__(self) -> None:
        self.tokens: list[str] = []

    def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
        self.tokens += [token] if token else []


class AsyncTokens(AsyncCallbackHandler):
    def __init__(self) -> None:
        self.tokens: list[str] = []

    async def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
        self.tokens += [token] if token else []


class Runs(BaseCallbackHandler):
    """Run id -> the id of its parent, of model runs."""

    def __init__(self) -> None:
        self.parents: dict[Any, Any] = {}

    def on_chat_model_start(self, *args: Any, run_id: Any, parent_run_id: Any, **kwargs: Any):
        self.parents[run_id] = parent_run_id


class Author(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "author"


def result() -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=AIMessage("ab"))])


def chunk(text: str) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(text))


class Generates(Author):
    def _generate(self, messages, stop, run_manager, **kwargs):
        for token in "ab":
            run_manager.on_llm_new_token(token)
        return result()


class AsyncGenerates(Author):
    async def _agenerate(self, messages, stop, run_manager, **kwargs):
        for token in "ab":
            await run_manager.on_llm_new_token(token)
        return result()


class Streams(Author):
    def _stream(self, messages, stop, run_manager, **kwargs):
        for token in "ab":
            run_manager.on_llm_new_token(token, chunk=chunk(token))
            yield chunk(token)


class AsyncStreams(Author):
    async def _astream(self, messages, stop, run_manager, **kwargs):
        for token in "ab":
            await run_manager.on_llm_new_token(token)
            yield chunk(token)


class HandsOver(Streams):
    """Its async stream is its sync one, with the sync manager."""

    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        for part in self._stream(messages, stop, run_manager.get_sync(), **kwargs):
            yield part


class Native(Author):
    def _stream_chat_model_events(self, messages, stop=None, *, run_manager, **kwargs):
        for token in "ab":
            run_manager.on_llm_new_token(token)
        yield from message_to_events(AIMessage("ab", id="1"))


class AsyncNative(Author):
    async def _astream_chat_model_events(self, messages, stop=None, *, run_manager, **kwargs):
        for token in "ab":
            await run_manager.on_llm_new_token(token)
        for event in message_to_events(AIMessage("ab", id="1")):
            yield event


class PassesOn(Streams):
    """Passes every argument to its parent."""

    def _stream(self, *args, **kwargs):
        yield from super()._stream(*args, **kwargs)


class Decides(Author):
    """Has both ways, as most of LangChain's models."""

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        parts = list(self._stream(messages, stop, run_manager, **kwargs))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(parts[0].text))])

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        for token in "ab":
            if run_manager:
                run_manager.on_llm_new_token(token, chunk=chunk(token))
            yield chunk(token)


AUTHORS = [
    Generates,
    AsyncGenerates,
    Streams,
    AsyncStreams,
    HandsOver,
    Native,
    AsyncNative,
    PassesOn,
    Decides,
]


@pytest.mark.parametrize("handler", [Tokens, AsyncTokens])
@pytest.mark.parametrize("author", AUTHORS)
@pytest.mark.parametrize("method", ["invoke", "stream", "batch", "stream_v2"])
def test_a_token_that_an_author_dispatches_reaches_a_handler_once(
    call: Any, author: type[Any], method: str, handler: type[Any]
) -> None:
    listener = handler()
    value = ["x"] if method == "batch" else "x"

    getattr(call, method)(author(), value, {"callbacks": [listener]})

    assert "".join(listener.tokens) == "ab"


@pytest.mark.parametrize("author", AUTHORS)
def test_a_run_manager_is_there_without_a_handler(call: Any, author: type[Any]) -> None:
    assert call.invoke(author(), "x").text in ("ab", "a")
    assert "".join(part.text for part in call.stream(author(), "x")) in ("ab", "a")


class Bare(Author):
    """Sends all other arguments to its provider."""

    received: dict[str, Any] = Field(default_factory=dict)

    def _generate(self, messages, stop=None, **kwargs):
        self.received.update(kwargs)
        return result()


class BareStream(Bare):
    def _stream(self, messages, stop=None, **kwargs):
        self.received.update(kwargs)
        yield chunk("ab")


@pytest.mark.parametrize("author", [Bare, BareStream])
def test_a_method_that_does_not_name_the_run_manager_does_not_get_it(
    call: Any, author: type[Any]
) -> None:
    model = author(received={})

    call.invoke(model, "x", {"callbacks": [Tokens()]}, seed=1)
    call.stream(model, "x", {"callbacks": [Tokens()]}, seed=2)

    assert model.received == {"seed": 2}


INNER = FakeListChatModel(responses=["ab"])


class Wraps(Author):
    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        message = INNER.invoke(messages, {"callbacks": run_manager.get_child()})
        return ChatResult(generations=[ChatGeneration(message=message)])


class WrapsStream(Author):
    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        for part in INNER.stream(messages, {"callbacks": run_manager.get_child()}):
            yield ChatGenerationChunk(message=part)


class WrapsAsyncStream(Author):
    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        async for part in INNER.astream(messages, {"callbacks": run_manager.get_child()}):
            yield ChatGenerationChunk(message=part)


class WrapsEvents(Author):
    def _stream_chat_model_events(self, messages, stop=None, *, run_manager=None, **kwargs):
        message = INNER.invoke(messages, {"callbacks": run_manager.get_child()})
        yield from message_to_events(message)


@pytest.mark.parametrize("author", [Wraps, WrapsStream, WrapsAsyncStream, WrapsEvents])
@pytest.mark.parametrize("method", ["invoke", "stream", "stream_v2"])
def test_the_run_of_a_wrapped_model_is_a_child_of_its_wrapper(
    call: Any, author: type[Any], method: str
) -> None:
    runs = Runs()

    getattr(call, method)(author(), "x", {"callbacks": [runs]})

    outer, inner = runs.parents
    assert runs.parents == {outer: None, inner: outer}


class TextModel(BaseLLM):
    @property
    def _llm_type(self) -> str:
        return "text"

    def _generate(self, prompts, stop, run_manager, **kwargs):
        for token in "ab":
            run_manager.on_llm_new_token(token)
        return LLMResult(generations=[[Generation(text="ab")] for _ in prompts])


class TextStream(TextModel):
    def _stream(self, prompt, stop, run_manager, **kwargs):
        for token in "ab":
            run_manager.on_llm_new_token(token)
            yield GenerationChunk(text=token)


class BareText(BaseLLM):
    received: dict[str, Any] = Field(default_factory=dict)

    @property
    def _llm_type(self) -> str:
        return "bare"

    def _generate(self, prompts, stop=None, **kwargs):
        self.received.update(kwargs)
        return LLMResult(generations=[[Generation(text="ab")] for _ in prompts])


@pytest.mark.parametrize("author", [TextModel, TextStream])
@pytest.mark.parametrize("method", ["invoke", "stream"])
def test_a_text_models_token_reaches_a_handler_once(
    call: Any, author: type[Any], method: str
) -> None:
    listener = Tokens()

    getattr(call, method)(author(), "x", {"callbacks": [listener]})

    assert "".join(listener.tokens) == "ab"


def test_a_text_model_that_does_not_name_the_run_manager_does_not_get_it(call: Any) -> None:
    model = BareText(received={})

    call.invoke(model, "x", seed=1)

    assert model.received == {"seed": 1}
