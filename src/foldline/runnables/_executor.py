"""A batch that runs on the `executor` passed to it: in other processes or on other machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from foldline._config import Configs
from foldline._io import IO

if TYPE_CHECKING:
    from foldline.runnables.base import Runnable


async def batch_on(
    self: Runnable[Any, Any],
    inputs: Sequence[Any],
    config: Configs,
    io: IO,
    kwargs: dict[str, Any],
    *,
    keep_errors: bool,
) -> list[Any]:
    """Run each input on the `executor` passed to `batch`; the other arguments are bound."""
    from foldline.batches._executor_batch import batch_on as run  # noqa: PLC0415  of a layer above

    arguments = {
        name: value for name, value in kwargs.items() if name not in ("executor", "secrets")
    }
    limit = config.get("max_concurrency") if isinstance(config, Mapping) else None
    return await run(
        self.bind(**arguments) if arguments else self,
        inputs,
        kwargs["executor"],
        io,
        secrets=kwargs.get("secrets"),
        limit=limit,
        keep_errors=keep_errors,
    )
