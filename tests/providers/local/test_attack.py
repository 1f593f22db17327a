"""The local provider under attack: damaged files, settings and texts that llama.cpp hangs or fails on, cancelled calls.

Files that may take the process with them are loaded in a process of their own.
"""

from __future__ import annotations

import asyncio
import os
import random
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from foldline.exceptions import (
    BudgetExceeded,
    ContextOverflowError,
    FoldlineError,
    MalformedStreamError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    UsageError,
)
from foldline.language_models import Limits, usage_scope
from foldline.providers.local import ChatLlamaCpp, LocalEmbeddings, RuntimeSettings, model_path
from foldline.providers.local._chunk_stream import ChunkStream
from tests.conftest import open_files
from tests.faults.cancellation import Stepped

pytestmark = [pytest.mark.timing, pytest.mark.slow]

ONE_LOAD = """
import sys
from foldline.exceptions import FoldlineError
from foldline.providers.local import ChatLlamaCpp, LocalEmbeddings
try:
    if sys.argv[2] == "chat":
        print("answer", ChatLlamaCpp(model=sys.argv[1], context=64, max_tokens=2).invoke("hi").text)
    else:
        print("vector", LocalEmbeddings(model=sys.argv[1]).embed_query("hi"))
except FoldlineError as error:
    print("told", type(error).__name__)
"""


@pytest.fixture(scope="module")
def model() -> ChatLlamaCpp:
    return ChatLlamaCpp(temperature=0)


def load_apart(path: Path, kind: str) -> str:
    """Load a file in another process and say what came of it."""
    result = subprocess.run(
        [sys.executable, "-c", ONE_LOAD, str(path), kind],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if not result.stdout:
        return f"died {result.returncode}"
    return f"{result.stdout.split()[0]} {result.stdout.split()[-1]}"


def damaged() -> dict[str, Any]:
    """Ways to damage the encoder's file: the name, and the damaged bytes."""

    def at(place: int, value: bytes) -> Any:
        return lambda data: data[:place] + value + data[place + len(value) :]

    def flipped(data: bytes, seed: int) -> bytes:
        spoiled, rng = bytearray(data), random.Random(seed)
        for _ in range(20):
            spoiled[rng.randrange(24, 2000)] = rng.randrange(256)
        return bytes(spoiled)

    return {
        "the magic alone": lambda data: data[:4], "the head alone": lambda data: data[:24],
        "cut in the metadata": lambda data: data[:5000], "cut in the tensors": lambda data: data[: len(data) // 2],
        "its last bytes lost": lambda data: data[:-1000], "a version to come": at(4, struct.pack("<I", 99)),
        "too many tensors": at(8, struct.pack("<Q", 2**62)), "too many pairs": at(16, struct.pack("<Q", 2**62)),
        "a string without end": at(24, struct.pack("<Q", 2**60)), "bytes flipped": lambda data: flipped(data, 1),
        "other bytes flipped": lambda data: flipped(data, 2),
    }  # fmt: skip


@pytest.mark.parametrize("name", damaged())
def test_a_damaged_file_is_told_and_does_not_take_the_process_with_it(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "damaged.gguf"
    path.write_bytes(damaged()[name](model_path("minilm-l6").read_bytes()))

    assert load_apart(path, "embedding") == "told ModelError"
    assert load_apart(path, "chat") == "told ModelError"


def test_weights_that_are_no_numbers_give_an_error_and_not_none(tmp_path: Path, call: Any) -> None:
    data = bytearray(model_path("minilm-l6").read_bytes())
    data[len(data) // 2 :] = b"\xff" * (len(data) - len(data) // 2)
    path = tmp_path / "nan.gguf"
    path.write_bytes(data)

    with pytest.raises(MalformedStreamError, match="damaged"):
        call.run(LocalEmbeddings(model=str(path)), "embed_query", "hello")


def test_what_is_no_file_is_told_at_once(tmp_path: Path, call: Any) -> None:
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    (tmp_path / "text.gguf").write_text("no model at all")
    for path, expected in (
        (tmp_path / "missing.gguf", ModelNotFoundError), (tmp_path, ModelNotFoundError), (pipe, UsageError),
        (tmp_path / "text.gguf", UsageError), ("nul\0inside", UsageError), ("/dev/zero", UsageError),
    ):  # fmt: skip
        with pytest.raises(expected):
            call.run(LocalEmbeddings(model=str(path)), "embed_query", "hello")
        with pytest.raises(expected):
            call.invoke(ChatLlamaCpp(model=str(path), context=64), "hello")


@pytest.mark.parametrize(
    "settings", [{"slots": 0}, {"slots": -1}, {"context": -1}, {"threads": 0}, {"threads": -3}, {"gpu_layers": -2}]
)  # fmt: skip
def test_settings_that_llama_cpp_hangs_on_are_refused(settings: dict[str, int], call: Any) -> None:
    with pytest.raises(UsageError, match=next(iter(settings))):
        call.invoke(ChatLlamaCpp(**settings), "hello")


def test_an_encoder_needs_some_context() -> None:
    with pytest.raises(UsageError, match="context"):
        RuntimeSettings(context=0, embedding=True)


def test_half_a_character_is_embedded_as_a_question_mark(embeddings: Any, call: Any) -> None:
    vectors = call.run(embeddings, "embed_documents", ["a\ud800b", "a?b", "a\0b"])

    assert vectors[0] == pytest.approx(vectors[1], abs=1e-6)
    assert len(call.run(embeddings, "embed_query", "a\ud800b " * 500)) == 384


def test_a_text_is_cut_to_what_the_model_was_made_for_where_context_is_larger(call: Any) -> None:
    assert len(call.run(LocalEmbeddings(context=4096), "embed_query", "house " * 1500)) == 384


def test_a_chat_model_asked_for_vectors_says_so(call: Any) -> None:
    with pytest.raises(FoldlineError, match=r"[Pp]ooling"):
        call.run(LocalEmbeddings(model=str(model_path())), "embed_query", "hello")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"grammar": "root ::= ((("}, ModelInvalidRequestError),
        ({"grammar": "root ::= root"}, ModelInvalidRequestError),
        ({"temperature": "hot"}, ModelInvalidRequestError),
        ({"max_tokens": -5}, ModelInvalidRequestError),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"$ref": "#/no"}}}},
            ModelInvalidRequestError,
        ),
    ],
)  # fmt: skip
def test_a_request_llama_cpp_refuses_is_typed_alike_whole_and_streamed(
    options: Any, expected: type[Exception], model: Any, call: Any
) -> None:
    with pytest.raises(expected):
        call.invoke(model, "hi", **options)
    with pytest.raises(expected):
        call.stream(model, "hi", **options)


