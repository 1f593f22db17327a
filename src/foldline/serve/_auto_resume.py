"""`AutoResume`: a worker with room continues runs that were interrupted, each once, at most three times a run.

The claim is that of a client which resumes a run without an answer: of several workers, and of a client that comes at
the same time, one gets it.
"""

from __future__ import annotations

import logging
import time
from typing import Final, Self

from foldline._io import ASYNC
from foldline._io.serving import BackgroundTask
from foldline.serve._answers import claims_of, stored_answers
from foldline.serve._keys import Caller
from foldline.serve._log.records import RunRecord
from foldline.serve._wire_server import Server, thread_key
from foldline.serve.apps import RunRequest
from foldline.serve.errors import ServeError

__all__ = ["AutoResume"]

logger = logging.getLogger("foldline.serve")

LOOK_SECONDS: Final = 2.0
"""Seconds between two looks for interrupted runs."""
MOST_TIMES: Final = 3
RECENT_SECONDS: Final = 86_400.0
"""Runs that were interrupted before are left to a person."""


class AutoResume:
    """Continues interrupted runs of one server while it runs."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._host = server.host
        self._task: BackgroundTask | None = None
        self._skipped: set[str] = set()
        """Runs that could not be continued."""

    def start(self) -> Self:
        """Look for runs from now on."""
        self._task = BackgroundTask(self._look_forever())
        return self

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await self._task.join()

    async def _look_forever(self) -> None:
        while not self._host.is_draining:
            try:
                await self._look()
            except Exception:  # the log may answer again
                logger.warning("interrupted runs could not be looked for", exc_info=True)
            await ASYNC.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        since = time.time() - RECENT_SECONDS
        runs = await self._host.call(self._host.log.interrupted_runs, since, MOST_TIMES)
        for run in runs:
            is_full = len(self._host.live) >= self._server.settings.max_runs
            if is_full or self._host.is_draining:
                return
            if run.id not in self._skipped:
                try:
                    await self._resume(run)
                except ServeError as error:
                    self._skipped.add(run.id)
                    logger.warning("run %s cannot be continued: %s", run.id, error)

    async def _resume(self, run: RunRecord) -> None:
        app = self._server.apps.get(run.app)
        caller = await self._caller(run.owner)
        if app is None or not app.has_threads or run.thread is None or caller is None:
            self._skipped.add(run.id)
            return
        request = RunRequest(None, thread=thread_key(caller, run.thread), goes_on=True)
        request.command = await stored_answers(self._host, run)
        claims = claims_of(run, request)
        resumed = await self._host.start(
            caller, app, request, wire=run.wire, thread=run.thread, resumes=run, claims=claims
        )
        if resumed.refusal is None:
            logger.warning("run %s was interrupted; %s continues it", run.id, resumed.info.id)

    async def _caller(self, owner: str) -> Caller | None:
        """Return the owner of a run; None if its key was removed."""
        if not owner:
            return Caller("")
        keys = await self._host.call(self._server.keys.all)
        return next((Caller(key.id, key) for key in keys if key.id == owner), None)
