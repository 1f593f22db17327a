"""The older ways to call a chain (`chain(...)`, `acall`, `run`, `arun`, `apply`): all of them are `invoke`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypedDict, Unpack

from foldline._config import RunnableConfig
from foldline.callbacks.base import Callbacks
from foldline.exceptions import UsageError
from foldline.runnables.serializable import RunnableSerializable

__all__ = ["CallOptions", "LegacyCalls", "Values"]

Values = dict[str, Any]


class CallOptions(TypedDict, total=False):
    """Keyword arguments of the older ways to call a chain."""

    tags: list[str] | None
    metadata: Values | None
    run_name: str | None
    include_run_info: bool


class LegacyCalls(RunnableSerializable[Values, Values], ABC):
    """Named inputs to named outputs, called as in older programs."""

    @property
    @abstractmethod
    def input_keys(self) -> list[str]:
        """The inputs this chain needs, without those of its memory."""

    @property
    @abstractmethod
    def output_keys(self) -> list[str]:
        """The outputs this chain returns."""

    def __call__(
        self,
        inputs: object,
        return_only_outputs: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
        callbacks: Callbacks = None,
        **options: Unpack[CallOptions],
    ) -> Values:
        """Run the chain on a dict, or on its only input."""
        config, call_options = _config(callbacks, return_only_outputs, options)
        return self.invoke(inputs, config, **call_options)  # type: ignore[arg-type]

    async def acall(
        self,
        inputs: object,
        return_only_outputs: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
        callbacks: Callbacks = None,
        **options: Unpack[CallOptions],
    ) -> Values:
        """Run the chain on a dict, or on its only input."""
        config, call_options = _config(callbacks, return_only_outputs, options)
        return await self.ainvoke(inputs, config, **call_options)  # type: ignore[arg-type]

    def run(
        self,
        *args: Any,
        callbacks: Callbacks = None,
        tags: list[str] | None = None,
        metadata: Values | None = None,
        **kwargs: Any,
    ) -> Any:  # noqa: ANN401  the chain's output, whose type the caller knows
        """Run the chain and return its only output."""
        inputs = self._run_inputs(args, kwargs)
        return self(inputs, callbacks=callbacks, tags=tags, metadata=metadata)[self._run_output_key]

    async def arun(
        self,
        *args: object,
        callbacks: Callbacks = None,
        tags: list[str] | None = None,
        metadata: Values | None = None,
        **kwargs: object,
    ) -> object:
        """Run the chain and return its only output."""
        inputs = self._run_inputs(args, kwargs)
        return (await self.acall(inputs, callbacks=callbacks, tags=tags, metadata=metadata))[
            self._run_output_key
        ]

    @property
    def _run_output_key(self) -> str:
        if len(self.output_keys) != 1:
            raise UsageError(
                f"`run` returns one output and {self.get_name()} has {self.output_keys}: use `invoke`"
            )
        return self.output_keys[0]

    def _run_inputs(self, args: tuple[Any, ...], kwargs: Values) -> object:
        if len(args) == 1 and not kwargs:
            return args[0]
        if kwargs and not args:
            return kwargs
        raise UsageError("`run` takes one input, or inputs by name, and not both")

    def apply(self, input_list: list[Values], callbacks: Callbacks = None) -> list[Values]:
        """Run the chain on each of several inputs, one after the other."""
        return [self(inputs, callbacks=callbacks) for inputs in input_list]


def _config(
    callbacks: Callbacks,
    return_only_outputs: bool,  # noqa: FBT001
    options: CallOptions,
) -> tuple[RunnableConfig, dict[str, bool]]:
    settings: Values = {**options, "callbacks": callbacks}
    call_options = {
        "return_only_outputs": return_only_outputs,
        "include_run_info": settings.pop("include_run_info", False),
    }
    return {key: value for key, value in settings.items() if value is not None}, call_options  # type: ignore[return-value]
