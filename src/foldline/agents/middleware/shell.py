"""`ShellToolMiddleware`: a tool with which the model runs commands in a shell that stays open for the run."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NotRequired

from foldline._io import mutex
from foldline._run import Run
from foldline.agents.middleware._shell_session import CommandResult, ShellSession
from foldline.agents.middleware.base import AgentMiddleware, State, Update
from foldline.agents.middleware.execution import BaseExecutionPolicy, HostExecutionPolicy
from foldline.agents.middleware.pii import RedactionRule
from foldline.agents.runtime import Runtime, ToolRuntime
from foldline.agents.state import AgentState, PrivateStateAttr
from foldline.exceptions import UsageError
from foldline.tools import tool
from foldline.utils._options import check_options
from foldline.utils.uuid import new_id

__all__ = [
    "ShellToolMiddleware",
]

DESCRIPTION = (
    "Run a command in a shell that stays open: the folder, the variables and the functions of one command are there "
    "for the next. Give `command`, or `restart: true` for a new shell. Long output is cut, and a command that takes "
    "too long is ended together with the shell: do not run what waits for input."
)


class ShellToolState(AgentState):
    """The state of an agent that has a shell."""

    shell_session: NotRequired[Annotated[str, PrivateStateAttr]]
    """Which of the middleware's sessions this run has."""


@dataclass(slots=True)
class _Open:
    session: ShellSession
    folder: tempfile.TemporaryDirectory[str] | None


class ShellToolMiddleware(AgentMiddleware):
    """Gives the model a shell; where it runs and what it may cost says `execution_policy`.

    A session begins with the run and ends with it; one that a failed run left open ends with the next run of its
    thread, with `close()`, or with the middleware.
    """

    state_schema = ShellToolState

    @check_options()
    def __init__(
        self,
        workspace_root: str | Path | None = None,
        *,
        startup_commands: Sequence[str] | str | None = None,
        shutdown_commands: Sequence[str] | str | None = None,
        execution_policy: BaseExecutionPolicy | None = None,
        redaction_rules: Sequence[RedactionRule] | None = None,
        tool_description: str | None = None,
        tool_name: str = "shell",
        shell_command: Sequence[str] | str | None = None,
        env: Mapping[str, Any] | None = None,
    ) -> None:
        """Say where commands run; without `workspace_root` in a folder that is removed at the end."""
        self._root = None if workspace_root is None else Path(workspace_root)
        self._first, self._last = _listed(startup_commands), _listed(shutdown_commands)
        self._policy = execution_policy or HostExecutionPolicy()
        self._rules = list(redaction_rules or ())
        self._command = _listed(shell_command) or ["/bin/bash"]
        variables = os.environ if env is None else env
        self._env = {str(name): str(value) for name, value in variables.items()}
        self._open: dict[str, _Open] = {}
        self._lock = mutex()
        weakref.finalize(self, _close_all, self._open)

        @tool(tool_name, description=tool_description or DESCRIPTION)
        def shell(
            runtime: ToolRuntime[Any], command: str | None = None, *, restart: bool = False
        ) -> str:
            if (command is None) is not restart:
                return "Give command, or restart: true, and not both."
            session = self._session(runtime.state.get("shell_session") or "").session
            if command is None:
                session.restart()
                return "The shell was restarted."
            return self._describe(session.run(command))

        self.tools = [shell]

    def close(self) -> None:
        """End all sessions."""
        _close_all(self._open)

    async def _before_agent(self, state: State, runtime: Runtime[Any], run: Run) -> Update:
        await run.io.call(self._end, state.get("shell_session"))
        id = new_id()
        await run.io.call(self._session, id)
        return {"shell_session": id}

    async def _after_agent(self, state: State, runtime: Runtime[Any], run: Run) -> Update:
        await run.io.call(self._end, state.get("shell_session"))
        return None

    def _session(self, id: str) -> _Open:
        """Return the session of a run; one that goes on in another process begins a new one."""
        with self._lock:
            session = self._open.get(id)
            if session is None:
                session = self._open[id] = self._begin()
            return session

    def _begin(self) -> _Open:
        folder = None if self._root is not None else tempfile.TemporaryDirectory(prefix="shell-")
        workspace = Path(folder.name) if folder is not None else self._root
        assert workspace is not None
        workspace.mkdir(parents=True, exist_ok=True)
        session = ShellSession(workspace, self._policy, self._command, self._env)
        for command in self._first:
            result = session.run(command, self._policy.startup_timeout)
            if result.exit_code != 0:
                _close(_Open(session, folder))
                raise UsageError(
                    f"the startup command {command!r} of the shell ended with {result.exit_code}: {result.output:.200}"
                )
        return _Open(session, folder)

    def _end(self, id: str | None) -> None:
        with self._lock:
            session = self._open.pop(id, None) if id else None
        if session is None:
            return
        for command in self._last:
            session.session.run(command)
        _close(session)

    def _describe(self, result: CommandResult) -> str:
        text = result.output
        for rule in self._rules:
            text = rule.apply(text)
        notes = []
        if result.omitted_lines:
            notes.append(f"{result.omitted_lines} more lines were left out.")
        if result.omitted_bytes:
            notes.append(f"{result.omitted_bytes} more bytes were left out.")
        if result.is_late:
            most = f"{self._policy.command_timeout:g} seconds"
            notes.append(f"The command took more than {most}; the shell was restarted.")
        elif result.exit_code is None:
            notes.append("The shell ended; the next command begins a new one.")
        elif result.exit_code:
            notes.append(f"Exit code: {result.exit_code}")
        return "\n".join([text or "<no output>", *notes])


def _listed(variables: Sequence[str] | str | None) -> list[str]:
    return [variables] if isinstance(variables, str) else list(variables or ())


def _close(session: _Open) -> None:
    session.session.stop()
    if session.folder is not None:
        session.folder.cleanup()


def _close_all(sessions: dict[str, _Open]) -> None:
    while sessions:
        _close(sessions.popitem()[1])
