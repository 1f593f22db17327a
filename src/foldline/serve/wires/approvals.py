"""Questions to a person on chat wires: the tool calls that need approval, and the answers for the middleware."""

from __future__ import annotations

from collections.abc import Mapping

from foldline.serve.errors import ServeError
from foldline.serve.json_object import JsonObject
from foldline.serve.log.records import RunRecord
from foldline.serve.server import WireCall

__all__ = [
    "action_requests",
    "find_active",
    "latest_run",
    "match_calls",
    "open_questions",
]


def action_requests(payload: object) -> list[JsonObject]:
    """Return the calls that a question asks to approve; an empty list for other questions."""
    actions = payload.get("action_requests") if isinstance(payload, Mapping) else None
    if not isinstance(actions, list):
        return []
    return [item for item in actions if isinstance(item, dict)]


def match_calls(
    payload: object, calls: list[tuple[str, str, object]]
) -> list[tuple[str | None, JsonObject]]:
    """Pair each call to approve with the id of the model's call of the same name and arguments."""
    open_calls = list(calls)
    pairs: list[tuple[str | None, JsonObject]] = []
    for action in action_requests(payload):
        matches = [
            call
            for call in open_calls
            if call[1] == action.get("name") and call[2] == action.get("args")
        ]
        if matches:
            open_calls.remove(matches[0])
        pairs.append((matches[0][0] if matches else None, action))
    return pairs


async def latest_run(call: WireCall, thread: str) -> RunRecord | None:
    """Return the newest run of a thread of the caller."""
    live = [
        run.info
        for run in call.server.host.live.values()
        if run.info.thread == thread and run.info.owner == call.caller.owner
    ]
    if live:
        return max(live, key=lambda info: info.created)
    host = call.server.host
    infos: list[RunRecord] = await host.call(
        lambda: host.log.runs(call.caller.owner, thread=thread, limit=1)
    )
    return await host.find(call.caller, infos[0].id) if infos else None


async def find_active(call: WireCall, thread: str) -> RunRecord | None:
    """Return the active run of a thread."""
    info = await latest_run(call, thread)
    return info if info is not None and not info.is_over else None


async def open_questions(call: WireCall, thread: str) -> list[JsonObject]:
    """Return the open questions of a thread; raise `ServeError` where there are none."""
    info = await latest_run(call, thread)
    if info is None or info.status != "waiting":
        raise ServeError("conflict", "there is nothing to answer: the thread has no open question")
    return list((info.result or {}).get("interrupts") or [])
