"""Two ways to run the command: `foldline(...)` in this process, quick; `terminal(...)` in a real pseudo-terminal."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from foldline._cli.start import start

ROOT = Path(__file__).parents[2]
PATIENCE = 40.0
"""Seconds; the machine may be busy."""
OWN = "py:tests.cli.scripted:"


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch) -> Path:
    """Nothing of the user's is read or written."""
    monkeypatch.setenv("FOLDLINE_DATA_DIR", str(tmp_path / "data"))
    for name in ("FOLDLINE_MODEL", "FOLDLINE_TRACES", "FOLDLINE_DEBUG", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(ROOT)
    return tmp_path


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def foldline(capsys, monkeypatch) -> Callable[..., Outcome]:
    """Run a command in this process, stdout no terminal."""

    def run(*arguments: str, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = start(arguments)
        output = capsys.readouterr()
        return Outcome(int(code), output.out, output.err)

    return run


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "foldline", *arguments]


class Terminal:
    """A process whose terminal we are."""

    def __init__(self, arguments: list[str], env: dict[str, str]) -> None:
        self.text = ""
        self._master, slave = pty.openpty()
        self.resize(24, 80, tell=False)
        self.process = subprocess.Popen(
            arguments,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=env,
            cwd=ROOT,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)

    def wait_for(self, text: str, after: int = 0) -> int:
        """Read until a text was shown; gives the place after it."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.text[after:]:
            assert self._read(deadline), f"{text!r} never came; there was {self.text!r}"
        return self.text.index(text, after) + len(text)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0, deadline - time.monotonic()))
        try:
            data = os.read(self._master, 65536) if ready else b""
        except OSError:  # the other side is gone
            return False
        self.text += data.decode("utf-8", "replace")
        return bool(data)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.type("\x03")

    def resize(self, rows: int, columns: int, *, tell: bool = True) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if tell:
            os.kill(self.process.pid, signal.SIGWINCH)

    def end(self) -> int:
        """Read the rest and give the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)


@pytest.fixture
def terminal(own_folders) -> Iterator[Callable[..., Terminal]]:
    terminals: list[Terminal] = []

    def open_(*arguments: str, **variables: str) -> Terminal:
        env = {**os.environ, "TERM": "xterm-256color", **variables}
        terminals.append(Terminal(command(*arguments), env))
        return terminals[-1]

    yield open_
    for terminal in terminals:
        terminal.close()


def run_process(*arguments: str, stdin: Any = subprocess.DEVNULL, **variables: str) -> Any:
    return subprocess.run(
        command(*arguments),
        stdin=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        cwd=ROOT,
        env={**os.environ, **variables},
        timeout=PATIENCE,
        check=False,
    )
