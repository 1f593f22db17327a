"""Endpoints of conversations and threads: their messages, their checkpoints, and answers to interrupts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from foldline._config import RunnableConfig
from foldline.chat_history import SQLiteChatMessageHistory
from foldline.exceptions import UsageError
from foldline.messages import BaseMessage
from foldline.studio._answers import answer_json, endpoint, read_body, run_app_code, threaded
from foldline.studio._messages import message_to_json
from foldline.studio._playground import Playground
from foldline.studio.settings import Snapshot, StudioSettings, ThreadApp
from foldline.tracers.store import TraceFilters, TraceStore
from foldline.utils.json import to_jsonable
from foldline.workflows.interrupts import Command

__all__ = ["ThreadRoutes"]

MOST_CHECKPOINTS = 500
MOST_THREADS = 200


class ThreadRoutes:
    """The endpoints of conversations and threads."""

    def __init__(self, settings: StudioSettings, store: TraceStore, playground: Playground) -> None:
        self._settings = settings
        self._playground = playground
        self._traces = store

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/api/sessions", endpoint(self.sessions)),
            Route("/api/sessions/{name:path}", endpoint(self.session), methods=["GET"]),
            Route("/api/sessions/{name:path}", endpoint(self.delete_session), methods=["DELETE"]),
            Route("/api/threads", endpoint(self.threads)),
            Route("/api/threads/{app}/{id:path}/resume", endpoint(self.resume), methods=["POST"]),
            Route("/api/threads/{app}/{id:path}", endpoint(self.thread)),
        ]

    # -- conversations

    async def sessions(self, request: Request) -> Response:
        """Return the stored conversations, and the sessions that traces name."""
        sessions = await threaded(self._read_sessions)
        return answer_json({"sessions": sessions})

    def _read_sessions(self) -> list[dict[str, Any]]:
        if not self._settings.sessions.exists():
            return []
        history = SQLiteChatMessageHistory("any", self._settings.sessions)
        try:
            return [
                {"name": name, "messages": count, "last": last}
                for name, count, last in history.sessions()
            ]
        finally:
            history.close()

    async def session(self, request: Request) -> Response:
        """Return the messages of a conversation."""
        name = request.path_params["name"]
        messages = await threaded(self._messages, name)
        return answer_json({"name": name, "messages": messages})

    def _messages(self, name: str) -> list[dict[str, Any]]:
        if name not in {session["name"] for session in self._read_sessions()}:
            raise LookupError(f"there is no session {name!r}")
        history = SQLiteChatMessageHistory(name, self._settings.sessions)
        try:
            return [message_to_json(message) for message in history.messages]
        finally:
            history.close()

    async def delete_session(self, request: Request) -> Response:
        """Delete a conversation."""
        name = request.path_params["name"]
        await threaded(self._messages, name)
        history = SQLiteChatMessageHistory(name, self._settings.sessions)
        await threaded(history.clear)
        history.close()
        return answer_json({"deleted": name})

    # -- threads

    async def threads(self, request: Request) -> Response:
        """Return the threads that traces name, and the agents that can show them."""
        threads = await threaded(self._known_threads)
        return answer_json({"threads": threads, "apps": sorted(self._settings.apps)})

    def _known_threads(self) -> list[dict[str, Any]]:
        threads: list[dict[str, Any]] = []
        if not self._traces.exists():
            return threads
        for thread in self._traces.newest_threads(MOST_THREADS):
            newest = self._traces.find(TraceFilters(thread_id=thread), limit=1)
            last = newest[0] if newest else None
            threads.append(
                {
                    "id": thread,
                    "traces": self._traces.count(TraceFilters(thread_id=thread)),
                    "last": None if last is None else last.start_time,
                    "question": None if last is None else last.question,
                    "status": None if last is None else last.status,
                    "asks": None if last is None else last.asks,
                }
            )
        return threads

    def _app(self, name: str) -> ThreadApp:
        app = self._settings.apps.get(name)
        if app is None:
            raise LookupError(
                f"this studio has no agent {name!r}: start it with `foldline studio module:agent`"
            )
        return app

    async def thread(self, request: Request) -> Response:
        """Return the checkpoints of a thread, the newest first."""
        app, thread = self._app(request.path_params["app"]), request.path_params["id"]
        config = RunnableConfig(configurable={"thread_id": thread})
        history = await threaded(_read_history, app, config)
        return answer_json({"id": thread, "checkpoints": [_snapshot(state) for state in history]})

    async def resume(self, request: Request) -> Response:
        """Answer an interrupt, or send another message, and return the new checkpoint of the thread."""
        app, thread = self._app(request.path_params["app"]), request.path_params["id"]
        body = await read_body(request)
        configurable: dict[str, Any] = {"thread_id": thread}
        if body.get("checkpoint_id"):
            configurable["checkpoint_id"] = str(body["checkpoint_id"])
        config = RunnableConfig(configurable=configurable, callbacks=[self._playground.tracer()])
        config["metadata"] = {"thread_id": thread, "studio": "threads"}
        if "resume" in body:
            value: Any = Command(resume=body["resume"])
        elif body.get("message"):
            value = {"messages": [{"role": "user", "content": str(body["message"])}]}
        elif body.get("checkpoint_id"):
            value = None
        else:
            raise UsageError("send `resume` (the answer to an interrupt) or `message`")
        await run_app_code(app.ainvoke(value, config))
        thread_config = RunnableConfig(configurable={"thread_id": thread})
        state: Snapshot = await threaded(lambda: app.get_state(thread_config))
        return answer_json({"checkpoint": _snapshot(state)})


def _read_history(app: ThreadApp, config: RunnableConfig) -> list[Snapshot]:
    snapshots: Iterator[Snapshot] = app.get_state_history(config)
    return list(snapshots)[:MOST_CHECKPOINTS]


def _snapshot(snapshot: Snapshot) -> dict[str, Any]:
    values = snapshot.values
    values = dict(values) if isinstance(values, dict) else {"value": values}
    messages = values.pop("messages", None)
    is_list = isinstance(messages, list) and all(
        isinstance(message, BaseMessage) for message in messages
    )
    return {
        "id": (snapshot.config.get("configurable") or {}).get("checkpoint_id"),
        "created_at": snapshot.created_at,
        "next": list(snapshot.next),
        "messages": [message_to_json(message) for message in messages or []] if is_list else [],
        "values": to_jsonable(values),
        "interrupts": [
            {"id": interrupt.id, "value": to_jsonable(_plain(interrupt.value))}
            for interrupt in snapshot.interrupts
        ],
    }


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return value
