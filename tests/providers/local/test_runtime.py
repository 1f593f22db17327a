"""llama.cpp in this process, for real: SmolLM2 answers, is stopped, forked, overfilled and refused."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import time

import pytest

from foldline._io import ASYNC, BLOCKING
from foldline._io.drive import drive_each
from foldline.exceptions import (
    ContextOverflowError,
    MissingExtraError,
    ModelError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    UsageError,
)
from foldline.providers.local import LocalRuntime, fetch, runtime as runtime_module
from foldline.providers.local._tools import encode_tools
from foldline.providers.local.runtime import decode_error

pytestmark = pytest.mark.timing

SYSTEM = {"role": "system", "content": "You are a helpful assistant."}


def ask(question, **more):
    return {
        "messages": [SYSTEM, {"role": "user", "content": question}],
        "max_tokens": 12,
        "temperature": 0,
        "cache_prompt": False,  # a cached beginning rounds otherwise, and so small a model then says otherwise
        **more,
    }


def text_of(chunks):
    return "".join(
        choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]
    )


def collect(feed, mode):
    if mode == "sync":
        return list(drive_each(feed.chunks(BLOCKING)))

    async def body():
        return [chunk async for chunk in feed.chunks(ASYNC)]

    return asyncio.run(body())


def is_idle(runtime):
    return not any(slot["is_processing"] for slot in runtime.ask("/slots", None, "GET"))


def wait_until_idle(runtime, seconds=5):
    deadline = time.monotonic() + seconds
    while not is_idle(runtime) and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_idle(runtime)


@pytest.mark.slow
def test_an_answer_comes_in_pieces_with_its_usage(call, runtime):
    chunks = collect(runtime.complete(ask("What is the capital of France?")), call.mode)

    assert "Paris" in text_of(chunks)
    assert len(chunks) > 5
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["usage"]["completion_tokens"] == 8


@pytest.mark.slow
def test_a_schema_binds_the_answer(runtime):
    properties = {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "required": ["name", "age"]}
    response_format = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}

    chunks = runtime.complete(
        ask("Ann is 31 years old. As JSON.", response_format=response_format, max_tokens=60)
    )

    assert json.loads(text_of(chunks)) == {"name": "Ann", "age": 31}


@pytest.mark.slow
def test_a_pinned_tool_is_called_with_whole_arguments(runtime, embeddings):
    parameters = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }
    weather = {
        "name": "get_weather",
        "description": "Get the weather of a city.",
        "parameters": parameters,
    }
    request = ask(
        "What is the weather in Paris?", tools=[{"type": "function", "function": weather}]
    )

    chunks = list(
        runtime.complete(encode_tools({**request, "max_tokens": 60}, embeddings.embed_now))
    )

    calls = [
        c
        for chunk in chunks
        for choice in chunk["choices"]
        for c in choice["delta"].get("tool_calls", [])
    ]
    assert calls[0]["function"]["name"] == "get_weather"
    assert json.loads("".join(c["function"].get("arguments", "") for c in calls)) == {
        "city": "Paris"
    }


@pytest.mark.slow
def test_closing_early_stops_the_generation(call, runtime, no_leaks):
    feed = runtime.complete(ask("Tell me a very long story.", max_tokens=4000))
    if not call.is_async:
        stream = drive_each(feed.chunks(BLOCKING))
        next(stream)
        stream.close()
    else:

        async def body():
            stream = feed.chunks(ASYNC)
            await anext(stream)
            await stream.aclose()

        asyncio.run(body())

    assert feed.join(5)
    assert wait_until_idle(runtime)


@pytest.mark.slow
def test_a_long_prompt_can_be_left_before_the_first_word(runtime):
    feed = runtime.complete(ask("word " * 6000, max_tokens=5))
    time.sleep(0.3)
    feed.close()

    assert feed.join(20)
    assert wait_until_idle(runtime)


@pytest.mark.slow
def test_two_answers_are_spoken_at_once_and_a_third_waits(runtime):
    feeds = [runtime.complete(ask(f"Count to {n}.", max_tokens=10)) for n in (3, 4, 5)]

    answers = [list(feed) for feed in feeds]

    assert all(chunks[-1]["usage"]["completion_tokens"] > 0 for chunks in answers)


def test_the_models_own_tokens_are_counted(runtime):
    assert runtime.detokenize(runtime.tokenize("hello world")) == "hello world"
    prompt_tokens = list(runtime.complete(ask("hi", max_tokens=1)))[-1]["usage"]["prompt_tokens"]
    assert runtime.count_tokens(ask("hi")) == prompt_tokens


def test_a_prompt_beyond_the_context_says_so(runtime):
    with pytest.raises(ContextOverflowError, match=r"^local:SmolLM2.*8192 tokens"):
        list(runtime.complete(ask("x " * 9000)))


def test_a_request_the_server_does_not_understand_is_refused(runtime):
    with pytest.raises(ModelInvalidRequestError, match="messages"):
        list(runtime.complete({"messages": "hello"}))


def test_the_http_server_wants_its_key(runtime):
    other = object.__new__(LocalRuntime)
    other._server, other._key, other.name = runtime._server, "guess", "x"

    with pytest.raises(ModelError, match=r"(?i)api key"):
        other.ask("/tokenize", {"content": "x"})


def test_one_process_loads_a_file_once(runtime):
    assert LocalRuntime.of(str(runtime.path), runtime.settings) is runtime


def test_a_missing_file_says_what_to_give(tmp_path):
    with pytest.raises(ModelNotFoundError, match="give the path of a GGUF file"):
        LocalRuntime.of(tmp_path / "none.gguf")


def test_a_file_that_is_no_model_is_refused(tmp_path):
    (tmp_path / "a.gguf").write_bytes(b"PK\x03\x04 a zip")
    with pytest.raises(UsageError, match="not a GGUF file"):
        LocalRuntime.of(tmp_path / "a.gguf")


def test_a_damaged_model_raises_quietly(tmp_path, capfd):
    (tmp_path / "b.gguf").write_bytes(b"GGUF" + b"\x00" * 100)
    with pytest.raises(ModelError, match="could not be loaded"):
        LocalRuntime.of(tmp_path / "b.gguf")

    assert capfd.readouterr() == ("", "")


def test_without_the_extra_the_error_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(MissingExtraError, match=r'pip install "foldline\[local\]"'):
        runtime_module.load_library()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 400, "type": "exceed_context_size_error", "message": "m"}, ContextOverflowError),
        ({"code": 400, "message": "m"}, ModelInvalidRequestError),
        ({"code": 503, "message": "loading"}, ModelError),
        ({}, ModelError),
    ],
)
def test_errors_of_the_server_become_ours(error, kind):
    assert isinstance(decode_error(error, "m"), kind)


PROGRAM = """
    import os, sys, time
    from foldline.providers.local import LocalRuntime, RuntimeSettings, model_path
    runtime = LocalRuntime.of(model_path(), RuntimeSettings(context=512, slots=1))
    request = {"messages": [{"role": "user", "content": "Tell a long story."}], "max_tokens": 400}
