"""Scenarios over HTTP, against the stub: one call, a stream, many calls at once, many open streams.

Sides: "socket" sends rendered bytes and reads the answer; "bare" is pyreqwest (Rust, in the peers' environment) and
`json.loads`; then foldline, and the peers as their users would write it. Every side parses every chunk it receives.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

Run = Callable[[], float]
QUESTION = "Tell me about bears."
KEY = "sk-stub"


def _address() -> str:
    return os.environ["FOLDLINE_BENCH_STUB"]


def _body(model: str, *, is_streamed: bool) -> bytes:
    messages = [{"role": "user", "content": QUESTION}]
    return json.dumps({"model": model, "messages": messages, "stream": is_streamed}).encode()


class Client:
    """The calls of a side; `model` selects the stub's answer."""

    def __init__(self, model: str, api: str) -> None:
        self.model = model
        self.api = api

    def call(self) -> Any:
        raise NotImplementedError

    def stream(self) -> Iterator[Any]:
        raise NotImplementedError

    async def acall(self) -> Any:
        raise NotImplementedError

    def astream(self) -> AsyncIterator[Any]:
        raise NotImplementedError


PATHS = {
    "completions": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
}


class Socket(Client):
    """The floor: a kept connection and rendered bytes."""

    def __init__(self, model: str, api: str) -> None:
        super().__init__(model, api)
        port = int(_address().rpartition(":")[2])
        self.wire = socket.create_connection(("127.0.0.1", port))
        self.wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _send(self, *, is_streamed: bool) -> None:
        body = _body(self.model, is_streamed=is_streamed)
        head = b"POST %s HTTP/1.1\r\nhost: stub\r\ncontent-length: %d\r\n\r\n"
        self.wire.sendall(head % (PATHS[self.api].encode(), len(body)) + body)

    def call(self) -> Any:
        self._send(is_streamed=False)
        data = self.wire.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        while len(body) < length:
            body += self.wire.recv(65536)
        return json.loads(body)

    def stream(self) -> Iterator[Any]:
        self._send(is_streamed=True)
        tail = b""
        while not tail.endswith(b"\r\n0\r\n\r\n"):
            tail = tail[-8:] + self.wire.recv(65536)
            yield from range(tail.count(b"data: "))


class Bare(Client):
    """pyreqwest and JSON, nothing else."""

    def __init__(self, model: str, api: str) -> None:
        super().__init__(model, api)
        from pyreqwest.client import ClientBuilder, SyncClientBuilder

        self.blocking = SyncClientBuilder().build()
        self.make = ClientBuilder
        self.client: Any = None
        self.url = _address() + PATHS[api]

    def call(self) -> Any:
        body = _body(self.model, is_streamed=False)
        request = self.blocking.post(self.url).body_bytes(body)
        return json.loads(bytes(request.build().send().bytes()))

    def stream(self) -> Iterator[Any]:
        body = _body(self.model, is_streamed=True)
        request = self.blocking.post(self.url).body_bytes(body)
        with request.streamed_read_buffer_limit(0).build_streamed() as answer:
            remaining = b""
            while (piece := answer.body_reader.read_chunk()) is not None:
                *events, remaining = (remaining + bytes(piece)).split(b"\n\n")
                for event in events:
                    data = event.rpartition(b"data: ")[2]
                    if data != b"[DONE]":
                        yield json.loads(data)

    async def acall(self) -> Any:
        if self.client is None:
            self.client = self.make().build()
        body = _body(self.model, is_streamed=False)
        answer = await self.client.post(self.url).body_bytes(body).build().send()
        return json.loads(bytes(await answer.bytes()))


class Framework(Client):
    """foldline and LangChain: the same classes by other names."""

    def __init__(self, model: str, api: str, side: str) -> None:
        super().__init__(model, api)
        is_ours = side == "foldline"
        if api == "anthropic":
            if is_ours:
                from foldline.providers.anthropic import ChatAnthropic
            else:
                from langchain_anthropic import ChatAnthropic
            options = {"api_key": KEY, "base_url": _address(), "max_tokens": 100}
            self.chat: Any = ChatAnthropic(model=model, **options)
        else:
            if is_ours:
                from foldline.providers.openai import ChatOpenAI
            else:
                from langchain_openai import ChatOpenAI
            self.chat = ChatOpenAI(
                model=model,
                api_key=KEY,
                base_url=_address() + "/v1",
                use_responses_api=api == "responses",
            )

    def call(self) -> Any:
        return self.chat.invoke(QUESTION)

    def stream(self) -> Iterator[Any]:
        return self.chat.stream(QUESTION)

    async def acall(self) -> Any:
        return await self.chat.ainvoke(QUESTION)

    def astream(self) -> AsyncIterator[Any]:
        return self.chat.astream(QUESTION)


