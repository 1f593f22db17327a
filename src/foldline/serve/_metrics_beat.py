"""`MetricsBeat`: once a second, how late the event loop is, and the file of this worker's numbers."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from foldline._io import ASYNC
from foldline._io.serving import BackgroundTask
from foldline.serve._metrics import render
from foldline.serve._metrics_files import MetricsFolder

if TYPE_CHECKING:
    from foldline.serve._wire_server import Server

__all__ = ["MetricsBeat"]

logger = logging.getLogger("foldline.serve")

EVERY: Final = 1.0


class MetricsBeat:
    """The page of metrics, of this process or over all workers."""

    def __init__(self, server: Server, folder: str | None = None) -> None:
        self._server = server
        self._metrics = server.host.metrics
        self._folder = MetricsFolder(folder, self._metrics) if folder is not None else None
        self._task: BackgroundTask | None = None

    def start(self) -> None:
        """Begin to measure."""
        self._task = BackgroundTask(self._beat())

    async def close(self) -> None:
        """Stop, and leave the last counts of this worker."""
        if self._task is not None:
            self._task.cancel()
            await self._task.join()
        self._measure()
        if self._folder is not None:
            self._folder.write(is_live=False)

    async def page(self) -> str:
        """Return the page that Prometheus reads."""
        self._measure()
        call = self._server.host.call
        series = (
            await call(self._folder.total) if self._folder is not None else self._metrics.series()
        )
        return render(series, has_keys=self._metrics.has_keys)

    def _measure(self) -> None:
        host = self._server.host
        self._metrics.gauges = {
            "runs_live": len(host.live),
            "runs_queued": host.admission.queued,
            "streams_open": self._server.open_streams,
            "log_commits_total": host.commits,
        }

    async def _beat(self) -> None:
        while True:
            start = time.monotonic()
            await ASYNC.sleep(EVERY)
            late = time.monotonic() - start - EVERY
            self._metrics.observe("loop_lag_seconds", max(0.0, late))
            self._measure()
            if self._folder is not None:
                try:
                    await self._server.host.call(self._folder.write)
                except OSError as error:
                    logger.warning("the metrics of this worker cannot be written: %s", error)
