"""LangServe's routes for every app: invoke, batch, stream, stream_log, stream_events, and the schemas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from foldline._config import RunnableConfig
from foldline.load import dumpd
from foldline.messages._view import ChunkView
from foldline.serve.apps import RunRequest, ServedApp
from foldline.serve.body import Body
from foldline.serve.errors import ServeError, failure_of
from foldline.serve.live import LiveRun
from foldline.serve.server import Call, JsonResponse, Server, error_of, thread_key
from foldline.serve.sse import PING, EventStream, event
from foldline.serve.wires.native import decode_config, decode_input
from foldline.utils.uuid import uuid7
from foldline.workflows.events import jsonable

__all__ = ["as_langserve", "routes"]

Json = Any
PARALLEL: Final = 10
TYPES: Final = {
    "AIMessage": "ai",
    "HumanMessage": "human",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "function",
    "ChatMessage": "chat",
}
"""How LangChain's messages name their kind; chunks and documents have the names of their classes."""


class LangServeErrors:
    """How LangServe says errors."""

    name = "langserve"
    cancels = True

    def error_body(self, error: ServeError) -> Json:
        """Return the JSON of an error."""
        return {"detail": error.message, "message": error.message, "kind": error.kind}


WIRE: Final = LangServeErrors()


def routes(server: Server) -> list[Route]:
    """Return the routes of this wire: below the name of each app, or below nothing where there is one."""

    def route(
        path: str, handler: Callable[[Call], Awaitable[Response]], method: str
    ) -> list[Route]:
        made = server.endpoint(WIRE, handler)
        return [
            Route(f"/{{app}}/{path}", made, methods=[method]),
            Route(f"/{path}", made, methods=[method]),
        ]

    return [
        *route("invoke", invoke, "POST"),
        *route("batch", batch, "POST"),
        *route("stream", stream, "POST"),
        *route("stream_log", stream_log, "POST"),
        *route("stream_events", stream_events, "POST"),
        *route("input_schema", input_schema, "GET"),
        *route("output_schema", output_schema, "GET"),
        *route("config_schema", config_schema, "GET"),
    ]


