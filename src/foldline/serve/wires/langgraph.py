"""LangGraph's REST surface: assistants, threads, and runs on them, streamed, waited for or left to run."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from foldline.exceptions import UsageError
from foldline.serve.apps import RunRequest, ServedApp
from foldline.serve.body import Body
from foldline.serve.errors import ErrorKind, ServeError, failure_of
from foldline.serve.live import Events, LiveRun
from foldline.serve.log.records import RunInfo, ThreadInfo
from foldline.serve.server import Call, JsonResponse, Server, error_of, thread_key
from foldline.serve.sse import PING, EventStream, event
from foldline.serve.wires.langgraph_view import MODES, RunView
from foldline.serve.wires.native import decode_config, decode_input, page
from foldline.serve.wires.thread_state import (
    app_of_thread,
    ensure_thread,
    find_thread,
    thread_json,
    thread_states,
)
from foldline.utils.uuid import uuid7
from foldline.workflows.interrupts import Command

__all__ = ["WIRE", "decode_run", "routes"]

Json = Any
STATUSES: Final = {"success": "success", "waiting": "interrupted", "running": "running"}
ERROR_NAMES: Final[dict[ErrorKind, str]] = {"invalid_request": "BadRequestError"}


class LangGraphErrors:
    """How LangGraph's server says errors."""

    name = "langgraph"
    cancels = False

    def error_body(self, error: ServeError) -> Json:
        """Return the JSON of an error."""
        return {"detail": error.message, "error": error.kind, "message": error.message}


WIRE: Final = LangGraphErrors()


def routes(server: Server) -> list[Route]:
    """Return the routes of this wire."""

    def route(path: str, handler: Callable[[Call], Awaitable[Response]], method: str) -> Route:
        return Route(path, server.endpoint(WIRE, handler), methods=[method])

    one, run = "/threads/{thread_id}", "/threads/{thread_id}/runs/{run_id}"
    return [
        route("/info", info, "GET"),
        route("/assistants/search", search_assistants, "POST"),
        route("/assistants/{assistant_id}", show_assistant, "GET"),
        route("/assistants/{assistant_id}/graph", show_graph, "GET"),
        route("/assistants/{assistant_id}/schemas", show_schemas, "GET"),
        route("/threads", create_thread, "POST"),
        route("/threads/search", search_threads, "POST"),
        route(one, show_thread, "GET"),
        route(one, change_thread, "PATCH"),
        route(one, delete_thread, "DELETE"),
        route(f"{one}/state", show_state, "GET"),
        route(f"{one}/state", update_state, "POST"),
        route(f"{one}/state/{{checkpoint_id}}", show_state, "GET"),
        route(f"{one}/history", show_history, "POST"),
        route(f"{one}/history", show_history, "GET"),
        route(f"{one}/runs", start_run, "POST"),
        route(f"{one}/runs", list_runs, "GET"),
        route(f"{one}/runs/stream", stream_run, "POST"),
        route(f"{one}/runs/wait", wait_run, "POST"),
        route(run, show_run, "GET"),
        route(run, delete_run, "DELETE"),
        route(f"{run}/cancel", cancel_run, "POST"),
        route(f"{run}/join", join_run, "GET"),
        route(f"{run}/stream", follow_run, "GET"),
        route("/runs/stream", stream_run, "POST"),
        route("/runs/wait", wait_run, "POST"),
    ]


async def info(call: Call) -> Response:
    """Say what this server is."""
    return JsonResponse({"version": "foldline", "flags": {"assistants": True, "crons": False}})


# -- assistants


def _assistant(app: ServedApp) -> Json:
    now = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
    return {
        "assistant_id": app.name,
        "graph_id": app.name,
        "name": app.name,
        "config": {},
        "context": {},
        "metadata": {"created_by": "system"},
        "version": 1,
        "created_at": now,
        "updated_at": now,
        "description": None,
    }


async def search_assistants(call: Call) -> Response:
    """List the apps."""
    body = await call.body(may_be_empty=True)
    wanted = body.maybe_text("graph_id")
    key = call.caller.key
    found = [
        _assistant(app)
        for app in call.server.apps.values()
        if app.kind != "embeddings"
        and (key is None or key.allows(app.name))
        and wanted in (None, app.name)
    ]
    limit = body.whole("limit", 0, 1_000)
    offset = body.whole("offset", 0, 1_000_000) or 0
    return JsonResponse(found[offset:][: limit if limit is not None else 100])


