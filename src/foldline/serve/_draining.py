"""`DrainingServer`: uvicorn's server with an end in four steps, in which no connection hangs or is reset.

After SIGTERM `/readyz` answers 503 and answers carry `Connection: close`, so that load balancers look elsewhere; after
`drain_delay` the sockets are closed; runs go on for `drain_seconds`; the others are marked as interrupted, and their
streams end with that event. A second signal goes to the last step.
"""

from __future__ import annotations

import gc
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from socket import socket
from types import FrameType
from typing import Any, Final

import uvicorn

from foldline._io import ASYNC
from foldline._io.serving import accept_last
from foldline.serve.app import ServeApp

__all__ = ["DRAIN", "END", "LEAVE", "READY", "DrainingServer", "make_server", "work"]

READY: Final = b"ready"
"""A worker says to its parent that it serves."""
DRAIN: Final = b"drain"
LEAVE: Final = b"leave"
END: Final = b"end"
"""What a parent says to a worker: drain; drain without the delay, because others serve on; end the runs now."""
SETTLE_SECONDS: Final = 0.2
"""How long connections that were accepted last have time to send their request."""
LETTING_GO: Final = 0.01
"""How long the event loop has time to close its own copies of listening sockets: connections wait meanwhile."""
LAST_SECONDS: Final = 5
"""How long streams have time at least to send their last events, after all runs have ended."""
CLOSE: Final = (b"connection", b"close")


class DrainingServer(uvicorn.Server):
    """Serves an app until a signal, or until its parent says so; then it drains."""

    def __init__(self, config: uvicorn.Config, app: ServeApp, parent: Pipe | None) -> None:
        super().__init__(config)
        self._host = app.server.host
        self._parent = parent
        self._close_time: float | None = None
        """When the sockets are closed; None if it does not drain."""

    # -- signals of the system and of the parent

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain; at the second signal, end the runs."""
        if self._close_time is not None:
            self._hurry()
        elif sig == signal.SIGINT:  # of a person, who waits
            self._drain(0.0)
        else:
            self._drain(self._host.settings.drain_delay)

    def _drain(self, delay: float) -> None:
        self._host.is_draining = True
        close_time = time.monotonic() + delay
        self._close_time = min(close_time, self._close_time or close_time)

    def _hurry(self) -> None:
        self._drain(0.0)
        self._host.end_runs()

    def _read_parent(self) -> None:
        if self._parent is None:
            return
        try:
            while self._parent.poll():
                self._obey(self._parent.recv_bytes())
        except (EOFError, OSError):  # the parent is gone, and with it who would replace this worker
            self._parent = None
            self._drain(self._host.settings.drain_delay)

    def _obey(self, word: bytes) -> None:
        if word == END:
            self._hurry()
        else:
            self._drain(self._host.settings.drain_delay if word == DRAIN else 0.0)

    # -- what uvicorn calls

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        if self._parent is not None and self.started:
            self._parent.send_bytes(READY)

    async def on_tick(self, counter: int) -> bool:
        """Return whether the sockets are to be closed; called ten times a second."""
        self._read_parent()
        is_over = await super().on_tick(counter)
        if self._close_time is None:
            return is_over
        headers = self.server_state.default_headers
        if CLOSE not in headers:
            self.server_state.default_headers = [*headers, CLOSE]
        return is_over or time.monotonic() >= self._close_time

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Close the sockets, let the runs end, and end those that do not."""
        listeners = [each.dup() for server in self.servers for each in server.sockets]
        for server in self.servers:
            server.close()
        for each in sockets or []:
            each.close()
        await ASYNC.sleep(LETTING_GO)
        for listener in listeners:
            await accept_last(listener, self._make_protocol, self.config.ssl)
        await ASYNC.sleep(SETTLE_SECONDS)
        for connection in list(self.server_state.connections):
            connection.shutdown()
        seconds_left = await self._host.drain(self._read_parent)
        self.config.timeout_graceful_shutdown = max(LAST_SECONDS, int(seconds_left))
        await super().shutdown(sockets)

    def _make_protocol(self) -> Any:  # noqa: ANN401  a protocol of uvicorn
        """Return what answers a connection, as the server's own sockets do."""
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )


def make_server(
    app: ServeApp, options: dict[str, Any], parent: Pipe | None = None
) -> DrainingServer:
    """Return the server of a process that does nothing else, and set up its interpreter for one."""
    config = uvicorn.Config(app, **options)
    # A full garbage collection stops the process. What is loaded by now stays, and need not be looked at again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 1_000)
    # The thread of the log gives the interpreter back to that of the event loop within a millisecond.
    sys.setswitchinterval(0.001)
    return DrainingServer(config, app, parent)


def work(
    make_app: Callable[[], ServeApp],
    options: dict[str, Any],
    sockets: list[socket],
    parent: Pipe,
) -> None:
    """Serve in a worker process."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a terminal sends it to all processes; the parent passes it on
    make_server(make_app(), options, parent).run(sockets)
