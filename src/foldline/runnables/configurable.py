"""Runnables whose settings, or whose choice among several, come from `config["configurable"]` of each call.

A `DynamicRunnable` is not a run itself: `prepare` returns the runnable for the config of a call, which then runs.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, Self, TypeGuard, cast

from pydantic import BaseModel

from foldline._config import RunnableConfig, merge_configs
from foldline._run import Run
from foldline.exceptions import UsageError
from foldline.load.serializable import argument_name
from foldline.runnables._stream_call import BoundStreamCall, EventStream, StreamCall
from foldline.runnables.base import Chunk, Input, Output, Runnable
from foldline.runnables.serializable import RunnableSerializable
from foldline.runnables.utils import (
    AnyConfigurableField,
    ConfigurableField,
    ConfigurableFieldMultiOption,
    ConfigurableFieldSingleOption,
    ConfigurableFieldSpec,
    gather_with_concurrency,
    get_unique_config_specs,
)

__all__ = [
    "DynamicRunnable",
    "RunnableConfigurableAlternatives",
    "RunnableConfigurableFields",
    "StrEnum",
    "gather_with_concurrency",
    "make_options_spec",
    "prefix_config_spec",
]


class StrEnum(str, enum.Enum):  # noqa: UP042  LangChain's bases
    """An enum of strings."""


class DynamicRunnable(RunnableSerializable[Input, Output, Chunk]):
    """A runnable that is prepared for the config of each call."""

    default: Runnable[Any, Any]
    """The runnable to use if the config selects none."""
    config: RunnableConfig | None = None
    """Config that each call's config is merged over."""

    def __init__(self, *, config: RunnableConfig | None = None, **fields: object) -> None:
        """Set the fields."""
        super().__init__(**fields)
        self.config = (
            config  # not validated: that would drop keys that are values for `configurable`
        )

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return whether this can be serialized: yes, if its parts can."""
        return True

    def with_config(self, config: RunnableConfig | None = None, **kwargs: object) -> Self:
        """Return a copy with more config under that of each call."""
        new_config = cast("RunnableConfig", {**(config or {}), **kwargs})
        return self.model_copy(update={"config": merge_configs(self.config, new_config)})

    # -- preparing

    def prepare(
        self, config: RunnableConfig | None = None
    ) -> tuple[Runnable[Input, Output, Chunk], RunnableConfig]:
        """Return the runnable that a call with this config runs, and its config."""
        merged_config = merge_configs(self.config, config)
        runnable, values = self._choose_all(merged_config.get("configurable") or {})
        return runnable, {**merged_config, "configurable": values}

    def _choose_all(self, values: Mapping[str, Any]) -> tuple[Runnable[Any, Any], dict[str, Any]]:
        """Choose by the values of configurable fields, until nothing is left to choose."""
        runnable, configurable = self._choose(values)
        while isinstance(runnable, DynamicRunnable):
            if runnable.config:
                configurable = {**(runnable.config.get("configurable") or {}), **configurable}
            runnable, configurable = runnable._choose(configurable)
        return runnable, dict(configurable)

    def _choose(self, values: Mapping[str, Any]) -> tuple[Runnable[Any, Any], Mapping[str, Any]]:
        raise NotImplementedError

    def _prepare_run(self, run: Run) -> tuple[Runnable[Any, Any], Run]:
        if self.config:
            run = run.with_defaults(self.config, (), run.kwargs)
        configurable = run.call_config.get("configurable")
        if not configurable:
            return self._choose_all({})[0], run
        runnable, new_configurable = self._choose_all(configurable)
        if new_configurable != configurable:
            new_config = cast(
                "RunnableConfig", {**run.call_config, "configurable": new_configurable}
            )
            run = Run(run.io, new_config, run.manager, run.kwargs)
        return runnable, run

    # -- forwarding

    async def _invoke_traced(self, input: Input, run: Run) -> Output:
        runnable, run = self._prepare_run(run)
        output: Output = await runnable._step(input, run)
        return output

    async def _stream_traced(self, input: Input, run: Run) -> AsyncGenerator[Any, None]:
        runnable, run = self._prepare_run(run)
        async with aclosing(runnable._step_stream(input, run)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _transform_traced(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        runnable, run = self._prepare_run(run)
        async with aclosing(inputs), aclosing(runnable._step_transform(inputs, run)) as chunks:
            async for chunk in chunks:
                yield chunk

    def _open_stream_v2(self, call: StreamCall) -> EventStream:
        # The stream belongs to the chosen model, so the choice is made now; nothing runs before the first read.
        runnable, _ = self._prepare_run(call.run)
        return runnable._open_stream_v2(
            BoundStreamCall(call, lambda run: self._prepare_run(run)[1])
        )

    # -- types

    @property
    def InputType(self) -> object:
        """The type of the default's input."""
        return self.default.InputType

    @property
    def OutputType(self) -> object:
        """The type of the default's output."""
        return self.default.OutputType

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the input schema of the runnable for this config."""
        runnable, prepared_config = self.prepare(config)
        return runnable.get_input_schema(prepared_config)

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the output schema of the runnable for this config."""
        runnable, prepared_config = self.prepare(config)
        return runnable.get_output_schema(prepared_config)

    # -- attributes of the prepared runnable

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Return an attribute of the prepared runnable; a method that returns a runnable stays configurable."""
            if name.startswith("_") or "default" not in self.__dict__:
                return super().__getattr__(name)
            attribute = getattr(self.prepare()[0], name)
            return self._deferred_method(name, attribute) if callable(attribute) else attribute

    def _deferred_method(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: object, **kwargs: object) -> object:
            config = next(filter(_is_config, (kwargs.get("config"), *args)), None)
            result = getattr(self.prepare(config)[0], name)(*args, **kwargs)
            if not isinstance(result, Runnable):
                return result
            return _MethodResult(default=self, method=name, arguments=args, options=kwargs)

        return call


def _is_config(value: object) -> TypeGuard[RunnableConfig]:
    return isinstance(value, dict) and isinstance(value.get("configurable"), dict)


class _MethodResult(DynamicRunnable[Input, Output, Chunk]):
    """The result of a method of a dynamic runnable, made for each call: `configurable.bind_tools(…)`."""

    method: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    def _choose(self, values: Mapping[str, Any]) -> tuple[Runnable[Any, Any], Mapping[str, Any]]:
        runnable, configurable = self.default, values
        if isinstance(runnable, DynamicRunnable):
            if runnable.config:
                configurable = {**(runnable.config.get("configurable") or {}), **configurable}
            runnable, configurable = runnable._choose_all(configurable)
        return getattr(runnable, self.method)(*self.arguments, **self.options), configurable

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The configurable fields of the runnable whose method was called."""
        return self.default.config_specs