class OpenAISDK(Client):
    """The vendor's own client."""

    def __init__(self, model: str, api: str) -> None:
        super().__init__(model, api)
        import openai

        options = {"api_key": KEY, "base_url": _address() + "/v1"}
        self.blocking: Any = openai.OpenAI(**options)
        self.client: Any = openai.AsyncOpenAI(**options)

    def _of(self, client: Any, **options: Any) -> Any:
        if self.api == "responses":
            return client.responses.create(model=self.model, input=QUESTION, **options)
        messages = [{"role": "user", "content": QUESTION}]
        return client.chat.completions.create(model=self.model, messages=messages, **options)

    def call(self) -> Any:
        return self._of(self.blocking)

    def stream(self) -> Iterator[Any]:
        return iter(self._of(self.blocking, stream=True))

    async def acall(self) -> Any:
        return await self._of(self.client)

    async def astream(self) -> AsyncIterator[Any]:  # type: ignore[override]
        async for event in await self._of(self.client, stream=True):
            yield event


class AnthropicSDK(Client):
    """The vendor's own client."""

    def __init__(self, model: str, api: str) -> None:
        super().__init__(model, api)
        import anthropic

        self.client: Any = anthropic.Anthropic(api_key=KEY, base_url=_address())

    def _of(self, **options: Any) -> Any:
        messages = [{"role": "user", "content": QUESTION}]
        return self.client.messages.create(
            model=self.model, max_tokens=100, messages=messages, **options
        )

    def call(self) -> Any:
        return self._of()

    def stream(self) -> Iterator[Any]:
        return iter(self._of(stream=True))


class PydanticAI(Client):
    """An agent of pydantic-ai without tools; its public blocking call runs an event loop."""

    def __init__(self, model: str, api: str) -> None:
        super().__init__(model, api)
        from pydantic_ai import Agent
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        provider = OpenAIProvider(base_url=_address() + "/v1", api_key=KEY)
        self.agent = Agent(OpenAIChatModel(model, provider=provider))

    def call(self) -> Any:
        return self.agent.run_sync(QUESTION)

    async def acall(self) -> Any:
        return await self.agent.run(QUESTION)

    async def astream(self) -> AsyncIterator[Any]:  # type: ignore[override]
        async with self.agent.run_stream(QUESTION) as result:
            async for text in result.stream_text(delta=True, debounce_by=None):
                yield text

    def stream(self) -> Iterator[Any]:
        async def drained() -> list[Any]:
            return [text async for text in self.astream()]

        loop = asyncio.get_event_loop_policy().get_event_loop()
        return iter(loop.run_until_complete(drained()))


class LiteLLM(Client):
    """litellm's functions."""

    def __init__(self, model: str, api: str) -> None:
        super().__init__(model, api)
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        import litellm

        self.litellm: Any = litellm
        messages = [{"role": "user", "content": QUESTION}]
        self.options = {"model": f"openai/{model}", "messages": messages, "api_key": KEY}
        self.options["api_base"] = _address() + "/v1"

    def call(self) -> Any:
        return self.litellm.completion(**self.options)

    def stream(self) -> Iterator[Any]:
        return iter(self.litellm.completion(**self.options, stream=True))

    async def acall(self) -> Any:
        return await self.litellm.acompletion(**self.options)


SIDES: dict[str, Callable[[str, str], Client]] = {
    "socket": Socket,
    "bare": Bare,
    "foldline": lambda model, api: Framework(model, api, "foldline"),
    "langchain": lambda model, api: Framework(model, api, "langchain"),
    "openai": OpenAISDK,
    "anthropic": AnthropicSDK,
    "pydantic-ai": PydanticAI,
    "litellm": LiteLLM,
}


def call(side: str, api: str = "completions", count: int = 20) -> Run:
    """Calls one after another."""
    client = SIDES[side]("text-20", api)

    def run() -> int:
        for _ in range(count):
            client.call()
        return count

    return run


def stream(side: str, api: str = "completions", kind: str = "text", chunks: int = 500) -> Run:
    """One stream, read to its end."""
    client = SIDES[side](f"{kind}-{chunks}", api)

    def run() -> int:
        count = sum(1 for _ in client.stream())
        assert count >= chunks * 0.9 or side == "pydantic-ai", f"only {count} of {chunks} chunks"
        return chunks

    return run


def concurrent(side: str, count: int = 500) -> Run:
    """Async calls at the same time."""
    client = SIDES[side]("text-20", "completions")
    loop = asyncio.new_event_loop()

    async def all_at_once() -> None:
        await asyncio.gather(*(client.acall() for _ in range(count)))

    def run() -> int:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(all_at_once())
        return count

    return run


def open_streams(side: str, count: int = 1000) -> Run:
    """Kilobytes of memory per open stream that has sent a chunk, in a process that held none before."""
    code = f"from benchmarks import http_scenarios as h; print(h.held_streams({side!r}, {count}))"

    def run() -> float:
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        return float(result.stdout.split()[-1])

    return run


def held_streams(side: str, count: int) -> float:
    """Open streams, one loop long; give the kilobytes of each."""
    client = SIDES[side]("hold-1", "completions")

    async def hold() -> float:
        warm = SIDES[side]("text-20", "completions")
        async for _ in warm.astream():
            pass
        gc.collect()
        before = _resident()
        streams: list[Any] = [client.astream() for _ in range(count)]
        for start in range(0, count, 100):
            await asyncio.gather(*(anext(stream) for stream in streams[start : start + 100]))
        gc.collect()
        memory_per_stream = (_resident() - before) / count / 1024
        for stream in streams:
            await stream.aclose()
        return memory_per_stream

    return asyncio.run(hold())


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
