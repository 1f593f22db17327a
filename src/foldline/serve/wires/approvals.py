"""Questions to a person on chat wires: which calls an approval is about, and answers as the middleware reads them."""

from __future__ import annotations

from collections.abc import Mapping

from foldline.serve.errors import ServeError
from foldline.serve.json_object import JsonObject
from foldline.serve.log.records import RunInfo
from foldline.serve.server import Call

__all__ = [
    "action_requests",
    "find_active",
    "latest_run",
    "match_calls",
    "open_questions",
]


def action_requests(payload: object) -> list[JsonObject]:
    """Return the calls that a question asks to approve; none where it asks something else."""
    actions = payload.get("action_requests") if isinstance(payload, Mapping) else None
    if not isinstance(actions, list):
        return []
    return [item for item in actions if isinstance(item, dict)]


def match_calls(
    payload: object, calls: list[tuple[str, str, object]]
) -> list[tuple[str | None, JsonObject]]:
    """Pair each call to approve with the id of the model's call that it is: the same name and arguments."""
    left = list(calls)
    pairs: list[tuple[str | None, JsonObject]] = []
    for action in action_requests(payload):
        same = [
            call for call in left if call[1] == action.get("name") and call[2] == action.get("args")
        ]
        if same:
            left.remove(same[0])
        pairs.append((same[0][0] if same else None, action))
    return pairs


async def latest_run(call: Call, thread: str) -> RunInfo | None:
    """Return the newest run of a thread of the caller's."""
    live = [
        run.info
        for run in call.server.host.live.values()
        if run.info.thread == thread and run.info.owner == call.caller.owner
    ]
    if live:
        return max(live, key=lambda info: info.created)
    host = call.server.host
    infos: list[RunInfo] = await host.call(
        lambda: host.log.runs(call.caller.owner, thread=thread, limit=1)
    )
    return await host.find(call.caller, infos[0].id) if infos else None


async def find_active(call: Call, thread: str) -> RunInfo | None:
    """Return the run of a thread that is under way."""
    info = await latest_run(call, thread)
    return info if info is not None and not info.is_over else None


async def open_questions(call: Call, thread: str) -> list[JsonObject]:
    """Return the questions that a thread waits for answers to."""
    info = await latest_run(call, thread)
    if info is None or info.status != "waiting":
        raise ServeError("conflict", "there is nothing to answer: the thread asks nothing")
    return list((info.result or {}).get("interrupts") or [])
