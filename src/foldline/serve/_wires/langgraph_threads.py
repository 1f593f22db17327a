"""LangGraph's threads: create, list, change, show and delete them."""

from __future__ import annotations

import time
from typing import Any

from starlette.responses import Response

from foldline.exceptions import FlowError
from foldline.serve._log.records import ThreadInfo
from foldline.serve._wire_server import JsonResponse, WireCall, thread_key
from foldline.serve._wires.native import decode_input, page
from foldline.serve._wires.thread_state import (
    app_of_thread,
    find_thread,
    thread_json,
    thread_states,
)
from foldline.serve.errors import ServeError, failure_of
from foldline.utils.uuid import uuid7

__all__ = [
    "change_thread",
    "create_thread",
    "delete_thread",
    "search_threads",
    "show_history",
    "show_state",
    "show_thread",
    "update_state",
]


async def create_thread(call: WireCall) -> Response:
    """Make a thread."""
    body = await call.body(may_be_empty=True)
    id = body.name("thread_id") or str(uuid7())
    if_exists = body.maybe_text("if_exists", longest=32) or "raise"
    metadata = body.mapping("metadata")
    graph = metadata.get("graph_id") or body.maybe_text("graph_id")
    app = call.app(graph).name if isinstance(graph, str) and graph in call.server.apps else None
    new_thread = ThreadInfo(id, call.caller.owner, app, time.time(), metadata)
    host = call.server.host
    try:
        thread = await host.call(
            lambda: host.log.put_thread(new_thread, must_be_new=if_exists != "do_nothing")
        )
    except KeyError as error:
        raise ServeError("conflict", f"there is a thread {id[:80]!r} already") from error
    return JsonResponse(await thread_json(call, thread))


async def search_threads(call: WireCall) -> Response:
    """List the caller's threads."""
    body = await call.body(may_be_empty=True)
    limit = body.integer("limit", 0, 1_000)
    offset = body.integer("offset", 0, 1_000_000) or 0
    metadata, status = body.mapping("metadata"), body.maybe_text("status")
    host = call.server.host
    threads = await host.call(
        lambda: host.log.threads(call.caller.owner, limit=1_000, offset=offset)
    )
    matches = []
    for thread in threads:
        if all(thread.metadata.get(name) == value for name, value in metadata.items()):
            described = await thread_json(call, thread)
            if status in (None, described["status"]):
                matches.append(described)
    return JsonResponse(matches[: limit if limit is not None else 10])


async def show_thread(call: WireCall) -> Response:
    """Show a thread."""
    thread = await find_thread(call, call.path("thread_id"))
    described = await thread_json(call, thread)
    described["values"] = (await thread_states(call, thread))[0]["values"]
    return JsonResponse(described)


async def change_thread(call: WireCall) -> Response:
    """Change the metadata of a thread."""
    thread = await find_thread(call, call.path("thread_id"))
    body = await call.body(may_be_empty=True)
    thread.metadata = {**thread.metadata, **body.mapping("metadata")}
    host, owner = call.server.host, call.caller.owner
    await host.call(
        lambda: host.log.change_thread(owner, thread.id, app=None, metadata=thread.metadata)
    )
    return JsonResponse(await thread_json(call, thread))


async def delete_thread(call: WireCall) -> Response:
    """Delete a thread, its runs and its checkpoints."""
    thread = await find_thread(call, call.path("thread_id"))
    host = call.server.host
    for run in list(host.live.values()):
        if run.info.thread == thread.id and run.info.owner == call.caller.owner:
            await host.stop(run.info)
            await run.wait_for_end()
    app = app_of_thread(call, thread)
    if app is not None and app.checkpointer is not None:
        await host.call(app.checkpointer.delete_thread, thread_key(call.caller, thread.id))
    await host.call(host.log.delete_thread, call.caller.owner, thread.id)
    return Response(status_code=204)


async def show_state(call: WireCall) -> Response:
    """Show the state of a thread, now or at a checkpoint."""
    thread = await find_thread(call, call.path("thread_id"))
    checkpoint = call.request.path_params.get("checkpoint_id")
    return JsonResponse((await thread_states(call, thread, checkpoint=checkpoint))[0])


async def show_history(call: WireCall) -> Response:
    """Show the states of a thread, the newest first."""
    thread = await find_thread(call, call.path("thread_id"))
    if call.request.method == "POST":
        limit = (await call.body(may_be_empty=True)).integer("limit", 1, 1_000) or 10
    else:
        limit = page(call.request.query_params)[0] or 10
    return JsonResponse(await thread_states(call, thread, limit=limit))


async def update_state(call: WireCall) -> Response:
    """Change a thread's state as if a step had done it."""
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
        new_config = await app.target.aupdate_state(
            {"configurable": names}, values, body.name("as_node")
        )
    except (ValueError, TypeError, FlowError) as error:
        raise failure_of(error) from error
    checkpoint_names = {**new_config["configurable"], "thread_id": thread.id, "checkpoint_ns": ""}
    return JsonResponse({"checkpoint": checkpoint_names, "configurable": checkpoint_names})
