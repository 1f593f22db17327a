"""LangGraph's thread protocol, version 3: `/threads/{id}/commands` and `/threads/{id}/stream/events`.

A thread is one sequence of events over all its runs: the number of an event is its number in its run, after the events
of the runs before. A stream stays open from run to run.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from foldline._io import ASYNC
from foldline.serve._json_body import Body
from foldline.serve._json_object import JsonObject
from foldline.serve._log.events import Events, decode_event
from foldline.serve._log.records import RunRecord
from foldline.serve._sse import PING, SseResponse, event
from foldline.serve._wire_server import JsonResponse, Server, WireCall, error_of
from foldline.serve._wires.approvals import (
    find_asking_run,
    latest_run,
    run_to_resume,
    start_in_thread,
)
from foldline.serve._wires.langgraph import WIRE
from foldline.serve._wires.langgraph_runs import decode_run
from foldline.serve._wires.thread_state import ensure_thread, find_thread
from foldline.serve.apps import RunRequest
from foldline.serve.errors import ServeError
from foldline.workflows.interrupts import Command

__all__ = ["routes"]

LOOK: Final = 0.03
"""Seconds between two looks for the next run of a thread in this process."""
LOOK_ELSEWHERE: Final = 0.5
PING_AFTER: Final = 15.0
MOST_RUNS: Final = 10_000
ROOT_EVENTS: Final = {
    "started": "started",
    "success": "completed",
    "waiting": "interrupted",
    "stopped": "failed",
    "error": "failed",
    "interrupted": "failed",
}
DROPPED: Final = frozenset({"run", "chunk"})


def routes(server: Server) -> list[Route]:
    """Return the routes of this wire."""
    head = "/threads/{thread_id}"
    return [
        Route(f"{head}/commands", server.endpoint(WIRE, command), methods=["POST"]),
        Route(f"{head}/stream/events", server.endpoint(WIRE, stream), methods=["POST"]),
    ]


async def command(call: WireCall) -> Response:
    """Run a command; answer with the event of the thread through which it is applied."""
    body = await call.body()
    id, method = body.get("id"), body.text("method", longest=64)
    if isinstance(id, bool) or not isinstance(id, int | str):
        raise body.refuse("id", "must be a number or a text")
    params = body.object("params") or Body({})
    try:
        if method == "run.start":
            result = await _run_start(call, params)
        elif method == "input.respond":
            result = await _input_respond(call, params)
        elif method in ("run.cancel", "run.stop"):
            result = await _run_cancel(call)
        else:
            raise ServeError(
                "invalid_request", f"there is no command {method!r}", code="unknown_command"
            )
    except ServeError as error:
        code = error.code or error.kind
        answer = {"type": "error", "id": id, "error": code, "message": error.message}
        return JsonResponse(answer, status_code=error.status, headers=error.headers)
    through = result.pop("through", 0)
    meta = {"applied_through_seq": through, "thread_id": call.path("thread_id")}
    return JsonResponse({"type": "success", "id": id, "result": result, "meta": meta})


async def _run_start(call: WireCall, params: Body) -> JsonObject:
    app, request = decode_run(call, params)
    id = call.path("thread_id")
    await ensure_thread(call, id, app)
    active = await latest_run(call, id)
    asking_run = await run_to_resume(call, app, request, id)
    if (
        active is not None
        and not active.is_over
        and (asking_run is None or asking_run.id == active.id)
    ):
        raise ServeError("conflict", "the thread has a run under way")
    through = await _length(call, id)
    run = await start_in_thread(call, app, request, id)
    return {"run_id": run.info.id, "through": through}


async def _input_respond(call: WireCall, params: Body) -> JsonObject:
    id = call.path("thread_id")
    thread = await find_thread(call, id)
    app = call.app(thread.app)
    name = params.text("interrupt_id", longest=256)
    asking_run = await find_asking_run(call, id, {name})
    if asking_run is None:
        raise ServeError(
            "not_found", f"there is no open question {name!r}", code="no_such_interrupt"
        )
    through = await _length(call, id)
    request = RunRequest(command=Command(resume={name: params.get("response")}), keeps_values=True)
    run = await call.resume(app, request, asking_run)
    return {"run_id": run.info.id, "through": through}


async def _run_cancel(call: WireCall) -> JsonObject:
    await find_thread(call, call.path("thread_id"))
    info = await latest_run(call, call.path("thread_id"))
    if info is None or info.is_over:
        raise ServeError("conflict", "the thread has no run under way")
    await call.server.host.stop(info)
    return {"run_id": info.id}


async def _runs(call: WireCall, thread: str) -> list[RunRecord]:
    """Return the runs of a thread, the oldest first, including those that are not in the log yet."""
    host, owner = call.server.host, call.caller.owner
    logged_runs: list[RunRecord] = await host.call(
        lambda: host.log.runs(owner, thread=thread, limit=MOST_RUNS)
    )
    logged_ids = {info.id for info in logged_runs}
    new_runs = [
        run.info
        for run in host.live.values()
        if run.info.thread == thread and run.info.owner == owner and run.info.id not in logged_ids
    ]
    return sorted([*logged_runs, *new_runs], key=lambda info: (info.created, info.id))


async def _length(call: WireCall, thread: str) -> int:
    return sum(info.last_seq for info in await _runs(call, thread))


class Filter:
    """Selects the events of a subscription."""

    def __init__(self, body: Body) -> None:
        channels = body.items("channels", most=64)
        if not all(isinstance(name, str) for name in channels):
            raise body.refuse("channels", "must be a list of names")
        self._channels = set(channels)
        spaces = body.get("namespaces")
        if spaces is not None and not (
            isinstance(spaces, list) and all(isinstance(space, list) for space in spaces)
        ):
            raise body.refuse("namespaces", "must be a list of lists of names")
        self._namespaces = None if spaces is None else [list(space) for space in spaces]
        self._depth = body.integer("depth", 0, 1_000)
        self.since: int = body.integer("since", 0, 2**53) or 0

    def takes(self, method: str, namespace: list[str], data: object) -> bool:
        """Whether an event is wanted."""
        channel = "input" if method == "input.requested" else method
        if method == "custom" and isinstance(data, dict) and data.get("name"):
            if f"custom:{data['name']}" not in self._channels and "custom" not in self._channels:
                return False
        elif channel not in self._channels:
            return False
        if self._namespaces is None:
            return self._depth is None or len(namespace) <= self._depth
        return any(
            namespace[: len(space)] == space
            and (self._depth is None or len(namespace) - len(space) <= self._depth)
            for space in self._namespaces
        )


async def stream(call: WireCall) -> Response:
    """Stream a thread's events after `since`, run after run."""
    filter = Filter(await call.body())
    thread = await find_thread(call, call.path("thread_id"))
    return SseResponse(_events(call, thread.id, filter))


