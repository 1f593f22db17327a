"""LangGraph's runs: streamed, waited for, or in the background; on a thread or without one."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Final

from starlette.responses import Response

from foldline.graph.types import Send
from foldline.serve._answers import AnyRun
from foldline.serve._json_body import Body
from foldline.serve._json_object import JsonObject
from foldline.serve._log.events import Events
from foldline.serve._log.records import RunRecord
from foldline.serve._sse import PING, SseResponse, event
from foldline.serve._wire_server import ClientLeftError, JsonResponse, WireCall, error_of
from foldline.serve._wires.approvals import run_to_resume, start_in_thread
from foldline.serve._wires.langgraph_view import MODES, RunView
from foldline.serve._wires.native import decode_config, decode_input, page
from foldline.serve._wires.thread_state import ensure_thread, find_thread, thread_states
from foldline.serve.apps import RunRequest, ServedApp
from foldline.serve.errors import ErrorKind, ServeError
from foldline.workflows.interrupts import Command

__all__ = ["decode_run"]

STATUSES: Final = {
    "success": "success",
    "waiting": "interrupted",
    "running": "running",
    "queued": "pending",
}
STRATEGIES: Final = frozenset({"reject", "enqueue", "interrupt", "rollback"})
ERROR_NAMES: Final[dict[ErrorKind, str]] = {"invalid_request": "BadRequestError"}


def run_json(info: RunRecord) -> JsonObject:
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


def decode_run(call: WireCall, body: Body) -> tuple[ServedApp, RunRequest]:
    """Return the app and the run of a request."""
    app = call.app(body.name("assistant_id"))
    if app.kind == "embeddings":
        raise body.refuse("assistant_id", "makes embeddings")
    request = RunRequest(keeps_values=True, config=decode_config(body))
    command = body.object("command")
    if command is not None and any(command.value.get(key) is not None for key in command.value):
        request.command = _decode_command(command, app)
    elif body.get("input") is not None or app.kind == "model":
        request.input = decode_input(body.get("input"), app)
    checkpoint = body.maybe_text("checkpoint_id", longest=256)
    inner = body.object("checkpoint")
    checkpoint = checkpoint or (inner.maybe_text("checkpoint_id") if inner is not None else None)
    if checkpoint is not None:
        request.config["configurable"] = {"checkpoint_id": checkpoint}
    return app, request


def _decode_command(command: Body, app: ServedApp) -> Command[object]:
    if command.get("graph") is not None:
        raise command.refuse("graph", "is for nodes of a graph inside another one")
    update, goto = command.get("update"), command.get("goto")
    return Command(
        resume=command.get("resume"),
        update=decode_input(update, app) if update is not None else None,
        goto=_decode_goto(command, goto, app) if goto is not None else None,
    )


def _decode_goto(command: Body, goto: object, app: ServedApp) -> list[str | Send]:
    """Return the nodes to go to: names, and nodes with an input of their own (`{"node": …, "input": …}`)."""
    targets: list[str | Send] = []
    for item in goto if isinstance(goto, list) else [goto]:
        if isinstance(item, str):
            targets.append(item)
        elif isinstance(item, dict) and isinstance(item.get("node"), str):
            targets.append(Send(item["node"], decode_input(item.get("input"), app)))
        else:
            raise command.refuse(
                "goto", 'must be a node, {"node": …, "input": …}, or a list of them'
            )
    return targets


async def _start(call: WireCall, body: Body) -> tuple[AnyRun, ServedApp]:
    app, request = decode_run(call, body)
    thread = call.request.path_params.get("thread_id")
    if thread is not None:
        host = call.server.host
        existing = await host.call(host.log.thread, call.caller.owner, thread)
        if existing is None and body.text("if_not_exists", "reject", longest=16) != "create":
            raise ServeError("not_found", f"there is no thread {thread[:80]!r}")
        await ensure_thread(call, thread, app)
        strategy = body.text("multitask_strategy", "enqueue", longest=16)
        if strategy not in STRATEGIES:
            raise body.refuse(
                "multitask_strategy", "must be reject, enqueue, interrupt or rollback"
            )
        asking_run = await run_to_resume(call, app, request, thread)
        if asking_run is None or not asking_run.is_over:
            await _make_room(call, thread, strategy)
        return await start_in_thread(call, app, request, thread), app
    return await call.start(app, request), app


async def _make_room(call: WireCall, thread: str, strategy: str) -> None:
    """Wait for the active run of a thread, stop it, or refuse the new one."""
    host = call.server.host
    for run in list(host.live.values()):
        if run.info.thread == thread and run.info.owner == call.caller.owner and not run.is_over:
            if strategy == "reject":
                raise ServeError("conflict", "the thread has a run under way")
            if strategy in ("interrupt", "rollback"):
                await host.stop(run.info)
            await run.wait_for_end()


async def start_run(call: WireCall) -> Response:
    """Start a run in the background."""
    run, _ = await _start(call, await call.body())
    return JsonResponse(run_json(run.info))


async def stream_run(call: WireCall) -> Response:
    """Start a run and stream it."""
    body = await call.body()
    modes = _modes(body)
    shows_inner = body.flag("stream_subgraphs")
    run, app = await _start(call, body)
    cancels = _cancels(body)
    thread = call.request.path_params.get("thread_id")
    head = f"/threads/{thread}/runs/{run.info.id}" if thread else f"/runs/{run.info.id}"
    view = RunView(run.info, modes, shows_inner=shows_inner)

    async def leave() -> None:
        if cancels and not run.is_ending:
            await call.server.host.stop(run.info)

    on_leave = leave if cancels else call.on_leave(app, run)
    headers = {"content-location": head, "location": f"{head}/stream"}
    events = call.server.host.follow(run.info.id)
    return SseResponse(_stream(call, view, events), headers=headers, on_leave=on_leave)


def _cancels(body: Body) -> bool:
    """Whether the client wants its run to end when it disconnects."""
    return body.maybe_text("on_disconnect", longest=16) == "cancel"


def _modes(body: Body) -> list[str]:
    value = body.get("stream_mode")
    modes = [value] if isinstance(value, str) else value if value is not None else ["values"]
    if not isinstance(modes, list) or not all(mode in MODES for mode in modes):
        raise body.refuse("stream_mode", f"must be among {', '.join(MODES)}")
    return modes


async def _stream(
    call: WireCall, view: RunView, events: AsyncGenerator[Events, None], after: int = 0
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
        name = problem.code or ERROR_NAMES.get(problem.kind, "RunError")
        yield event({"error": name, "message": problem.message, **problem.ids}, "error")


async def wait_run(call: WireCall) -> Response:
    """Start a run; answer with its last state."""
    body = await call.body()
    run, app = await _start(call, body)
    try:
        await call.wait(app, run)
    except ClientLeftError:
        if _cancels(body):
            await call.stop(run)
        raise
    return JsonResponse(_output(run.info, run.output))


def _output(info: RunRecord, output: object) -> object:
    if info.status not in ("success", "waiting"):
        problem = error_of(info)
        name = problem.code or problem.kind
        return {"__error__": {"error": name, "message": problem.message, **problem.ids}}
    return output if output is not None else (info.result or {}).get("output")


async def _find_run(call: WireCall) -> RunRecord:
    info = await call.server.host.find(call.caller, call.path("run_id"))
    if info.thread != call.path("thread_id"):
        raise ServeError("not_found", f"there is no run {info.id!r} in this thread")
    return info


async def list_runs(call: WireCall) -> Response:
    """List the runs of a thread."""
    thread = await find_thread(call, call.path("thread_id"))
    limit, offset = page(call.request.query_params)
    host, owner = call.server.host, call.caller.owner
    infos = await host.call(
        lambda: host.log.runs(owner, thread=thread.id, limit=limit, offset=offset)
    )
    return JsonResponse([run_json(item) for item in infos])


async def show_run(call: WireCall) -> Response:
    """Show a run."""
    return JsonResponse(run_json(await _find_run(call)))


async def delete_run(call: WireCall) -> Response:
    """Delete a run."""
    info = await _find_run(call)
    if not info.is_over:
        raise ServeError("conflict", "the run is under way: cancel it first")
    await call.server.host.call(call.server.host.log.delete_run, info.id)
    return Response(status_code=204)


async def cancel_run(call: WireCall) -> Response:
    """End a run."""
    info = await _find_run(call)
    await call.server.host.stop(info)
    live = call.server.host.live.get(info.id)
    if call.request.query_params.get("wait") in ("1", "true") and live is not None:
        await live.wait_for_end()
    return Response(status_code=204)


async def join_run(call: WireCall) -> Response:
    """Wait for a run; answer with its last state."""
    info = await _find_run(call)
    async for _ in call.server.host.follow(info.id):
        pass
    info = await _find_run(call)
    thread = await find_thread(call, call.path("thread_id"))
    output = (info.result or {}).get("output")
    if output is None:
        output = (await thread_states(call, thread))[0]["values"]
    return JsonResponse(_output(info, output))


async def follow_run(call: WireCall) -> Response:
    """Stream a run again, from the event after `Last-Event-ID` on."""
    info = await _find_run(call)
    query = call.request.query_params
    # A client that names no mode sends an empty one, and means those that the run was started with: any.
    modes = [mode for mode in query.getlist("stream_mode") if mode] or list(MODES)
    if not all(mode in MODES for mode in modes):
        raise ServeError("invalid_request", f"stream_mode must be among {', '.join(MODES)}")
    text = call.request.headers.get("last-event-id", "0")
    after = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
    view = RunView(info, modes, shows_inner=False)
    on_leave = None
    if query.get("cancel_on_disconnect", "").lower() in ("1", "true"):

        async def on_leave() -> None:
            await call.server.host.stop(info)

    events = call.server.host.follow(info.id)
    return SseResponse(_stream(call, view, events, after), on_leave=on_leave)
