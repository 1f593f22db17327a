"""Leaves signals to the main thread, where Python handles them.

One that is delivered to another thread does not end a wait of the main thread: a Ctrl-C would have no effect until that
ends. Linux does so if two signals arrive at once.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable

__all__ = ["SIGNALS", "block_signals", "restore_signals"]

SIGNALS = frozenset(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGWINCH", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGCHLD")
    if hasattr(signal, name)
)  # fmt: skip
"""Signals that belong to the main thread: not those of a fault, which belong to the thread that has it."""


def block_signals() -> Iterable[int]:
    """Have `SIGNALS` delivered to other threads than this one; return the signals that were blocked before."""
    if hasattr(signal, "pthread_sigmask"):
        return signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    return ()  # on Windows they are always the main thread's


def restore_signals(blocked: Iterable[int]) -> None:
    """Undo `block_signals` before a user's code runs: a process that it starts would inherit the blocked signals."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
