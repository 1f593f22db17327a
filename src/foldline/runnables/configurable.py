"""Runnables whose settings, or whose choice among several, are given by `config["configurable"]` of each call.

A `DynamicRunnable` is never a run of its own: it is made ready for the config of a call (`prepare`), and what comes
out gets the call.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar, cast

from pydantic import BaseModel

from foldline._config import RunnableConfig, merge_configs
from foldline._run import Run
from foldline.exceptions import UsageError
from foldline.load.serializable import argument_name
from foldline.runnables._opening import Bound, EventStream, Opening
from foldline.runnables.base import Runnable
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

Input = TypeVar("Input", contravariant=True)
Output = TypeVar("Output", covariant=True)


class StrEnum(str, enum.Enum):  # noqa: UP042  LangChain's bases
    """An enum of strings."""


class DynamicRunnable(RunnableSerializable[Input, Output]):
    """A runnable that is made for the config of each call."""

    default: Runnable[Any, Any]
    """What runs where the config says nothing."""
    config: RunnableConfig | None = None
    """Config under every call's own."""

    def __init__(self, *, config: RunnableConfig | None = None, **fields: object) -> None:
        """Make a runnable dynamic."""
        super().__init__(**fields)
        self.config = (
            config  # as it was given: validation would drop keys that are values for `configurable`
        )

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Whether this can be dumped: yes, if what it holds can."""
        return True

    def with_config(
        self, config: RunnableConfig | None = None, **kwargs: object
    ) -> DynamicRunnable[Input, Output]:
        """Return the same with more config under that of each call."""
        more = cast("RunnableConfig", {**(config or {}), **kwargs})
        return self.model_copy(update={"config": merge_configs(self.config, more)})

    # -- make ready

    def prepare(
        self, config: RunnableConfig | None = None
    ) -> tuple[Runnable[Input, Output], RunnableConfig]:
        """Return the runnable that a call with this config runs, and the config it gets."""
        given = merge_configs(self.config, config)
        chosen, values = self._choose_all(given.get("configurable") or {})
        return chosen, {**given, "configurable": values}

    def _choose_all(self, values: Mapping[str, Any]) -> tuple[Runnable[Any, Any], dict[str, Any]]:
        """Choose by the values for configurable fields, until nothing is left to choose."""
        chosen, known = self._choose(values)
        while isinstance(chosen, DynamicRunnable):
            if chosen.config:
                known = {**(chosen.config.get("configurable") or {}), **known}
            chosen, known = chosen._choose(known)
        return chosen, dict(known)

    def _choose(self, values: Mapping[str, Any]) -> tuple[Runnable[Any, Any], Mapping[str, Any]]:
        raise NotImplementedError

    def _prepared(self, run: Run) -> tuple[Runnable[Any, Any], Run]:
        if self.config:
            run = run.over(self.config, (), run.kwargs)
        before = run.given.get("configurable")
        if not before:
            return self._choose_all({})[0], run
        chosen, after = self._choose_all(before)
        if after != before:
            given = cast("RunnableConfig", {**run.given, "configurable": after})
            run = Run(run.io, given, run.manager, run.kwargs)
        return chosen, run

    # -- pass on

    async def _traced(self, input: Input, run: Run) -> Output:
        chosen, run = self._prepared(run)
        output: Output = await chosen._step(input, run)
        return output

    async def _traced_stream(self, input: Input, run: Run) -> AsyncGenerator[Any, None]:
        chosen, run = self._prepared(run)
        async with aclosing(chosen._step_stream(input, run)) as pieces:
            async for piece in pieces:
                yield piece

    async def _traced_transform(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        chosen, run = self._prepared(run)
        async with aclosing(inputs), aclosing(chosen._step_transform(inputs, run)) as pieces:
            async for piece in pieces:
                yield piece

    def _open_stream_v2(self, opening: Opening) -> EventStream:
        # The stream is the chosen model's own, so the choice is made now; nothing is asked before the first read.
        chosen, _ = self._prepared(opening.run)
        return chosen._open_stream_v2(Bound(opening, lambda run: self._prepared(run)[1]))

    # -- types

    @property
    def InputType(self) -> object:
        """The default's."""
        return self.default.InputType

    @property
    def OutputType(self) -> object:
        """The default's."""
        return self.default.OutputType

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the input of what runs under this config."""
        chosen, given = self.prepare(config)
        return chosen.get_input_schema(given)

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the output of what runs under this config."""
        chosen, given = self.prepare(config)
        return chosen.get_output_schema(given)

    # -- attributes of what runs

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Take what this does not have from what runs; a method that gives a runnable stays configurable."""
            if name.startswith("_") or "default" not in self.__dict__:
                return super().__getattr__(name)
            attribute = getattr(self.prepare()[0], name)
            return self._later(name, attribute) if callable(attribute) else attribute

    def _later(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: object, **kwargs: object) -> object:
            config = next(filter(_is_config, (kwargs.get("config"), *args)), None)
            made = getattr(self.prepare(config)[0], name)(*args, **kwargs)
            if not isinstance(made, Runnable):
                return made
            return _MethodResult(default=self, method=name, arguments=args, options=kwargs)

        return call


def _is_config(value: object) -> TypeGuard[RunnableConfig]:
    return isinstance(value, dict) and isinstance(value.get("configurable"), dict)


class _MethodResult(DynamicRunnable[Input, Output]):
    """What a method of a dynamic runnable gives, made for each call: `configurable.bind_tools(…)`."""

    method: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    def _choose(self, values: Mapping[str, Any]) -> tuple[Runnable[Any, Any], Mapping[str, Any]]:
        chosen, known = self.default, values
        if isinstance(chosen, DynamicRunnable):
            if chosen.config:
                known = {**(chosen.config.get("configurable") or {}), **known}
            chosen, known = chosen._choose_all(known)
        return getattr(chosen, self.method)(*self.arguments, **self.options), known

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The fields of whose method it was."""
        return self.default.config_specs


