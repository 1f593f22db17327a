"""Where the shell of an agent runs, and its bounds: on this machine, or in a container of Docker."""

from __future__ import annotations

import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from foldline.exceptions import UsageError

__all__ = [
    "DockerExecutionPolicy",
    "HostExecutionPolicy",
]


@dataclass
class BaseExecutionPolicy(ABC):
    """How long commands may take and how much of their output is kept."""

    command_timeout: float = 30.0
    startup_timeout: float = 30.0
    termination_timeout: float = 10.0
    max_output_lines: int = 100
    max_output_bytes: int | None = None

    def __post_init__(self) -> None:
        """Raise UsageError where a bound is none."""
        if self.max_output_lines <= 0:
            raise UsageError("max_output_lines must be 1 or more")

    @abstractmethod
    def spawn(
        self, *, workspace: Path, env: Mapping[str, str], command: Sequence[str]
    ) -> subprocess.Popen[bytes]:
        """Start the shell."""


@dataclass
class HostExecutionPolicy(BaseExecutionPolicy):
    """Run the shell as a process of this machine: it can do whatever this user can."""

    cpu_time_seconds: int | None = None
    memory_bytes: int | None = None
    create_process_group: bool = True

    def spawn(
        self, *, workspace: Path, env: Mapping[str, str], command: Sequence[str]
    ) -> subprocess.Popen[bytes]:
        """Start the shell, with the bounds of its memory and time set before it reads a command."""
        process = _start(command, workspace, env, is_group=self.create_process_group)
        if self.cpu_time_seconds is not None or self.memory_bytes is not None:
            try:
                self._bound(process.pid)
            except BaseException:
                process.kill()
                process.wait()
                raise
        return process

    def _bound(self, pid: int) -> None:
        if sys.platform != "linux":
            raise UsageError("cpu_time_seconds and memory_bytes can be bounded on Linux only")
        import resource  # noqa: PLC0415  POSIX only

        if self.cpu_time_seconds is not None:
            bound = (self.cpu_time_seconds, self.cpu_time_seconds)
            resource.prlimit(pid, resource.RLIMIT_CPU, bound)
        if self.memory_bytes is not None:
            resource.prlimit(pid, resource.RLIMIT_AS, (self.memory_bytes, self.memory_bytes))


@dataclass
class DockerExecutionPolicy(BaseExecutionPolicy):
    """Run the shell in a container of its own, without a network unless asked for."""

    binary: str = "docker"
    image: str = "python:3.12-alpine3.19"
    remove_container_on_exit: bool = True
    network_enabled: bool = False
    extra_run_args: Sequence[str] | None = None
    memory_bytes: int | None = None
    cpus: str | None = None
    read_only_rootfs: bool = False
    user: str | None = None

    def spawn(
        self, *, workspace: Path, env: Mapping[str, str], command: Sequence[str]
    ) -> subprocess.Popen[bytes]:
        """Start the container."""
        if shutil.which(self.binary) is None:
            raise UsageError(
                f"DockerExecutionPolicy needs the program {self.binary!r}, which is not on PATH: install Docker, or "
                "use HostExecutionPolicy inside a machine that you can lose"
            )
        return _start(self.arguments(workspace, env, command), workspace, None, is_group=True)

    def arguments(
        self, workspace: Path, env: Mapping[str, str], command: Sequence[str]
    ) -> list[str]:
        """Return the command line that starts the container; the workspace is mounted where it is."""
        line = [self.binary, "run", "-i", "-v", f"{workspace}:{workspace}", "-w", str(workspace)]
        line += ["--rm"] if self.remove_container_on_exit else []
        line += [] if self.network_enabled else ["--network", "none"]
        line += ["--read-only"] if self.read_only_rootfs else []
        options = {
            "--memory": None if self.memory_bytes is None else str(self.memory_bytes),
            "--cpus": self.cpus,
            "--user": self.user,
        }
        for name, value in options.items():
            line += [] if value is None else [name, value]
        for name, value in env.items():
            line += ["-e", f"{name}={value}"]
        return [*line, *(self.extra_run_args or ()), self.image, *command]


def _start(
    command: Sequence[str], workspace: Path, env: Mapping[str, str] | None, *, is_group: bool
) -> subprocess.Popen[bytes]:
    if sys.platform == "win32":
        raise UsageError(
            "the shell of an agent needs a POSIX system: use DockerExecutionPolicy in WSL"
        )
    pipe = subprocess.PIPE
    return subprocess.Popen(
        list(command), cwd=workspace, env=env, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=is_group
    )  # fmt: skip
