"""`RunnableBinding`: a runnable with arguments, config or types of its own; it passes every call on.

Arguments of the call win over bound ones; the call's config goes over the bound one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, Field

from foldline._config import RunnableConfig, merge_configs
from foldline._run import Run
from foldline.runnables._opening import Bound, EventStream, Opening
from foldline.runnables.base import Runnable
from foldline.runnables.serializable import RunnableSerializable

Input = TypeVar("Input", contravariant=True)
Output = TypeVar("Output", covariant=True)
ConfigFactory = Callable[[RunnableConfig], RunnableConfig]


class RunnableBindingBase(RunnableSerializable[Input, Output]):  # type: ignore[no-redef]  # the plugin trips on the field
    """A runnable that passes calls on to another, with more arguments and config."""

    bound: Runnable[Any, Any]
    """Who gets the calls."""
    kwargs: Mapping[str, Any] = Field(default_factory=dict)
    """Keyword arguments for every call."""
    config: RunnableConfig = Field(default_factory=RunnableConfig)
    """Config under every call's own."""
    config_factories: list[ConfigFactory] = Field(default_factory=list)
    """Functions that give more config, made for each call."""
    custom_input_type: Any = None
    """The input's type, instead of the bound one's."""
    custom_output_type: Any = None
    """The output's type, instead of the bound one's."""

    def __init__(
        self,
        *,
        bound: Runnable[Input, Output],
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
        # As it was given: validation would drop keys that are values for `configurable`.
        self.config = config or {}

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Whether this can be dumped: yes, if what it holds can."""
        return True

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Return the name of this binding, or of what is bound."""
        return self.bound.get_name(suffix, name=name or self.name)

    # -- pass on

    def _bound_run(self, run: Run) -> Run:
        kwargs = {**self.kwargs, **run.kwargs} if self.kwargs else run.kwargs
        if not self.config and not self.config_factories:
            return run.patched(kwargs=kwargs) if self.kwargs else run
        return run.over(self.config, self.config_factories, kwargs)

    async def _traced(self, input: Input, run: Run) -> Output:
        output: Output = await self.bound._step(input, self._bound_run(run))
        return output

    def _traced_stream(self, input: Input, run: Run) -> AsyncGenerator[Any, None]:
        return self.bound._step_stream(input, self._bound_run(run))

    def _traced_transform(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        return self.bound._step_transform(inputs, self._bound_run(run))

    def _open_stream_v2(self, opening: Opening) -> EventStream:
        return self.bound._open_stream_v2(Bound(opening, self._bound_run))

    def stream_events(
        self, input: object, config: RunnableConfig | None = None, **kwargs: object
    ) -> Any:  # noqa: ANN401  events; with version "v3" a chat model's stream, which is of a layer above
        """Return everything that happens inside, as events; a bound `version` counts."""
        return self._without_version(kwargs).stream_events(input, config, **kwargs)

    def astream_events(
        self, input: object, config: RunnableConfig | None = None, **kwargs: object
    ) -> Any:  # noqa: ANN401  events; with version "v3" a chat model's stream, which is of a layer above
        """Return everything that happens inside, as events; a bound `version` counts."""
        return self._without_version(kwargs).astream_events(input, config, **kwargs)

    def _without_version(self, kwargs: dict[str, Any]) -> Any:  # noqa: ANN401  this, or its parent class
        """Return what gives the events; a bound version moves to the call, since it is none of the model's options."""
        if "version" not in self.kwargs:
            return super()
        kwargs.setdefault("version", self.kwargs["version"])
        left = {key: value for key, value in self.kwargs.items() if key != "version"}
        return self.model_copy(update={"kwargs": left})

    # -- types

    @property
    def InputType(self) -> object:
        """The type given, or the bound one's."""
        return self.bound.InputType if self.custom_input_type is None else self.custom_input_type

    @property
    def OutputType(self) -> object:
        """The type given, or the bound one's."""
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
        """The configurable fields of what is bound."""
        return self.bound.config_specs


class RunnableBinding(RunnableBindingBase[Input, Output]):  # type: ignore[no-redef]  # the plugin trips on the field
    """A runnable with arguments, config or types bound to it (`bind`, `with_config`, `with_types`).

    What it does not have itself it takes from what is bound; a method that takes a config gets the bound
    config and arguments too.

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

    def _with(self, **changes: object) -> RunnableBinding[Input, Output]:
        parts = {name: getattr(self, name) for name in RunnableBindingBase.model_fields}
        return type(self)(**{**parts, **changes})

    def bind(self, **kwargs: object) -> RunnableBinding[Input, Output]:
        """Bind more arguments."""
        return self._with(kwargs={**self.kwargs, **kwargs})

    def with_config(
        self, config: RunnableConfig | None = None, **kwargs: object
    ) -> RunnableBinding[Input, Output]:
        """Bind more config; what was bound under the same key is replaced."""
        return self._with(config={**self.config, **(config or {}), **kwargs})

    def with_types(
        self, *, input_type: object = None, output_type: object = None
    ) -> RunnableBinding[Input, Output]:
        """Say the types, where they cannot be inferred."""
        return self._with(
            custom_input_type=self.custom_input_type if input_type is None else input_type,
            custom_output_type=self.custom_output_type if output_type is None else output_type,
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Take what a binding does not have from what is bound."""
            if name.startswith("_") or "bound" not in self.__dict__:
                return super().__getattr__(name)
            return self._passed_on(getattr(self.bound, name))

    def _rebind(self, made: object) -> object:
        """Give what a method of what is bound made; where that is a binding too (`bind_tools`), with what was bound."""
        if not isinstance(made, RunnableBindingBase) or made.bound is not self.bound:
            return made
        kept = {
            "kwargs": {**self.kwargs, **made.kwargs},
            "config": merge_configs(self.config, made.config),
        }
        return made.model_copy(update=kept)

    def _passed_on(self, attribute: object) -> object:
        """Return an attribute of what is bound; a method that takes a config gets the bound config and arguments."""
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
            given = signature.bind_partial(*args, **kwargs)
            given.arguments["config"] = merge_configs(self.config, given.arguments.get("config"))
            bound = {key: value for key, value in self.kwargs.items() if key not in kwargs}
            return attribute(*given.args, **{**bound, **given.kwargs})

        return call
