"""`Supervisor`: the parent of several workers, which replaces those that die and drains all of them.

It has no app and answers nobody. Workers share its listening socket, which it gives up as soon as they drain: otherwise
connections would wait in a queue that nobody reads. Words go through a pipe per worker, so that a signal that a
terminal or an init system sends to every process counts once; a worker whose pipe is closed has lost its parent.
"""

from __future__ import annotations

import logging
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe, wait
from multiprocessing.process import BaseProcess
from socket import socket, socketpair
from types import FrameType
from typing import Any, Final

from foldline.exceptions import FoldlineError
from foldline.serve._draining import DRAIN, END, LEAVE, READY, work
from foldline.serve.app import ServeApp

__all__ = ["Supervisor"]

logger = logging.getLogger("foldline.serve")

DEATHS: Final = 3
DEATH_SECONDS: Final = 60.0
"""So many workers that die in so many seconds end the parent: the next ones would die, too."""
RELOAD: Final = getattr(signal, "SIGHUP", None)
SIGNALS: Final = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
    if hasattr(signal, name)
)


class _Worker:
    """A worker process and the pipe to it."""

    def __init__(self, process: BaseProcess, pipe: Pipe) -> None:
        self.process = process
        self.pipe = pipe
        self.is_ready = False
        self.is_leaving = False
        """Whether it was told to end."""

    def tell(self, word: bytes) -> None:
        self.is_leaving = True
        with suppress(OSError):  # it has just ended
            self.pipe.send_bytes(word)

    def read(self) -> None:
        with suppress(EOFError, OSError):
            while self.pipe.poll():
                self.is_ready = self.pipe.recv_bytes() == READY


class Supervisor:
    """Runs `count` workers until a signal."""

    def __init__(
        self,
        make_app: Callable[[], ServeApp],
        options: dict[str, Any],
        *,
        sockets: list[socket],
        count: int,
        read_again: Callable[[], object],
    ) -> None:
        """`make_app` is called in each worker; `read_again` is called in the parent before workers are replaced."""
        self._make_app = make_app
        self._options = options
        self._sockets = sockets
        self._count = count
        self._read_again = read_again
        self._workers: list[_Worker] = []
        self._old: deque[_Worker] = deque()
        """Workers to be replaced, the next first."""
        self._next: _Worker | None = None
        """The worker that takes the place of the first of them."""
        self._deaths: deque[float] = deque(maxlen=DEATHS)
        self._signals: deque[int] = deque()
        self._is_draining = False
        self._status = 0

    def run(self) -> int:
        """Start the workers and return the status of the process after the last has ended."""
        ours, theirs = socketpair()
        with ours, theirs:
            ours.settimeout(0)
            theirs.settimeout(0)
            old_fd = signal.set_wakeup_fd(theirs.fileno())
            old_handlers = {number: signal.signal(number, self._note) for number in SIGNALS}
            try:
                for _ in range(self._count):
                    self._start()
                self._watch(ours)
            finally:
                signal.set_wakeup_fd(old_fd)
                for number, handler in old_handlers.items():
                    signal.signal(number, handler)
        return self._status

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(number)

    def _watch(self, alarm: socket) -> None:
        while self._workers:
            things: list[Any] = [worker.process.sentinel for worker in self._workers]
            things += [worker.pipe for worker in self._workers if not worker.is_ready]
            wait([*things, alarm], 1.0)
            with suppress(BlockingIOError):
                alarm.recv(4096)
            for worker in self._workers:
                worker.read()
            self._remove_ended()
            while self._signals:
                self._obey(self._signals.popleft())
            self._replace()

    def _start(self) -> _Worker:
        """Start a worker in an interpreter of its own: it has the code of now."""
        context = get_context("spawn")
        pipe, theirs = context.Pipe()
        values = (self._make_app, self._options, self._sockets, theirs)
        process = context.Process(target=work, args=values, daemon=False)
        process.start()
        theirs.close()
        worker = _Worker(process, pipe)
        self._workers.append(worker)
        return worker

    # -- signals

    def _obey(self, number: int) -> None:
        if number == RELOAD:
            self._reload()
        elif self._is_draining:
            self._tell(self._workers, END)
        else:
            self._drain(LEAVE if number == signal.SIGINT else DRAIN)

    def _drain(self, word: bytes) -> None:
        self._is_draining = True
        self._old.clear()
        self._next = None
        for each in self._sockets:
            each.close()
        self._tell(self._workers, word)

    @staticmethod
    def _tell(workers: Sequence[_Worker], word: bytes) -> None:
        for worker in workers:
            worker.tell(word)

    # -- deaths

    def _remove_ended(self) -> None:
        for worker in [each for each in self._workers if each.process.exitcode is not None]:
            self._workers.remove(worker)
            worker.process.join()
            worker.pipe.close()
            if not worker.is_leaving:
                self._note_death(worker)

    def _note_death(self, worker: _Worker) -> None:
        logger.error("worker %s died (%s)", worker.process.pid, worker.process.exitcode)
        if worker is self._next:
            logger.error("the new workers do not start: the present ones stay")
            self._old.clear()
            self._next = None
            return
        now = time.monotonic()
        self._deaths.append(now)
        if len(self._deaths) == DEATHS and now - self._deaths[0] < DEATH_SECONDS:
            logger.error(
                "%d workers died within %.0f seconds: the server ends", DEATHS, DEATH_SECONDS
            )
            self._status = 1
            self._drain(LEAVE)
        elif not self._is_draining:
            if worker in self._old:
                self._old.remove(worker)
            self._start()

    # -- new configuration and code

    def _reload(self) -> None:
        if self._is_draining or self._old:
            return
        try:
            self._read_again()
        except (FoldlineError, OSError, ValueError) as error:
            logger.error("the new configuration is not used: %s", error)
            return
        self._old.extend(self._workers)

    def _replace(self) -> None:
        """Go on replacing workers: one leaves when the new one serves."""
        if self._next is not None and self._next.is_ready:
            self._next = None
            if self._old:
                self._old.popleft().tell(LEAVE)
        if self._old and self._next is None:
            self._next = self._start()