"""


def run_program(body):
    program = textwrap.dedent(PROGRAM) + textwrap.dedent(body)
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.slow
def test_a_process_that_ends_in_the_middle_of_an_answer_ends_cleanly():
    result = run_program("feed = runtime.complete(request); next(feed); print('ending')")

    assert (result.returncode, result.stdout, result.stderr) == (0, "ending\n", "")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_ends_cleanly_and_can_load_its_own():
    result = run_program("""
        feed = runtime.complete(request)
        next(feed)
        child = os.fork()
        if child == 0:
            try:
                next(feed)
            except Exception as error:
                print("told:", "forked" in str(error), flush=True)
            own = LocalRuntime.of(runtime.path, runtime.settings)
            print("own:", bool(next(own.complete({**request, "max_tokens": 2}))), flush=True)
            sys.exit(7)
        print("child:", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print("parent:", bool(next(feed)))
    """)

    assert result.stdout.split("\n") == ["told: True", "own: True", "child: 7", "parent: True", ""]
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.slow
def test_ctrl_c_reaches_the_program_while_the_model_speaks():
    result = run_program("""
        import signal, threading
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            for chunk in runtime.complete({**request, "max_tokens": 4000}): pass
        except KeyboardInterrupt:
            print("interrupted")
    """)

    assert (result.returncode, result.stdout, result.stderr) == (0, "interrupted\n", "")


def test_a_fetched_model_is_the_one_that_is_loaded(runtime):
    assert runtime.path == fetch.model_path()