async def show_assistant(call: Call) -> Response:
    """Show an app."""
    return JsonResponse(_assistant(call.app(call.path("assistant_id"))))


async def show_graph(call: Call) -> Response:
    """Draw an app."""
    app = call.app(call.path("assistant_id"))
    return JsonResponse(app.target.get_graph().to_json())


async def show_schemas(call: Call) -> Response:
    """Show what an app takes and gives."""
    app = call.app(call.path("assistant_id"))
    schemas: dict[str, Json] = {"graph_id": app.name, "config_schema": None, "context_schema": None}
    for name, method in (
        ("input_schema", "get_input_schema"),
        ("output_schema", "get_output_schema"),
    ):
        try:
            schemas[name] = getattr(app.target, method)().model_json_schema()
        except Exception:  # noqa: BLE001  a schema that cannot be said is none
            schemas[name] = None
    schemas["state_schema"] = schemas["output_schema"]
    return JsonResponse(schemas)


# -- threads


async def create_thread(call: Call) -> Response:
    """Make a thread."""
    body = await call.body(may_be_empty=True)
    id = body.name("thread_id") or str(uuid7())
    wanted = body.maybe_text("if_exists", longest=32) or "raise"
    metadata = body.mapping("metadata")
    graph = metadata.get("graph_id") or body.maybe_text("graph_id")
    app = call.app(graph).name if isinstance(graph, str) and graph in call.server.apps else None
    made = ThreadInfo(id, call.caller.owner, app, time.time(), metadata)
    host = call.server.host
    try:
        thread = await host.call(
            lambda: host.log.put_thread(made, must_be_new=wanted != "do_nothing")
        )
    except KeyError as error:
        raise ServeError("conflict", f"there is a thread {id[:80]!r} already") from error
    return JsonResponse(await thread_json(call, thread))


async def search_threads(call: Call) -> Response:
    """List the caller's threads."""
    body = await call.body(may_be_empty=True)
    limit = body.whole("limit", 0, 1_000)
    offset = body.whole("offset", 0, 1_000_000) or 0
    wanted, status = body.mapping("metadata"), body.maybe_text("status")
    host = call.server.host
    found = await host.call(lambda: host.log.threads(call.caller.owner, limit=1_000, offset=offset))
    shown = []
    for thread in found:
        if all(thread.metadata.get(name) == value for name, value in wanted.items()):
            made = await thread_json(call, thread)
            if status in (None, made["status"]):
                shown.append(made)
    return JsonResponse(shown[: limit if limit is not None else 10])


async def show_thread(call: Call) -> Response:
    """Show a thread."""
    thread = await find_thread(call, call.path("thread_id"))
    made = await thread_json(call, thread)
    made["values"] = (await thread_states(call, thread))[0]["values"]
    return JsonResponse(made)


async def change_thread(call: Call) -> Response:
    """Note something about a thread."""
    thread = await find_thread(call, call.path("thread_id"))
    body = await call.body(may_be_empty=True)
    thread.metadata = {**thread.metadata, **body.mapping("metadata")}
    host, owner = call.server.host, call.caller.owner
    await host.call(
        lambda: host.log.change_thread(owner, thread.id, app=None, metadata=thread.metadata)
    )
    return JsonResponse(await thread_json(call, thread))


async def delete_thread(call: Call) -> Response:
    """Forget a thread, its runs and its checkpoints."""
    thread = await find_thread(call, call.path("thread_id"))
    host = call.server.host
    for run in list(host.live.values()):
        if run.info.thread == thread.id and run.info.owner == call.caller.owner:
            await host.stop(run.info)
            await run.ended()
    app = app_of_thread(call, thread)
    if app is not None and app.has_threads:
        await host.call(app.checkpointer.delete_thread, thread_key(call.caller, thread.id))
    await host.call(host.log.delete_thread, call.caller.owner, thread.id)
    return Response(status_code=204)


async def show_state(call: Call) -> Response:
    """Show where a thread stands, or stood at a checkpoint."""
    thread = await find_thread(call, call.path("thread_id"))
    checkpoint = call.request.path_params.get("checkpoint_id")
    return JsonResponse((await thread_states(call, thread, checkpoint=checkpoint))[0])


