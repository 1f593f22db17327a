"""A process that measures scenarios for one side, a round whenever it is asked: imports are paid once.

Reads lines of JSON from standard input. One that names a scenario, the side and the options makes it ready; an empty
object asks for a round of it, which is answered with one number. It runs under foldline's interpreter and the peers'.
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
    run, measure = None, ""
    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        answer: Any
        try:
            if order:
                run, measure = make_run(order), order["measure"]
                measured(run, measure)  # the first round warms up
                answer = {"ready": True}
            else:
                answer = {"value": measured(run, measure)}
        except Exception as error:  # noqa: BLE001  the answer says it
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def make_run(order: dict[str, Any]) -> Any:
    """Return the run of a scenario."""
    module, name = order["scenario"].split(".")
    make = getattr(import_module(f"benchmarks.{module}"), name)
    return make(order["side"], **order["options"])


LEAST = 0.1
"""Seconds a round lasts at least: a process that slept runs its first milliseconds slowly, whoever it measures."""


def measured(run: Any, measure: str) -> float:
    """Do one round: microseconds per unit, or for "value" the number that the run gives."""
    gc.collect()
    if measure == "value":
        return float(run())
    clock = time.process_time if measure == "cpu" else time.perf_counter
    start, units = clock(), 0
    while not units or clock() - start < LEAST:
        units += run()
    return (clock() - start) / units * 1e6


if __name__ == "__main__":
    serve()
