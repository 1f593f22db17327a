"""`RunnableParallel`: several runnables get the same input at once; their outputs form a dict."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from foldline._config import RunnableConfig
from foldline._run import Run
from foldline._traceback import closing
from foldline.runnables import _types
from foldline.runnables._coerce import coerce_to_runnable
from foldline.runnables._tee import Tee
from foldline.runnables.base import Runnable
from foldline.runnables.serializable import RunnableSerializable
from foldline.runnables.utils import AddableDict

Input = TypeVar("Input", contravariant=True)
Branch = Runnable[Any, Any] | Callable[..., Any] | Mapping[str, Any]


class RunnableParallel(RunnableSerializable[Input, dict[str, Any]]):
    """Branches that get the same input and run at once; a dict in a pipe becomes a RunnableParallel.

    ```python
    from foldline.runnables import RunnableLambda, RunnableParallel

    both = RunnableParallel(double=lambda x: x * 2, square=lambda x: x * x)
    print(both.invoke(5))
    #> {'double': 10, 'square': 25}
    ```
    """

    steps__: Mapping[str, Runnable[Any, Any]]
    """The branches by the key of their output."""

    def __init__(
        self: RunnableParallel[Any], steps__: Mapping[str, Branch] | None = None, **kwargs: Branch
    ) -> None:
        """Take branches from a dict, from keyword arguments, or both."""
        if steps__ is not None and not isinstance(steps__, Mapping):
            raise TypeError(
                f"RunnableParallel needs a dict of branches, not {type(steps__).__name__}"
            )
        branches = {**(steps__ or {}), **kwargs}
        super().__init__(steps__={key: coerce_to_runnable(step) for key, step in branches.items()})

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return whether this can be serialized: yes, if its branches can."""
        return True

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Return the name shown in traces, which includes the keys of the branches."""
        name = name or self.name or f"RunnableParallel<{','.join(self.steps__)}>"
        return super().get_name(suffix, name=name)

    # -- behaviours

    async def _invoke_body(self, input: Input, run: Run) -> dict[str, Any]:
        keys = list(self.steps__)
        output = dict.fromkeys(keys)

        async def branch(key: str) -> object:
            return await self.steps__[key]._step(input, run.child(f"map:key:{key}"))

        limit = run.max_concurrency or len(keys)
        async with closing(run.io.as_completed(branch, keys, limit=limit)) as outcomes:
            async for index, value, error in outcomes:
                if error is not None:
                    raise error
                output[keys[index]] = value
        return output

    async def _stream_body(self, input: Input, run: Run) -> AsyncGenerator[AddableDict, None]:
        streams = {
            key: step._step_stream(input, run.child(f"map:key:{key}"))
            for key, step in self.steps__.items()
        }
        async with closing(run.io.merge(streams)) as merged:
            async for key, chunk in merged:
                yield AddableDict({key: chunk})
        if not streams:
            yield AddableDict()

    async def _transform_body(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[AddableDict, None]:
        tee = Tee(inputs, run.io)
        streams = {
            key: step._step_transform(tee.reader(), run.child(f"map:key:{key}"))
            for key, step in self.steps__.items()
        }
        async with closing(inputs), closing(run.io.merge(streams)) as merged:
            async for key, chunk in merged:
                yield AddableDict({key: chunk})
        if not streams:
            yield AddableDict()

    # -- types

    @property
    def InputType(self) -> object:
        """The input type of the first branch that declares one."""
        for step in self.steps__.values():
            if step.InputType is not Any:
                return step.InputType
        return Any

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return a schema of the keys that the branches read, if all of them read keys."""
        schemas = [step.get_input_schema(config) for step in self.steps__.values()]
        objects = [schema for schema in schemas if _types.is_object(schema)]
        if objects and all(
            _types.is_object(schema) or _types.is_anything(schema) for schema in schemas
        ):
            fields = {
                name: field
                for schema in objects
                for name, field in _types.fields_of(schema).items()
            }
            return _types.object_model(self.get_name("Input"), fields)
        return super().get_input_schema(config)

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return a schema with a field for each branch."""
        fields = {key: (step.OutputType, ...) for key, step in self.steps__.items()}
        return _types.object_model(self.get_name("Output"), fields)

    @property
    def config_specs(self) -> list[Any]:
        """The configurable fields of all branches."""
        return _types.unique_specs(step.config_specs for step in self.steps__.values())

    def __repr__(self) -> str:
        branches = ",\n  ".join(
            f"{key}: {_types.indent_nested(repr(step))}" for key, step in self.steps__.items()
        )
        return "{\n  " + branches + "\n}"


RunnableMap = RunnableParallel
"""The older name."""