class RunnableConfigurableFields(DynamicRunnable[Input, Output, Chunk]):
    """A runnable with settings that each call may choose (`configurable_fields`)."""

    fields: dict[str, AnyConfigurableField]
    """Setting -> its configurable field."""

    def __init__(self, **fields: Any) -> None:
        """Check that the settings exist."""
        super().__init__(**fields)
        settings = self._parameters()
        for name in self.fields:
            if name not in settings:
                raise UsageError(
                    f"{type(self.default).__name__} has no setting {name!r} to configure; it has {', '.join(settings)}"
                )

    def _parameters(self) -> list[str]:
        if not isinstance(self.default, RunnableSerializable):
            raise UsageError(
                f"configurable_fields needs a runnable with Pydantic fields, and {type(self.default).__name__} has none"
            )
        return [*type(self.default).model_fields, *self._aliases()]

    def _aliases(self) -> Mapping[str, str]:
        """Return other names of settings, as providers have them: `model_name` is `model`."""
        aliases: Mapping[str, str] = getattr(type(self.default), "aliases", None) or {}
        return aliases

    def configurable_fields(
        self, **kwargs: AnyConfigurableField
    ) -> RunnableConfigurableFields[Input, Output, Chunk]:
        """Make more settings configurable."""
        return RunnableConfigurableFields(
            default=self.default,
            config=self.config,
            name=self.name,
            fields={**self.fields, **kwargs},
        )

    def _choose(self, values: Mapping[str, Any]) -> tuple[Runnable[Any, Any], Mapping[str, Any]]:
        settings: dict[str, Any] = {}
        aliases = self._aliases()
        for field_name, field in self.fields.items():
            name = aliases.get(field_name, field_name)
            if isinstance(field, ConfigurableField):
                if field.id in values:
                    settings[name] = values[field.id]
            elif isinstance(field, ConfigurableFieldSingleOption):
                settings[name] = _option(field, values.get(field.id, field.default))
            else:
                keys = values.get(field.id, field.default)
                if isinstance(keys, str):
                    raise UsageError(
                        f"configurable {field.id!r} takes a list of options, not {keys!r}"
                    )
                settings[name] = [_option(field, key) for key in keys]
        return (_rebuild(self.default, settings) if settings else self.default), values

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The configurable settings, and the configurable fields of the default."""
        specs = [self._spec(name, field) for name, field in self.fields.items()]
        return get_unique_config_specs([*specs, *self.default.config_specs])

    def _spec(self, name: str, field: AnyConfigurableField) -> ConfigurableFieldSpec:
        name = self._aliases().get(name, name)
        info = cast("Any", type(self.default)).model_fields[name]
        description = field.description or info.description
        if not isinstance(field, ConfigurableField):
            return make_options_spec(field, description)
        return ConfigurableFieldSpec(
            id=field.id,
            name=field.name,
            description=description,
            annotation=field.annotation or info.annotation,
            default=getattr(self.default, name),
            is_shared=field.is_shared,
        )


class RunnableConfigurableAlternatives(DynamicRunnable[Input, Output, Chunk]):
    """Several runnables of which each call may choose one (`configurable_alternatives`).

    ```python
    from foldline.runnables import ConfigurableField, RunnableLambda

    greet = RunnableLambda(lambda name: f"hello {name}").configurable_alternatives(
        ConfigurableField(id="language"), default_key="english", french=RunnableLambda(lambda name: f"salut {name}")
    )
    print(greet.invoke("ann"), "-", greet.with_config(configurable={"language": "french"}).invoke("ann"))
    #> hello ann - salut ann
    ```
    """

    which: ConfigurableField
    """The configurable field of the choice."""
    alternatives: dict[str, Runnable[Any, Any] | Callable[[], Runnable[Any, Any]]]
    """The alternatives by name; a function is called when its alternative is chosen."""
    default_key: str = "default"
    """The name of the default."""
    prefix_keys: bool = False
    """Whether the configurable fields of alternatives are named `which==alternative/field`."""

    def configurable_fields(
        self, **kwargs: AnyConfigurableField
    ) -> RunnableConfigurableAlternatives[Input, Output, Chunk]:
        """Make settings of the default configurable."""
        return self.model_copy(update={"default": self.default.configurable_fields(**kwargs)})

    def _choose(self, values: Mapping[str, Any]) -> tuple[Runnable[Any, Any], Mapping[str, Any]]:
        key = values.get(self.which.id, self.default_key)
        key = key.value if isinstance(key, enum.Enum) else key
        if self.prefix_keys:
            prefix = f"{self.which.id}=={key}/"
            values = {name.removeprefix(prefix): value for name, value in values.items()}
        if key == self.default_key:
            return self.default, values
        if key not in self.alternatives:
            choices = ", ".join(repr(name) for name in (self.default_key, *self.alternatives))
            raise UsageError(
                f"configurable {self.which.id!r} knows no alternative {key!r}; there are {choices}"
            )
        alternative = self.alternatives[key]
        return (alternative if isinstance(alternative, Runnable) else alternative()), values

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The choice, and the configurable fields of all alternatives that are not functions."""
        keys = (*self.alternatives, self.default_key)
        choice = ConfigurableFieldSpec(
            id=self.which.id,
            name=self.which.name,
            description=self.which.description,
            annotation=_enum(self.which.id, keys),
            default=self.default_key,
            is_shared=self.which.is_shared,
        )
        specs = [choice]
        for key, alternative in ((self.default_key, self.default), *self.alternatives.items()):
            if isinstance(alternative, Runnable):
                prefix = f"{self.which.id}=={key}"
                specs += [
                    prefix_config_spec(spec, prefix) if self.prefix_keys else spec
                    for spec in alternative.config_specs
                ]
        return get_unique_config_specs(specs)