class RunnableConfigurableFields(DynamicRunnable[Input, Output]):
    """A runnable some of whose settings each call may choose (`configurable_fields`)."""

    fields: dict[str, AnyConfigurableField]
    """Setting -> how a config names it."""

    def __init__(self, **given: Any) -> None:
        """Check that the settings exist."""
        super().__init__(**given)
        known = self._parameters()
        for name in self.fields:
            if name not in known:
                raise UsageError(
                    f"{type(self.default).__name__} has no setting {name!r} to configure; it has {', '.join(known)}"
                )

    def _parameters(self) -> list[str]:
        if not isinstance(self.default, RunnableSerializable):
            raise UsageError(
                f"configurable_fields needs a runnable with Pydantic fields, and {type(self.default).__name__} has none"
            )
        return [*type(self.default).model_fields, *self._aliases()]

    def _aliases(self) -> Mapping[str, str]:
        """Return the other names of settings, as providers have them: `model_name` is `model`."""
        aliases: Mapping[str, str] = getattr(type(self.default), "aliases", None) or {}
        return aliases

    def configurable_fields(
        self, **kwargs: AnyConfigurableField
    ) -> RunnableConfigurableFields[Input, Output]:
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
        for given_name, field in self.fields.items():
            name = aliases.get(given_name, given_name)
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
        return (_rebuilt(self.default, settings) if settings else self.default), values

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The configurable settings, and the fields of what is inside."""
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


class RunnableConfigurableAlternatives(DynamicRunnable[Input, Output]):
    """Runnables of which each call may choose one (`configurable_alternatives`).

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
    """How a config names the choice."""
    alternatives: dict[str, Runnable[Any, Any] | Callable[[], Runnable[Any, Any]]]
    """The others by name; a function makes one when it is chosen."""
    default_key: str = "default"
    """The name of the default."""
    prefix_keys: bool = False
    """Whether fields of the alternatives are named `which==alternative/field`."""

    def configurable_fields(
        self, **kwargs: AnyConfigurableField
    ) -> RunnableConfigurableAlternatives[Input, Output]:
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
            known = ", ".join(repr(one) for one in (self.default_key, *self.alternatives))
            raise UsageError(
                f"configurable {self.which.id!r} knows no alternative {key!r}; there are {known}"
            )
        chosen = self.alternatives[key]
        return (chosen if isinstance(chosen, Runnable) else chosen()), values

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The choice, and the fields of all alternatives that are there already."""
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
        for key, one in ((self.default_key, self.default), *self.alternatives.items()):
            if isinstance(one, Runnable):
                prefix = f"{self.which.id}=={key}"
                specs += [
                    prefix_config_spec(spec, prefix) if self.prefix_keys else spec
                    for spec in one.config_specs
                ]
        return get_unique_config_specs(specs)


def _option(
    field: ConfigurableFieldSingleOption | ConfigurableFieldMultiOption, key: str | enum.Enum
) -> object:
    key = key.value if isinstance(key, enum.Enum) else key
    if key not in field.options:
        known = ", ".join(repr(one) for one in field.options)
        raise UsageError(f"configurable {field.id!r} knows no option {key!r}; there are {known}")
    return field.options[key]


def _rebuilt(runnable: Any, settings: dict[str, Any]) -> Runnable[Any, Any]:  # noqa: ANN401  a runnable that is a Pydantic model
    """Make a runnable anew with other settings, through its constructor, so that it is validated and whole."""
    fields = type(runnable).model_fields
    config = type(runnable).model_config
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    given = {name: getattr(runnable, name) for name in fields if name in runnable.model_fields_set}
    arguments = {
        name if by_name else argument_name(name, fields[name]): value
        for name, value in {**given, **settings}.items()
    }
    made: Runnable[Any, Any] = type(runnable)(
        **{**(runnable.__pydantic_extra__ or {}), **arguments}
    )
    return made


@lru_cache(maxsize=256)
def _enum(name: str, keys: tuple[str, ...]) -> object:
    return StrEnum(name, [(key, key) for key in keys])  # type: ignore[call-overload]


def prefix_config_spec(spec: ConfigurableFieldSpec, prefix: str) -> ConfigurableFieldSpec:
    """Put a prefix before the id of a field, unless it is shared."""
    return spec if spec.is_shared else spec._replace(id=f"{prefix}/{spec.id}")


def make_options_spec(
    spec: ConfigurableFieldSingleOption | ConfigurableFieldMultiOption, description: str | None
) -> ConfigurableFieldSpec:
    """Describe a field whose value is one, or several, of some options."""
    options: Any = _enum(spec.id, tuple(spec.options))
    several = isinstance(spec, ConfigurableFieldMultiOption)
    return ConfigurableFieldSpec(
        id=spec.id,
        name=spec.name,
        description=spec.description or description,
        annotation=Sequence[options] if several else options,
        default=list(spec.default) if several else spec.default,
        is_shared=spec.is_shared,
    )
