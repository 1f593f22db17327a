"""Classes written for LangChain: they override `invoke`, `stream` and friends instead of `_once` and `_pieces`.

`adopt` looks once, when a class is made, at what is nearer in its ancestry: a hand-written public method or one of our
behaviours. The rules, which give what LangChain gives:

- A parent's step calls the hand-written method where that is nearer than our behaviour of the same kind.
- What was not written is derived from what was: `stream` from `invoke`, `transform` from `stream`, and an `a…` twin
  from the blocking method, in a thread. A streaming behaviour that is inherited stays, even if `invoke` was overridden.
- The public methods of `Runnable` never call their own override, so `super().invoke()` does not come back to it.
- A public method that is set on a class later (`mock.patch.object(Model, "invoke")`, a spy) is nearer than all else,
  until it is taken away: a program's own tests see every call, and no patched model is asked.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeAlias

from foldline._run import Run
from foldline.exceptions import BlockingCallError
from foldline.runnables import _trace

FAR = 1000
"""A place in the ancestry behind everything."""


BEHAVIOURS = {"_once", "_traced", "_pieces", "_traced_stream", "_flow", "_traced_transform"}
NAMES = BEHAVIOURS | {"invoke", "ainvoke", "stream", "astream", "transform", "atransform"}


PATCHABLE = {"invoke", "ainvoke", "stream", "astream", "transform", "atransform", "batch", "abatch"}

ByHand: TypeAlias = tuple[str | None, str | None]
"""Names of the hand-written methods that steps call, blocking and async; None where there is none."""

NOT_BY_HAND: ByHand = (None, None)


# -- choosing, once per class


def adopt(cls: type[Any]) -> None:
    """Choose how parents run instances of a new class, and how what it did not write is derived."""
    cls._written = frozenset(NAMES & cls.__dict__.keys())
    cls._own_methods = {name: cls.__dict__[name] for name in PATCHABLE & cls.__dict__.keys()}
    others = [base for base in cls.__mro__ if not hasattr(base, "_once_by_hand")]
    is_plain = not cls._written and not any(NAMES & base.__dict__.keys() for base in others)
    if is_plain and sum(hasattr(base, "_once_by_hand") for base in cls.__bases__) == 1:
        return  # all that its one parent of our kind has chosen
    _choose(cls)


def adopt_patch(cls: type[Any]) -> None:
    """Choose again for a class on which a public method was set or deleted, and for all classes below it."""
    _choose(cls)
    for below in cls.__subclasses__():
        adopt_patch(below)


def _choose(cls: type[Any]) -> None:
    once, pieces, flow = (
        _nearest(cls, "_once", "_traced"),
        _nearest(cls, "_pieces", "_traced_stream", "_flow", "_traced_transform"),
        _nearest(cls, "_flow", "_traced_transform"),
    )
    cls._once_by_hand = _by_hand(cls, "invoke", "ainvoke", once, lend=once == FAR)
    cls._pieces_by_hand = _by_hand(cls, "stream", "astream", pieces, lend=True)
    cls._flow_by_hand = _by_hand(cls, "transform", "atransform", flow, lend=True)
    has_once, has_pieces = any(cls._once_by_hand), any(cls._pieces_by_hand)

    cls._traced = _call_override if has_once and once == FAR else _inherited(cls, "_traced")
    derived = pieces == FAR and (has_once or has_pieces)
    cls._traced_stream = _stream_override if derived else _inherited(cls, "_traced_stream")
    derived = flow == FAR and ((has_once and pieces == FAR) or has_pieces)
    cls._traced_transform = (
        _transform_by_stream if derived else _inherited(cls, "_traced_transform")
    )

    cls._step = _call_public if has_once else cls._traced
    cls._step_stream = _stream_public if has_pieces else cls._traced_stream
    cls._step_transform = _transform_public if any(cls._flow_by_hand) else cls._traced_transform
    cls._has_patched_batch = _is_patched(cls, "batch") or _is_patched(cls, "abatch")
    if pieces == FAR and (_is_patched(cls, "invoke") or _is_patched(cls, "ainvoke")):
        cls._step_stream, cls._step_transform = _stream_override, _transform_by_stream
    elif _is_patched(cls, "stream") or _is_patched(cls, "astream"):
        cls._step_transform = _transform_by_stream


def _is_patched(cls: type[Any], name: str) -> bool:
    return any(
        name in ancestor.__dict__
        and ancestor.__dict__[name] is not ancestor.__dict__["_own_methods"].get(name)
        for ancestor in cls.__mro__
        if "_own_methods" in ancestor.__dict__
    )


def _nearest(cls: type[Any], *names: str) -> int:
    """Return the place of the nearest ancestor below `Runnable` that defines one of the names; FAR if none does."""
    for place, ancestor in enumerate(cls.__mro__):
        if ancestor.__module__ == "foldline.runnables.base" and ancestor.__name__ == "Runnable":
            return FAR
        if any(_defines(ancestor, name) for name in names):
            return place
    return FAR


def _defines(cls: type[Any], name: str) -> bool:
    """Whether the body of a class has a name; what `adopt` sets does not count."""
    return name in cls.__dict__.get("_written", cls.__dict__)


def _by_hand(cls: type[Any], blocking: str, awaited: str, behaviour: int, *, lend: bool) -> ByHand:
    """Say which public methods are nearer than our behaviour; `lend` lets the blocking one serve async calls."""
    nearer = [
        name if _is_patched(cls, name) or _nearest(cls, name) < behaviour else None
        for name in (blocking, awaited)
    ]
    return nearer[0], nearer[1] or (nearer[0] if lend else None)


def _inherited(cls: type[Any], name: str) -> object:
    return next(ancestor.__dict__[name] for ancestor in cls.__mro__ if _defines(ancestor, name))


class PatchableInstance:
    """A runnable that is no Pydantic model: `mock.patch.object(step, "invoke")` sets a method on the object itself."""

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        if name in ("invoke", "ainvoke"):
            _adopt_instance(self)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        if name in ("invoke", "ainvoke"):
            _adopt_instance(self)


def _adopt_instance(self: Any) -> None:  # noqa: ANN401  a runnable, whose class `adopt` is still making
    fields = self.__dict__
    names = [name if name in fields else None for name in ("invoke", "ainvoke")]
    if any(names):
        fields["_once_by_hand"] = tuple(names)
        fields["_step"] = functools.partial(_call_public, self)
    else:
        fields.pop("_once_by_hand", None)
        fields.pop("_step", None)


# -- running what was written by hand


async def _call_public(self: Any, input: object, run: Run) -> object:  # noqa: ANN401  a runnable, whose class `adopt` is still making
    name = self._once_by_hand[not run.io.blocking]
    if name is None:
        return await self._traced(input, run)
    return await run.io.call(getattr(self, name), input, run.own_config(), **run.kwargs)


async def _call_override(self: Any, input: object, run: Run) -> object:  # noqa: ANN401  a runnable, whose class `adopt` is still making
    blocking, awaited = self._once_by_hand
    if run.io.blocking and blocking is None:
        raise BlockingCallError(
            f"{type(self).__name__} implements only `ainvoke`: use ainvoke or astream"
        )
    if not run.io.blocking and awaited == "invoke":
        return await run.io.call(self.invoke, input, run.own_config(), **run.kwargs)
    return await self._once(input, run)


async def _stream_public(self: Any, input: object, run: Run) -> AsyncGenerator[Any, None]:  # noqa: ANN401  a runnable, whose class `adopt` is still making
    name = self._pieces_by_hand[not run.io.blocking]
    if name is None:
        outputs = self._traced_stream(input, run)
    else:
        outputs = run.io.each(getattr(self, name)(input, run.own_config(), **run.kwargs))
    async with aclosing(outputs):
        async for output in outputs:
            yield output


async def _stream_override(self: Any, input: object, run: Run) -> AsyncGenerator[Any, None]:  # noqa: ANN401  a runnable, whose class `adopt` is still making
    if not run.io.blocking and self._pieces_by_hand[1] == "stream":
        async with aclosing(
            run.io.each(self.stream(input, run.own_config(), **run.kwargs))
        ) as outputs:
            async for output in outputs:
                yield output
    else:
        yield await self._step(input, run)


async def _transform_public(
    self: Any,  # noqa: ANN401  a runnable, whose class `adopt` is still making
    inputs: AsyncGenerator[Any, None],
    run: Run,
) -> AsyncGenerator[Any, None]:
    name = self._flow_by_hand[not run.io.blocking]
    if name is None:
        outputs = self._traced_transform(inputs, run)
    elif name == "atransform":
        outputs = run.io.each(self.atransform(inputs, run.own_config(), **run.kwargs))
    else:
        outputs = _transform_blocking(self, inputs, run)
    async with aclosing(inputs), aclosing(outputs):
        async for output in outputs:
            yield output


async def _transform_blocking(
    self: Any,  # noqa: ANN401  a runnable, whose class `adopt` is still making
    inputs: AsyncGenerator[Any, None],
    run: Run,
) -> AsyncGenerator[Any, None]:
    async with run.io.iterate(inputs) as source:
        outputs = run.io.each(self.transform(source, run.own_config(), **run.kwargs))
        async with aclosing(outputs):
            async for output in outputs:
                yield output


async def _transform_by_stream(
    self: Any,  # noqa: ANN401  a runnable, whose class `adopt` is still making
    inputs: AsyncGenerator[Any, None],
    run: Run,
) -> AsyncGenerator[Any, None]:
    whole = await _trace.add_up(inputs)
    if whole is _trace.NOTHING:
        return
    async with aclosing(self._step_stream(whole, run)) as outputs:
        async for output in outputs:
            yield output
