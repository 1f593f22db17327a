"""`ShellSession`: one shell that stays open; each command is read to its end, its deadline, or the end of the shell.

One thread waits on both streams with a selector; a command that takes too long costs the session, which begins anew.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast
from uuid import uuid4

from foldline._io import mutex
from foldline.agents.middleware.execution import BaseExecutionPolicy

__all__ = ["CommandResult", "ShellSession"]

PIECE = 65_536


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What came of a command."""

    output: str
    exit_code: int | None
    """None where the command did not come to its end."""
    is_late: bool = False
    omitted_lines: int = 0
    omitted_bytes: int = 0


class ShellSession:
    """A shell that runs one command after another."""

    def __init__(
        self,
        workspace: Path,
        policy: BaseExecutionPolicy,
        command: Sequence[str],
        env: Mapping[str, str],
    ) -> None:
        self.workspace = workspace
        self._policy = policy
        self._command = list(command)
        self._env = dict(env)
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = mutex()

    def run(self, command: str, timeout: float | None = None) -> CommandResult:
        """Run a command in the shell, which is started where it does not run."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._stop()
                self._process = self._policy.spawn(
                    workspace=self.workspace, env=self._env, command=self._command
                )
            limit = self._policy.command_timeout if timeout is None else timeout
            result = self._read(self._process, command, time.monotonic() + limit)
            if result.exit_code is None:
                self._stop()
            return result

    def restart(self) -> None:
        """End the shell; the next command begins a new one."""
        self.stop()

    def stop(self) -> None:
        """End the shell and whatever it started."""
        with self._lock:
            self._stop()

    def _read(
        self, process: subprocess.Popen[bytes], command: str, deadline: float
    ) -> CommandResult:
        mark = f"__end_{uuid4().hex}__"
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        lines = f"{command}\nprintf '\\n{mark} %s\\n' \"$?\"\nprintf '{mark}\\n' >&2\n"
        try:
            process.stdin.write(lines.encode())
            process.stdin.flush()
        except OSError:  # it ended before it was asked
            return CommandResult("", None)
        ends = {process.stdout: f"\n{mark} ".encode(), process.stderr: f"{mark}\n".encode()}
        received = _listen(ends, deadline)
        out, is_done = _before(received[process.stdout], ends[process.stdout])
        err, _ = _before(received[process.stderr], ends[process.stderr])
        code = None
        if is_done:
            tail = bytes(received[process.stdout]).partition(ends[process.stdout])[2]
            code = int(tail.split()[0])
        # A shell that ended closes its streams a moment before it can be waited for: the clock decides, not `poll`.
        is_late = not is_done and time.monotonic() >= deadline
        return self._result(out, err, code, is_late=is_late)

    def _result(self, out: str, err: str, code: int | None, *, is_late: bool) -> CommandResult:
        marked = [f"[stderr] {line}" for line in err.splitlines()]
        lines = [*out.splitlines(), *marked]
        first_lines = lines[: self._policy.max_output_lines]
        text, omitted = "\n".join(first_lines), 0
        most = self._policy.max_output_bytes
        if most is not None and len(text.encode()) > most:
            omitted = len(text.encode()) - most
            text = text.encode()[:most].decode(errors="ignore")
        return CommandResult(text, code, is_late, len(lines) - len(first_lines), omitted)

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        for end in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                _signal(process, end)
            with suppress(subprocess.TimeoutExpired):
                process.wait(self._policy.termination_timeout if end is signal.SIGTERM else None)
                break
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal the shell's own group, or the shell alone where it shares ours."""
    try:
        group = os.getpgid(process.pid)
    except ProcessLookupError:
        return
    if group == os.getpgid(0):
        process.send_signal(number)
    else:
        os.killpg(group, number)


def _listen(ends: Mapping[IO[bytes], bytes], deadline: float) -> dict[IO[bytes], bytearray]:
    """Read each stream up to its end mark, until it is closed, or until the deadline."""
    received = {stream: bytearray() for stream in ends}
    with selectors.DefaultSelector() as selector:
        for stream in ends:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map() and (seconds := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(seconds):
                ready = cast("IO[bytes]", key.fileobj)
                piece = os.read(ready.fileno(), PIECE)
                received[ready] += piece
                end = ends[ready]
                tail = bytes(received[ready][-len(piece) - 200 :])
                _, mark, after = tail.partition(end)
                if not piece or (mark and (end.endswith(b"\n") or b"\n" in after)):
                    selector.unregister(ready)
    return received


def _before(received: bytearray, end: bytes) -> tuple[str, bool]:
    text, mark, _ = bytes(received).partition(end)
    return text.decode(errors="replace"), bool(mark)