def as_langserve(value: Json) -> Json:
    """Return an output as LangServe's client reads it: messages and documents as their fields, with their type."""
    if isinstance(value, list):
        return [as_langserve(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("lc") == 1 and value.get("type") == "constructor":
        name = str((value.get("id") or [""])[-1])
        kwargs = {key: as_langserve(item) for key, item in (value.get("kwargs") or {}).items()}
        kwargs["type"] = TYPES.get(name, name)
        return kwargs
    return {name: as_langserve(item) for name, item in value.items()}


def _app(call: Call) -> ServedApp:
    app = call.app(call.request.path_params.get("app"))
    if app.kind == "embeddings":
        raise ServeError("not_found", f"{app.name} makes embeddings: use /v1/embeddings")
    return app


def _request(body: Body, app: ServedApp, value: Json) -> tuple[RunRequest, str | None]:
    kwargs = body.mapping("kwargs")
    if kwargs:
        raise body.refuse("kwargs", "are not taken: the server decides how its apps are called")
    request = RunRequest(decode_input(value, app), config=decode_config(body))
    config = body.object("config")
    configurable = config.object("configurable") if config is not None else None
    thread = configurable.name("thread_id") if configurable is not None else None
    return request, thread


async def invoke(call: Call) -> Response:
    """Run once."""
    app = _app(call)
    body = await call.body()
    if "input" not in body.value:
        raise body.refuse("input", "is needed")
    request, thread = _request(body, app, body.get("input"))
    run = await call.start(app, request, thread=thread)
    await call.wait(run, app)
    output = _output_of(run)
    feedback = {"run_id": run.info.id, "feedback_tokens": []}
    return JsonResponse({"output": as_langserve(output), "metadata": feedback})


def _output_of(run: LiveRun) -> Json:
    if run.info.status not in ("success", "waiting"):
        raise error_of(run.info)
    return run.output


async def batch(call: Call) -> Response:
    """Run for each input, some at a time."""
    app = _app(call)
    body = await call.body()
    inputs = body.items("inputs", most=call.server.settings.max_batch)
    limit = asyncio.Semaphore(PARALLEL)

    async def one(value: Json) -> tuple[str, Json]:
        async with limit:
            plain = Body({"input": value, "config": _config_of(body), "kwargs": body.get("kwargs")})
            request, thread = _request(plain, app, value)
            run = await call.start(app, request, thread=thread)
            await run.ended()
            return run.info.id, _output_of(run)

    outcomes = await asyncio.gather(*(one(value) for value in inputs))
    metadata = {"responses": [{"run_id": id, "feedback_tokens": []} for id, _ in outcomes]}
    outputs = [as_langserve(output) for _, output in outcomes]
    return JsonResponse(
        {"output": outputs, "metadata": {**metadata, "run_ids": [id for id, _ in outcomes]}}
    )


def _config_of(body: Body) -> Json:
    config = body.get("config")
    if isinstance(config, list):
        return config[0] if config else {}
    return config


async def stream(call: Call) -> Response:
    """Run once; give pieces of the output."""
    app = _app(call)
    body = await call.body()
    request, thread = _request(body, app, body.get("input"))
    run = await call.start(app, request, thread=thread)
    return EventStream(_pieces(call, run, app), on_leave=call.on_leave(run, app))


async def _pieces(call: Call, run: LiveRun, app: ServedApp) -> AsyncGenerator[bytes, None]:
    yield event({"run_id": run.info.id}, "metadata")
    view = ChunkView("v0")
    async for items in run.follow(0, 15.0):
        if not items:
            yield PING
        for _, item in items:
            data = _piece(item, app, view)
            if data is not None:
                yield event(as_langserve(data), "data")
    if run.info.status not in ("success", "waiting"):
        problem = error_of(run.info)
        yield event({"status_code": problem.status, "message": problem.message}, "error")
        return
    yield b"event: end\n\n"


def _piece(item: dict[str, Json], app: ServedApp, view: ChunkView) -> Json:  # noqa: PLR0911  one line per kind
    method, data = item["method"], item["params"]["data"]
    if item["params"]["namespace"]:
        return None
    if method == "chunk":
        return data
    if app.kind == "agent":
        if method == "updates":
            values = data["values"]
            return {data["node"]: values}
        if method == "input.requested":
            asked = {"id": data["interrupt_id"], "value": data["payload"]}
            return {"__interrupt__": [asked]}
        return None
    if method == "messages":
        chunk = view.feed(data)
        return jsonable(dumpd(chunk)) if chunk is not None else None
    return None


async def stream_log(call: Call) -> Response:
    """Run once; give patches of a log of the run."""
    app = _app(call)
    body = await call.body()
    request, thread = _request(body, app, body.get("input"))
    config = _direct_config(call, app, request, thread)

    async def pieces() -> AsyncGenerator[bytes, None]:
        async with aclosing(app.target.astream_log(request.input, config)) as patches:
            async for patch in patches:
                yield event(as_langserve(jsonable(dumpd({"ops": patch.ops}))), "data")

    return EventStream(_guarded(call, app, pieces()))


async def stream_events(call: Call) -> Response:
    """Run once; give what happens inside."""
    app = _app(call)
    body = await call.body()
    request, thread = _request(body, app, body.get("input"))
    config = _direct_config(call, app, request, thread)

    async def pieces() -> AsyncGenerator[bytes, None]:
        found = app.target.astream_events(request.input, config, version="v2")
        async with aclosing(found) as events:
            async for item in events:
                yield event(as_langserve(jsonable(dumpd(item))), "data")

    return EventStream(_guarded(call, app, pieces()))


def _direct_config(
    call: Call, app: ServedApp, request: RunRequest, thread: str | None
) -> RunnableConfig:
    config = RunnableConfig(**request.config)
    if app.has_threads:
        name = thread_key(call.caller, thread or str(uuid7()))
        config["configurable"] = {"thread_id": name}
    return config


async def _guarded(
    call: Call, app: ServedApp, pieces: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    """Watch a run from inside, within the caller's limits; these views are not in the run log."""
    release = await call.server.host.admit(call.caller, app)
    try:
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece
    except Exception as error:  # noqa: BLE001  whatever the app raised is an error of this wire
        problem = failure_of(error)
        yield event({"status_code": problem.status, "message": problem.message}, "error")
        return
    finally:
        await release()
    yield b"event: end\n\n"


# -- schemas


def _schema(call: Call, method: str) -> Response:
    app = _app(call)
    try:
        return JsonResponse(getattr(app.target, method)().model_json_schema())
    except Exception as error:
        raise ServeError("not_found", f"{app.name} has no such schema") from error


async def input_schema(call: Call) -> Response:
    """Show what an app takes."""
    return _schema(call, "get_input_schema")


async def output_schema(call: Call) -> Response:
    """Show what an app gives."""
    return _schema(call, "get_output_schema")


async def config_schema(call: Call) -> Response:
    """Show what a config may say: what a request may, that is."""
    properties = {"tags": {"type": "array"}, "metadata": {"type": "object"}}
    return JsonResponse({"title": "Config", "type": "object", "properties": properties})