def _option(
    field: ConfigurableFieldSingleOption | ConfigurableFieldMultiOption, key: str | enum.Enum
) -> object:
    key = key.value if isinstance(key, enum.Enum) else key
    if key not in field.options:
        choices = ", ".join(repr(option) for option in field.options)
        raise UsageError(f"configurable {field.id!r} knows no option {key!r}; there are {choices}")
    return field.options[key]


def _rebuild(runnable: Any, settings: dict[str, Any]) -> Runnable[Any, Any]:  # noqa: ANN401  a runnable that is a Pydantic model
    """Return a runnable with other settings, made by its constructor, so that it is validated."""
    fields = type(runnable).model_fields
    config = type(runnable).model_config
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    current_values = {
        name: getattr(runnable, name) for name in fields if name in runnable.model_fields_set
    }
    arguments = {
        name if by_name else argument_name(name, fields[name]): value
        for name, value in {**current_values, **settings}.items()
    }
    rebuilt: Runnable[Any, Any] = type(runnable)(
        **{**(runnable.__pydantic_extra__ or {}), **arguments}
    )
    return rebuilt


@lru_cache(maxsize=256)
def _enum(name: str, keys: tuple[str, ...]) -> object:
    return StrEnum(name, [(key, key) for key in keys])  # type: ignore[call-overload]


def prefix_config_spec(spec: ConfigurableFieldSpec, prefix: str) -> ConfigurableFieldSpec:
    """Return a field with a prefix before its id, unless it is shared."""
    return spec if spec.is_shared else spec._replace(id=f"{prefix}/{spec.id}")


def make_options_spec(
    spec: ConfigurableFieldSingleOption | ConfigurableFieldMultiOption, description: str | None
) -> ConfigurableFieldSpec:
    """Return the spec of a field whose value is one, or several, of some options."""
    options: Any = _enum(spec.id, tuple(spec.options))
    is_multiple = isinstance(spec, ConfigurableFieldMultiOption)
    return ConfigurableFieldSpec(
        id=spec.id,
        name=spec.name,
        description=spec.description or description,
        annotation=Sequence[options] if is_multiple else options,
        default=list(spec.default) if is_multiple else spec.default,
        is_shared=spec.is_shared,
    )
