"""Functions that workers of an executor import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def shout(text: str) -> str:
    return text.upper()


def fail_on_b(text: str) -> str:
    if text == "b":
        raise ValueError("no b")
    return text


def key_of_worker(name: str) -> str:
    return os.environ.get(name, "none")


def fail(text: str) -> str:
    raise ValueError(f"no {text}")


def die(text: str) -> str:
    """Kill the worker."""
    os.kill(os.getpid(), signal.SIGKILL)
    return text


def die_once(text: str) -> str:
    """Kill the worker at one item, the first time that any worker comes to it."""
    word, _, folder = text.partition("|")
    mark = Path(folder, "died")
    if word == "x400" and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.0005)
    return word.upper()
