"""`RunnableBinding`: a runnable with bound arguments, config or types; it forwards every call.

Arguments of the call override bound ones; the call's config is merged over the bound one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from foldline._config import RunnableConfig, merge_configs
from foldline._run import CALL_KEYWORDS, Run
from foldline.runnables._call_options import check_options
from foldline.runnables._stream_call import BoundStreamCall, EventStream, StreamCall
from foldline.runnables.base import Chunk, Input, Output, Runnable
from foldline.runnables.serializable import RunnableSerializable

ConfigFactory = Callable[[RunnableConfig], RunnableConfig]


class RunnableBindingBase(RunnableSerializable[Input, Output, Chunk]):  # type: ignore[no-redef]  # the plugin trips on the field
    """A runnable that forwards calls to another, with more arguments and config."""

    bound: Runnable[Any, Any]
    """The runnable that is called."""
    kwargs: Mapping[str, Any] = Field(default_factory=dict)
    """Keyword arguments for every call."""
    config: RunnableConfig = Field(default_factory=RunnableConfig)
    """Config that each call's config is merged over."""
    config_factories: list[ConfigFactory] = Field(default_factory=list)
    """Functions that return more config, called for each call."""
    custom_input_type: Any = None
    """The type of the input, instead of that of `bound`."""
    custom_output_type: Any = None
    """The type of the output, instead of that of `bound`."""

    def _option_names(self) -> Iterable[str]:
        return self.bound._option_names()

    def _accepts_option(self, name: str) -> bool:
        return self.bound._accepts_option(name)

    def __init__(
        self,
        *,
        bound: Runnable[Input, Output, Chunk],
        kwargs: Mapping[str, Any] | None = None,
        config: RunnableConfig | None = None,
        config_factories: list[ConfigFactory] | None = None,
        custom_input_type: object = None,
        custom_output_type: object = None,
        **other_kwargs: object,
    ) -> None:
        """Bind arguments, config and types to a runnable."""
        super().__init__(
            bound=bound,
            kwargs=kwargs or {},
            config={},
            config_factories=config_factories or [],
            custom_input_type=custom_input_type,
            custom_output_type=custom_output_type,
            **other_kwargs,
        )
        # Set without validation, which would drop keys that are values for `configurable`.
        self.config = config or {}

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return whether this can be serialized: yes, if its parts can."""
        return True

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Return the name of this binding, or of the bound runnable."""
        return self.bound.get_name(suffix, name=name or self.name)

    # -- forwarding

    def _bound_run(self, run: Run) -> Run:
        kwargs = {**self.kwargs, **run.kwargs} if self.kwargs else run.kwargs
        if not self.config and not self.config_factories:
            return run.patched(kwargs=kwargs) if self.kwargs else run
        return run.with_defaults(self.config, self.config_factories, kwargs)

    async def _invoke_traced(self, input: Input, run: Run) -> Output:
        output: Output = await self.bound._step(input, self._bound_run(run))
        return output

    def _stream_traced(self, input: Input, run: Run) -> AsyncGenerator[Any, None]:
        return self.bound._step_stream(input, self._bound_run(run))

    def _transform_traced(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        return self.bound._step_transform(inputs, self._bound_run(run))

    def _open_stream_v2(self, call: StreamCall) -> EventStream:
        return self.bound._open_stream_v2(BoundStreamCall(call, self._bound_run))

    def stream_events(
        self, input: object, config: RunnableConfig | None = None, **kwargs: object
    ) -> Any:  # noqa: ANN401  events; with version "v3" a chat model's stream, a class of a layer above
        """Return the events of this run and of the runs inside it; a bound `version` applies."""
        return self._without_version(kwargs).stream_events(input, config, **kwargs)

    def astream_events(
        self, input: object, config: RunnableConfig | None = None, **kwargs: object
    ) -> Any:  # noqa: ANN401  events; with version "v3" a chat model's stream, a class of a layer above
        """Return the events of this run and of the runs inside it; a bound `version` applies."""
        return self._without_version(kwargs).astream_events(input, config, **kwargs)

    def _without_version(self, kwargs: dict[str, Any]) -> Any:  # noqa: ANN401  this, or its parent class
        """Return the runnable to stream; a bound version moves to the call: it is not an option of the model."""
        if "version" not in self.kwargs:
            return super()
        kwargs.setdefault("version", self.kwargs["version"])
        remaining_kwargs = {key: value for key, value in self.kwargs.items() if key != "version"}
        return self.model_copy(update={"kwargs": remaining_kwargs})

    # -- types

    @property
    def InputType(self) -> object:
        """The custom type, or that of `bound`."""
        return self.bound.InputType if self.custom_input_type is None else self.custom_input_type

    @property
    def OutputType(self) -> object:
        """The custom type, or that of `bound`."""
        return self.bound.OutputType if self.custom_output_type is None else self.custom_output_type

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the input as a Pydantic model."""
        if self.custom_input_type is not None:
            return super().get_input_schema(config)
        return self.bound.get_input_schema(merge_configs(self.config, config))

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the output as a Pydantic model."""
        if self.custom_output_type is not None:
            return super().get_output_schema(config)
        return self.bound.get_output_schema(merge_configs(self.config, config))

    def _schema_before(
        self, following: type[BaseModel], config: RunnableConfig | None
    ) -> type[BaseModel]:
        if self.custom_input_type is not None:
            return self.get_input_schema(config)
        return self.bound._schema_before(following, merge_configs(self.config, config))

    def _schema_after(
        self, previous: type[BaseModel], config: RunnableConfig | None
    ) -> type[BaseModel]:
        if self.custom_output_type is not None:
            return self.get_output_schema(config)
        return self.bound._schema_after(previous, merge_configs(self.config, config))

    @property
    def config_specs(self) -> list[Any]:
        """The configurable fields of `bound`."""
        return self.bound.config_specs


class RunnableBinding(RunnableBindingBase[Input, Output, Chunk]):  # type: ignore[no-redef]  # the plugin trips on the field
    """A runnable with arguments, config or types bound to it (`bind`, `with_config`, `with_types`).

    Other attributes are those of the bound runnable; a method that takes a config gets the bound config and arguments
    too.

    ```python
    from foldline.runnables import RunnableLambda

    def power(x: int, exponent: int = 1) -> int:
        return x**exponent

    square = RunnableLambda(power).bind(exponent=2)
    print(square.invoke(3))
    #> 9
    print(square.invoke(3, exponent=3))
    #> 27
    ```
    """

    def _with(self, **changes: object) -> RunnableBinding[Input, Output, Chunk]:
        parts = {name: getattr(self, name) for name in RunnableBindingBase.model_fields}
        return type(self)(**{**parts, **changes})

    def bind(self, **kwargs: object) -> RunnableBinding[Input, Output, Chunk]:
        """Bind more arguments."""
        check_options(self.bound, kwargs, *CALL_KEYWORDS)
        return self._with(kwargs={**self.kwargs, **kwargs})

    def with_config(
        self, config: RunnableConfig | None = None, **kwargs: object
    ) -> RunnableBinding[Input, Output, Chunk]:
        """Bind more config; a value that is bound under the same key is replaced."""
        return self._with(config={**self.config, **(config or {}), **kwargs})

    def with_types(
        self, *, input_type: object = None, output_type: object = None
    ) -> RunnableBinding[Input, Output, Chunk]:
        """Set the types, if they cannot be inferred."""
        return self._with(
            custom_input_type=self.custom_input_type if input_type is None else input_type,
            custom_output_type=self.custom_output_type if output_type is None else output_type,
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Return an attribute of the bound runnable."""
            if name.startswith("_") or "bound" not in self.__dict__:
                return super().__getattr__(name)
            return self._bound_attribute(getattr(self.bound, name))

    def _rebind(self, result: object) -> object:
        """Return the result of a method of `bound`; if it is a binding (`bind_tools`), merge this binding into it."""
        if not isinstance(result, RunnableBindingBase) or result.bound is not self.bound:
            return result
        merged = {
            "kwargs": {**self.kwargs, **result.kwargs},
            "config": merge_configs(self.config, result.config),
        }
        return result.model_copy(update=merged)

    def _bound_attribute(self, attribute: object) -> object:
        """Return an attribute of `bound`; a method that takes a config gets the bound config and arguments."""
        if not inspect.ismethod(attribute):
            return attribute
        try:
            signature = inspect.signature(attribute)
        except (TypeError, ValueError):
            return attribute
        if "config" not in signature.parameters:
            return functools.wraps(attribute)(
                lambda *args, **kwargs: self._rebind(attribute(*args, **kwargs))
            )

        @functools.wraps(attribute)
        def call(*args: object, **kwargs: object) -> object:
            arguments = signature.bind_partial(*args, **kwargs)
            arguments.arguments["config"] = merge_configs(
                self.config, arguments.arguments.get("config")
            )
            unset_kwargs = {key: value for key, value in self.kwargs.items() if key not in kwargs}
            return attribute(*arguments.args, **{**unset_kwargs, **arguments.kwargs})

        return call
