"""`Runnable.batch(…, executor=…)`: a list in, a list out, on an executor's workers; no store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from foldline._io import IO
from foldline.batches._executors import CHUNK, Executor, PortableTarget
from foldline.batches._targets.make import make_target
from foldline.exceptions import FoldlineError
from foldline.runnables.base import Runnable

__all__ = ["batch_on"]


async def batch_on(
    runnable: Runnable[Any, Any],
    inputs: Sequence[Any],
    executor: Executor,
    io: IO,
    *,
    secrets: Mapping[str, str] | None,
    limit: int | None,
    keep_errors: bool,
) -> list[Any]:
    """Run for each input on an executor, in groups; return the results in the order of the inputs."""
    target = make_target(runnable, None, None)
    portable = PortableTarget(target, executor, secrets or {}, limit or 16)
    texts = [(number, target.pack_input(value)) for number, value in enumerate(inputs)]
    finished = io.channel()
    futures = []
    for start in range(0, len(texts), CHUNK):
        future = portable.submit(texts[start : start + CHUNK])
        future.add_done_callback(finished.put)
        futures.append(future)
    results: list[Any] = [None] * len(texts)
    for _ in futures:
        for row in (await finished.get()).result():
            number, output, error = row[:3]
            if error is None:
                results[number] = target.unpack_output(output)
                continue
            failure = FoldlineError(f"input {number} failed on the executor: {error}")
            if not keep_errors:
                raise failure
            results[number] = failure
    return results
