"""Endpoints of traces: lists, one trace, one run, figures, scores, live changes, deletion, exports."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Any, Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from foldline._io import ASYNC
from foldline.exceptions import StoreError, UsageError
from foldline.studio._answers import (
    answer_json,
    endpoint,
    event,
    plain_error,
    read_body,
    stream,
    threaded,
)
from foldline.studio._messages import run_content
from foldline.studio.settings import StudioSettings
from foldline.tracers._export import all_runs, export_trace
from foldline.tracers._rows import StoredRun
from foldline.tracers.store import TraceFilters, TraceStore
from foldline.tracing import forget
from foldline.utils.json import to_jsonable

__all__ = ["TraceRoutes"]

LIVE_EVERY = 0.25
"""Seconds between two looks for changes; however many runs there are, the page gets four events a second at most."""
MOST_LIVE = 200
"""Summaries in one live event: the page shows no more rows than that at once."""
MOST_LISTED = 500
MOST_STEPS = 240
FORMS: Final = ("otel", "jsonl", "pytest")


class TraceRoutes:
    """The endpoints of traces. There may be no traces yet."""

    def __init__(self, settings: StudioSettings, store: TraceStore) -> None:
        self._settings = settings
        self._store = store

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/api/traces", endpoint(self.show_all)),
            Route("/api/traces/count", endpoint(self.count)),
            Route("/api/traces/{id}", endpoint(self.show), methods=["GET"]),
            Route("/api/traces/{id}", endpoint(self.delete), methods=["DELETE"]),
            Route("/api/traces/{id}/export", endpoint(self.export)),
            Route("/api/runs/{id}", endpoint(self.run)),
            Route("/api/runs/{id}/scores", endpoint(self.score), methods=["POST"]),
            Route("/api/choices", endpoint(self.choices)),
            Route("/api/figures", endpoint(self.figures)),
            Route("/api/figures/models", endpoint(self.figures_by_model)),
            Route("/api/live", endpoint(self.live)),
        ]

    async def _has_traces(self) -> bool:
        return bool(await threaded(self._store.exists))

    async def show_all(self, request: Request) -> Response:
        """Return the newest traces that fit, the place to follow changes from, and their number (unless `total=0`)."""
        query = request.query_params
        limit = min(_number(query.get("limit"), 100), MOST_LISTED)
        offset = _number(query.get("offset"), 0)
        if not await self._has_traces():
            return answer_json({"traces": [], "place": 0, "total": 0})
        filters = _filters(query)

        def read() -> dict[str, Any]:
            place = self._store.newest_place()
            summaries = self._store.find(filters, limit=limit, offset=offset)
            traces = [summary.to_json() for summary in summaries]
            answer: dict[str, Any] = {"traces": traces, "place": place}
            if query.get("total") != "0":
                answer["total"] = self._store.count(filters)
            return answer

        return answer_json(await threaded(read))

    async def count(self, request: Request) -> Response:
        """Return how many traces fit."""
        if not await self._has_traces():
            return answer_json({"total": 0})
        filters = _filters(request.query_params)
        return answer_json({"total": await threaded(self._store.count, filters)})

    async def show(self, request: Request) -> Response:
        """Return the runs of a trace, without their contents."""
        root = await threaded(self._find, request.path_params["id"])
        [summary] = await threaded(self._store.summaries, [str(root.id)])
        return answer_json({"trace": summary.to_json(), "runs": _flat(root)})

    async def run(self, request: Request) -> Response:
        """Return a run with its inputs, outputs and messages."""
        run_id = request.path_params["id"]
        root = await threaded(self._find, run_id)
        run = next((run for run in all_runs(root) if str(run.id) == run_id), None)
        if run is None:
            raise LookupError(f"there is no run {run_id!r}")
        return answer_json({**_line(run, 0), **run_content(run)})

    def _find(self, run_id: str) -> StoredRun:
        trace = self._store.resolve(run_id) if self._store.exists() else None
        root = self._store.trace(trace) if trace else None
        if root is None:
            raise LookupError(f"there is no trace {run_id!r}")
        return root

    async def delete(self, request: Request) -> Response:
        """Delete a trace."""
        root = await threaded(self._find, request.path_params["id"])
        counts = await threaded(
            forget,
            trace=str(root.id),
            traces=self._settings.traces,
            histories=(),
            run_logs=self._settings.run_logs,
        )
        return answer_json({"deleted": counts["traces"]})

    async def export(self, request: Request) -> Response:
        """Return a trace as OTLP, JSON lines or a test."""
        form_name = request.query_params.get("form", "jsonl")
        form = next((form for form in FORMS if form == form_name), None)
        if form is None:
            raise UsageError(f"form is one of {', '.join(FORMS)}, not {form_name!r}")
        root = await threaded(self._find, request.path_params["id"])
        suffix = {"otel": "json", "jsonl": "jsonl", "pytest": "py"}[form]
        name = f"trace-{str(root.id)[-8:]}.{suffix}"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return PlainTextResponse(await threaded(export_trace, root, form), headers=headers)

    async def score(self, request: Request) -> Response:
        """Store a score of a run."""
        body = await read_body(request)
        name, value = str(body.get("name") or "").strip(), body.get("value")
        if not name or not isinstance(value, int | float):
            raise UsageError("a score needs a name and a number as its value")
        score = await threaded(
            self._store.add_score,
            request.path_params["id"],
            name[:100],
            float(value),
            comment=str(body["comment"])[:2_000] if body.get("comment") else None,
            author="studio",
        )
        return answer_json({"id": score}, 201)

    async def choices(self, request: Request) -> Response:
        """Return the values that a list of traces can be filtered by."""
        if not await self._has_traces():
            return answer_json({"models": [], "threads": [], "sessions": [], "users": []})
        names = {
            "models": "model",
            "threads": "thread_id",
            "sessions": "session_id",
            "users": "user_id",
        }
        values = {key: await threaded(self._store.values, name) for key, name in names.items()}
        return answer_json(values)

    async def figures(self, request: Request) -> Response:
        """Return calls, tokens, cost, latencies and errors in steps of time."""
        query = request.query_params
        since, until = _span(query)
        steps = min(max(_number(query.get("steps"), 48), 1), MOST_STEPS)
        if not await self._has_traces():
            return answer_json({"figures": []})
        step = (until - since) / steps
        model = query.get("model") or None
        figures = await threaded(self._store.figures, since, until, step, model)
        return answer_json({"figures": figures, "step": step})

    async def figures_by_model(self, request: Request) -> Response:
        """Return the same figures for each model, over a span of time."""
        since, until = _span(request.query_params)
        if not await self._has_traces():
            return answer_json({"models": []})
        return answer_json({"models": await threaded(self._store.figures_by_model, since, until)})

    async def live(self, request: Request) -> Response:
        """Return the summaries of traces as they change, from a place on (`after`), or from now on."""
        after = request.headers.get("last-event-id") or request.query_params.get("after")
        return stream(self._changes(request, _number(after, -1) if after else -1))

    async def _changes(self, request: Request, place: int) -> AsyncGenerator[bytes, None]:
        open_traces: set[str] | None = None
        quiet = 0.0
        yield event("hello", {})
        while not await request.is_disconnected():
            await ASYNC.sleep(LIVE_EVERY)
            quiet += LIVE_EVERY
            try:
                if not await self._has_traces():
                    continue
                place, changed, open_traces = await threaded(self._look, place, open_traces)
            except StoreError as error:
                yield event("trouble", {"error": plain_error(error)})
                await ASYNC.sleep(2)
                continue
            if changed:
                quiet = 0.0
                yield event("traces", changed, place)
            elif quiet >= 15:
                quiet = 0.0
                yield b": still here\n\n"

    def _look(
        self, place: int, open_traces: set[str] | None
    ) -> tuple[int, dict[str, Any] | None, set[str]]:
        """Return the newest place, what changed since the last look, and the traces that are under way now."""
        if place < 0:
            place = self._store.newest_place()
        newest, new = self._store.changed_since(place, limit=2_000)
        if open_traces is not None and not new and not open_traces:
            return newest, None, open_traces
        running = set(self._store.under_way())
        ended = (open_traces or set()) - running - set(new)
        changed = [*new[:MOST_LIVE], *ended][: 2 * MOST_LIVE]
        if not changed:
            return newest, None, running
        summaries = self._store.summaries(changed)
        traces = [summary.to_json() for summary in summaries]
        return newest, {"traces": traces, "new": len(new)}, running


def _filters(query: QueryParams) -> TraceFilters:
    def text(name: str) -> str | None:
        return query.get(name) or None

    return TraceFilters(
        text=text("q"),
        only_errors=query.get("errors") in ("1", "true"),
        only_waiting=query.get("waiting") in ("1", "true"),
        model=text("model"),
        run_type=text("type"),
        name=text("name"),
        tag=text("tag"),
        session_id=text("session"),
        thread_id=text("thread"),
        user_id=text("user"),
        since=float(query["since"]) if query.get("since") else None,
        until=float(query["until"]) if query.get("until") else None,
    )


def _span(query: QueryParams) -> tuple[float, float]:
    """Return the start and the end of a query's span of time: a day by default."""
    until = float(query.get("until") or time.time())
    since = float(query.get("since") or until - 86_400)
    if not since < until:
        raise UsageError("since must be before until")
    return since, until


