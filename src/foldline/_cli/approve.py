"""`--ask`: a person approves each tool call."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from foldline._cli.terminal import clean, is_terminal, note
from foldline.exceptions import UsageError
from foldline.utils.json import to_jsonable

__all__ = ["Approval"]


class Approval:
    """Asks at the terminal; "a" lets a tool run for the rest of the session."""

    def __init__(self) -> None:
        if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
            raise UsageError(
                "--ask needs a terminal to ask at; without one, leave --ask or the tools out"
            )
        self._allowed: set[str] = set()

    def __call__(self, call: Mapping[str, Any]) -> str | None:
        """Return None where the call may run, else the reason, which is sent to the model."""
        if call["name"] in self._allowed:
            return None
        arguments = json.dumps(to_jsonable(call["args"]), ensure_ascii=False)
        note(
            f"run {call['name']}({clean(arguments)})? [y]es, [n]o, [a]lways, or why not: ",
            end="",
            style="yellow",
        )
        answer = sys.stdin.readline().strip()
        if answer.lower() in ("a", "always"):
            self._allowed.add(call["name"])
        if answer.lower() in ("y", "yes", "a", "always"):
            return None
        reason = f": {answer}" if answer.lower() not in ("", "n", "no") else ""
        return f"the user did not allow this call{reason}"
