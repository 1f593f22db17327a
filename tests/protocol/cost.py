"""How a cost grows with its input, on a busy machine too: CPU time, no garbage collection, the best of a few tries."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def cpu_seconds(action: Callable[[], object]) -> float:
    """CPU seconds of one run."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        action()
        return time.process_time() - start
    finally:
        gc.enable()


def growth(prepare: Callable[[int], Callable[[], object]], size: int, factor: int = 2) -> float:
    """How many times more `factor` times as much costs: the least seen, since noise only adds."""
    ratios = []
    for _ in range(5):
        small = min(cpu_seconds(prepare(size)) for _ in range(2))
        ratios.append(min(cpu_seconds(prepare(size * factor)) for _ in range(2)) / small)
        if ratios[-1] <= factor * 1.1:
            break
    return min(ratios)
