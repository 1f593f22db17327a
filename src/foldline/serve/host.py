"""`RunHost`: starts, follows and stops runs; those of other workers through the run log."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from foldline._config import RunnableConfig
from foldline._io import ASYNC, shield
from foldline._io.serving import BackgroundTask, Cancelled, Workers, join_all
from foldline.callbacks.base import BaseCallbackHandler
from foldline.exceptions import NothingToResumeError, is_invalid_resume
from foldline.language_models._call.policies.usage_scope import Limits, UsageScope, usage_scope
from foldline.prices import cost_of, find_prices
from foldline.serve.apps import Emit, RunRequest, ServedApp
from foldline.serve.errors import PROVIDER_FAULTS, REFUSALS, ServeError, failure_of, mask_secrets
from foldline.serve.estimate import Estimate
from foldline.serve.json_object import JsonObject
from foldline.serve.keys import Caller
from foldline.serve.live import Committer, Events, LiveRun
from foldline.serve.log.answers import Claim
from foldline.serve.log.records import RunRecord, RunStatus
from foldline.serve.log.run_log import RunLog
from foldline.serve.metrics import Metrics
from foldline.serve.metrics_watch import RunWatch
from foldline.serve.quotas import QuotaReservation, Quotas
from foldline.serve.request_facts import REQUEST
from foldline.serve.running import run_app
from foldline.serve.settings import ServeSettings
from foldline.utils.uuid import uuid7
from foldline.workflows.events import jsonable
from foldline.workflows.interrupts import reopened_questions, request_data

__all__ = ["RunHost"]

logger = logging.getLogger("foldline.serve")

T = TypeVar("T")
PING: Final = 15.0
BEAT: Final = 0.5
"""Seconds between two reads of the stop requests that came through other workers."""
MARKING_BEATS: Final = 20
"""After how many of them runs of dead workers are looked for: one of another machine is watched before it is dead."""
PRUNE_SECONDS: Final = 3600.0
"""Seconds between two deletions of old runs."""
POLL: Final = 0.05
"""Seconds between two reads of a run of another worker."""


@dataclass(slots=True)
class _Work:
    run: LiveRun
    app: ServedApp
    request: RunRequest
    reservation: QuotaReservation | None
    claims: list[Claim]
    watch: RunWatch


class RunHost:
    """The runs of one server process."""

    def __init__(
        self,
        log: RunLog,
        settings: ServeSettings,
        metrics: Metrics,
        callbacks: list[BaseCallbackHandler],
    ) -> None:
        self.log = log
        self.settings = settings
        self.metrics = metrics
        self.quotas = Quotas(log.database)
        self.live: dict[str, LiveRun] = {}
        self.is_closing = False
        self.is_open = False
        self._callbacks = callbacks
        self._committer = Committer(log, self._drop)
        self._committer.on_commit = lambda seconds: metrics.observe("log_commit_seconds", seconds)
        self._readers = Workers(4, "foldline-serve-read")
        self._heartbeat: BackgroundTask | None = None
        self._stopped: set[str] = set()
        self._is_drained = False
        """Whether the time for runs to end is over: the server closes."""

    # -- the process

    async def open(self) -> None:
        """Mark the runs of dead workers as interrupted, and start this worker's heartbeat; once."""
        if self.is_open:
            return
        self.is_open = True
        await self.call(self.log.mark_interrupted)
        await self.call(self.log.beat)
        await self._prune()
        self._heartbeat = BackgroundTask(self._beat_forever())

    async def close(self) -> None:
        """Wait up to `drain_seconds` for runs, stop the others, and close the log."""
        self.is_closing = True
        deadline = time.monotonic() + self.settings.drain_seconds
        while self.live and time.monotonic() < deadline:
            await ASYNC.sleep(0.02)
        self._is_drained = True
        runs = list(self.live.values())
        for run in runs:
            self._interrupt(run)
        await join_all(run.task for run in runs if run.task is not None)
        if self._heartbeat is not None:
            self._heartbeat.cancel()
            await self._heartbeat.join()
        await self._committer.close()
        with suppress(Exception):
            await self.call(self.log.leave)
        self._readers.close()
        self.log.close()

    @property
    def commits(self) -> int:
        """The number of transactions of the log."""
        return self._committer.commits

    async def call(self, function: Callable[..., T], *values: Any) -> T:
        """Call a blocking function in a thread."""
        return await self._readers.call(function, *values)

    async def _prune(self) -> None:
        """Delete the runs that are older than `keep_days`."""
        if self.settings.keep_days is not None:
            await self.call(self.log.prune, time.time() - self.settings.keep_days * 86_400)

    async def _beat_forever(self) -> None:
        count = 0
        prune_time = time.monotonic() + PRUNE_SECONDS
        while True:
            await ASYNC.sleep(BEAT)
            count += 1
            if count % MARKING_BEATS == 0:
                with suppress(Exception):
                    await self.call(self.log.mark_interrupted)
            if time.monotonic() >= prune_time:
                prune_time = time.monotonic() + PRUNE_SECONDS
                with suppress(Exception):
                    await self._prune()
            with suppress(Exception):
                run_ids: set[str] = (
                    await self.call(self.log.beat)
                    if count % 6 == 0
                    else await self.call(self.log.runs_to_stop)
                    if self.live
                    else set()
                )
                for id in run_ids:
                    if id in self.live:
                        self._cancel(self.live[id])

    # -- starting

    async def start(
        self,
        caller: Caller,
        app: ServedApp,
        request: RunRequest,
        *,
        wire: str,
        thread: str | None = None,
        run_id: str | None = None,
        logged_request: JsonObject | None = None,
        resumes: RunRecord | None = None,
        claims: Sequence[Claim] = (),
    ) -> LiveRun:
        """Start a run, or one that continues another; return when it is in the log.

        Raise `ServeError` where the caller may not. If others have claimed what it answers, nothing is started, and
        the run has a `refusal`.
        """
        if self.is_closing:
            raise ServeError("unavailable", "the server is shutting down: try again", 1.0)
        if caller.key is not None and not caller.key.allows(app.name):
            raise ServeError("permission", f"this key may not use {app.name!r}")
        if len(self.live) >= self.settings.max_runs:
            raise ServeError("overloaded", "the server has too many runs under way", 1.0)
        reservation = await self._reserve(caller, app, request)
        facts = REQUEST.get()
        if facts is not None:
            logged_request = {**(logged_request or {}), "http": facts.record()}
        info = RunRecord(
            run_id or str(uuid7()), caller.owner, app.name, wire, thread, "running", time.time(),
            self.log.worker, logged_request,
        )  # fmt: skip
        if resumes is not None:
            info.resumes, info.first = resumes.id, resumes.root
        run = LiveRun(info, self._committer, self.settings.max_events)
        self.live[info.id] = run
        watch = RunWatch(self.metrics, app, wire, caller.key)
        work = _Work(run, app, request, reservation, list(claims), watch)
        if facts is not None:
            facts.run = run
        run.task = BackgroundTask(self._run(work))
        await run.wait_for_begin()
        if run.refusal is None and not run.logged_count:
            raise ServeError.from_json((info.result or {}).get("error") or {})
        return run

    async def _begin(self, work: _Work) -> bool:
        """Write a run that continues another; return False if others were first, or the log cannot be written."""
        run = work.run
        try:
            run.refusal = await self.call(self.log.begin, run.info, work.claims)
        except Cancelled:  # the server closes; what is claimed by then is resumed after it
            self._lose(run)
            raise
        except Exception as error:  # noqa: BLE001  the client waits for the claim: it must get an end
            logger.error("the run log cannot be written, its runs end: %s", error)
            self._lose(run)
        else:
            if run.refusal is None:
                run.is_new = False
                return True
            self.live.pop(run.info.id, None)
            run.lose()
        self._stopped.discard(run.info.id)
        if work.reservation is not None:
            with suppress(Exception):
                reservation = work.reservation
                await self.call(lambda: self.quotas.settle(reservation, tokens=0.0, cost=0.0))
        return False

    async def _reserve(
        self, caller: Caller, app: ServedApp, request: RunRequest
    ) -> QuotaReservation | None:
        key = caller.key
        if key is None or not key.is_limited:
            return None
        estimate = Estimate.of(app, request)
        if key.budget is not None and app.kind == "model" and estimate.cost is None:
            raise ServeError(
                "permission",
                f"this key has a budget, and the prices of {app.name!r} are not known: the server needs them",
            )
        reservation: QuotaReservation = await self.call(
            lambda: self.quotas.reserve(key, tokens=estimate.tokens, cost=estimate.cost or 0.0)
        )
        return reservation

    async def _run(self, work: _Work) -> None:
        run, app, request = work.run, work.app, work.request
        facts = REQUEST.get()
        if facts is not None:  # of this task alone: a request may start several runs
            REQUEST.set(replace(facts, run=run))
        remaining = work.reservation.remaining if work.reservation is not None else None
        limits = Limits(cost=remaining) if remaining is not None else None
        status: RunStatus = "success"
        result: JsonObject = {}
        needs_scope = limits is not None or app.kind != "model" or request.inner_view is not None
        scope: UsageScope | None = None
        request.config = self._config(run, app, request)
        request.config["callbacks"] = [*self._callbacks, work.watch]
        if run.info.resumes is not None and not await self._begin(work):
            return
        work.watch.begin()
        try:
            run.emit("run", {"event": "started", "run_id": run.info.id, "app": app.name})
            if run.info.id in self._stopped or self._is_drained:
                raise Cancelled
            if needs_scope:
                with usage_scope(limits) as scope:
                    run.output = await _run_app(app, request, run.emit)
            else:
                run.output = await _run_app(app, request, run.emit)
            questions = _questions(run)
            if questions:
                status, result["interrupts"] = "waiting", questions
        except Cancelled:
            status = "stopped"
            if self.is_closing and run.info.id not in self._stopped:
                status = "interrupted"
        except Exception as error:  # noqa: BLE001  any error of the app ends the run, not the server
            failure = failure_of(error)
            status, result["error"] = "error", failure.as_json()
            _note_refusal(run, request, error, result)
            self._log_failure(run, error, failure)
        await self._end(work, status, result, scope)

    async def _end(
        self,
        work: _Work,
        status: RunStatus,
        result: JsonObject,
        scope: UsageScope | None,
    ) -> None:
        run, app = work.run, work.app
        usage, cost = _usage_and_cost(run, scope, app)
        result["usage"], result["cost"] = usage, cost
        if work.request.thread is None or not app.has_threads or run.info.resumes is not None:
            result["output"] = run.output  # who repeats an answer gets it too
        run.end(status, result)
        work.watch.finish(status, usage, cost, run.first_event)
        try:
            await shield(run.wait_for_end())
            if work.reservation is not None:
                tokens = usage.get("total_tokens") if usage else None
                reservation = work.reservation
                with suppress(Exception):
                    await self.call(
                        lambda: self.quotas.settle(reservation, tokens=tokens, cost=cost)
                    )
            if run.forgets:
                await self.call(self.log.delete_run, run.info.id)
        finally:
            self.live.pop(run.info.id, None)
            self._stopped.discard(run.info.id)

    def _config(self, run: LiveRun, app: ServedApp, request: RunRequest) -> RunnableConfig:
        config = RunnableConfig(**request.config)
        config.setdefault("run_name", app.name)
        metadata = {**config.get("metadata", {}), "serve_run_id": run.info.id}
        if run.info.owner:
            metadata["serve_key"] = run.info.owner
        if request.thread is not None:
            config["configurable"] = {
                **config.get("configurable", {}),
                "thread_id": request.thread,
            }
        if run.info.thread is not None:
            metadata["thread_id"] = run.info.thread
        config["metadata"] = metadata
        return config

    def _log_failure(self, run: LiveRun, error: Exception, failure: ServeError) -> None:
        if failure.kind == "internal":
            logger.error("run %s of %s failed", run.info.id, run.info.app, exc_info=error)
            return
        # The client gets a fixed sentence for an error of the provider: its text is for the operator.
        level = logging.WARNING if failure.kind in PROVIDER_FAULTS else logging.INFO
        text = mask_secrets(f"{type(error).__name__}: {error}")
        logger.log(level, "run %s of %s failed: %s", run.info.id, run.info.app, text)

    def _drop(self, runs: list[LiveRun]) -> None:
        for run in runs:
            if run.task is not None and not run.task.is_done:
                run.task.cancel()
            self._lose(run)

    def _lose(self, run: LiveRun) -> None:
        self.live.pop(run.info.id, None)
        run.info.status = "error"
        failure = ServeError("unavailable", "the server's run log cannot be written", 5.0)
        run.info.result = {"error": failure.as_json()}
        run.lose()

    async def embed(self, caller: Caller, app: ServedApp, texts: list[str]) -> list[list[float]]:
        """Turn texts into vectors, within the caller's limits."""
        if caller.key is not None and not caller.key.allows(app.name):
            raise ServeError("permission", f"this key may not use {app.name!r}")
        reservation = await self._reserve(caller, app, RunRequest(texts, {"max_tokens": 1}))
        try:
            vectors: list[list[float]] = await app.target.aembed_documents(texts)
        except Exception as error:
            failure = failure_of(error)
            self.metrics.add("embeddings_total", app.name, "error")
            if failure.kind == "internal":
                logger.error("embeddings of %s failed", app.name, exc_info=error)
            elif failure.kind in PROVIDER_FAULTS:
                text = mask_secrets(f"{type(error).__name__}: {error}")
                logger.warning("embeddings of %s failed: %s", app.name, text)
            raise failure from error
        finally:
            if reservation is not None:
                booking = reservation
                await self.call(
                    lambda: self.quotas.settle(booking, tokens=booking.tokens, cost=booking.cost)
                )
        self.metrics.add("embeddings_total", app.name, "success")
        return vectors

    # -- stopping

    def _cancel(self, run: LiveRun) -> None:
        self._stopped.add(run.info.id)
        if not run.is_ending:
            self._interrupt(run)

    @staticmethod
    def _interrupt(run: LiveRun) -> None:
        # A run that has not begun ends when it has: cancelled before that, its client would wait for ever, what it has
        # reserved would stay, and after its claim it would be in the log without an end.
        if run.task is not None and run.events:
            run.task.cancel()

    async def stop(self, info: RunRecord) -> None:
        """Stop a run: at once where this worker runs it, within a second otherwise."""
        live = self.live.get(info.id)
        if live is not None:
            self._cancel(live)
            return
        if not info.is_over:
            await self.call(self.log.request_stop, info.id)

    # -- reading

    async def read(self, id: str) -> RunRecord | None:
        """Return a run, of this worker or from the log."""
        live = self.live.get(id)
        return live.info if live is not None else await self.call(self.log.run, id)

    async def find(self, caller: Caller, id: str) -> RunRecord:
        """Return a run of the caller; raise `ServeError` where there is none or another owner has it."""
        info = await self.read(id)
        if info is None or info.owner != caller.owner:
            raise ServeError("not_found", f"there is no run {id[:80]!r}")
        return info

    async def follow(
        self, id: str, after: int = 0, *, ping: float | None = PING
    ) -> AsyncGenerator[Events, None]:
        """Yield the events of a run after a number, until its end; an empty list when a keep-alive is due."""
        live = self.live.get(id)
        if live is not None:
            async for batch in live.follow(after, ping):
                yield batch
            return
        last_yield = time.monotonic()
        while True:
            info: RunRecord | None = await self.call(self.log.run, id)
            batch = await self.call(self.log.events, id, after)
            if batch:
                after = batch[-1][0]
                last_yield = time.monotonic()
                yield batch
                continue
            if info is None or info.is_over:
                return
            if ping is not None and time.monotonic() - last_yield > ping:
                last_yield = time.monotonic()
                yield []
            await ASYNC.sleep(POLL)


