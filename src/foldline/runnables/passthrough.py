"""Runnables that hand their input on: unchanged, with keys added, or with keys picked."""

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
    """Return what was given."""
    return x


async def aidentity(x: Other) -> Other:
    """Return what was given, awaited."""
    return x


class RunnablePassthrough(RunnableSerializable[Other, Other]):
    """Hands its input on unchanged; a function may look at it on the way.

    ```python
    from foldline.runnables import RunnablePassthrough

    chain = RunnablePassthrough.assign(length=lambda d: len(d["text"]))
    print(chain.invoke({"text": "foldline"}))
    #> {'text': 'foldline', 'length': 8}
    ```
    """

    input_type: Any = Field(default=None, repr=False)
    """The type of the input, where it should be known."""
    func: Callable[..., Any] | None = None
    """Called with the whole input, for its effect."""
    afunc: Callable[..., Any] | None = None
    """Its async twin."""

    def __init__(
        self,
        func: Callable[..., Any] | None = None,
        afunc: Callable[..., Any] | None = None,
        *,
        input_type: object = None,
        **kwargs: object,
    ) -> None:
        """Pass on; call a function with what passes, if given."""
        if func is not None and is_async_callable(func):
            func, afunc = None, func
        super().__init__(func=func, afunc=afunc, input_type=input_type, **kwargs)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Whether this can be dumped: yes."""
        return True

    @classmethod
    def assign(cls, **kwargs: Branch) -> RunnableAssign:  # type: ignore[override]  # no step comes before it
        """Pass a dict on with more keys, each made by a runnable from the dict."""
        return RunnableAssign(RunnableParallel(kwargs))

    async def _look(self, value: object, run: Run) -> None:
        if run.io.blocking and self.func is None:
            raise BlockingCallError(
                f"the function of {self.get_name()} is async and was reached by a blocking call: "
                "use ainvoke, astream or abatch"
            )
        function = self.func if run.io.blocking else self.afunc or self.func
        if function is not None:
            await _functions.call(function, value, run)

    async def _once(self, input: Other, run: Run) -> Other:
        if self.func or self.afunc:
            await self._look(input, run)
        return input

    def _flow(self, inputs: AsyncGenerator[Other, None], run: Run) -> AsyncGenerator[Other, None]:
        return self._looked_at(inputs, run) if self.func or self.afunc else inputs

    async def _looked_at(
        self, inputs: AsyncGenerator[Other, None], run: Run
    ) -> AsyncGenerator[Other, None]:
        whole: Any = NOTHING
        async with closing(inputs):
            async for piece in inputs:
                whole = plus(whole, piece)
                yield piece
        if whole is not NOTHING:
            await self._look(whole, run)

    @property
    def InputType(self) -> object:
        """The type given, or any."""
        return self.input_type or Any

    @property
    def OutputType(self) -> object:
        """The same as the input."""
        return self.input_type or Any


class RunnableAssign(RunnableSerializable[dict[str, Any], dict[str, Any]]):
    """Hands a dict on with more keys; streamed, the keys that were there go first."""

    mapper: SkipValidation[RunnableParallel[Any]]
    """Makes the new keys."""

    def __init__(
        self, mapper: RunnableParallel[Any] | Mapping[str, Branch], **kwargs: object
    ) -> None:
        """Take the branches that make the new keys."""
        if not isinstance(mapper, RunnableParallel):
            mapper = RunnableParallel(mapper)
        super().__init__(mapper=mapper, **kwargs)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Whether this can be dumped: yes, if its branches can."""
        return True

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Return the name shown in traces: with the new keys."""
        name = name or self.name or f"RunnableAssign<{','.join(self.mapper.steps__)}>"
        return super().get_name(suffix, name=name)

    async def _once(self, input: dict[str, Any], run: Run) -> dict[str, Any]:
        _check_dict(input, "RunnablePassthrough.assign()")
        return {**input, **await self.mapper._step(input, run.child())}

    def _checked_piece(self, piece: dict[str, Any]) -> AddableDict:
        _check_dict(piece, "RunnablePassthrough.assign()")
        return AddableDict(
            {key: value for key, value in piece.items() if key not in self.mapper.steps__}
        )

    async def _pieces(self, input: dict[str, Any], run: Run) -> AsyncGenerator[AddableDict, None]:
        if given := self._checked_piece(input):
            yield given
        async with closing(self.mapper._step_stream(input, run.child())) as made:
            async for piece in made:
                yield piece

    async def _flow(
        self, inputs: AsyncGenerator[dict[str, Any], None], run: Run
    ) -> AsyncGenerator[AddableDict, None]:
        seen: list[dict[str, Any]] = []
        async with closing(inputs):
            async for piece in inputs:
                if given := self._checked_piece(piece):
                    yield given
                seen.append(piece)

        async def again() -> AsyncGenerator[dict[str, Any], None]:
            for piece in seen:
                yield piece

        async with closing(self.mapper._step_transform(again(), run.child())) as made:
            async for piece in made:
                yield piece

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the keys that the branches read, where they are known."""
        schema = self.mapper.get_input_schema(config)
        return schema if _types.is_object(schema) else super().get_input_schema(config)

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the keys that were there, where they are known, and the new ones."""
        given, made = self.mapper.get_input_schema(config), self.mapper.get_output_schema(config)
        if not _types.is_object(given):
            return made
        return _types.object_model(
            "RunnableAssignOutput", {**_types.fields_of(given), **_types.fields_of(made)}
        )

    def _schema_before(
        self, following: type[BaseModel], config: RunnableConfig | None
    ) -> type[BaseModel]:
        own = self.get_input_schema(config)
        if not _types.is_object(following):
            return own
        made = self.mapper.steps__
        wanted = {
            key: field for key, field in _types.fields_of(following).items() if key not in made
        }
        known = _types.fields_of(own) if _types.is_object(own) else {}
        return _types.object_model("RunnableSequenceInput", {**wanted, **known})

    def _schema_after(
        self, previous: type[BaseModel], config: RunnableConfig | None
    ) -> type[BaseModel]:
        if not _types.is_object(previous):
            return self.get_output_schema(config)
        made = _types.fields_of(self.mapper.get_output_schema(config))
        return _types.object_model("RunnableSequenceOutput", {**_types.fields_of(previous), **made})

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
        """Whether this can be dumped: yes."""
        return True

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Return the name shown in traces: with the keys."""
        keys = [self.keys] if isinstance(self.keys, str) else self.keys
        return super().get_name(suffix, name=name or self.name or f"RunnablePick<{','.join(keys)}>")

    def _pick(self, value: dict[str, Any]) -> object:
        _check_dict(value, "RunnablePick")
        if isinstance(self.keys, str):
            return value.get(self.keys)
        return AddableDict({key: value[key] for key in self.keys if key in value}) or None

    async def _once(self, input: dict[str, Any], run: Run) -> object:
        return self._pick(input)

    async def _flow(
        self, inputs: AsyncGenerator[dict[str, Any], None], run: Run
    ) -> AsyncGenerator[Any, None]:
        async with closing(inputs):
            async for piece in inputs:
                if (picked := self._pick(piece)) is not None:
                    yield picked

    async def _pieces(self, input: dict[str, Any], run: Run) -> AsyncGenerator[Any, None]:
        if (picked := self._pick(input)) is not None:
            yield picked

    def _schema_after(
        self, previous: type[BaseModel], config: RunnableConfig | None
    ) -> type[BaseModel]:
        known = _types.fields_of(previous) if _types.is_object(previous) else {}
        if isinstance(self.keys, str):
            kind = known[self.keys][0] if self.keys in known else Any
            return _types.value_model("RunnableSequenceOutput", kind)
        picked = {key: known[key] for key in self.keys if key in known}
        return (
            _types.object_model("RunnableSequenceOutput", picked)
            if picked
            else self.get_output_schema(config)
        )


def _check_dict(value: object, who: str) -> None:
    if not isinstance(value, Mapping):
        raise UsageError(
            f"the input of {who} must be a dict, not {type(value).__name__}: {value!r:.200}"
        )
