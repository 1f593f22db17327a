"""Tracers for a terminal: print every run with its inputs and outputs, through any function that takes a string."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from foldline.callbacks.stdout import get_colored_text
from foldline.tracers.base import BaseTracer
from foldline.tracers.schemas import Run

__all__ = ["ConsoleCallbackHandler", "FunctionCallbackHandler", "elapsed", "try_json_stringify"]

MILLISECONDS_PER_SECOND = 1000
WORDS = {"llm": "LLM", "chain": "Chain", "tool": "Tool", "retriever": "Retriever"}
"""Kind of run -> how it is printed; others (prompts, parsers) are printed as chains."""


def try_json_stringify(obj: object, fallback: str) -> str:
    """Return a value as JSON, or the fallback if it has no JSON form."""
    try:
        return json.dumps(obj, indent=2, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return fallback


def elapsed(run: Run) -> str:
    """Return how long a run took, for people: `12ms`, `1.50s`."""
    if run.end_time is None:
        return "still running"
    seconds = (run.end_time - run.start_time).total_seconds()
    return f"{seconds:.2f}s" if seconds >= 1 else f"{seconds * MILLISECONDS_PER_SECOND:.0f}ms"


def _bold(text: str) -> str:
    return f"\033[1m{text}\033[0m"


class FunctionCallbackHandler(BaseTracer):
    """Passes a sentence about every run that starts, ends or fails to a function."""

    name: str = "function_callback_handler"

    def __init__(self, function: Callable[[str], Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.function_callback = function

    def _persist_run(self, run: Run) -> None:
        """Nothing to do: everything was printed."""

    def get_parents(self, run: Run) -> list[Run]:
        """The runs above, nearest first."""
        parents = []
        while (parent := run.parent_run) is not None:
            parents.append(parent)
            run = parent
        return parents

    def get_breadcrumbs(self, run: Run) -> str:
        """The way from the root to a run: `chain:RunnableSequence > llm:ChatOpenAI`."""
        return " > ".join(
            f"{ancestor.run_type}:{ancestor.name}"
            for ancestor in [*reversed(self.get_parents(run)), run]
        )

    def _start(self, run: Run) -> None:
        kind = WORDS.get(run.run_type, run.run_type.capitalize())
        self._say(
            run, "start", "green", "", f"Entering {kind} run with input:", run.inputs, "[inputs]"
        )

    def _end(self, run: Run) -> None:
        kind = WORDS.get(run.run_type, run.run_type.capitalize())
        duration = f"[{elapsed(run)}] "
        self._say(
            run,
            "end",
            "blue",
            duration,
            f"Exiting {kind} run with output:",
            run.outputs,
            "[outputs]",
        )

    def _error(self, run: Run) -> None:
        kind = WORDS.get(run.run_type, run.run_type.capitalize())
        duration = f"[{elapsed(run)}] "
        self._say(
            run, "error", "red", duration, f"{kind} run errored with error:", run.error, "[error]"
        )

    def _say(
        self,
        run: Run,
        what: str,
        color: str,
        duration: str,
        sentence: str,
        value: object,
        fallback: str,
    ) -> None:
        told_as = run.run_type if run.run_type in WORDS else "chain"
        mark = get_colored_text(f"[{told_as}/{what}]", color)
        where = _bold(f"[{self.get_breadcrumbs(run)}] {duration}{sentence}")
        self.function_callback(f"{mark} {where}\n{try_json_stringify(value, fallback)}")

    _on_chain_start = _on_llm_start = _on_chat_model_start = _on_tool_start = (
        _on_retriever_start
    ) = _start
    _on_chain_end = _on_llm_end = _on_tool_end = _on_retriever_end = _end
    _on_chain_error = _on_llm_error = _on_tool_error = _on_retriever_error = _error


class ConsoleCallbackHandler(FunctionCallbackHandler):
    """Prints every run that begins, ends or fails."""

    name: str = "console_callback_handler"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(function=_print, **kwargs)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
