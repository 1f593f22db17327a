"""A handler that prints what chains, tools and agents do, for people who watch a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TextIO

from foldline.callbacks.base import BaseCallbackHandler

if TYPE_CHECKING:
    from foldline.outputs.agent import AgentAction, AgentFinish

__all__ = ["StdOutCallbackHandler"]

COLOURS = {"blue": "36;1", "yellow": "33;1", "pink": "38;5;200", "green": "32;1", "red": "31;1"}
"""Names of LangChain's colors -> the terminal's codes for them."""


def get_colored_text(text: str, color: str) -> str:
    """Return a text in a terminal color; with an unknown color, the text itself."""
    code = COLOURS.get(color)
    return f"\u001b[{code}m\033[1;3m{text}\u001b[0m" if code else text


def print_text(
    text: str, color: str | None = None, end: str = "", file: TextIO | None = None
) -> None:
    """Write a text, in a color if one is named, to a file or to standard output."""
    out = file or sys.stdout
    out.write(f"{get_colored_text(text, color) if color else text}{end}")
    out.flush()


def name_of(serialized: dict[str, Any] | None, kwargs: dict[str, Any]) -> str:
    """Return the name of a run: that of the call, or that of its class."""
    if kwargs.get("name"):
        return str(kwargs["name"])
    if serialized:
        return str(serialized.get("name") or (serialized.get("id") or ["<unknown>"])[-1])
    return "<unknown>"


class StdOutCallbackHandler(BaseCallbackHandler):
    """Prints chains as they begin and end, tool results and agents' thoughts.

    ```python
    from foldline.callbacks import StdOutCallbackHandler

    StdOutCallbackHandler().on_text("thinking\\n")
    #> thinking
    ```
    """

    def __init__(self, color: str | None = None) -> None:
        """Choose the color of agent and tool output: blue, yellow, pink, green or red."""
        self.color = color

    def _write(self, text: str, color: str | None = None, end: str = "") -> None:
        print_text(text, color or self.color, end)

    def on_chain_start(
        self, serialized: dict[str, Any] | None, inputs: object, **kwargs: Any
    ) -> None:
        """Print the name of a chain that starts."""
        print_text(
            f"\n\n\033[1m> Entering new {name_of(serialized, kwargs)} chain...\033[0m", end="\n"
        )

    def on_chain_end(self, outputs: object, **kwargs: object) -> None:
        """Print that a chain has ended."""
        print_text("\n\033[1m> Finished chain.\033[0m", end="\n")

    def on_agent_action(self, action: AgentAction, color: str | None = None, **kwargs: Any) -> None:
        """Write why an agent chose a tool."""
        self._write(action.log, color)

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
            print_text(f"\n{observation_prefix}")
        self._write(str(output), color)
        if llm_prefix is not None:
            print_text(f"\n{llm_prefix}")

    def on_text(self, text: str, color: str | None = None, end: str = "", **kwargs: Any) -> None:
        """Write a text."""
        self._write(text, color, end)

    def on_agent_finish(self, finish: AgentFinish, color: str | None = None, **kwargs: Any) -> None:
        """Write an agent's last words."""
        self._write(finish.log, color, end="\n")
