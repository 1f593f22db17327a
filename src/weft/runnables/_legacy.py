"""Classes written for LangChain: they override `invoke`, `stream` and friends instead of `_once` and `_pieces`.

`adopt` looks once, when a class is made, at who is nearer in its ancestry: a hand-written public method or one of our
behaviours. Where the public method is nearer, a parent's step calls it. The public methods of `Runnable` itself never
go through a step, so `super().invoke()` inside an override does not come back to the override.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import cache
from typing import Any

from weft._run import Run
from weft.exceptions import BlockingCallError

ONCE = ("_once", "_traced", "invoke", "ainvoke")
PIECES = ("_pieces", "_traced_stream", "_once", "_traced", "stream", "astream", "invoke", "ainvoke")
FLOW = ("_flow", "_traced_transform", "_pieces", "_traced_stream", "_once", "_traced", "transform", "atransform")


def adopt(cls: type[Any]) -> None:
    """Choose how parents run instances of a new class."""
    once = _nearest(cls, ONCE)
    if getattr(cls._traced, "_adopted", False):
        cls._traced = next(
            one for ancestor in cls.__mro__[1:]
            if (one := ancestor.__dict__.get("_traced")) and not getattr(one, "_adopted", False)
        )
    pieces, flow = _nearest(cls, PIECES), _nearest(cls, FLOW)
    cls._step = _call_public if once in ("invoke", "ainvoke") else cls._traced
    if pieces in ("stream", "astream", "invoke", "ainvoke"):
        by_hand = _nearest(cls, ("stream", "astream")) is not None and pieces in ("stream", "astream")
        cls._step_stream = _stream_public if by_hand else _stream_once
    else:
        cls._step_stream = cls._traced_stream
    if flow in ("transform", "atransform"):
        cls._step_transform = _transform_public
    elif cls._step_stream in (_stream_public, _stream_once):
        cls._step_transform = _transform_by_stream
    else:
        cls._step_transform = cls._traced_transform
    if once in ("invoke", "ainvoke") and "_once" not in _own_names(cls):
        # Only the public methods were written: the twin that was not is derived from the one that was.
        cls._traced = _twin


@cache
def _own_names(cls: type[Any]) -> set[str]:
    """Names defined below `Runnable` in the ancestry of a class."""
    names: set[str] = set()
    for ancestor in cls.__mro__:
        if ancestor.__module__ == "weft.runnables.base" and ancestor.__name__ == "Runnable":
            break
        names |= ancestor.__dict__.keys()
    return names


def _nearest(cls: type[Any], names: tuple[str, ...]) -> str | None:
    """Give the name that the nearest ancestor below `Runnable` defines."""
    for ancestor in cls.__mro__:
        if ancestor.__module__ == "weft.runnables.base" and ancestor.__name__ == "Runnable":
            return None
        for name in names:
            if name in ancestor.__dict__ and not getattr(ancestor.__dict__[name], "_adopted", False):
                return name
    return None


def _adopted(function: Callable[..., Any]) -> Callable[..., Any]:
    function._adopted = True  # type: ignore[attr-defined]
    return function


@_adopted
async def _call_public(self: Any, input: Any, run: Run) -> Any:  # noqa: A002, ANN401
    names = _own_names(type(self))
    wanted = "invoke" if run.io.blocking else "ainvoke"
    if wanted not in names:
        return await self._traced(input, run)
    return await run.io.call(getattr(self, wanted), input, run.own_config(), **run.kwargs)


@_adopted
async def _twin(self: Any, input: Any, run: Run) -> Any:  # noqa: A002, ANN401
    names = _own_names(type(self))
    if "invoke" in names and not run.io.blocking:
        return await run.io.call(self.invoke, input, run.own_config(), **run.kwargs)
    if "ainvoke" in names and run.io.blocking and "invoke" not in names:
        raise BlockingCallError(f"{type(self).__name__} implements only `ainvoke`: use ainvoke or astream")
    return await self._once(input, run)


@_adopted
async def _stream_once(self: Any, input: Any, run: Run) -> AsyncGenerator[Any, None]:  # noqa: A002, ANN401
    yield await self._step(input, run)


@_adopted
async def _stream_public(self: Any, input: Any, run: Run) -> AsyncGenerator[Any, None]:  # noqa: A002, ANN401
    names = _own_names(type(self))
    if not run.io.blocking and "astream" in names:
        pieces = self.astream(input, run.own_config(), **run.kwargs)
    elif "stream" in names:
        pieces = self.stream(input, run.own_config(), **run.kwargs)
    else:
        raise BlockingCallError(f"{type(self).__name__} implements only `astream`: use astream")
    async with aclosing(run.io.each(pieces)) as outputs:
        async for output in outputs:
            yield output


@_adopted
async def _transform_public(
    self: Any, inputs: AsyncGenerator[Any, None], run: Run  # noqa: ANN401
) -> AsyncGenerator[Any, None]:
    names = _own_names(type(self))
    if run.io.blocking:
        from weft._drive import drive_each  # noqa: PLC0415

        pieces = self.transform(drive_each(inputs), run.own_config(), **run.kwargs)
    elif "atransform" in names:
        pieces = self.atransform(inputs, run.own_config(), **run.kwargs)
    else:
        async with aclosing(_transform_by_stream(self, inputs, run)) as outputs:
            async for output in outputs:
                yield output
        return
    async with aclosing(run.io.each(pieces)) as outputs:
        async for output in outputs:
            yield output


@_adopted
async def _transform_by_stream(
    self: Any, inputs: AsyncGenerator[Any, None], run: Run  # noqa: ANN401
) -> AsyncGenerator[Any, None]:
    from weft.runnables._trace import NOTHING, add_up  # noqa: PLC0415

    whole = await add_up(inputs)
    if whole is NOTHING:
        return
    async with aclosing(self._step_stream(whole, run)) as outputs:
        async for output in outputs:
            yield output
