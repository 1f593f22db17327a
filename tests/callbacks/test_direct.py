"""Hooks that are called directly: the same arguments, faults and order as hooks that are looked at more closely."""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from uuid import UUID

import pytest

from foldline import _run
from foldline._run import Run
from foldline.callbacks import BaseCallbackHandler
from foldline.language_models import FakeListChatModel
from foldline.output_parsers import StrOutputParser
from foldline.prompts import ChatPromptTemplate

MODEL = FakeListChatModel(responses=["abc"])
CHAIN = ChatPromptTemplate.from_template("{topic}") | MODEL | StrOutputParser()
ALWAYS = {"run_id", "parent_run_id", "tags"}
ARGUMENTS = {
    "on_chat_model_start": ALWAYS
    | {"metadata", "invocation_params", "options", "name", "batch_size"},
    "on_llm_new_token": ALWAYS | {"chunk"},
    "on_llm_end": ALWAYS,
    "on_chain_start": ALWAYS | {"metadata", "name"},
    "on_chain_end": ALWAYS,
}
"""Event -> the keyword arguments that LangChain's handlers get."""


class Listener(BaseCallbackHandler):
    """Records its calls in the way most handlers are called."""

    run_inline = True

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, set[str]]] = []
        self.tokens: list[str] = []

    def _note(self, event: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        assert isinstance(kwargs["run_id"], UUID)
        self.calls.append((event, len(args), set(kwargs) - {"run_type"}))

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self._note("on_chat_model_start", args, kwargs)

    def on_llm_new_token(self, *args: Any, **kwargs: Any) -> None:
        self._note("on_llm_new_token", args, kwargs)
        self.tokens.append(args[0])

    def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
        self._note("on_llm_end", args, kwargs)

    def on_chain_start(self, *args: Any, **kwargs: Any) -> None:
        self._note("on_chain_start", args, kwargs)

    def on_chain_end(self, *args: Any, **kwargs: Any) -> None:
        self._note("on_chain_end", args, kwargs)


class Particular(Listener):
    """The same, for a class that defines how its hooks are called: none of them is called directly."""

    patience = 5.0


class IgnoringListener(Listener):
    ignore_llm = True


@pytest.mark.parametrize("way", ["invoke", "stream"])
def test_every_handler_gets_the_arguments_of_langchain(call: Any, way: str):
    direct, particular = Listener(), Particular()
    config = {"callbacks": [direct, particular]}
    getattr(call, way)(CHAIN, {"topic": "bears"}, config)

    assert direct.calls == particular.calls
    assert {event for event, _, _ in direct.calls} >= ARGUMENTS.keys() - {"on_llm_new_token"}
    for event, places, names in direct.calls:
        assert places == (2 if event.endswith("_start") else 1)
        assert names - {"inputs"} == ARGUMENTS[event]


def test_a_listened_run_has_one_id_and_a_run_that_nobody_hears_none(
    call: Any, monkeypatch: pytest.MonkeyPatch
):
    ids: list[UUID] = []
    real = _run.uuid7

    def count_id() -> UUID:
        ids.append(real())
        return ids[-1]

    monkeypatch.setattr(_run, "uuid7", count_id)
    call.invoke(CHAIN, {"topic": "bears"})
    assert ids == []

    call.invoke(CHAIN, {"topic": "bears"}, {"callbacks": [Listener()]})
    assert len(ids) == 4  # the chain and its three steps


def test_the_text_of_an_id_is_the_id_of_the_run():
    run_id = "0197f1a2-0000-7000-8000-000000000001"
    listener = Listener()
    answer = MODEL.invoke("hi", {"callbacks": [listener], "run_id": run_id})

    assert answer.id == f"lc_run--{run_id}-0"


def test_handlers_that_a_hook_adds_or_removes_are_heard_from_the_next_token(call: Any):
    listener = Listener()
    runs: list[Run] = []

    class Host(Listener):
        def on_llm_new_token(self, token: Any, **kwargs: Any) -> None:
            super().on_llm_new_token(token, **kwargs)
            manager = runs[0].manager
            assert manager is not None
            if token == "a":
                manager.add_handler(listener)
            if token == "b":
                manager.remove_handler(self)

    class RunRecordingModel(FakeListChatModel):
        async def _events(self, request: Any, run: Any) -> Any:
            runs.append(run)
            async for batch in super()._events(request, run):
                yield batch

    host = Host()
    call.stream(RunRecordingModel(responses=["abc"]), "hi", {"callbacks": [host]})

    assert [token for token in host.tokens if token] == ["a", "b"]
    assert [token for token in listener.tokens if token] == ["b", "c"]


def test_handlers_of_every_kind_hear_the_same_tokens(call: Any):
    plain, particular, deaf = Listener(), Particular(), IgnoringListener()
    call.stream(MODEL, "hi", {"callbacks": [plain, deaf, particular]})

    assert [token for token in plain.tokens if token] == ["a", "b", "c"]
    assert particular.tokens == plain.tokens
    assert [event for event, _, _ in deaf.calls] == ["on_chat_model_start"]


def test_a_fault_is_raised_where_the_handler_says_so_and_logged_elsewhere(
    call: Any, caplog: pytest.LogCaptureFixture
):
    class Faulty(Listener):
        def on_llm_new_token(self, *args: Any, **kwargs: Any) -> None:
            raise RuntimeError("my own fault")

    class Strict(Faulty):
        raise_error = True

    other = Listener()
    with caplog.at_level(logging.WARNING, logger="foldline.callbacks"):
        pieces = call.stream(MODEL, "hi", {"callbacks": [Faulty(), other]})
    assert "".join(str(piece.text) for piece in pieces) == "abc"
    assert [token for token in other.tokens if token] == ["a", "b", "c"]
    assert len(caplog.records) == 1

    with pytest.raises(RuntimeError, match="my own fault"):
        call.stream(MODEL, "hi", {"callbacks": [Strict()]})


def test_an_awaitable_that_a_plain_hook_returns_is_waited_for(call: Any):
    tokens: list[str] = []

    class AwaitableListener(Listener):
        def on_llm_new_token(self, token: Any, **kwargs: Any) -> Any:
            async def later() -> None:
                await asyncio.sleep(0)
                tokens.append(token)

            return later()

    call.stream(MODEL, "hi", {"callbacks": [AwaitableListener()]})

    assert [token for token in tokens if token] == ["a", "b", "c"]


def test_a_hook_set_on_the_instance_is_the_one_that_is_called(call: Any):
    listener, tokens = Listener(), []
    call.stream(MODEL, "hi", {"callbacks": [listener]})
    listener.on_llm_new_token = lambda token, **kwargs: tokens.append(token)  # type: ignore[method-assign]
    before = list(listener.tokens)
    call.stream(MODEL, "hi", {"callbacks": [listener]})

    assert listener.tokens == before
    assert [token for token in tokens if token] == ["a", "b", "c"]
