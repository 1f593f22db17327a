"""The last callback of a run: every handler hears it once, whatever the others do."""

from __future__ import annotations

from typing import Any

from weft._io import shield
from weft._run import Run
from weft.callbacks.dispatch import tell


async def tell_terminal(run: Run, event: str, *args: Any, **kwargs: Any) -> None:
    """Tell all handlers that a run is over; then raise what a handler with `raise_error` raised, if one did.

    An awaited call that is cancelled meanwhile still tells everybody.
    """
    if run.manager is None or run.id is None:
        return
    if run.io.blocking:
        await _tell_each(run, event, args, kwargs)
    else:
        await shield(_tell_each(run, event, args, kwargs))


async def _tell_each(run: Run, event: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    assert run.manager is not None
    first: Exception | None = None
    for handler in tuple(run.manager.handlers):
        try:
            await tell(
                run.io,
                [handler],
                event,
                *args,
                run_id=run.id,
                parent_run_id=run.manager.parent_run_id,
                tags=run.manager.tags,
                **kwargs,
            )
        except Exception as error:  # noqa: BLE001  it is raised again when all have heard
            first = first or error
    if first is not None:
        raise first
