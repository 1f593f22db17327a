"""Threads in LangGraph's form: the thread, its state and its history."""

from __future__ import annotations

import time
from typing import Any

from foldline._config import RunnableConfig
from foldline.serve._json_object import JsonObject
from foldline.serve._log.records import RunRecord, ThreadInfo
from foldline.serve._wire_server import WireCall, thread_key
from foldline.serve._wires.approvals import latest_run
from foldline.serve.apps import ServedApp, Snapshot
from foldline.serve.errors import ServeError, failure_of
from foldline.workflows._run_events import jsonable

__all__ = [
    "app_of_thread",
    "ensure_thread",
    "find_thread",
    "state_json",
    "thread_json",
    "thread_states",
]

STATUSES = {"running": "busy", "queued": "busy", "waiting": "interrupted", "error": "error"}


async def find_thread(call: WireCall, id: str) -> ThreadInfo:
    """Return a thread of the caller."""
    host = call.server.host
    thread: ThreadInfo | None = await host.call(host.log.thread, call.caller.owner, id)
    if thread is None:
        raise ServeError("not_found", f"there is no thread {id[:80]!r}")
    return thread


async def ensure_thread(call: WireCall, id: str, app: ServedApp) -> ThreadInfo:
    """Return a thread, created where it does not exist; it belongs to the first app that runs on it."""
    host = call.server.host
    new_thread = ThreadInfo(id, call.caller.owner, app.name, time.time())
    thread: ThreadInfo = await host.call(host.log.put_thread, new_thread)
    if thread.app is None:
        await host.call(lambda: host.log.change_thread(call.caller.owner, id, app=app.name))
        thread.app = app.name
    if thread.app != app.name:
        raise ServeError("conflict", f"the thread {id[:80]!r} belongs to {thread.app}")
    return thread


def app_of_thread(call: WireCall, thread: ThreadInfo) -> ServedApp | None:
    """Return the app that a thread belongs to; None before the first run."""
    return None if thread.app is None else call.app(thread.app)


async def thread_json(call: WireCall, thread: ThreadInfo) -> JsonObject:
    """Return a thread in LangGraph's form."""
    run: RunRecord | None = await latest_run(call, thread.id)
    stamp = _iso(thread.created)
    return {
        "thread_id": thread.id,
        "created_at": stamp,
        "updated_at": _iso((run.finished or run.created) if run else thread.created),
        "state_updated_at": stamp,
        "metadata": {**thread.metadata, **({"graph_id": thread.app} if thread.app else {})},
        "status": STATUSES.get(run.status, "idle") if run else "idle",
        "config": {},
        "values": None,
        "interrupts": _by_task(run),
    }


def _by_task(run: RunRecord | None) -> JsonObject:
    questions = ((run.result or {}).get("interrupts") or []) if run is not None else []
    return {"0": [_question(item) for item in questions]} if questions else {}


def _question(item: JsonObject) -> JsonObject:
    return {"id": item["interrupt_id"], "value": item["payload"]}


def _iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + "+00:00"


async def thread_states(
    call: WireCall, thread: ThreadInfo, *, checkpoint: str | None = None, limit: int | None = None
) -> list[JsonObject]:
    """Return the state of a thread, or with a limit its states, the newest first."""
    app = app_of_thread(call, thread)
    if app is None or not app.has_threads:
        return [await _state_without_checkpointer(call, thread)]
    names: dict[str, Any] = {"thread_id": thread_key(call.caller, thread.id)}
    if checkpoint is not None:
        names["checkpoint_id"] = checkpoint
    config: RunnableConfig = {"configurable": names}
    try:
        if limit is None:
            return [state_json(await app.target.aget_state(config), thread.id)]
        states = []
        async for snapshot in app.target.aget_state_history(config, limit=limit):
            states.append(state_json(snapshot, thread.id))
            if len(states) >= limit:
                break
        return states
    except ValueError as error:
        raise failure_of(error) from error


async def _state_without_checkpointer(call: WireCall, thread: ThreadInfo) -> JsonObject:
    run = await latest_run(call, thread.id)
    output = (run.result or {}).get("output") if run is not None else None
    values = output if isinstance(output, dict) else {} if output is None else {"output": output}
    return {
        "values": values,
        "next": [],
        "tasks": [],
        "interrupts": [],
        "checkpoint": {"thread_id": thread.id, "checkpoint_ns": "", "checkpoint_id": None},
        "metadata": {},
        "created_at": None,
        "parent_checkpoint": None,
    }


def state_json(snapshot: Snapshot, thread: str) -> JsonObject:
    """Return a snapshot in LangGraph's form."""
    configurable = snapshot.config.get("configurable", {})
    interrupts = [{"id": item.id, "value": jsonable(item.value)} for item in snapshot.interrupts]
    next_steps = list(snapshot.next)
    tasks = [
        {
            "id": f"{name}-{place}",
            "name": name,
            "error": None,
            "interrupts": interrupts if not place else [],
            "checkpoint": None,
            "state": None,
            "result": None,
        }
        for place, name in enumerate(next_steps or (["interrupt"] if interrupts else []))
    ]
    return {
        "values": jsonable(snapshot.values),
        "next": next_steps,
        "tasks": tasks,
        "interrupts": interrupts,
        "checkpoint": {
            "thread_id": thread,
            "checkpoint_ns": "",
            "checkpoint_id": configurable.get("checkpoint_id"),
        },
        "checkpoint_id": configurable.get("checkpoint_id"),
        "metadata": {"step": getattr(snapshot, "step", 0)},
        "created_at": snapshot.created_at,
        "parent_checkpoint": None,
    }
