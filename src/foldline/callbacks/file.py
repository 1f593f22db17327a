"""A handler that writes what chains, tools and agents do into a file. Writing to a closed handler is an error."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from foldline.callbacks.base import BaseCallbackHandler
from foldline.callbacks.stdout import get_colored_text, name_of
from foldline.exceptions import UsageError
from foldline.utils._private_files import open_private

if TYPE_CHECKING:
    from foldline.outputs.agent import AgentAction, AgentFinish

__all__ = ["FileCallbackHandler"]


class FileCallbackHandler(BaseCallbackHandler):
    """Writes chains, tool results and agents' thoughts into a file.

    ```python
    import tempfile
    from pathlib import Path
    from foldline.callbacks import FileCallbackHandler

    path = Path(tempfile.mkdtemp()) / "run.log"
    with FileCallbackHandler(path) as handler:
        handler.on_text("hello")
    print(path.read_text())
    #> hello
    ```
    """

    def __init__(self, filename: str | Path, mode: str = "a", color: str | None = None) -> None:
        """Open the file: `mode` "a" appends, "w" overwrites, "x" fails if the file exists."""
        self.filename: str = str(filename)
        self.mode = mode
        self.color = color
        self.file: IO[str] = open_private(filename, mode, encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; closing again does nothing."""
        self.file.close()

    def __del__(self) -> None:
        if hasattr(self, "file"):
            self.file.close()

    def _write(self, text: str, color: str | None = None, end: str = "") -> None:
        if self.file.closed:
            raise UsageError(
                f"{self.filename}: the file is closed. Use the handler inside `with FileCallbackHandler(...)`"
            )
        self.file.write(f"{get_colored_text(text, color) if color else text}{end}")
        self.file.flush()

    def on_chain_start(
        self, serialized: dict[str, Any] | None, inputs: object, **kwargs: Any
    ) -> None:
        """Write which chain begins."""
        self._write(f"\n\n> Entering new {name_of(serialized, kwargs)} chain...", end="\n")

    def on_chain_end(self, outputs: object, **kwargs: object) -> None:
        """Write that a chain is done."""
        self._write("\n> Finished chain.", end="\n")

    def on_agent_action(self, action: AgentAction, color: str | None = None, **kwargs: Any) -> None:
        """Write why an agent chose a tool."""
        self._write(action.log, color or self.color)

    def on_tool_end(
        self,
        output: object,
        color: str | None = None,
        observation_prefix: str | None = None,
        llm_prefix: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Write what a tool found."""
        if observation_prefix is not None:
            self._write(f"\n{observation_prefix}")
        self._write(str(output), color or self.color)
        if llm_prefix is not None:
            self._write(f"\n{llm_prefix}")

    def on_text(self, text: str, color: str | None = None, end: str = "", **kwargs: Any) -> None:
        """Write a text."""
        self._write(text, color or self.color, end)

    def on_agent_finish(self, finish: AgentFinish, color: str | None = None, **kwargs: Any) -> None:
        """Write an agent's last words."""
        self._write(finish.log, color or self.color, end="\n")
