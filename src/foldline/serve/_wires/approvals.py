"""Questions to a person on chat wires: the tool calls that need approval, and the answers for the middleware."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Set
from contextlib import aclosing
from typing import Final

from foldline.serve._answers import AnyRun
from foldline.serve._json_object import JsonObject
from foldline.serve._log.records import RunRecord
from foldline.serve._wire_server import WireCall
from foldline.serve.apps import RunRequest, ServedApp
from foldline.serve.errors import ServeError

__all__ = [
    "action_requests",
    "find_active",
    "find_asking_run",
    "latest_run",
    "match_calls",
    "require_asking_run",
    "run_to_resume",
    "start_in_thread",
]

MOST_RUNS: Final = 200
"""How many of the newest runs of a thread are looked at for a question."""


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
    host = call.server.host
    infos: list[RunRecord] = await host.call(
        lambda: host.log.runs(call.caller.owner, thread=thread, limit=1)
    )
    return await host.find(call.caller, infos[0].id) if infos else None


async def find_active(call: WireCall, thread: str) -> RunRecord | None:
    """Return the active run of a thread."""
    info = await latest_run(call, thread)
    return info if info is not None and not info.is_over else None


async def find_asking_run(
    call: WireCall, thread: str, questions: Set[str] | None = None
) -> RunRecord | None:
    """Return the run of a thread that an answer continues: which asked the questions, or waits.

    An answer that is sent again comes when the newest run is the one that it has started. Runs that the app refused to
    start have continued nothing.
    """
    host = call.server.host
    async with aclosing(_newest_runs(call, thread)) as runs:
        async for info in runs:
            if questions is None:
                if not info.is_refused:
                    return await _waiting_run(call, await host.find(call.caller, info.id))
            elif not questions.isdisjoint(info.question_ids):
                return info
            elif info.resumes is None and info.status in (
                "queued",
                "running",
                "success",
                "waiting",
            ):
                return None  # the thread went on from here: what was asked before is not open
    return None


async def _newest_runs(call: WireCall, thread: str) -> AsyncGenerator[RunRecord, None]:
    host = call.server.host
    size = 1  # mostly it is the newest one
    offset = 0
    while offset < MOST_RUNS:
        infos: list[RunRecord] = await host.call(
            lambda limit, start: host.log.runs(
                call.caller.owner, thread=thread, limit=limit, offset=start
            ),
            size,
            offset,
        )
        for info in infos:
            live = host.live.get(info.id)
            yield live.info if live is not None else info
        if len(infos) < size:
            return
        offset, size = offset + size, 20


async def _waiting_run(call: WireCall, newest: RunRecord) -> RunRecord | None:
    info: RunRecord | None = newest
    going = ("queued", "running", "success")
    while info is not None and info.resumes is not None and info.status in going:
        info = await call.server.host.read(info.resumes)
    return info


async def run_to_resume(
    call: WireCall, app: ServedApp, request: RunRequest, thread: str
) -> RunRecord | None:
    """Return the run that a request's command answers; None for other requests, and for an earlier checkpoint."""
    command = request.command
    if command is None or command.resume is None or not app.has_threads:
        return None
    if "checkpoint_id" in request.config.get("configurable", {}):
        return None  # another branch, on which the question is open again
    asking_run = await find_asking_run(call, thread)
    if asking_run is not None and asking_run.questions and isinstance(command.resume, Mapping):
        ids = set(command.resume)
        if ids.isdisjoint(
            asking_run.question_ids
        ):  # sent again, when the thread asks something else
            return await find_asking_run(call, thread, ids) or asking_run
    return asking_run


async def start_in_thread(
    call: WireCall, app: ServedApp, request: RunRequest, thread: str
) -> AnyRun:
    """Start a run of a thread; an answer continues the run that asking_run."""
    asking_run = await run_to_resume(call, app, request, thread)
    if asking_run is None:
        return await call.start(app, request, thread=thread)
    return await call.resume(app, request, asking_run)


async def require_asking_run(call: WireCall, thread: str, questions: Set[str]) -> RunRecord:
    """Return the run of a thread that asked questions; raise `ServeError` where there is none."""
    info = await find_asking_run(call, thread, questions)
    if info is None:
        raise ServeError(
            "conflict",
            "there is nothing to answer: the thread has no such open question",
            code="already_answered",
        )
    return info