async def show_history(call: Call) -> Response:
    """Show where a thread stood, the newest first."""
    thread = await find_thread(call, call.path("thread_id"))
    if call.request.method == "POST":
        limit = (await call.body(may_be_empty=True)).whole("limit", 1, 1_000) or 10
    else:
        limit = page(call.request.query_params)[0] or 10
    return JsonResponse(await thread_states(call, thread, limit=limit))


async def update_state(call: Call) -> Response:
    """Change a thread's state as if a step had."""
    thread = await find_thread(call, call.path("thread_id"))
    body = await call.body()
    app = app_of_thread(call, thread)
    if app is None or not app.has_threads:
        raise ServeError("conflict", "the thread has no state that can be changed")
    names: dict[str, Any] = {"thread_id": thread_key(call.caller, thread.id)}
    checkpoint = body.maybe_text("checkpoint_id", longest=256)
    if checkpoint is not None:
        names["checkpoint_id"] = checkpoint
    values = decode_input(body.get("values"), app)
    try:
        made = await app.target.aupdate_state({"configurable": names}, values, body.name("as_node"))
    except (ValueError, TypeError, UsageError) as error:
        raise failure_of(error) from error
    found = {**made["configurable"], "thread_id": thread.id, "checkpoint_ns": ""}
    return JsonResponse({"checkpoint": found, "configurable": found})


# -- runs


