"""Runnables that forward their input: unchanged, with keys added, or with keys picked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, Field, SkipValidation

from foldline._config import RunnableConfig
from foldline._io.waiting import is_async_callable
from foldline._run import Run
from foldline._traceback import closing
from foldline.exceptions import BlockingCallError, UsageError
from foldline.runnables import _functions, _types
from foldline.runnables._trace import NOTHING, plus
from foldline.runnables.parallel import Branch, RunnableParallel
from foldline.runnables.serializable import RunnableSerializable
from foldline.runnables.utils import AddableDict

Other = TypeVar("Other")


def identity(x: Other) -> Other:
    """Return the argument."""
    return x


async def aidentity(x: Other) -> Other:
    """Return the argument."""
    return x


class RunnablePassthrough(RunnableSerializable[Other, Other]):
    """Forwards its input unchanged; a function may be called with it.

    ```python
    from foldline.runnables import RunnablePassthrough

    chain = RunnablePassthrough.assign(length=lambda d: len(d["text"]))
    print(chain.invoke({"text": "foldline"}))
    #> {'text': 'foldline', 'length': 8}
    ```
    """

    input_type: Any = Field(default=None, repr=False)
    """The type of the input, for schemas."""
    func: Callable[..., Any] | None = None
    """Called with the complete input, for its side effect."""
    afunc: Callable[..., Any] | None = None
    """The async version of `func`."""

    def __init__(
        self,
        func: Callable[..., Any] | None = None,
        afunc: Callable[..., Any] | None = None,
        *,
        input_type: object = None,
        **kwargs: object,
    ) -> None:
        """Forward the input; call `func` with it, if there is one."""
        if func is not None and is_async_callable(func):
            func, afunc = None, func
        super().__init__(func=func, afunc=afunc, input_type=input_type, **kwargs)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return whether this can be serialized: yes."""
        return True

    @classmethod
    def assign(cls, **kwargs: Branch) -> RunnableAssign:  # type: ignore[override]  # no step comes before it
        """Forward a dict with more keys, each computed by a runnable from the dict."""
        return RunnableAssign(RunnableParallel(kwargs))

    async def _call_function(self, value: object, run: Run) -> None:
        if run.io.blocking and self.func is None:
            raise BlockingCallError(
                f"the function of {self.get_name()} is async and was reached by a blocking call: "
                "use ainvoke, astream or abatch"
            )
        function = self.func if run.io.blocking else self.afunc or self.func
        if function is not None:
            await _functions.call(function, value, run)

    async def _invoke_body(self, input: Other, run: Run) -> Other:
        if self.func or self.afunc:
            await self._call_function(input, run)
        return input

    def _transform_body(
        self, inputs: AsyncGenerator[Other, None], run: Run
    ) -> AsyncGenerator[Other, None]:
        return self._observe_stream(inputs, run) if self.func or self.afunc else inputs

    async def _observe_stream(
        self, inputs: AsyncGenerator[Other, None], run: Run
    ) -> AsyncGenerator[Other, None]:
        total: Any = NOTHING
        async with closing(inputs):
            async for chunk in inputs:
                total = plus(total, chunk)
                yield chunk
        if total is not NOTHING:
            await self._call_function(total, run)

    @property
    def InputType(self) -> object:
        """The declared type, or Any."""
        return self.input_type or Any

    @property
    def OutputType(self) -> object:
        """The same type as that of the input."""
        return self.input_type or Any


