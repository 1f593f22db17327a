"""Text models on every wire: whole, streamed, batched; handler calls, requests and errors."""

from __future__ import annotations

import asyncio
import json
import pickle
import time
from typing import Any

import pytest

from foldline.caches import InMemoryCache
from foldline.callbacks import BaseCallbackHandler
from foldline.exceptions import (
    LimitExceededError,
    MalformedStreamError,
    ModelAuthenticationError,
    ModelError,
    ModelRateLimitError,
    StreamInterruptedError,
    StreamTruncatedError,
    UsageError,
)
from foldline.load import dumps, loads
from foldline.messages import AIMessage, HumanMessage
from foldline.prompts import PromptTemplate
from foldline.providers._text_reading import TextReading
from foldline.providers.anthropic import AnthropicLLM
from foldline.providers.anthropic.text import encode_prompt
from foldline.providers.ollama import OllamaLLM
from foldline.providers.openai import OpenAI
from foldline.transports import SizeLimits
from tests.providers.text_wires import (
    MESSAGE_EVENTS,
    OLLAMA_END,
    USAGE,
    WHOLE,
    WIRES,
    WORDS,
    Wire,
    completion,
    completion_chunk,
    lines_answer,
    ollama_line,
)
from tests.servers import Answer, json_answer, sse_answer

pytestmark = pytest.mark.timing


@pytest.fixture(params=sorted(WIRES))
def name(request) -> str:
    return request.param


@pytest.fixture
def wire(name: str) -> Wire:
    return WIRES[name]


