"""`foldline.providers.http`: what an author of a provider gets from the public base class, over a real socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from foldline.exceptions import (
    ModelAuthenticationError,
    ModelRateLimitError,
    StreamTruncatedError,
    UsageError,
)
from foldline.providers.http import Body, ChatRequest, Decoder, HttpChatModel
from foldline.testing.conformance import ChatModelConformance


class AcmeServer(BaseHTTPRequestHandler):
    """Repeats the last turn; `cut` in it leaves the end of the stream out."""

    bodies: ClassVar[list[Any]] = []

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.bodies.append({"path": self.path, **request})
        if self.headers["x-acme-key"] != "secret":
            self.answer(
                401, "application/json", [{"error": {"code": "bad_key", "message": "who?"}}]
            )
            return
        words = request["turns"][-1]["text"].split()
        end = {"why": "end", "tokens": [2, len(words)]}
        if "busy" in words:
            self.answer(
                400, "application/json", [{"error": {"code": "too_fast", "message": "slow down"}}]
            )
        elif not request["stream"]:
            self.answer(200, "application/json", [{"text": " ".join(words), **end}])
        else:
            pieces: list[Any] = [{"text": f"{' ' if n else ''}{w}"} for n, w in enumerate(words)]
            self.answer(200, "text/event-stream", pieces if "cut" in words else [*pieces, end])

    def answer(self, status: int, kind: str, payloads: list[Any]) -> None:
        is_stream = kind == "text/event-stream"
        texts = [
            f"data: {json.dumps(payload)}\n\n" if is_stream else json.dumps(payload)
            for payload in payloads
        ]
        body = "".join(texts).encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class AcmeDecoder(Decoder):
    def feed(self, data: Any, event: str) -> list[Any]:
        events = self.writer.text(data["text"]) if "text" in data else []
        return events + self.finish(data) if "why" in data else events

    def decode_answer(self, data: Any) -> list[Any]:
        return self.writer.text(data["text"]) + self.finish(data)

    def finish(self, data: Any) -> list[Any]:
        input_tokens, received = data["tokens"]
        usage = {
            "input_tokens": input_tokens,
            "output_tokens": received,
            "total_tokens": input_tokens + received,
        }
        return self.writer.finish("stop", usage=usage)


class ChatAcme(HttpChatModel):
    provider_name: ClassVar[str] = "acme"
    key_variables: ClassVar[tuple[str, ...]] = ("ACME_API_KEY",)
    error_table: ClassVar[Any] = {
        "bad_key": ModelAuthenticationError,
        "too_fast": ModelRateLimitError,
    }
    sent_fields: ClassVar[tuple[str, ...]] = ("model", "temperature", "max_tokens")

    def _auth_headers(self, key: str) -> dict[str, str]:
        return {"x-acme-key": key}

    def _encode(self, request: ChatRequest) -> tuple[str, Body]:
        turns = [{"role": message.type, "text": str(message.text)} for message in request.messages]
        return "talk", {**self._request_settings(request), "turns": turns, "stream": request.stream}

    def _decoder(self, request: ChatRequest) -> Decoder:
        return AcmeDecoder(self.provider_name, self.model)


@pytest.fixture
def address() -> Iterator[str]:
    AcmeServer.bodies.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), AcmeServer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def acme(address: str, **fields: Any) -> ChatAcme:
    return ChatAcme(**{"model": "anvil-1", "api_key": "secret", "base_url": address, **fields})


def test_settings_and_options_of_the_call_are_sent(call, address):
    answer = call.invoke(acme(address, temperature=0).bind(max_tokens=5), "hello there")

    assert answer.text == "hello there"
    assert answer.usage_metadata["total_tokens"] == 4
    assert AcmeServer.bodies == [
        {
            "path": "/v1/talk",
            "model": "anvil-1",
            "temperature": 0,
            "max_tokens": 5,
            "turns": [{"role": "human", "text": "hello there"}],
            "stream": False,
        }
    ]


def test_errors_are_those_of_the_table_and_name_the_model(call, address):
    with pytest.raises(ModelAuthenticationError, match="acme:anvil-1: who"):
        call.invoke(acme(address, api_key="wrong"), "hi")
    with pytest.raises(ModelRateLimitError, match="slow down"):
        call.invoke(acme(address, max_retries=0), "busy")


def test_a_stream_without_its_end_is_an_error_that_keeps_what_came(call, address):
    with pytest.raises(StreamTruncatedError) as excinfo:
        call.stream(acme(address, max_retries=0), "cut here")

    assert excinfo.value.partial.text == "cut here"


class CountingDecoder(AcmeDecoder):
    def feed(self, data: Any, event: str) -> list[Any]:
        self.writer.usage({"input_tokens": 0, "output_tokens": 1, "total_tokens": 1})
        return super().feed(data, event)


class ChatCounting(ChatAcme):
    def _decoder(self, request: ChatRequest) -> Decoder:
        return CountingDecoder(self.provider_name, self.model)


def test_a_stream_without_its_end_keeps_the_usage_so_far(call, address):
    model = ChatCounting(model="anvil-1", api_key="secret", base_url=address, max_retries=0)
    with pytest.raises(StreamTruncatedError) as excinfo:
        call.stream(model, "cut here")

    assert excinfo.value.partial.usage_metadata["output_tokens"] == 2


def test_a_missing_key_names_the_variable(call, address, monkeypatch):
    monkeypatch.delenv("ACME_API_KEY", raising=False)

    with pytest.raises(ModelAuthenticationError, match="ACME_API_KEY"):
        call.invoke(acme(address, api_key=None), "hi")


def test_a_provider_without_an_address_says_what_to_set(call):
    with pytest.raises(UsageError, match=r"ChatAcme has no address: pass base_url=\.\.\., or set"):
        call.invoke(ChatAcme(model="anvil-1", api_key="secret"), "hi")


class Unwritten(Decoder):
    pass


@pytest.mark.parametrize(("method", "arguments"), [("feed", ({}, "")), ("decode_answer", ({},))])
def test_a_decoder_that_lacks_a_method_says_which(method, arguments):
    with pytest.raises(NotImplementedError, match=rf"Unwritten\.{method}: write it"):
        getattr(Unwritten("acme", "anvil-1"), method)(*arguments)


def test_a_marked_end_is_an_end():
    decoder = AcmeDecoder("acme", "anvil-1")
    decoder.feed({"text": "hi"}, "")

    assert decoder.end(marked=True)[-1]["finish_reason"] == "stop"
    assert decoder.end(marked=False) == []


class TestAcme(ChatModelConformance):
    """The kit that an author runs."""

    prompt = "one two three four five six seven eight"

    @pytest.fixture(autouse=True)
    def _serve(self, address: str) -> None:
        self.address = address

    def model(self) -> ChatAcme:
        return acme(self.address)