class RunnableAssign(RunnableSerializable[dict[str, Any], dict[str, Any]]):
    """Forwards a dict with more keys; in a stream, the existing keys come first."""

    mapper: SkipValidation[RunnableParallel[Any]]
    """Computes the new keys."""

    def __init__(
        self, mapper: RunnableParallel[Any] | Mapping[str, Branch], **kwargs: object
    ) -> None:
        """Set the branches that compute the new keys."""
        if not isinstance(mapper, RunnableParallel):
            mapper = RunnableParallel(mapper)
        super().__init__(mapper=mapper, **kwargs)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return whether this can be serialized: yes, if its branches can."""
        return True

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Return the name shown in traces, which includes the new keys."""
        name = name or self.name or f"RunnableAssign<{','.join(self.mapper.steps__)}>"
        return super().get_name(suffix, name=name)

    async def _invoke_body(self, input: dict[str, Any], run: Run) -> dict[str, Any]:
        _check_dict(input, "RunnablePassthrough.assign()")
        return {**input, **await self.mapper._step(input, run.child())}

    def _unassigned(self, input: dict[str, Any]) -> AddableDict:
        _check_dict(input, "RunnablePassthrough.assign()")
        return AddableDict(
            {key: value for key, value in input.items() if key not in self.mapper.steps__}
        )

    async def _stream_body(
        self, input: dict[str, Any], run: Run
    ) -> AsyncGenerator[AddableDict, None]:
        if unassigned := self._unassigned(input):
            yield unassigned
        async with closing(self.mapper._step_stream(input, run.child())) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _transform_body(
        self, inputs: AsyncGenerator[dict[str, Any], None], run: Run
    ) -> AsyncGenerator[AddableDict, None]:
        chunks: list[dict[str, Any]] = []
        async with closing(inputs):
            async for chunk in inputs:
                if unassigned := self._unassigned(chunk):
                    yield unassigned
                chunks.append(chunk)

        async def read_chunks() -> AsyncGenerator[dict[str, Any], None]:
            for chunk in chunks:
                yield chunk

        async with closing(self.mapper._step_transform(read_chunks(), run.child())) as outputs:
            async for chunk in outputs:
                yield chunk

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return a schema of the keys that the branches read, if it is known."""
        schema = self.mapper.get_input_schema(config)
        return schema if _types.is_object(schema) else super().get_input_schema(config)

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return a schema of the existing keys, if they are known, and of the new ones."""
        input_schema, output_schema = (
            self.mapper.get_input_schema(config),
            self.mapper.get_output_schema(config),
        )
        if not _types.is_object(input_schema):
            return output_schema
        return _types.object_model(
            "RunnableAssignOutput",
            {**_types.fields_of(input_schema), **_types.fields_of(output_schema)},
        )

    def _schema_before(
        self, following: type[BaseModel], config: RunnableConfig | None
    ) -> type[BaseModel]:
        input_schema = self.get_input_schema(config)
        if not _types.is_object(following):
            return input_schema
        branches = self.mapper.steps__
        required_fields = {
            key: field for key, field in _types.fields_of(following).items() if key not in branches
        }
        input_fields = _types.fields_of(input_schema) if _types.is_object(input_schema) else {}
        return _types.object_model("RunnableSequenceInput", {**required_fields, **input_fields})

    def _schema_after(
        self, previous: type[BaseModel], config: RunnableConfig | None
    ) -> type[BaseModel]:
        if not _types.is_object(previous):
            return self.get_output_schema(config)
        new_fields = _types.fields_of(self.mapper.get_output_schema(config))
        return _types.object_model(
            "RunnableSequenceOutput", {**_types.fields_of(previous), **new_fields}
        )

    @property
    def config_specs(self) -> list[Any]:
        """The configurable fields of the branches."""
        return self.mapper.config_specs


class RunnablePick(RunnableSerializable[dict[str, Any], Any]):
    """Picks one key of a dict (its value) or several (a smaller dict).

    ```python
    from foldline.runnables import RunnablePick

    print(RunnablePick(["a", "b"]).invoke({"a": 1, "b": 2, "c": 3}))
    #> {'a': 1, 'b': 2}
    ```
    """

    keys: str | list[str]
    """The key or keys to pick."""

    def __init__(self, keys: str | list[str], **kwargs: object) -> None:
        """Take a key, or a list of keys."""
        super().__init__(keys=keys, **kwargs)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return whether this can be serialized: yes."""
        return True

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Return the name shown in traces, which includes the keys."""
        keys = [self.keys] if isinstance(self.keys, str) else self.keys
        return super().get_name(suffix, name=name or self.name or f"RunnablePick<{','.join(keys)}>")

    def _pick(self, value: dict[str, Any]) -> object:
        _check_dict(value, "RunnablePick")
        if isinstance(self.keys, str):
            return value.get(self.keys)
        return AddableDict({key: value[key] for key in self.keys if key in value}) or None

    async def _invoke_body(self, input: dict[str, Any], run: Run) -> object:
        return self._pick(input)

    async def _transform_body(
        self, inputs: AsyncGenerator[dict[str, Any], None], run: Run
    ) -> AsyncGenerator[Any, None]:
        async with closing(inputs):
            async for chunk in inputs:
                if (output := self._pick(chunk)) is not None:
                    yield output

    async def _stream_body(self, input: dict[str, Any], run: Run) -> AsyncGenerator[Any, None]:
        if (output := self._pick(input)) is not None:
            yield output

    def _schema_after(
        self, previous: type[BaseModel], config: RunnableConfig | None
    ) -> type[BaseModel]:
        fields = _types.fields_of(previous) if _types.is_object(previous) else {}
        if isinstance(self.keys, str):
            kind = fields[self.keys][0] if self.keys in fields else Any
            return _types.value_model("RunnableSequenceOutput", kind)
        picked_fields = {key: fields[key] for key in self.keys if key in fields}
        return (
            _types.object_model("RunnableSequenceOutput", picked_fields)
            if picked_fields
            else self.get_output_schema(config)
        )


def _check_dict(value: object, name: str) -> None:
    if not isinstance(value, Mapping):
        raise UsageError(
            f"the input of {name} must be a dict, not {type(value).__name__}: {value!r:.200}"
        )