def test_a_prompt_too_long_is_typed_alike_whole_and_streamed(call: Any) -> None:
    model = ChatLlamaCpp(context=256, slots=1, max_tokens=4)
    for ask in (call.invoke, call.stream):
        with pytest.raises(ContextOverflowError):
            ask(model, "word " * 2000)


def test_a_call_cancelled_at_any_await_stops_the_model(model: Any) -> None:
    """F-C03 for the model in this process: no thread, no task and no file is left, the next answer is right."""

    async def sweep() -> int:
        short = model.bind(max_tokens=6)
        truth = (await short.ainvoke("Say hi")).text
        files, at = len(open_files()), 0
        while True:
            at += 1
            step_body = Stepped(short.ainvoke("Say hi"), at, twice=at % 2 == 0)
            task = asyncio.ensure_future(_host(step_body))
            await asyncio.wait([task], timeout=30)
            if not step_body.is_cut:
                assert task.result().text == truth
                break
            assert task.cancelled()
            assert asyncio.all_tasks() == {asyncio.current_task()}
        assert _producers_end()
        assert len(open_files()) <= files
        return at

    assert asyncio.run(sweep()) > 3


async def _host(step_body: Stepped) -> Any:
    return await step_body.run()


def _producers_end(timeout: float = 10.0) -> bool:
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        if not [thread for thread in threading.enumerate() if thread.name == "foldline-llama"]:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("ask", ["invoke", "stream"])
def test_the_deadline_of_a_usage_scope_stops_the_model(model: Any, call: Any, ask: str) -> None:
    endless = model.bind(max_tokens=100_000, ignore_eos=True)
    start = time.monotonic()
    with pytest.raises(BudgetExceeded), usage_scope(Limits(timeout=0.5)):
        getattr(call, ask)(endless, "Count for ever")
    assert time.monotonic() - start < 5
    assert _producers_end()


def test_an_abandoned_answer_ends_its_thread_without_the_collector(model: Any) -> None:
    stream = model.stream("Count to a thousand", max_tokens=500)
    next(stream)
    stream.close()
    assert _producers_end()


def test_a_producer_that_fails_late_is_told_alike(call: Any) -> None:
    """The server dies in the middle of an answer: what came is kept, and the error is typed."""

    class Dying:
        def handle_chat_completions(self, request: Any, on_chunk: Any) -> None:
            delta = {"role": "assistant", "content": "Hel"}
            on_chunk({"id": "1", "choices": [{"index": 0, "delta": delta}]})
            raise RuntimeError("the backend is gone")

    from foldline.providers.local import runtime as module

    dying = object.__new__(module.LocalRuntime)
    dying.name, dying._server, dying.settings = "m", Dying(), RuntimeSettings()
    feed: ChunkStream[Any] = dying.complete({"messages": []})
    assert next(feed)["choices"][0]["delta"]["content"] == "Hel"
    with pytest.raises(FoldlineError, match="backend is gone"):
        next(feed)
