"""A process that measures one scenario for one side, a round whenever it is asked: imports are paid once.

Reads lines of JSON from standard input. The first names the scenario, the side and the options; every further line
asks for a round, which is answered with one number. It runs under foldline's interpreter and under the peers'.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from importlib import import_module
from typing import Any


def serve() -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not be taken for an answer
    asked = json.loads(sys.stdin.readline())
    module, name = asked["scenario"].split(".")
    try:
        make = getattr(import_module(f"benchmarks.{module}"), name)
        run = make(asked["side"], **asked["options"])
        measured(run, asked["measure"])  # the first round warms up
        answer: Any = {"ready": True}
    except Exception as error:  # noqa: BLE001  told to whoever asked
        answer = {"error": f"{type(error).__name__}: {error}"}
    while True:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        if not sys.stdin.readline():
            return
        try:
            answer = {"value": measured(run, asked["measure"])}
        except Exception as error:  # noqa: BLE001
            answer = {"error": f"{type(error).__name__}: {error}"}


LEAST = 0.1
"""Seconds a round lasts at least: a process that slept runs its first milliseconds slowly, whoever it measures."""


def measured(run: Any, measure: str) -> float:
    """Do one round: microseconds per unit, or for "value" the number that the run gives."""
    gc.collect()
    if measure == "value":
        return float(run())
    clock = time.process_time if measure == "cpu" else time.perf_counter
    begin, units = clock(), 0
    while not units or clock() - begin < LEAST:
        units += run()
    return (clock() - begin) / units * 1e6


if __name__ == "__main__":
    serve()