class Recorder(BaseCallbackHandler):
    """Records handler calls."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.ends: list[Any] = []
        self.errors: list[Any] = []

    def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
        self.tokens.append(token)

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        self.ends.append(response)

    def on_llm_error(self, error: BaseException, **kwargs: Any) -> None:
        self.errors.append((error, kwargs["response"]))


def test_an_answer_comes_whole(call, fault_server, wire, name):
    fault_server.script(wire.path, WHOLE[name])
    recorder = Recorder()
    assert call.invoke(wire.model(fault_server), "Hi", {"callbacks": [recorder]}) == "Hello, world"
    (result,) = recorder.ends
    assert result.generations[0][0].generation_info.items() >= wire.reason.items()
    assert result.llm_output["model_name"] == "m"
    assert result.llm_output["token_usage"].items() >= USAGE.items()
    assert recorder.tokens == []


def test_an_answer_comes_piece_by_piece(call, fault_server, wire):
    fault_server.script(wire.path, wire.stream)
    recorder = Recorder()
    pieces = call.stream(wire.model(fault_server), "Hi", {"callbacks": [recorder]})
    assert [piece for piece in pieces if piece] == WORDS
    assert [token for token in recorder.tokens if token] == WORDS
    (result,) = recorder.ends
    assert result.generations[0][0].text == "Hello, world"
    assert result.generations[0][0].generation_info.items() >= wire.reason.items()
    assert result.llm_output["token_usage"].items() >= USAGE.items()
    assert fault_server.requests(wire.path)[0].json()["stream"] is True


def test_streaming_tells_tokens_under_invoke(call, fault_server, wire):
    fault_server.script(wire.path, wire.stream)
    recorder = Recorder()
    model = wire.model(fault_server, streaming=True)
    assert call.invoke(model, "Hi", {"callbacks": [recorder]}) == "Hello, world"
    assert [token for token in recorder.tokens if token] == WORDS
    assert recorder.ends[0].llm_output["token_usage"].items() >= USAGE.items()


def test_a_batch_is_answered_in_order(call, fault_server, wire, name):
    answer = WHOLE[name]
    if "Open" in wire.kind.__name__:
        answer = json_answer(completion(*["Hello, world"] * 3))
    fault_server.script(wire.path, answer)
    assert call.batch(wire.model(fault_server), ["a", "b", "c"]) == ["Hello, world"] * 3
    bodies = [request.json() for request in fault_server.requests(wire.path)]
    if "Open" in wire.kind.__name__:
        assert [body["prompt"] for body in bodies] == [["a", "b", "c"]]
    else:
        prompts = [body.get("prompt") or body["messages"][0]["content"] for body in bodies]
        assert sorted(prompts) == ["a", "b", "c"]


def test_usage_of_a_batch_is_added_up(call, fault_server):
    fault_server.script("/api/generate", WHOLE["ollama"])
    result = call.generate(WIRES["ollama"].model(fault_server), ["a", "b"])
    assert result.llm_output["token_usage"] == {name: 2 * count for name, count in USAGE.items()}


def test_choices_are_sorted_to_their_prompts(call, fault_server):
    answer = completion("a1", "a2", "b1", "b2")
    answer["choices"].reverse()
    fault_server.script("/v1/completions", json_answer(answer))
    model = WIRES["openai"].model(fault_server, n=2, best_of=3, logprobs=2)
    result = call.generate(model, ["a", "b"])
    texts = [[answer.text for answer in answers] for answers in result.generations]
    assert texts == [["a1", "a2"], ["b1", "b2"]]
    body = fault_server.requests()[0].json()
    assert (body["n"], body["best_of"], body["logprobs"]) == (2, 3, 2)


def test_too_few_choices_are_an_error(call, fault_server):
    fault_server.script("/v1/completions", json_answer(completion("one")))
    with pytest.raises(MalformedStreamError, match=r"2 prompts with n=1 .* 1 answers"):
        call.generate(WIRES["openai"].model(fault_server), ["a", "b"])


def test_several_answers_cannot_be_streamed(call, fault_server):
    with pytest.raises(UsageError, match="several answers"):
        call.stream(WIRES["openai"].model(fault_server, n=2), "Hi")


def test_logprobs_of_a_stream_are_joined(call, fault_server):
    chunks = [completion_chunk(word) for word in WORDS] + [completion_chunk("", "stop")]
    for chunk, word in zip(chunks, WORDS, strict=False):
        chunk["choices"][0]["logprobs"] = {"tokens": [word], "token_logprobs": [-0.5]}
    fault_server.script("/v1/completions", sse_answer(chunks, done="[DONE]"))
    recorder = Recorder()
    call.stream(WIRES["openai"].model(fault_server, logprobs=1), "Hi", {"callbacks": [recorder]})
    assert recorder.ends[0].generations[0][0].generation_info["logprobs"]["tokens"] == WORDS


def test_settings_and_options_are_sent(call, fault_server, wire, name):
    fault_server.script(wire.path, WHOLE[name])
    model = wire.model(fault_server, temperature=0.5, top_p=0.9, max_tokens=7, stop="X")
    call.invoke(model, "Hi", temperature=0.1, stop=["Y"])
    call.invoke(model, "Hi")
    first, second = (request.json() for request in fault_server.requests(wire.path))
    place = "options" if name == "ollama" else None
    first, second = (body[place] if place else body for body in (first, second))
    stop = "stop_sequences" if name == "anthropic" else "stop"
    limit = "num_predict" if name == "ollama" else "max_tokens"
    assert (first["temperature"], first[stop], first["top_p"], first[limit]) == (0.1, ["Y"], 0.9, 7)
    assert (second["temperature"], second[stop]) == (0.5, ["X"])


def test_the_key_is_sent_and_never_shown(call, fault_server, wire, name):
    fault_server.script(wire.path, json_answer({"error": {"message": "bad key-123456"}}, 401))
    model = wire.model(fault_server)
    with pytest.raises(ModelAuthenticationError) as excinfo:
        call.invoke(model, "Hi")
    assert "key-123456" in str(fault_server.requests()[0].headers)
    assert "key-123456" not in f"{excinfo.value} {excinfo.value.body} {model!r} {dumps(model)}"
    assert pickle.loads(pickle.dumps(model)).api_key is None


def test_a_missing_key_says_which_variable(call, monkeypatch):
    for kind, variable in ((OpenAI, "OPENAI_API_KEY"), (AnthropicLLM, "ANTHROPIC_API_KEY")):
        monkeypatch.delenv(variable, raising=False)
        with pytest.raises(ModelAuthenticationError, match=variable):
            call.invoke(kind(), "Hi")


def test_a_refused_call_is_tried_again(call, fault_server, wire, name):
    slow = json_answer({"error": {"message": "slow down"}}, 429, headers={"retry-after": "0"})
    fault_server.script(wire.path, slow, WHOLE[name], slow, wire.stream)
    model = wire.model(fault_server, max_retries=1)
    assert call.invoke(model, "Hi") == "Hello, world"
    assert "".join(call.stream(model, "Hi")) == "Hello, world"
    fault_server.script(wire.path, slow)
    with pytest.raises(ModelRateLimitError) as excinfo:
        call.invoke(model, "Hi")
    assert excinfo.value.attempts == 2


@pytest.mark.parametrize("fault", ["fin", "rst"])
def test_a_stream_that_is_cut_is_an_error_with_what_came(call, fault_server, wire, fault):
    sizes = [len(step[1]) for step in wire.stream.steps()]
    count = 4 if wire.kind is AnthropicLLM else 2
    fault_server.script(wire.path, wire.stream.cut(sum(sizes[:count]) + 5, fault))
    recorder = Recorder()
    with pytest.raises(StreamInterruptedError):
        call.stream(wire.model(fault_server, max_retries=2), "Hi", {"callbacks": [recorder]})
    ((_, partial),) = recorder.errors
    if fault == "fin" or recorder.tokens:
        assert partial.generations[0][0].text == "Hello, "
        assert fault_server.hits(wire.path) == 1


def test_a_stream_that_ends_early_but_properly_is_truncated(call, fault_server, wire):
    steps = [step[1] for step in wire.stream.steps()][: 4 if wire.kind is AnthropicLLM else 2]
    make_answer = lines_answer if wire.kind is OllamaLLM else sse_answer
    fault_server.script(wire.path, make_answer(steps))
    with pytest.raises(StreamTruncatedError, match="before the provider said"):
        call.stream(wire.model(fault_server), "Hi")


def test_an_error_in_a_stream_is_typed(call, fault_server, wire):
    steps = [step[1] for step in wire.stream.steps()][: 4 if wire.kind is AnthropicLLM else 2]
    make_answer = lines_answer if wire.kind is OllamaLLM else sse_answer
    fault_server.script(wire.path, make_answer([*steps, wire.error]))
    recorder = Recorder()
    with pytest.raises(ModelError, match="broken"):
        call.stream(wire.model(fault_server, max_retries=2), "Hi", {"callbacks": [recorder]})
    assert recorder.tokens  # content was out: no second attempt
    assert fault_server.hits(wire.path) == 1


def test_200_with_an_error_is_an_error(call, fault_server, wire):
    body = wire.error[1] if isinstance(wire.error, tuple) else wire.error
    fault_server.script(wire.path, json_answer(body))
    with pytest.raises(ModelError, match="broken"):
        call.invoke(wire.model(fault_server), "Hi")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'"text"', b"<html>", b'{"choices": 5}']
)
def test_an_odd_answer_is_a_malformed_stream(call, fault_server, wire, body):
    fault_server.script(wire.path, Answer(body, headers={"content-type": "application/json"}))
    with pytest.raises(MalformedStreamError):
        call.invoke(wire.model(fault_server), "Hi")


@pytest.mark.parametrize("payload", ["[]", "5", "{", '{"choices": 7}', '{"type": "message_delta"}'])
def test_an_odd_piece_is_a_fault_and_no_text(call, fault_server, wire, payload):
    data = payload.encode() + b"\n" if wire.kind is OllamaLLM else f"data: {payload}\n\n".encode()
    make_answer = lines_answer if wire.kind is OllamaLLM else sse_answer
    fault_server.script(wire.path, make_answer([data]))
    with pytest.raises((MalformedStreamError, StreamTruncatedError)):
        call.stream(wire.model(fault_server), "Hi")


def test_a_stream_may_be_cut_anywhere_between_bytes(call, fault_server, wire):
    raw = b"".join(step[1] for step in wire.stream.steps())
    pieces = [raw[start : start + 7] for start in range(0, len(raw), 7)]
    make_answer = lines_answer if wire.kind is OllamaLLM else sse_answer
    fault_server.script(wire.path, make_answer(pieces))
    assert "".join(call.stream(wire.model(fault_server), "Hi")) == "Hello, world"


def test_F_S09_a_long_json_line_takes_time_in_proportion():
    model = OllamaLLM(model="m")
    limits = SizeLimits()
    decoder = model._decoder()
    reading = TextReading(decoder, model._parse, model._malformed, limits, by_line=True)
    line = json.dumps(ollama_line("x" * (16 << 20))).encode() + b"\n"

    began = time.process_time()
    pieces = [
        piece
        for start in range(0, len(line), 8192)
        for piece in reading.feed(line[start : start + 8192])
    ]

    assert [len(piece.text) for piece in pieces] == [16 << 20]
    assert time.process_time() - began < 1.5
    reading.feed(b"x" * (limits.sse_event + 1))
    assert isinstance(reading.fault, LimitExceededError)


def test_leaving_a_stream_frees_the_connection(fault_server, wire):
    pieces = [step[1] for step in wire.stream.steps()]
    make_answer = lines_answer if wire.kind is OllamaLLM else sse_answer
    fault_server.script(wire.path, make_answer([*pieces[:4], ("stall", None)]))
    stream = wire.model(fault_server).stream("Hi")
    assert next(stream)
    stream.close()
    assert fault_server.wait_for_open(0, timeout=5.0) == 0


def test_a_call_can_be_cancelled(fault_server, wire):
    fault_server.script(wire.path, Answer(before=[("stall", None)]))

    async def body() -> None:
        task = asyncio.create_task(wire.model(fault_server).ainvoke("Hi"))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(body())
    assert fault_server.wait_for_open(0, timeout=5.0) == 0


def test_an_answer_is_cached(call, fault_server, wire, name):
    fault_server.script(wire.path, WHOLE[name])
    model = wire.model(fault_server, cache=InMemoryCache())
    assert [call.invoke(model, "Hi") for _ in range(2)] == ["Hello, world"] * 2
    assert fault_server.hits(wire.path) == 1


def test_a_model_is_a_step(call, fault_server, wire, name):
    fault_server.script(wire.path, WHOLE[name])
    chain = PromptTemplate.from_template("Say {word}") | wire.model(fault_server)
    assert call.invoke(chain, {"word": "hello"}) == "Hello, world"


def test_models_are_written_and_read(wire):
    model = wire.kind(api_key="canary-1", model="m", temperature=0.5)
    text = dumps(model)
    assert "canary" not in text
    read = loads(text, allowed_objects="all")
    assert (type(read), read.model, read.temperature) == (wire.kind, "m", 0.5)


def test_predict_is_invoke_under_an_older_name(call, fault_server, wire, name):
    fault_server.script(wire.path, WHOLE[name])
    model = wire.model(fault_server)
    assert call.run(model, "predict", "Hi", stop=["X"]) == "Hello, world"
    answer = call.run(model, "predict_messages", [HumanMessage("Hi")])
    assert isinstance(answer, AIMessage)
    assert answer.text == "Hello, world"


# -- one vendor


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Hi", ("", [{"role": "user", "content": "Hi"}])),
        ("\n\nHuman: Hi\n\nAssistant:", ("", [{"role": "user", "content": "Hi"}])),
        ("Human: Hi\n\nAssistant:", ("", [{"role": "user", "content": "Hi"}])),
        (
            "Be brief.\n\nHuman: A\n\nAssistant: B\n\nHuman: C\n\nAssistant: So",
            (
                "Be brief.",
                [
                    {"role": "user", "content": "A"},
                    {"role": "assistant", "content": "B"},
                    {"role": "user", "content": "C"},
                    {"role": "assistant", "content": "So"},
                ],
            ),
        ),
        ("\n\nAssistant: odd", ("", [{"role": "user", "content": "\n\nAssistant: odd"}])),
        ("", ("", [{"role": "user", "content": ""}])),
    ],
)
def test_marks_of_the_older_api_are_turns(prompt, expected):
    assert encode_prompt(prompt) == expected


def test_thinking_of_anthropic_is_no_text(call, fault_server):
    thinking_delta = {"type": "thinking_delta", "thinking": "Hm."}
    events = [*MESSAGE_EVENTS[:2], ("content_block_delta", {"index": 0, "delta": thinking_delta})]
    events += MESSAGE_EVENTS[2:]
    answer = sse_answer([(kind, {"type": kind, **data}) for kind, data in events])
    fault_server.script("/v1/messages", answer)
    assert "".join(call.stream(WIRES["anthropic"].model(fault_server), "Hi")) == "Hello, world"


def test_thinking_of_ollama_is_kept_beside_the_text(call, fault_server):
    lines = [
        ollama_line("", thinking="H"),
        ollama_line("", thinking="m."),
        ollama_line("Yes"),
        OLLAMA_END,
    ]
    fault_server.script("/api/generate", lines_answer(lines))
    recorder = Recorder()
    model = WIRES["ollama"].model(fault_server, reasoning=True, format="json", keep_alive="5m")
    assert "".join(call.stream(model, "Hi", {"callbacks": [recorder]})) == "Yes"
    assert recorder.ends[0].generations[0][0].generation_info["thinking"] == "Hm."
    body = fault_server.requests()[0].json()
    assert (body["think"], body["format"], body["keep_alive"]) == (True, "json", "5m")


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("", "http://localhost:11434"),
        ("10.0.0.1:99", "http://10.0.0.1:99"),
        ("box", "http://box:11434"),
        ("https://box/ollama/", "https://box/ollama"),
        ("http://box:1/v1", "http://box:1"),
    ],
)
def test_where_ollama_is(monkeypatch, value, url):
    monkeypatch.delenv("OLLAMA_BASE_URL", raising=False)
    monkeypatch.setenv("OLLAMA_HOST", value)
    assert OllamaLLM(model="m")._root_url() == url


def test_a_line_without_end_is_read(call, fault_server):
    last = json.dumps(OLLAMA_END).encode()
    fault_server.script("/api/generate", lines_answer([ollama_line("Hi"), last]))
    assert "".join(call.stream(WIRES["ollama"].model(fault_server), "x")) == "Hi"


def test_a_stream_without_the_last_marker_is_whole_with_its_reason(call, fault_server):
    chunks = [completion_chunk("Hi"), completion_chunk("", "length")]
    fault_server.script("/v1/completions", sse_answer(chunks))
    assert "".join(call.stream(WIRES["openai"].model(fault_server), "x")) == "Hi"