async def _run_app(app: ServedApp, request: RunRequest, emit: Emit) -> object:
    try:
        return await run_app(app, request, emit)
    except NothingToResumeError:
        if not request.goes_on:
            raise
        request.command = None
        return await run_app(app, request, emit)


def _note_refusal(run: LiveRun, request: RunRequest, error: Exception, result: JsonObject) -> None:
    """Record what a failed run leaves open: what a refused run has claimed is free again."""
    if is_invalid_resume(error):  # before it or beside it, other steps may have run
        answers = request.command.resume if request.command is not None else None
        questions = reopened_questions(error)
        open_ids = {question.id for question in questions}
        run.is_refused = not isinstance(answers, Mapping) or open_ids.issuperset(answers)
        if not run.is_refused:  # the other answers are used: the next one continues this run
            result["interrupts"] = [jsonable(request_data(question)) for question in questions]
    else:
        # An app refuses before it does anything.
        has_begun = any(event["method"] not in ("run", "lifecycle") for event in run.events)
        run.is_refused = isinstance(error, REFUSALS) and not has_begun
    if run.is_refused:
        result["refused"] = True


def _questions(run: LiveRun) -> list[JsonObject]:
    return [
        event["params"]["data"]
        for event in run.events
        if event["method"] == "input.requested" and not event["params"]["namespace"]
    ]


def _usage_and_cost(
    run: LiveRun, scope: UsageScope | None, app: ServedApp
) -> tuple[JsonObject | None, float | None]:
    """Return the tokens and the cost of a run; None where they are not known."""
    if scope is not None and scope.model_calls:
        return dict(scope.usage), scope.cost
    usage: JsonObject | None = None
    model_metadata: JsonObject = {}
    for event in reversed(run.events):
        if event["method"] == "messages":
            data = event["params"]["data"]
            if data["event"] == "message-finish":
                usage = data.get("usage")
            elif data["event"] == "message-start":
                model_metadata = data.get("metadata") or {}
                break
    if not usage:
        return None, None
    total = usage.get("total_tokens") or usage.get("input_tokens", 0) + usage.get(
        "output_tokens", 0
    )
    prices = find_prices(model_metadata.get("provider"), model_metadata.get("model")) or app.prices
    return {**usage, "total_tokens": total}, cost_of(usage, prices)