async def _events(call: WireCall, thread: str, filter: Filter) -> AsyncGenerator[bytes, None]:
    offset, done = 0, set[str]()
    last_yield = time.monotonic()
    while not call.server.host.is_closing:
        runs = [info for info in await _runs(call, thread) if info.id not in done]
        for info in runs:
            count = 0
            if info.is_over and offset + info.last_seq <= filter.since:
                count = info.last_seq  # the client has all of its events
            else:
                async for batch in call.server.host.follow(info.id):
                    count += len(batch)
                    yield _encode_events(info, batch, offset, filter)
                    last_yield = time.monotonic()
            if not info.is_over or info.status == "interrupted":
                yield await _end(call, info, offset + count, filter)
            done.add(info.id)
            offset += count
        if not runs:
            if time.monotonic() - last_yield > PING_AFTER:
                last_yield = time.monotonic()
                yield PING
            await _next_run(call, thread, done)


async def _next_run(call: WireCall, thread: str, done: set[str]) -> None:
    end = time.monotonic() + LOOK_ELSEWHERE
    while time.monotonic() < end and not call.server.host.is_closing:
        for run in call.server.host.live.values():
            if run.info.thread == thread and run.info.id not in done:
                return
        await ASYNC.sleep(LOOK)


def _encode_events(info: RunRecord, batch: Events, offset: int, filter: Filter) -> bytes:
    if not batch:
        return PING
    text = b""
    for seq, item in batch:
        number = offset + seq
        if number <= filter.since:
            continue
        published = _to_protocol(info, decode_event(item))
        if published is None:
            continue
        params = published["params"]
        if filter.takes(published["method"], params["namespace"], params["data"]):
            data = {"type": "event", "event_id": f"{info.id}:{seq}", "seq": number, **published}
            text += event(data, published["method"], number)
    return text


def _to_protocol(info: RunRecord, item: JsonObject) -> JsonObject | None:
    """Return an event of the log in the protocol's form; the run's events are the root's lifecycle."""
    method, params = item["method"], item["params"]
    if method == "run":
        data = params["data"]
        phase: JsonObject = {"event": ROOT_EVENTS[data["event"]], "graph_name": info.app}
        if data.get("error"):
            phase["error"] = data["error"].get("message")
        elif data["event"] == "stopped":
            phase["error"] = "the run was stopped"
        return {"method": "lifecycle", "params": {**params, "data": phase}}
    if method in DROPPED or (method == "lifecycle" and not params["namespace"]):
        return None
    if method == "input.requested":
        # The SDK reads `value`, the published protocol says `payload`.
        data = {**params["data"], "value": params["data"]["payload"]}
        return {"method": method, "params": {**params, "data": data}}
    return item


async def _end(call: WireCall, info: RunRecord, number: int, filter: Filter) -> bytes:
    """Encode the end of a run whose server died, which is not in the log."""
    now = await call.server.host.find(call.caller, info.id)
    if now.status != "interrupted" or not filter.takes("lifecycle", [], {}):
        return b""
    data = {"event": "failed", "graph_name": info.app, "error": error_of(now).message}
    params = {"namespace": [], "timestamp": int(time.time() * 1000), "data": data}
    published = {
        "type": "event", "event_id": f"{info.id}:end", "seq": number, "method": "lifecycle",
        "params": params,
    }  # fmt: skip
    return event(published, "lifecycle", number)