def _number(text: str | None, default: int) -> int:
    number = default if text in (None, "") else int(str(text))
    if number < 0:
        raise UsageError(f"{number} is negative: send a number from 0")
    return number


def _flat(root: StoredRun, depth: int = 0) -> list[dict[str, Any]]:
    lines = [_line(root, depth)]
    for child in root.child_runs:
        if isinstance(child, StoredRun):
            lines += _flat(child, depth + 1)
    return lines


def _line(run: StoredRun, depth: int) -> dict[str, Any]:
    usage = (run.usage if run.run_type == "llm" else None) or {}
    return {
        "id": str(run.id),
        "trace_id": str(run.trace_id),
        "parent_id": None if run.parent_run_id is None else str(run.parent_run_id),
        "depth": depth,
        "name": run.name,
        "run_type": run.run_type,
        "start_time": run.start_time.timestamp(),
        "end_time": None if run.end_time is None else run.end_time.timestamp(),
        "first_token_time": (
            None if run.first_token_time is None else run.first_token_time.timestamp()
        ),
        "provider": run.provider,
        "model": run.model,
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "cost": run.cost,
        "question": run.question,
        "answer": run.answer,
        "error_class": run.error_class,
        "status": run.status,
        "interrupts": to_jsonable(run.interrupts),
        "incomplete": run.incomplete,
        "scores": run.scores,
    }
