"""LangServe's routes for every app: invoke, batch, stream, stream_log, stream_events, and the schemas.

`stream_log` and `stream_events` show the steps inside a run, which the run log keeps in the place of its events.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from foldline._io import ASYNC
from foldline.load import dumpd
from foldline.messages._view import ChunkView
from foldline.serve._answers import AnyRun
from foldline.serve._json_body import Body
from foldline.serve._json_object import JsonObject
from foldline.serve._log.events import decode_event
from foldline.serve._sse import PING, SseResponse, event
from foldline.serve._wire_server import JsonResponse, Server, WireCall, error_of
from foldline.serve._wires.native import decode_config, decode_input
from foldline.serve.apps import InnerView, RunRequest, ServedApp
from foldline.serve.errors import ServeError
from foldline.workflows._run_events import jsonable

__all__ = ["as_langserve", "routes"]

PARALLEL: Final = 10
PING_AFTER: Final = 15.0
TYPES: Final = {
    "AIMessage": "ai",
    "HumanMessage": "human",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "function",
    "ChatMessage": "chat",
}
"""Classes of messages -> their `type`; that of chunks and documents is the name of the class."""
FILTERS: Final = tuple(
    f"{verb}_{noun}" for verb in ("include", "exclude") for noun in ("names", "types", "tags")
)
STEP_METHODS: Final = frozenset({"log_patch", "stream_event"})
"""Events of the log that are steps inside a run."""


class LangServeErrors:
    """The errors of LangServe."""

    name = "langserve"
    cancels = True

    def error_body(self, error: ServeError) -> JsonObject:
        """Return the JSON of an error."""
        text = error.message
        return {"detail": text, "message": text, "kind": error.kind, **error.ids}


WIRE: Final = LangServeErrors()


def routes(server: Server) -> list[Route]:
    """Return the routes of this wire: under the name of each app, and without a name for the only app."""

    def route(
        path: str, handler: Callable[[WireCall], Awaitable[Response]], method: str
    ) -> list[Route]:
        endpoint = server.endpoint(WIRE, handler)
        return [
            Route(f"/{{app}}/{path}", endpoint, methods=[method]),
            Route(f"/{path}", endpoint, methods=[method]),
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


def as_langserve(value: object) -> object:
    """Return an output as LangServe's client reads it: messages and documents as their fields with a type."""
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


def _app(call: WireCall) -> ServedApp:
    app = call.app(call.request.path_params.get("app"))
    if app.kind == "embeddings":
        raise ServeError("not_found", f"{app.name} makes embeddings: use /v1/embeddings")
    return app


def _request(body: Body, app: ServedApp) -> tuple[RunRequest, str | None]:
    if "input" not in body.value:
        raise body.refuse("input", "is needed")
    if body.mapping("kwargs"):
        raise body.refuse("kwargs", "are not taken: the server decides how its apps are called")
    request = RunRequest(decode_input(body.get("input"), app), config=decode_config(body))
    config = body.object("config")
    configurable = config.object("configurable") if config is not None else None
    thread = configurable.name("thread_id") if configurable is not None else None
    return request, thread


async def _start(call: WireCall, app: ServedApp, body: Body, *, streams: bool) -> AnyRun:
    request, thread = _request(body, app)
    request.streams = streams
    return await call.start(app, request, thread=thread)


async def invoke(call: WireCall) -> Response:
    """Run once."""
    app = _app(call)
    run = await _start(call, app, await call.body(), streams=False)
    await call.wait(app, run)
    feedback = {"run_id": run.info.id, "feedback_tokens": []}
    return JsonResponse({"output": as_langserve(_output_of(run)), "metadata": feedback})


def _output_of(run: AnyRun) -> object:
    if run.info.status not in ("success", "waiting"):
        raise error_of(run.info)
    return run.output


async def batch(call: WireCall) -> Response:
    """Run for each input, `PARALLEL` at a time; where the client disconnects, the active runs end."""
    app = _app(call)
    body = await call.body()
    inputs = body.items("inputs", most=call.server.settings.max_batch)
    shared = {"config": _config_of(body), "kwargs": body.get("kwargs")}

    async def run_one(value: object) -> tuple[str, object]:
        run = await _start(call, app, Body({"input": value, **shared}), streams=False)
        try:
            await run.wait_for_end()
        except BaseException:  # the batch was cancelled
            await call.stop(run)
            raise
        return run.info.id, _output_of(run)

    results: dict[int, tuple[str, object]] = {}
    async with (
        call.cancel_on_leave(),
        aclosing(ASYNC.as_completed(run_one, inputs, limit=PARALLEL)) as outcomes,
    ):
        async for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
            results[outcome.place] = outcome.value
    ids = [results[place][0] for place in range(len(inputs))]
    outputs = [as_langserve(results[place][1]) for place in range(len(inputs))]
    responses = [{"run_id": id, "feedback_tokens": []} for id in ids]
    return JsonResponse({"output": outputs, "metadata": {"responses": responses, "run_ids": ids}})


