"""`RunHost`: starts, follows and stops runs; those of other workers through the run log."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from foldline._config import RunnableConfig
from foldline._io import ASYNC, shield
from foldline._io.serving import BackgroundTask, Cancelled, TimedSteps, Workers, join_all
from foldline._io.timers import Timers
from foldline.callbacks.base import BaseCallbackHandler
from foldline.exceptions import NothingToResumeError
from foldline.language_models._call.policies.usage_scope import Limits, UsageScope
from foldline.serve._admission import Admission, Ticket
from foldline.serve._input_check import check_input
from foldline.serve._json_object import JsonObject
from foldline.serve._keys import ApiKey, Caller
from foldline.serve._ledger import KeyLedgers
from foldline.serve._live_runs import EVENTS_AT_ONCE, FREE_EVENTS, Committer, LiveRun
from foldline.serve._log.answers import Claim
from foldline.serve._log.events import Events
from foldline.serve._log.records import RunRecord, RunStatus
from foldline.serve._log.run_log import NEVER, ServerLog
from foldline.serve._metrics import Metrics
from foldline.serve._metrics_watch import RunWatch
from foldline.serve._request_facts import REQUEST, name_run
from foldline.serve._request_quotas import Quotas
from foldline.serve._run_app import run_app, run_within
from foldline.serve._run_outcome import note_refusal, questions_of, usage_and_cost
from foldline.serve._token_estimate import estimate_embeddings
from foldline.serve.apps import RunRequest, ServedApp
from foldline.serve.errors import (
    PROVIDER_FAULTS,
    KeyLimitError,
    ServeError,
    failure_of_run,
    mask_secrets,
)
from foldline.serve.settings import ServeSettings
from foldline.utils.uuid import uuid7

__all__ = ["RunHost"]

logger = logging.getLogger("foldline.serve")

T = TypeVar("T")
PING: Final = 15.0
BEAT: Final = 0.5
"""Seconds between two reads of the stop requests that came through other workers."""
MARKING_BEATS: Final = 20
"""After how many of them runs of dead workers are looked for: one of another machine is watched before it is dead."""
DAY: Final = 86_400.0
NO_LOG: Final = "the server's run log cannot be written"
LONGEST_TURN: Final = 0.25
"""Seconds for which the code of an app may hold the event loop without a warning."""
ROWS_AT_ONCE: Final = 8
"""Rows of events that are read at once from the log."""
POLL: Final = 0.05
"""Seconds between two reads of a run of another worker."""


@dataclass(slots=True)
class _Work:
    run: LiveRun
    app: ServedApp
    request: RunRequest
    key: ApiKey | None
    claims: list[Claim]
    ticket: Ticket
    watch: RunWatch


class RunHost:
    """The runs of one server process."""

    def __init__(
        self,
        log: ServerLog,
        settings: ServeSettings,
        metrics: Metrics,
        callbacks: list[BaseCallbackHandler],
    ) -> None:
        self.log = log
        self.settings = settings
        self.metrics = metrics
        self.quotas = Quotas(log.database)
        self.ledgers = KeyLedgers(log, settings.queue_seconds)
        self.admission = Admission(
            max_runs=settings.max_runs,
            max_queued=settings.max_queued,
            queue_seconds=settings.queue_seconds,
        )
        self.live: dict[str, LiveRun] = {}
        self.is_draining = False
        """Whether the server will end: load balancers are to look elsewhere, and requests are still served."""
        self.is_closing = False
        self.is_open = False
        self._callbacks = callbacks
        self._committer = Committer(log, self._drop, self._read_events)
        self._committer.on_commit = lambda seconds: metrics.observe("log_commit_seconds", seconds)
        self._readers = Workers(4, "foldline-serve-read")
        self._chores: list[BackgroundTask] = []
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
        self._chores = [
            BackgroundTask(self._beat_forever(), is_of_server=True),
            BackgroundTask(self._prune_forever(), is_of_server=True),
        ]

    def end_runs(self) -> None:
        """Let `drain` wait no longer: the runs are interrupted."""
        self._is_drained = True

    async def drain(self, on_wait: Callable[[], None] | None = None) -> float:
        """Start no more runs, wait up to `drain_seconds` for those under way, and interrupt the others.

        Return how many of these seconds are left.
        """
        self.is_draining = self.is_closing = True
        deadline = time.monotonic() + self.settings.drain_seconds
        while self.live and time.monotonic() < deadline and not self._is_drained:
            await ASYNC.sleep(0.02)
            if on_wait is not None:
                on_wait()
        seconds_left = 0.0 if self._is_drained else deadline - time.monotonic()
        self._is_drained = True
        runs = list(self.live.values())
        for run in runs:
            self._interrupt(run)
        await join_all(run.task for run in runs if run.task is not None)
        return max(0.0, seconds_left)

    async def close(self) -> None:
        """Drain, if nobody has, and close the log."""
        await self.drain()
        for chore in self._chores:
            chore.cancel()
        await join_all(self._chores)
        await self._committer.close()
        await self.ledgers.settle_late()
        with suppress(Exception):
            await self.call(self.log.leave)
        self.ledgers.close()
        self._readers.close()
        self.log.close()

    @property
    def timers(self) -> Timers:
        """Waits that rarely run out."""
        return self._committer.timers

    @property
    def commits(self) -> int:
        """The number of transactions of the log."""
        return self._committer.commits

    async def call(self, function: Callable[..., T], *values: Any) -> T:
        """Call a blocking function in a thread."""
        return await self._readers.call(function, *values)

    async def _prune(self) -> None:
        """Delete old runs: those that ended, and those that wait for a person, each after its time."""
        days, waiting_days = self.settings.keep_days, self.settings.keep_waiting_days
        if days is None and waiting_days is None:
            return
        now = time.time()
        older_than = now - days * DAY if days is not None else NEVER
        waiting_older_than = now - waiting_days * DAY if waiting_days is not None else NEVER
        while await self.call(self.log.prune_some, older_than, waiting_older_than):
            pass

    async def _prune_forever(self) -> None:
        while True:
            with suppress(Exception):  # the log may answer next time
                await self._prune()
            await ASYNC.sleep(self.settings.prune_every)

    async def _beat_forever(self) -> None:
        count = 0
        while True:
            await ASYNC.sleep(BEAT)
            count += 1
            await self.ledgers.settle_late()
            if count % MARKING_BEATS == 0:
                with suppress(Exception):
                    await self.call(self.log.mark_interrupted)
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
        request_key: tuple[str, str] | None = None,
    ) -> LiveRun:
        """Start a run, or one that continues another; return when it is in the log.

        Raise `ServeError` where the caller may not. If others have claimed what it answers, or a request with the same
        key was first, nothing is started, and the run has a `refusal`.
        """
        if self.is_closing:
            raise ServeError("unavailable", "the server is shutting down: try again", 1.0)
        if caller.key is not None and not caller.key.allows(app.name):
            raise ServeError("permission", f"this key may not use {app.name!r}")
        check_input(app, request)
        ticket = await self._admit(caller, app)
        status: RunStatus = "running" if ticket.is_admitted else "queued"
        facts = REQUEST.get()
        if facts is not None:
            logged_request = {**(logged_request or {}), "http": facts.record()}
        info = RunRecord(
            run_id or str(uuid7()), caller.owner, app.name, wire, thread, status, time.time(),
            self.log.worker, logged_request,
        )  # fmt: skip
        if resumes is not None:
            info.resumes, info.first = resumes.id, resumes.root
        info.request_key = request_key
        run = LiveRun(info, self._committer, self.settings.max_events, self.settings.stream_buffer)
        self.live[info.id] = run
        watch = RunWatch(self.metrics, app, wire, caller.key)
        work = _Work(run, app, request, caller.key, list(claims), ticket, watch)
        if facts is not None:
            facts.run = run
        run.task = BackgroundTask(self._run_admitted(work))
        await run.wait_for_begin()
        if run.refusal is None and not run.is_logged:
            raise ServeError.from_json((info.result or {}).get("error") or {})
        return run

    async def _admit(self, caller: Caller, app: ServedApp) -> Ticket:
        """Return the ticket of a run: it runs at once, or waits; raise `ServeError` where it can do neither."""
        key = caller.key
        ticket = self.admission.enter(
            app.name, app.max_runs, caller.owner, key.max_runs if key is not None else None
        )
        try:
            await self._count_request(caller)
        except BaseException:
            self.admission.leave(ticket)
            raise
        return ticket

    async def _run_admitted(self, work: _Work) -> None:
        try:
            await self._run(work)
        finally:
            self.admission.leave(work.ticket)
            # Its context knows the request, which knows the run: a circle, and garbage is collected rarely.
            work.run.task = None

    async def _wait_for_turn(self, work: _Work) -> None:
        """Wait in line, and mark the run as running in the log."""
        info = work.run.info
        try:
            if info.id in self._stopped or self._is_drained:
                raise Cancelled
            start = time.monotonic()
            try:
                await self.admission.wait(work.ticket)
            finally:
                waited = time.monotonic() - start
                self.metrics.observe("queue_seconds", waited, work.app.name)
        except (ServeError, Cancelled):
            work.run.is_refused = (
                not self._is_drained
            )  # nothing has run: an answer may be sent again
            raise
        await self.call(self.log.note_running, info.id)
        info.status = "running"

    async def _begin(self, work: _Work) -> bool:
        """Write a run before its first event; return False if others were first, or the log cannot be written.

        It continues another one, waits in line, or its request may be repeated.
        """
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
                if run.info.status == "queued":
                    run.note_begin()
                return True
            self.live.pop(run.info.id, None)
            run.lose()
        self._stopped.discard(run.info.id)
        return False

    async def _count_request(self, caller: Caller) -> None:
        if caller.key is not None and caller.key.rpm is not None:
            try:
                await self.call(self.quotas.count_request, caller.key)
            except ServeError:
                self.metrics.add("budget_refused_total", "requests")
                raise

    def _fail(self, error: Exception, run: str = "") -> ServeError:
        """Return what a client gets for an error of a run, and count what the limits of a key refused."""
        failure = failure_of_run(error, run)
        if isinstance(error, KeyLimitError):
            kind = "tokens" if failure.kind == "rate_limit" else "money"
            self.metrics.add("budget_refused_total", kind)
        return failure

    def _prepare(self, work: _Work) -> None:
        run, app, request = work.run, work.app, work.request
        request.config = self._config(run, app, request)
        request.config["callbacks"] = [*self._callbacks, work.watch]
        if work.key is not None and work.key.has_account:
            # Whoever ends a run pays for what the provider has sent until then, which only a stream tells.
            request.streams = True

    async def _run(self, work: _Work) -> None:
        run, app, request = work.run, work.app, work.request
        name_run(run)
        status: RunStatus = "success"
        result: JsonObject = {}
        scope: UsageScope | None = None
        self._prepare(work)
        is_queued = run.info.status == "queued"
        is_claimed = run.info.resumes is not None or run.info.request_key is not None
        if (is_claimed or is_queued) and not await self._begin(work):
            return
        work.watch.begin()
        try:
            if is_queued:
                await self._wait_for_turn(work)
            run.emit("run", {"event": "started", "run_id": run.info.id, "app": app.name})
            if run.info.id in self._stopped or self._is_drained:
                raise Cancelled
            timeout, needs_scope = self._limits_of(work)
            body = _run_app(app, request, run)
            if needs_scope:
                limits = Limits(timeout=timeout)
                async with self.ledgers.scope(work.key, app.name, run.info.id, limits) as scope:
                    run.output = await (body if timeout is None else run_within(timeout, body))
            else:
                run.output = await body
            questions = questions_of(run)
            if questions:
                status, result["interrupts"] = "waiting", questions
        except Cancelled:
            status = "stopped"
            if self.is_closing and run.info.id not in self._stopped:
                status = "interrupted"
        except Exception as error:  # noqa: BLE001  any error of the app ends the run, not the server
            failure = self._fail(error, run.info.id)
            status, result["error"] = "error", failure.as_json()
            if not run.is_refused:  # its turn has not come
                note_refusal(run, request, error, result)
            self._log_failure(run, error, failure)
        await self._end(work, status, result, scope)

    def _limits_of(self, work: _Work) -> tuple[float | None, bool]:
        """Return how long a run may take, and whether it needs a usage scope: a model without limits needs none."""
        app = work.app
        timeout = app.run_timeout if app.run_timeout is not None else self.settings.run_timeout
        is_limited = timeout is not None or (work.key is not None and work.key.is_limited)
        is_plain = app.kind == "model" and work.request.inner_view is None
        return timeout, is_limited or not is_plain

    async def _end(
        self,
        work: _Work,
        status: RunStatus,
        result: JsonObject,
        scope: UsageScope | None,
    ) -> None:
        run, app = work.run, work.app
        usage, cost = usage_and_cost(run, scope, app)
        result["usage"], result["cost"] = usage, cost
        if work.request.thread is None or not app.has_threads or run.info.resumes is not None:
            result["output"] = run.output  # who repeats an answer gets it too
        self.admission.leave(work.ticket)  # first: who sees the end may start the next one
        run.end(status, result)
        work.watch.finish(status, usage, cost, run.first_event)
        try:
            await shield(run.wait_for_end())
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
        # Where the client gets a fixed sentence, the text is for the operator.
        is_shown = failure.kind in ("conflict", "unprocessable") or failure.message in str(error)
        level = logging.INFO if is_shown else logging.WARNING
        text = mask_secrets(f"{type(error).__name__}: {error}")
        logger.log(level, "run %s of %s failed: %s", run.info.id, run.info.app, text)

    def _drop(self, runs: list[LiveRun], reason: str = NO_LOG) -> None:
        for run in runs:
            if run.task is not None and not run.task.is_done:
                run.task.cancel()
            self._lose(run, reason)

    def _lose(self, run: LiveRun, reason: str = NO_LOG) -> None:
        self.live.pop(run.info.id, None)
        run.info.status = "error"
        failure = ServeError("unavailable", reason, 5.0)
        run.info.result = {"error": failure.as_json()}
        run.lose()

    async def embed(self, caller: Caller, app: ServedApp, texts: list[str]) -> list[list[float]]:
        """Turn texts into vectors, within the caller's limits."""
        if caller.key is not None and not caller.key.allows(app.name):
            raise ServeError("permission", f"this key may not use {app.name!r}")
        await self._count_request(caller)
        tokens, cost = estimate_embeddings(app, texts)
        status = "error"
        try:
            async with self.ledgers.request(caller.key, app.name, tokens, cost):
                vectors: list[list[float]] = await app.target.aembed_documents(texts)
            status = "success"
        except Cancelled:
            status = "stopped"
            raise
        except Exception as error:
            failure = self._fail(error)
            if failure.kind == "internal":
                logger.error("embeddings of %s failed", app.name, exc_info=error)
            elif failure.kind in PROVIDER_FAULTS:
                text = mask_secrets(f"{type(error).__name__}: {error}")
                logger.warning("embeddings of %s failed: %s", app.name, text)
            raise failure from error
        finally:
            self.metrics.add("embeddings_total", app.name, status)
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
        if run.task is not None and (run.count or run.is_logged):
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

    async def _read_events(self, id: str, after: int, rows: int = 1) -> Events:
        """Read some events of a run after a number from the log."""
        events: Events = await self.call(self.log.events, id, after, rows)
        return events

    def follow(
        self, id: str, after: int = 0, *, ping: float | None = PING
    ) -> AsyncGenerator[Events, None]:
        """Yield the events of a run after a number, until its end; an empty list when a keep-alive is due."""
        live = self.live.get(id)
        if live is not None:
            return live.follow(after, ping)
        return self._follow_log(id, after, ping)

    async def _follow_log(
        self, id: str, after: int, ping: float | None
    ) -> AsyncGenerator[Events, None]:
        info: RunRecord | None = None
        """Read after the last events: where it is over and there are no more, these were all."""
        last_yield = time.monotonic()
        while True:
            events = await self._read_events(id, after, ROWS_AT_ONCE)
            for start in range(0, len(events), EVENTS_AT_ONCE):
                batch = events[start : start + EVENTS_AT_ONCE]
                if len(batch) > FREE_EVENTS:
                    await self._committer.turns.spend(len(batch))
                after = batch[-1][0]
                yield batch
                last_yield = time.monotonic()
            if events:
                info = None
                continue
            if info is not None and info.is_over:
                return
            info = await self.call(self.log.run, id)
            if info is None:
                return
            if info.is_over:
                continue
            if ping is not None and time.monotonic() - last_yield > ping:
                last_yield = time.monotonic()
                yield []
            await ASYNC.sleep(POLL)


async def _run_app(app: ServedApp, request: RunRequest, run: LiveRun) -> object:
    watch = _SlowApp(app.name, run.info.id)
    try:
        return await TimedSteps(run_app(app, request, run), LONGEST_TURN, watch.note)
    except NothingToResumeError:
        if not request.goes_on:
            raise
        request.command = None
        return await TimedSteps(run_app(app, request, run), LONGEST_TURN, watch.note)


class _SlowApp:
    """Warns once of a run that holds up all others."""

    def __init__(self, app: str, run: str) -> None:
        self._app = app
        self._run = run
        self._is_noted = False

    def note(self, seconds: float) -> None:
        if not self._is_noted:
            self._is_noted = True
            logger.warning(
                "%s held up all other runs for %.0f ms (run %s): blocking code belongs into a plain function, which "
                "runs in a thread",
                self._app, seconds * 1000, self._run,
            )  # fmt: skip
