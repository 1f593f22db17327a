"""Support for classes written for LangChain: they override `invoke`, `stream` and so on instead of our methods.

`bind_overrides` decides once per class which is nearer in its ancestry: an overridden public method or one of our
behaviours. The rules, which have the same results as in LangChain:

- A parent's step calls the overridden method if that is nearer than our behaviour of the same kind.
- Methods that are not overridden are derived from those that are: `stream` from `invoke`, `transform` from `stream`,
  and the async method from the sync one, in a thread. An inherited streaming behaviour stays, even if `invoke` is
  overridden.
- The public methods of `Runnable` never call their own override, so `super().invoke()` does not recurse.
- A public method that is set on a class later (`mock.patch.object(Model, "invoke")`, a spy) is nearer than all others
  until it is removed: the tests of a program see every call, and a patched model is never called.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeAlias

from foldline._run import Run
from foldline.exceptions import BlockingCallError
from foldline.runnables import _trace

NOT_DEFINED = 1000
"""The position of a method that no ancestor defines."""


BEHAVIOURS = {
    "_invoke_body",
    "_invoke_traced",
    "_stream_body",
    "_stream_traced",
    "_transform_body",
    "_transform_traced",
}
NAMES = BEHAVIOURS | {"invoke", "ainvoke", "stream", "astream", "transform", "atransform"}


PATCHABLE = {"invoke", "ainvoke", "stream", "astream", "transform", "atransform", "batch", "abatch"}

Overrides: TypeAlias = tuple[str | None, str | None]
"""Names of the overridden methods that steps call, sync and async; None if there is none."""

NO_OVERRIDES: Overrides = (None, None)


# -- once per class


def bind_overrides(cls: type[Any]) -> None:
    """Decide how parents run instances of a new class, and derive the methods that it does not define."""
    cls._defined_names = frozenset(NAMES & cls.__dict__.keys())
    cls._own_methods = {name: cls.__dict__[name] for name in PATCHABLE & cls.__dict__.keys()}
    others = [base for base in cls.__mro__ if not hasattr(base, "_invoke_overrides")]
    is_plain = not cls._defined_names and not any(NAMES & base.__dict__.keys() for base in others)
    if is_plain and sum(hasattr(base, "_invoke_overrides") for base in cls.__bases__) == 1:
        return  # the same decisions as its only parent of our kind
    _choose(cls)


def rebind_overrides(cls: type[Any]) -> None:
    """Decide again for a class on which a public method was set or deleted, and for its subclasses."""
    _choose(cls)
    for subclass in cls.__subclasses__():
        rebind_overrides(subclass)


def _choose(cls: type[Any]) -> None:
    invoke_depth, stream_depth, transform_depth = (
        _nearest(cls, "_invoke_body", "_invoke_traced"),
        _nearest(cls, "_stream_body", "_stream_traced", "_transform_body", "_transform_traced"),
        _nearest(cls, "_transform_body", "_transform_traced"),
    )
    cls._invoke_overrides = _public_overrides(
        cls, "invoke", "ainvoke", invoke_depth, sync_serves_async=invoke_depth == NOT_DEFINED
    )
    cls._stream_overrides = _public_overrides(
        cls, "stream", "astream", stream_depth, sync_serves_async=True
    )
    cls._transform_overrides = _public_overrides(
        cls, "transform", "atransform", transform_depth, sync_serves_async=True
    )
    overrides_invoke, overrides_stream = any(cls._invoke_overrides), any(cls._stream_overrides)

    cls._invoke_traced = (
        _call_override
        if overrides_invoke and invoke_depth == NOT_DEFINED
        else _inherited_method(cls, "_invoke_traced")
    )
    is_derived = stream_depth == NOT_DEFINED and (overrides_invoke or overrides_stream)
    cls._stream_traced = (
        _stream_override if is_derived else _inherited_method(cls, "_stream_traced")
    )
    is_derived = transform_depth == NOT_DEFINED and (
        (overrides_invoke and stream_depth == NOT_DEFINED) or overrides_stream
    )
    cls._transform_traced = (
        _transform_by_stream if is_derived else _inherited_method(cls, "_transform_traced")
    )

    cls._step = _call_public if overrides_invoke else cls._invoke_traced
    cls._step_stream = _stream_public if overrides_stream else cls._stream_traced
    cls._step_transform = (
        _transform_public if any(cls._transform_overrides) else cls._transform_traced
    )
    cls._has_patched_batch = _is_patched(cls, "batch") or _is_patched(cls, "abatch")
    if stream_depth == NOT_DEFINED and (_is_patched(cls, "invoke") or _is_patched(cls, "ainvoke")):
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
    """Return the position in the MRO of the first class before `Runnable` that defines a name, else `NOT_DEFINED`."""
    for position, ancestor in enumerate(cls.__mro__):
        if ancestor.__module__ == "foldline.runnables.base" and ancestor.__name__ == "Runnable":
            return NOT_DEFINED
        if any(_defines(ancestor, name) for name in names):
            return position
    return NOT_DEFINED


def _defines(cls: type[Any], name: str) -> bool:
    """Return whether the body of a class defines a name; attributes set by `bind_overrides` do not count."""
    return name in cls.__dict__.get("_defined_names", cls.__dict__)


def _public_overrides(
    cls: type[Any],
    sync_name: str,
    async_name: str,
    behaviour_depth: int,
    *,
    sync_serves_async: bool,
) -> Overrides:
    """Return the public methods that are nearer than our behaviour, sync and async."""
    names = [
        name if _is_patched(cls, name) or _nearest(cls, name) < behaviour_depth else None
        for name in (sync_name, async_name)
    ]
    return names[0], names[1] or (names[0] if sync_serves_async else None)


def _inherited_method(cls: type[Any], name: str) -> object:
    return next(ancestor.__dict__[name] for ancestor in cls.__mro__ if _defines(ancestor, name))


class PatchableInstance:
    """Mixin for runnables that are not Pydantic models: detects `mock.patch.object(step, "invoke")` on an instance."""

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        if name in ("invoke", "ainvoke"):
            _bind_instance_overrides(self)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        if name in ("invoke", "ainvoke"):
            _bind_instance_overrides(self)


def _bind_instance_overrides(self: Any) -> None:  # noqa: ANN401  a runnable, whose class is being created
    fields = self.__dict__
    names = [name if name in fields else None for name in ("invoke", "ainvoke")]
    if any(names):
        fields["_invoke_overrides"] = tuple(names)
        fields["_step"] = functools.partial(_call_public, self)
    else:
        fields.pop("_invoke_overrides", None)
        fields.pop("_step", None)


# -- calling overridden methods


async def _call_public(self: Any, input: object, run: Run) -> object:  # noqa: ANN401  a runnable, whose class is being created
    name = self._invoke_overrides[not run.io.blocking]
    if name is None:
        return await self._invoke_traced(input, run)
    return await run.io.call(getattr(self, name), input, run.own_config(), **run.kwargs)


async def _call_override(self: Any, input: object, run: Run) -> object:  # noqa: ANN401  a runnable, whose class is being created
    sync_name, async_name = self._invoke_overrides
    if run.io.blocking and sync_name is None:
        raise BlockingCallError(
            f"{type(self).__name__} implements only `ainvoke`: use ainvoke or astream"
        )
    if not run.io.blocking and async_name == "invoke":
        return await run.io.call(self.invoke, input, run.own_config(), **run.kwargs)
    return await self._invoke_body(input, run)


async def _stream_public(self: Any, input: object, run: Run) -> AsyncGenerator[Any, None]:  # noqa: ANN401  a runnable, whose class is being created
    name = self._stream_overrides[not run.io.blocking]
    if name is None:
        outputs = self._stream_traced(input, run)
    else:
        outputs = run.io.each(getattr(self, name)(input, run.own_config(), **run.kwargs))
    async with aclosing(outputs):
        async for output in outputs:
            yield output


async def _stream_override(self: Any, input: object, run: Run) -> AsyncGenerator[Any, None]:  # noqa: ANN401  a runnable, whose class is being created
    if not run.io.blocking and self._stream_overrides[1] == "stream":
        async with aclosing(
            run.io.each(self.stream(input, run.own_config(), **run.kwargs))
        ) as outputs:
            async for output in outputs:
                yield output
    else:
        yield await self._step(input, run)


async def _transform_public(
    self: Any,  # noqa: ANN401  a runnable, whose class is being created
    inputs: AsyncGenerator[Any, None],
    run: Run,
) -> AsyncGenerator[Any, None]:
    name = self._transform_overrides[not run.io.blocking]
    if name is None:
        outputs = self._transform_traced(inputs, run)
    elif name == "atransform":
        outputs = run.io.each(self.atransform(inputs, run.own_config(), **run.kwargs))
    else:
        outputs = _transform_blocking(self, inputs, run)
    async with aclosing(inputs), aclosing(outputs):
        async for output in outputs:
            yield output


async def _transform_blocking(
    self: Any,  # noqa: ANN401  a runnable, whose class is being created
    inputs: AsyncGenerator[Any, None],
    run: Run,
) -> AsyncGenerator[Any, None]:
    async with run.io.iterate(inputs) as source:
        outputs = run.io.each(self.transform(source, run.own_config(), **run.kwargs))
        async with aclosing(outputs):
            async for output in outputs:
                yield output


async def _transform_by_stream(
    self: Any,  # noqa: ANN401  a runnable, whose class is being created
    inputs: AsyncGenerator[Any, None],
    run: Run,
) -> AsyncGenerator[Any, None]:
    input = await _trace.add_up(inputs)
    if input is _trace.NOTHING:
        return
    async with aclosing(self._step_stream(input, run)) as outputs:
        async for output in outputs:
            yield output