def run_json(info: RunInfo) -> Json:
    """Return a run in LangGraph's form."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(info.created))
    return {
        "run_id": info.id,
        "thread_id": info.thread,
        "assistant_id": info.app,
        "created_at": stamp,
        "updated_at": stamp,
        "status": STATUSES.get(info.status, "error"),
        "metadata": {},
        "kwargs": {},
        "multitask_strategy": "reject",
    }


def decode_run(call: Call, body: Body) -> tuple[ServedApp, RunRequest]:
    """Return the app and the run that a request asks for."""
    app = call.app(body.name("assistant_id"))
    if app.kind == "embeddings":
        raise body.refuse("assistant_id", "makes embeddings")
    request = RunRequest(keeps_values=True, config=decode_config(body))
    command = body.object("command")
    if command is not None and any(command.value.get(key) is not None for key in command.value):
        update = command.get("update")
        request.command = Command(
            resume=command.get("resume"),
            update=decode_input(update, app) if update is not None else None,
            goto=command.get("goto"),
        )
    elif body.get("input") is not None or app.kind == "model":
        request.input = decode_input(body.get("input"), app)
    checkpoint = body.maybe_text("checkpoint_id", longest=256)
    inner = body.object("checkpoint")
    checkpoint = checkpoint or (inner.maybe_text("checkpoint_id") if inner is not None else None)
    if checkpoint is not None:
        request.config["configurable"] = {"checkpoint_id": checkpoint}
    return app, request


async def _start(call: Call, body: Body) -> tuple[LiveRun, ServedApp]:
    app, request = decode_run(call, body)
    thread = call.request.path_params.get("thread_id")
    if thread is not None:
        host = call.server.host
        known = await host.call(host.log.thread, call.caller.owner, thread)
        if known is None and body.text("if_not_exists", "reject", longest=16) != "create":
            raise ServeError("not_found", f"there is no thread {thread[:80]!r}")
        await ensure_thread(call, thread, app)
        await _make_room(call, thread, body.text("multitask_strategy", "enqueue", longest=16))
    run = await call.start(app, request, thread=thread)
    return run, app


async def _make_room(call: Call, thread: str, strategy: str) -> None:
    """Let one run of a thread end before the next, stop it, or refuse."""
    host = call.server.host
    for run in list(host.live.values()):
        if run.info.thread == thread and run.info.owner == call.caller.owner and not run.is_over:
            if strategy == "reject":
                raise ServeError("conflict", "the thread has a run under way")
            if strategy in ("interrupt", "rollback"):
                await host.stop(run.info)
            await run.ended()


async def start_run(call: Call) -> Response:
    """Start a run and leave it to run."""
    run, _ = await _start(call, await call.body())
    return JsonResponse(run_json(run.info))


async def stream_run(call: Call) -> Response:
    """Start a run and stream it."""
    body = await call.body()
    modes = _modes(body)
    shows_inner = body.flag("stream_subgraphs")
    run, app = await _start(call, body)
    cancels = body.maybe_text("on_disconnect", longest=16) == "cancel"
    thread = call.request.path_params.get("thread_id")
    head = f"/threads/{thread}/runs/{run.info.id}" if thread else f"/runs/{run.info.id}"
    view = RunView(run.info, modes, shows_inner=shows_inner)

    async def leave() -> None:
        if cancels and not run.is_ending:
            await call.server.host.stop(run.info)

    on_leave = leave if cancels else call.on_leave(run, app)
    headers = {"content-location": head, "location": f"{head}/stream"}
    events = call.server.host.follow(run.info.id)
    return EventStream(_stream(call, view, events), headers=headers, on_leave=on_leave)


def _modes(body: Body) -> list[str]:
    value = body.get("stream_mode")
    modes = [value] if isinstance(value, str) else value if value is not None else ["values"]
    if not isinstance(modes, list) or not all(mode in MODES for mode in modes):
        raise body.refuse("stream_mode", f"must be some of {', '.join(MODES)}")
    return modes


async def _stream(
    call: Call, view: RunView, events: AsyncGenerator[Events, None], after: int = 0
) -> AsyncGenerator[bytes, None]:
    async for batch in events:
        if not batch:
            yield PING
            continue
        pieces = b"".join(
            event(data, name, seq)
            for seq, item in batch
            for name, data in view.pieces(item)
            if seq > after
        )
        if pieces:
            yield pieces
    info = await call.server.host.find(call.caller, view.id)
    if info.status not in ("success", "waiting"):
        problem = error_of(info)
        name = ERROR_NAMES.get(problem.kind, "RunError")
        yield event({"error": name, "message": problem.message}, "error")


async def wait_run(call: Call) -> Response:
    """Start a run; answer with the state it comes to."""
    run, app = await _start(call, await call.body())
    await call.wait(run, app)
    return JsonResponse(_output(run.info, run.output))


def _output(info: RunInfo, output: Json) -> Json:
    if info.status not in ("success", "waiting"):
        problem = error_of(info)
        return {"__error__": {"error": problem.kind, "message": problem.message}}
    return output if output is not None else (info.result or {}).get("output")


async def _find_run(call: Call) -> RunInfo:
    info = await call.server.host.find(call.caller, call.path("run_id"))
    if info.thread != call.path("thread_id"):
        raise ServeError("not_found", f"there is no run {info.id!r} in this thread")
    return info


async def list_runs(call: Call) -> Response:
    """List the runs of a thread."""
    thread = await find_thread(call, call.path("thread_id"))
    limit, offset = page(call.request.query_params)
    host, owner = call.server.host, call.caller.owner
    found = await host.call(
        lambda: host.log.runs(owner, thread=thread.id, limit=limit, offset=offset)
    )
    return JsonResponse([run_json(item) for item in found])


async def show_run(call: Call) -> Response:
    """Show a run."""
    return JsonResponse(run_json(await _find_run(call)))


async def delete_run(call: Call) -> Response:
    """Forget a run."""
    found = await _find_run(call)
    if not found.is_over:
        raise ServeError("conflict", "the run is under way: cancel it first")
    await call.server.host.call(call.server.host.log.delete_run, found.id)
    return Response(status_code=204)


async def cancel_run(call: Call) -> Response:
    """End a run."""
    found = await _find_run(call)
    await call.server.host.stop(found)
    live = call.server.host.live.get(found.id)
    if call.request.query_params.get("wait") in ("1", "true") and live is not None:
        await live.ended()
    return Response(status_code=204)


async def join_run(call: Call) -> Response:
    """Wait for a run; answer with the state it came to."""
    found = await _find_run(call)
    async for _ in call.server.host.follow(found.id):
        pass
    found = await _find_run(call)
    thread = await find_thread(call, call.path("thread_id"))
    output = (found.result or {}).get("output")
    if output is None:
        output = (await thread_states(call, thread))[0]["values"]
    return JsonResponse(_output(found, output))


async def follow_run(call: Call) -> Response:
    """Stream a run again, from the event after `Last-Event-ID` on."""
    found = await _find_run(call)
    query = call.request.query_params
    modes = query.getlist("stream_mode") or ["values"]
    if not all(mode in MODES for mode in modes):
        raise ServeError("invalid_request", f"stream_mode must be some of {', '.join(MODES)}")
    text = call.request.headers.get("last-event-id", "0")
    after = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
    view = RunView(found, modes, shows_inner=False)
    return EventStream(_stream(call, view, call.server.host.follow(found.id), after))
