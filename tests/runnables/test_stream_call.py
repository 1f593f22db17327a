"""`stream_v2` passed through to the model at the end, and nothing done before it is read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foldline._io.drive import drive_each
from foldline.exceptions import UsageError
from foldline.runnables import Runnable, RunnableLambda
from foldline.runnables._stream_call import StreamCall
from tests.runnables.recording import Recorder


class Model(Runnable[Any, Any]):
    """A chat model's stand-in: it streams the letters of its input."""

    def __init__(self) -> None:
        self.kwargs: list[Any] = []

    def _open_stream_v2(self, call: StreamCall) -> Any:
        async def events() -> Any:
            value, run = await call.begin()
            self.kwargs.append((run.kwargs, run.call_config.get("tags")))
            try:
                for letter in value:
                    if letter == "!":
                        raise ValueError("broken")
                    yield letter
            except ValueError as error:
                await call.fail(error)
                raise
            await call.end(value)

        return drive_each(events()) if call.io.blocking else events()


def test_a_sequence_runs_its_steps_when_the_stream_is_first_read():
    inputs: list[str] = []
    recorder, model = Recorder(), Model()

    def prompt(x: str) -> str:
        inputs.append(x)
        return x.upper()

    chain = RunnableLambda(prompt) | model.bind(stop=["x"]).with_config(tags=["t"])
    stream = chain.stream_v2("ab", {"callbacks": [recorder]})
    assert inputs == []
    assert recorder.started == {}

    assert list(stream) == ["A", "B"]
    assert inputs == ["ab"]
    assert model.kwargs == [({"stop": ["x"]}, ["t"])]
    assert recorder.names() == ["RunnableSequence", "prompt"]
    assert recorder.outputs()["RunnableSequence"] == "AB"
    recorder.check()


def test_the_same_awaited():
    async def main() -> list[str]:
        stream = await (RunnableLambda(lambda x: x.upper()) | Model()).astream_v2("ab")
        return [piece async for piece in stream]

    assert asyncio.run(main()) == ["A", "B"]


def test_a_failing_step_and_a_failing_stream_are_told_once():
    for chain in (RunnableLambda(lambda x: 1 / 0) | Model(), RunnableLambda(lambda x: x) | Model()):
        recorder = Recorder()
        with pytest.raises((ZeroDivisionError, ValueError)):
            list(chain.stream_v2("a!", {"callbacks": [recorder]}))
        assert recorder.endings()["RunnableSequence"] == "error"
        recorder.check()


def test_a_runnable_that_ends_in_no_model_says_so():
    with pytest.raises(UsageError, match="is for a chat model or a sequence that ends in one"):
        RunnableLambda(lambda x: x).stream_v2(1)
    with pytest.raises(UsageError, match="Use `stream`"):
        asyncio.run((Model() | (lambda x: x)).astream_v2(1))
