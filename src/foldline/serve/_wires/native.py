"""The native wire: `/runs` with their numbered events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.routing import Route

from foldline._config import RunnableConfig
from foldline.load import load
from foldline.serve._answers import AnyRun, stored_answers
from foldline.serve._json_body import Body, check_media
from foldline.serve._json_object import JsonObject
from foldline.serve._log.events import EncodedEvent, Events, decode_event, method_of
from foldline.serve._log.records import RunRecord
from foldline.serve._sse import PING, SseResponse, event, one_line
from foldline.serve._wire_server import JsonResponse, Server, WireCall, error_of
from foldline.serve._wires.chat_request import decode_options
from foldline.serve.apps import RunRequest, ServedApp
from foldline.serve.errors import ServeError
from foldline.workflows.interrupts import Command

__all__ = ["decode_config", "decode_input", "routes"]

DEEPEST: Final = 500
LOADABLE: Final = "messages"
HALF_CHARACTER: Final = rb"\ud"
"""How the JSON of a half of a character begins, which the log keeps."""


class NativeErrors:
    """The errors of the native wire."""

    name = "runs"
    cancels = False

    def error_body(self, error: ServeError) -> JsonObject:
        """Return the JSON of an error."""
        return {"error": {**error.as_json(), "status": error.status, **error.ids}}


WIRE: Final = NativeErrors()


def routes(server: Server) -> list[Route]:
    """Return the routes of this wire."""
    return [
        Route("/runs", server.endpoint(WIRE, create_run), methods=["POST"]),
        Route("/runs", server.endpoint(WIRE, list_runs), methods=["GET"]),
        Route("/runs/{run_id}", server.endpoint(WIRE, show_run), methods=["GET"]),
        Route("/runs/{run_id}", server.endpoint(WIRE, delete_run), methods=["DELETE"]),
        Route("/runs/{run_id}/events", server.endpoint(WIRE, follow_run), methods=["GET"]),
        Route("/runs/{run_id}/stop", server.endpoint(WIRE, stop_run), methods=["POST"]),
        Route("/runs/{run_id}/resume", server.endpoint(WIRE, resume_run), methods=["POST"]),
    ]


async def create_run(call: WireCall) -> Response:
    """Start a run; answer at once, with its events (`stream`), or with its result (`wait`)."""
    body = await call.body()
    app = call.app(body.name("app") or body.name("assistant_id"))
    if app.kind == "embeddings":
        raise body.refuse("app", "makes embeddings: use /v1/embeddings")
    options = body.object("options")
    if options is not None and options.value and app.kind != "model":
        raise body.refuse("options", "are for models; this app has its own")
    if options is not None and (options.integer("n", 1, 128) or 1) > 1:
        raise options.refuse("n", "must be 1: a run is one answer")
    settings = call.server.settings
    request = RunRequest(
        decode_input(body.get("input"), app),
        decode_options(options, settings) if options is not None else {},
    )
    request.config = decode_config(body)
    run = await call.start(app, request, thread=body.name("thread_id"))
    return await _answer(call, body, run, app)


async def _answer(call: WireCall, body: Body, run: AnyRun, app: ServedApp) -> Response:
    if body.flag("stream"):
        pieces = _stream(call, run.info, call.server.host.follow(run.info.id))
        headers = {"location": f"/runs/{run.info.id}/events"}
        return SseResponse(pieces, headers=headers, on_leave=call.on_leave(app, run))
    if body.flag("wait"):
        await call.wait(app, run)
        if run.info.status in ("error", "interrupted"):
            raise error_of(run.info)
        return JsonResponse({**run.info.as_json(), "output": run.output})
    return JsonResponse(run.info.as_json(), status_code=202)


async def list_runs(call: WireCall) -> Response:
    """List the caller's runs, the newest first."""
    query = call.request.query_params
    limit, offset = page(query)
    host = call.server.host
    infos: list[RunRecord] = await host.call(
        lambda: host.log.runs(
            call.caller.owner,
            thread=query.get("thread_id"),
            status=query.get("status"),
            limit=limit,
            offset=offset,
        )
    )
    return JsonResponse({"runs": [info.as_json() for info in infos]})


def page(query: QueryParams) -> tuple[int, int]:
    """Read `limit` and `offset`."""
    numbers = []
    for name, usual, most in (("limit", 20, 1000), ("offset", 0, 1_000_000)):
        text = query.get(name, str(usual))
        if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= most):
            raise ServeError("invalid_request", f"{name} must be a number up to {most}")
        numbers.append(int(text))
    return numbers[0], numbers[1]


async def show_run(call: WireCall) -> Response:
    """Show a run."""
    info = await call.server.host.find(call.caller, call.path("run_id"))
    return JsonResponse(info.as_json())


async def delete_run(call: WireCall) -> Response:
    """Delete a run that has ended."""
    host = call.server.host
    info = await host.find(call.caller, call.path("run_id"))
    if not info.is_over:
        raise ServeError("conflict", "the run is under way: stop it first")
    await host.call(host.log.delete_run, info.id)
    return Response(status_code=204)


