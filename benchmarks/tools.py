"""How long a call of a tool takes, ours beside LangChain's, measured in turn by the same functions, in CPU time.

    python benchmarks/tools.py --peer path/to/python

Every measure is a function of a package name (`weft` or `langchain_core`) and gives seconds per call. The peer runs in
a process of its own, with the interpreter that has it.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

ROUNDS = 7
CALLS = 1000
LIMITS = {
    "dict": 5,
    "tool_call": 5,
    "invalid": 5,
    "async_tool_call": 5,
    "subclass": 5,
    "make": 1,
    "describe": 1,
}
"""Measure -> how many times faster than the peer it must be."""
CALL = {"type": "tool_call", "name": "add", "args": {"a": 1, "b": 2}, "id": "call_1"}


def best(operation: Callable[[], Any], count: int = CALLS) -> float:
    """CPU seconds per operation in the best of several rounds."""
    operation()
    times = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        for _ in range(count):
            operation()
        times.append(time.process_time() - begin)
    return min(times) / count


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


async def aadd(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def _tools(package: str) -> Any:
    return importlib.import_module(f"{package}.tools")


def dict_(package: str) -> float:
    """A call with arguments."""
    made = _tools(package).tool(add)
    return best(lambda: made.invoke({"a": 1, "b": 2}))


def tool_call(package: str) -> float:
    """A call as a model makes it, answered by a message."""
    made = _tools(package).tool(add)
    return best(lambda: made.invoke(CALL))


def invalid(package: str) -> float:
    """A call whose arguments do not fit, answered by a message."""
    made = _tools(package).StructuredTool.from_function(add, handle_validation_error=True)
    wrong = {**CALL, "args": {"a": "x"}}
    return best(lambda: made.invoke(wrong))


def async_tool_call(package: str) -> float:
    """An awaited call of an async function."""
    made = _tools(package).tool(aadd)

    async def many() -> None:
        for _ in range(CALLS):
            await made.ainvoke(CALL)

    return best(lambda: asyncio.run(many()), 1) / CALLS


def subclass(package: str) -> float:
    """A call of a subclass of BaseTool that wants its run manager."""

    class Adder(_tools(package).BaseTool):  # type: ignore[misc]
        name: str = "add"
        description: str = "Add two numbers."

        def _run(self, a: int, b: int = 2, run_manager: Any = None) -> int:
            return a + b

    made = Adder()
    return best(lambda: made.invoke({"a": 1, "b": 2}))


def make(package: str) -> float:
    """Making a tool of a function."""
    tool = _tools(package).tool
    return best(lambda: tool(add), 50)


def describe(package: str) -> float:
    """Describing it to a model, for the first time."""
    tool = _tools(package).tool
    convert = importlib.import_module(f"{package}.utils.function_calling").convert_to_openai_tool
    return best(lambda: convert(tool(add)), 50)


MEASURES = {
    "dict": dict_,
    "tool_call": tool_call,
    "invalid": invalid,
    "async_tool_call": async_tool_call,
    "subclass": subclass,
    "make": make,
    "describe": describe,
}


def measured(package: str, python: str) -> dict[str, float]:
    command = [python, __file__, "--json", package]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="PACKAGE", help="print the measures of one package")
    parser.add_argument("--peer", metavar="PYTHON", help="an interpreter that has langchain-core")
    options = parser.parse_args()
    if options.json:
        print(json.dumps({name: one(options.json) for name, one in MEASURES.items()}))
        return 0
    ours = measured("weft", sys.executable)
    theirs = measured("langchain_core", options.peer) if options.peer else {}
    slow = False
    for name, seconds in ours.items():
        line = f"{name:18} {seconds * 1e6:10.2f} µs"
        if name in theirs:
            ratio = theirs[name] / seconds
            slow |= ratio < LIMITS[name]
            line += f"   langchain-core {theirs[name] * 1e6:10.2f} µs   {ratio:5.1f} times"
        print(line)
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
