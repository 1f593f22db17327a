"""`foldline serve` started again and again: one process has imported everything, and each server is a fork of it.

Run as `python -m tests.serve.forking ARGUMENTS…`; every line on its input starts a server, whose number it prints.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.serve.process import ROOT, ServeProcess


class ForkedServer(ServeProcess):
    """A server that starts in a fraction of a second; killed and started anew as often as one likes."""

    def __init__(self, folder: Path, apps: list[str]) -> None:
        super().__init__(folder, apps=apps, options=("--no-trace",))
        arguments = self.command[self.command.index("serve") + 1 :]
        self.errors = open(folder / f"stderr-{self.port}", "ab")  # noqa: SIM115  closed by `close`
        self._source = subprocess.Popen(
            [sys.executable, "-m", "tests.serve.forking", *arguments],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
        )
        self.pid = 0

    def start(self) -> ForkedServer:
        assert self._source.stdin is not None
        assert self._source.stdout is not None
        self._source.stdin.write(b"\n")
        self._source.stdin.flush()
        self.pid = int(self._source.stdout.readline())
        end = time.monotonic() + 60
        while not self._is_ready():
            assert time.monotonic() < end, self.stderr()
            time.sleep(0.02)
        return self

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        self._source.kill()
        self._source.communicate(timeout=20)
        self.errors.close()


def main() -> None:
    """Start a server for every line."""
    import uvicorn.protocols.http.httptools_impl  # noqa: F401  what a server imports when it starts

    import foldline.serve.app  # noqa: F401
    import tests.serve.served  # noqa: F401
    from foldline._cli.serve import serve

    port, log = (sys.argv[sys.argv.index(name) + 1] for name in ("--port", "--log"))
    targets = [argument for argument in sys.argv[1:] if "=" in argument]
    for _ in sys.stdin:
        pid = os.fork()
        if not pid:
            os._exit(
                serve(
                    targets,
                    models=[],
                    config=None,
                    flags={"port": port, "log": log, "traces": "none"},
                )
            )
        print(pid, flush=True)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