def _config_of(body: Body) -> object:
    config = body.get("config")
    if isinstance(config, list):
        return config[0] if config else {}
    return config


async def stream(call: WireCall) -> Response:
    """Run once and stream the output."""
    app = _app(call)
    run = await _start(call, app, await call.body(), streams=True)
    view = ChunkView("v0")
    return _answer(call, app, run, lambda item: _piece(item, app, view))


async def stream_log(call: WireCall) -> Response:
    """Run once and stream patches of a log of the run."""
    return await _stream_steps(call, "stream_log")


async def stream_events(call: WireCall) -> Response:
    """Run once and stream the steps inside."""
    return await _stream_steps(call, "stream_events")


async def _stream_steps(call: WireCall, view: InnerView) -> Response:
    app = _app(call)
    body = await call.body()
    request, thread = _request(body, app)
    request.inner_view = view
    request.inner_options = _decode_filters(body)
    if view == "stream_events" and body.get("version") in ("v1", "v2"):
        request.inner_options["version"] = body.get("version")
    run = await call.start(app, request, thread=thread)
    return _answer(call, app, run, _step_piece)


def _decode_filters(body: Body) -> JsonObject:
    filters = {}
    for name in FILTERS:
        values = body.items(name, most=64)
        if not all(isinstance(value, str) for value in values):
            raise body.refuse(name, "must be a list of names")
        if values:
            filters[name] = values
    return filters


def _answer(
    call: WireCall, app: ServedApp, run: AnyRun, piece_of: Callable[[JsonObject], object]
) -> Response:
    return SseResponse(_pieces(run, piece_of), on_leave=call.on_leave(app, run))


async def _pieces(
    run: AnyRun, piece_of: Callable[[JsonObject], object]
) -> AsyncGenerator[bytes, None]:
    yield event({"run_id": run.info.id}, "metadata")
    async for items in run.follow(0, PING_AFTER):
        if not items:
            yield PING
        for _, item in items:
            data = piece_of(decode_event(item))
            if data is not None:
                yield event(as_langserve(data), "data")
    if run.info.status not in ("success", "waiting"):
        problem = error_of(run.info)
        data = {"status_code": problem.status, "message": problem.message, **problem.ids}
        yield event(data, "error")
        return
    yield b"event: end\n\n"


def _step_piece(item: JsonObject) -> object:
    return item["params"]["data"] if item["method"] in STEP_METHODS else None


def _piece(item: JsonObject, app: ServedApp, view: ChunkView) -> object:
    method, data = item["method"], item["params"]["data"]
    if item["params"]["namespace"]:
        return None
    if method == "chunk":
        return data
    if method == "messages" and app.kind != "agent":
        chunk = view.feed(data)
        return jsonable(dumpd(chunk)) if chunk is not None else None
    if method == "updates" and app.kind == "agent":
        return {data["node"]: data["values"]}
    if method == "input.requested" and app.kind == "agent":
        return {"__interrupt__": [{"id": data["interrupt_id"], "value": data["payload"]}]}
    return None


# -- schemas


def _schema(call: WireCall, method: str) -> Response:
    app = _app(call)
    try:
        return JsonResponse(getattr(app.target, method)().model_json_schema())
    except Exception as error:
        raise ServeError("not_found", f"{app.name} has no such schema") from error


async def input_schema(call: WireCall) -> Response:
    """Return the schema of an app's input."""
    return _schema(call, "get_input_schema")


async def output_schema(call: WireCall) -> Response:
    """Return the schema of an app's output."""
    return _schema(call, "get_output_schema")


async def config_schema(call: WireCall) -> Response:
    """Return the schema of the config fields that a request may set."""
    properties = {"tags": {"type": "array"}, "metadata": {"type": "object"}}
    return JsonResponse({"title": "Config", "type": "object", "properties": properties})