async def follow_run(call: WireCall) -> Response:
    """Return a run's events after `Last-Event-ID` (or `?after=`)."""
    host = call.server.host
    info = await host.find(call.caller, call.path("run_id"))
    text = call.request.headers.get("last-event-id") or call.request.query_params.get("after", "0")
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise ServeError("invalid_request", "Last-Event-ID must be the number of an event")
    return SseResponse(_stream(call, info, host.follow(info.id, int(text))))


async def _stream(
    call: WireCall, info: RunRecord, events: AsyncGenerator[Events, None]
) -> AsyncGenerator[bytes, None]:
    has_ended = False
    async for batch in events:
        if not batch:
            yield PING
            continue
        has_ended = any(_is_end(item) for _, item in batch)
        yield b"".join(_numbered(seq, item) for seq, item in batch)
    if has_ended:
        return
    info = await call.server.host.find(call.caller, info.id)
    if info.status in ("interrupted", "error"):  # the server died, so no event says the end
        data = {"event": info.status, "error": error_of(info).as_json(), "usage": None}
        yield event({"type": "end", "method": "run", "params": {"data": data}}, "run")


def _is_end(item: EncodedEvent) -> bool:
    return method_of(item) == b"run" and decode_event(item)["params"]["data"]["event"] != "started"


def _numbered(seq: int, item: EncodedEvent) -> bytes:
    """Return an event with its number as a server-sent event; its JSON goes on as it is."""
    method = method_of(item)
    if HALF_CHARACTER in item:  # clients may refuse it
        return event({"type": "event", "seq": seq, **decode_event(item)}, method.decode(), seq)
    head = b'id: %d\nevent: %s\ndata: {"type":"event","seq":%d,' % (seq, method, seq)
    return head + one_line(item[1:]) + b"\n\n"


async def stop_run(call: WireCall) -> Response:
    """End a run."""
    info = await call.server.host.find(call.caller, call.path("run_id"))
    await call.server.host.stop(info)
    return JsonResponse(
        {"run_id": info.id, "status": "stopping" if not info.is_over else info.status}
    )


async def resume_run(call: WireCall) -> Response:
    """Resume a run: answer its questions (`answers`), or continue after the server died."""
    body = await call.body(may_be_empty=True)
    info = await call.server.host.find(call.caller, call.path("run_id"))
    app = call.app(info.app)
    if info.thread is None or not app.has_threads:
        raise ServeError("conflict", f"{info.app} keeps no threads: it has no checkpointer")
    if not info.is_over:
        raise ServeError("conflict", "the run is under way")
    request = RunRequest(None)
    if "answers" in body.value:
        request.command = Command(resume=body.get("answers"))
    elif info.status == "waiting":
        raise body.refuse("answers", "is needed: the app asks a person")
    elif info.status == "success":
        raise ServeError("conflict", "the run is finished")
    else:
        request.command = await stored_answers(call.server.host, info)
        request.goes_on = True
    run = await call.resume(app, request, info)
    return await _answer(call, body, run, app)


def decode_input(value: object, app: ServedApp) -> object:
    """Return an input as the app takes it; serialised messages and documents are loaded, nothing else."""
    check_media(value)
    if isinstance(value, str) and app.kind == "agent":
        return {"messages": [{"role": "user", "content": value}]}
    if value is None and app.kind == "model":
        raise ServeError("invalid_request", "input is needed")
    return revive(value)


def revive(value: object, depth: int = 0) -> object:
    """Load the serialised messages and documents in JSON; refuse other serialised objects."""
    if depth > DEEPEST:
        raise ServeError("invalid_request", "the input nests too deep")
    if isinstance(value, dict):
        if value.get("lc") == 1 and value.get("type") == "constructor":
            return _load_object(value)
        return {name: revive(item, depth + 1) for name, item in value.items()}
    if isinstance(value, list):
        return [revive(item, depth + 1) for item in value]
    return value


def _load_object(value: JsonObject) -> object:
    id = value.get("id")
    name = id[-1] if isinstance(id, list) and id else None
    allowed = isinstance(name, str) and (
        name.endswith(("Message", "MessageChunk", "PromptValue")) or name == "Document"
    )
    if not allowed:
        raise ServeError("invalid_request", f"an object {str(name)[:80]!r} may not be sent")
    try:
        return load(value)
    except Exception as error:
        raise ServeError("invalid_request", "a serialised object cannot be read") from error


def decode_config(body: Body) -> RunnableConfig:
    """Return the config that a request may set: tags, metadata, a limit of steps."""
    config = body.object("config")
    if config is None:
        return RunnableConfig()
    run_config = RunnableConfig()
    tags = config.items("tags", most=64)
    if not all(isinstance(tag, str) and len(tag) <= 256 for tag in tags):
        raise config.refuse("tags", "must be a list of texts")
    if tags:
        run_config["tags"] = tags
    metadata = config.mapping("metadata")
    if metadata:
        if len(metadata) > 64 or len(str(metadata)) > 16_384:
            raise config.refuse("metadata", "must be small")
        run_config["metadata"] = metadata
    steps = config.integer("recursion_limit", 1, 1_000)
    if steps is not None:
        run_config["recursion_limit"] = steps
    return run_config
