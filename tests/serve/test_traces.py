"""W3C trace context through servers, with the SDK of OpenTelemetry."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from foldline.agents import create_agent
from foldline.embedding_models import init_embeddings
from foldline.providers.openai import ChatOpenAI
from foldline.runnables import RunnableLambda
from foldline.serve import RemoteRunnable, create_app
from foldline.testing import Call, ScriptedChatModel
from foldline.tools.mcp import MCPClient
from foldline.tracers import OpenTelemetryTracer
from tests.serve import served

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Traced:
    """A provider of spans that keeps them."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = OpenTelemetryTracer(tracer_provider=self.provider)

    def span(self, kind: str) -> Any:
        """Return the one span of a kind of run."""
        spans = self.exporter.get_finished_spans()
        found = [span for span in spans if (span.attributes or {}).get("foldline.run.type") == kind]
        assert len(found) == 1, [span.name for span in spans]
        return found[0]

    def root(self) -> Any:
        spans = self.exporter.get_finished_spans()
        own = {span.context.span_id for span in spans}
        found = [span for span in spans if span.parent is None or span.parent.span_id not in own]
        assert len(found) == 1, [span.name for span in spans]
        return found[0]


class Listener:
    """A server on loopback that keeps the headers and bodies of its requests."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})

        async def listen() -> Any:
            message = await receive()
            if message["type"] == "http.request":
                self.bodies.append(message.get("body", b""))
            return message

        await self._app(scope, listen, send)


@contextmanager
def listening(app: Any) -> Iterator[tuple[str, Listener]]:
    listener = Listener(app)
    config = uvicorn.Config(listener, port=0, log_level="error", lifespan="on", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = time.monotonic() + 30
    while not server.started:
        assert time.monotonic() < end
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}", listener
    server.should_exit = True
    thread.join(30)


def ask(app: Any, path: str, body: Any, headers: dict[str, str]) -> httpx.Response:
    async def main() -> httpx.Response:
        transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
        ):
            answer = await client.post(path, json=body, headers=headers, timeout=30)
            if "run_id" in answer.text and path == "/runs":
                id = answer.json()["run_id"]
                return await client.get(f"/runs/{id}")
            return answer

    return asyncio.run(main())


def model_of(url: str) -> ChatOpenAI:
    return ChatOpenAI(model="chat", base_url=f"{url}/v1", api_key="none", retry_on_error=False)


@pytest.mark.parametrize("kind", ["agent", "model", "remote"])
def test_S36_one_trace_goes_from_the_client_over_two_servers(kind):
    client, first, second = Traced(), Traced(), Traced()
    inner = create_app({"chat": ScriptedChatModel(script=["hi"])}, callbacks=[second.tracer])
    with listening(inner) as (url, _):
        remote = RemoteRunnable(url, app="chat")
        apps = {"agent": create_agent(model_of(url), []), "model": model_of(url), "remote": remote}
        outer = create_app({"app": apps[kind]}, callbacks=[first.tracer])
        headers: dict[str, str] = {}
        with client.provider.get_tracer("test").start_as_current_span("client") as span:
            TraceContextTextMapPropagator().inject(headers)
        # The server is in this process: outside of the block, only the headers name the span.
        run = ask(outer, "/runs", {"app": "app", "input": "hi", "wait": True}, headers).json()

    assert run["status"] == "success"
    assert run["traceparent"] == headers["traceparent"]
    root, call = first.root(), second.root()
    sender = first.span("llm") if kind != "remote" else root
    assert root.parent.span_id == span.get_span_context().span_id
    assert root.parent.is_remote
    assert call.parent.span_id == sender.context.span_id
    spans = [*first.exporter.get_finished_spans(), *second.exporter.get_finished_spans()]
    assert {each.context.trace_id for each in spans} == {span.get_span_context().trace_id}


def test_S36_without_a_tracer_the_span_of_the_client_is_passed_on():
    with listening(create_app({"chat": ScriptedChatModel(script=["hi"])})) as (url, listener):
        outer = create_app({"app": model_of(url)})
        headers = {"traceparent": PARENT, "tracestate": "vendor=1"}
        ask(outer, "/runs", {"app": "app", "input": "hi", "wait": True}, headers)

    assert listener.headers[-1]["traceparent"] == PARENT
    assert listener.headers[-1]["tracestate"] == "vendor=1"


@pytest.mark.parametrize(
    ("header", "options"), [("nonsense", {}), (PARENT, {"trace_out": False}), (None, {})]
)
def test_S36_an_invalid_trace_and_one_that_stays_are_not_passed_on(header, options):
    with listening(create_app({"chat": ScriptedChatModel(script=["hi"])})) as (url, listener):
        outer = create_app({"app": model_of(url)}, **options)
        headers = {"traceparent": header} if header is not None else {}
        run = ask(outer, "/runs", {"app": "app", "input": "hi", "wait": True}, headers).json()

    assert run["status"] == "success"
    assert "traceparent" not in listener.headers[-1]


def test_S36_embeddings_pass_the_trace_on():
    with listening(create_app({"vectors": served.vectors})) as (url, listener):
        model = init_embeddings("openai:vectors", base_url=f"{url}/v1", api_key="none")
        outer = create_app({"app": model})
        body = {"model": "app", "input": "a b"}
        answer = ask(outer, "/v1/embeddings", body, {"traceparent": PARENT})

    assert answer.status_code == 200, answer.text
    assert listener.headers[-1]["traceparent"] == PARENT


def test_S36_a_tool_of_an_mcp_server_gets_the_trace_in_its_request():
    traced = Traced()
    script = [[Call("double", {"input": 4}, id="c1")], "done"]
    inner = create_app({"double": RunnableLambda(lambda _: 8, name="double")})
    with listening(inner) as (url, listener), MCPClient(f"{url}/mcp") as client:
        agent = create_agent(ScriptedChatModel(script=script), client.tools())
        outer = create_app({"app": agent}, callbacks=[traced.tracer])
        body = {"app": "app", "input": "hi", "wait": True}
        run = ask(outer, "/runs", body, {"traceparent": PARENT})

    assert run.json()["status"] == "success", run.text
    calls = [json.loads(body) for body in listener.bodies if b"tools/call" in body]
    assert len(calls) == 1
    meta = calls[0]["params"]["_meta"]
    tool = traced.span("tool")
    assert meta["traceparent"].split("-")[1] == PARENT.split("-")[1]
    assert meta["traceparent"].split("-")[2] == f"{tool.context.span_id:016x}"


def test_a_program_without_a_server_sends_no_trace(call):
    traced = Traced()
    inner = create_app({"chat": ScriptedChatModel(script=["hi"], is_cyclic=True)})
    with (
        listening(inner) as (url, listener),
        traced.provider.get_tracer("test").start_as_current_span("client"),
    ):
        call.invoke(model_of(url).with_config(callbacks=[traced.tracer]), "hi")

    assert "traceparent" not in listener.headers[-1]
    assert trace.format_trace_id(traced.root().context.trace_id)
