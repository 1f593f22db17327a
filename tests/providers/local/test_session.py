"""A model by name: fetched, loaded, helped with tools, mended when its file is damaged."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import threading

import pytest

from foldline._io import ASYNC, BLOCKING
from foldline._io.drive import drive_each
from foldline.exceptions import ModelError, ModelNotFoundError
from foldline.providers.local import LocalModel, RuntimeSettings, fetch, model_path, session, unload

pytestmark = pytest.mark.timing

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Get the weather of a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add two numbers.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                "required": ["a", "b"],
            },
        },
    },
]


def ask(question, *more, **options):
    system = {"role": "system", "content": "You are a helpful assistant."}
    messages = [system, {"role": "user", "content": question}, *more]
    return {"messages": messages, "tools": TOOLS, "temperature": 0, "max_tokens": 40, **options}


def answer(request, mode="sync", model=None):
    feed = (model or LocalModel()).complete(request)
    if mode == "sync":
        chunks = list(drive_each(feed.chunks(BLOCKING)))
    else:

        async def body():
            return [chunk async for chunk in feed.chunks(ASYNC)]

        chunks = asyncio.run(body())
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    calls = [call["function"] for delta in deltas for call in delta.get("tool_calls") or ()]
    name = "".join(call.get("name") or "" for call in calls)
    arguments = "".join(call.get("arguments") or "" for call in calls)
    text = "".join(delta.get("content") or "" for delta in deltas)
    return name, json.loads(arguments) if arguments else None, text


@pytest.mark.slow
def test_the_right_tool_is_called(call):
    assert answer(ask("What is the weather in Paris?"), call.mode) == (
        "get_weather",
        {"city": "Paris"},
        "",
    )
    assert answer(ask("Add 3 and 4."), call.mode) == ("add", {"a": 3, "b": 4}, "")


@pytest.mark.slow
def test_a_question_for_no_tool_is_answered_in_text():
    name, arguments, text = answer(ask("Who wrote Romeo and Juliet?"))

    assert (name, arguments) == ("", None)
    assert text


@pytest.mark.slow
def test_a_result_becomes_an_answer():
    function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    call_message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": function}],
    }
    result = {"role": "tool", "tool_call_id": "1", "content": "sunny, 21 degrees"}

    name, _, text = answer(ask("What is the weather in Paris?", call_message, result))

    assert name == ""
    assert "21" in text


def test_a_named_choice_holds_for_another_model_too():
    request = ask("x", tool_choice={"type": "function", "function": {"name": "add"}})
    body = LocalModel("/some/model.gguf").encode(request)

    assert [tool["function"]["name"] for tool in body["tools"]] == ["add"]
    assert body["tool_choice"] == "required"
    assert body["messages"] == request["messages"]


def test_tokens_are_counted_with_template_and_the_tools_that_are_sent():
    model = LocalModel()
    plain = model.count_tokens({"messages": ask("hi")["messages"]})

    assert plain > 15
    assert model.count_tokens(ask("hi")) == plain  # no tool is meant, so none is sent
    assert model.count_tokens(ask("hi", tool_choice="required")) > plain + 100


def test_a_path_that_does_not_exist_is_told_where_the_answer_is_read():
    with pytest.raises(ModelNotFoundError, match="give the path of a GGUF file"):
        answer(ask("x"), model=LocalModel("/no/such/model.gguf"))


def test_leaving_before_the_model_is_loaded_asks_it_nothing(monkeypatch):
    produce_calls = []
    monkeypatch.setattr(session.LocalRuntime, "produce", lambda *_: produce_calls.append(1))
    runtime, is_left = LocalModel().load(), threading.Event()
    monkeypatch.setattr(session, "load", lambda *_: is_left.wait(20) and runtime)
    feed = LocalModel().complete({"messages": []})
    feed.close()
    is_left.set()

    assert feed.join(20)
    assert produce_calls == []


@pytest.mark.slow
def test_a_damaged_file_that_looked_whole_is_fetched_again(tmp_path, monkeypatch):
    """Same size, same time, other bytes: found when it does not load."""
    source_path = model_path()
    monkeypatch.setenv("FOLDLINE_CACHE_DIR", str(tmp_path))
    path = fetch.MODELS["smollm2-135m"].path
    path.parent.mkdir(parents=True)
    shutil.copyfile(source_path, path)
    assert model_path() == path
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    with path.open("r+b") as file:
        file.seek(4)
        file.write(b"\xff" * 4096)
    os.utime(path, ns=times)
    monkeypatch.setattr(fetch, "_fetch", lambda *_: shutil.copyfile(source_path, path))

    runtime = session.load("smollm2-135m", RuntimeSettings(context=256, slots=1))

    assert runtime.path == path
    unload(path)


def test_a_whole_file_that_does_not_load_is_not_fetched_again(monkeypatch):
    def fail(*_):
        raise ModelError("too large for the memory here")

    monkeypatch.setattr(session.LocalRuntime, "of", fail)
    monkeypatch.setattr(fetch, "_fetch", lambda *_: pytest.fail("fetched again"))

    with pytest.raises(ModelError, match="too large"):
        session.load("smollm2-135m", RuntimeSettings(context=300))
