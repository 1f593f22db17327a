"""Chains that run in order, with named values (`SequentialChain`) or one value (`SimpleSequentialChain`).

`TransformChain` is a function as a chain.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Self

from pydantic import Field, model_validator

from foldline._run import Run
from foldline.chains._legacy_calls import Values
from foldline.chains.base import Chain, GeneratorChain
from foldline.exceptions import UsageError

__all__ = ["SequentialChain", "SimpleSequentialChain", "TransformChain"]


class SequentialChain(GeneratorChain):
    """Runs chains in order; each takes its inputs from the inputs and all earlier outputs."""

    chains: list[Chain]
    input_variables: list[str]
    output_variables: list[str] = Field(default_factory=list)
    """The outputs to return; default: those of the last chain."""
    return_all: bool = False
    """Return the outputs of every chain."""

    @property
    def _chain_type(self) -> str:
        return "sequential_chain"

    @property
    def input_keys(self) -> list[str]:
        """The inputs of the sequence."""
        return self.input_variables

    @property
    def output_keys(self) -> list[str]:
        """The outputs of the sequence."""
        return self.output_variables

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        available_keys = set(self.input_variables) | set(
            self.memory.memory_variables if self.memory else []
        )
        for chain in self.chains:
            memory_keys = set(chain.memory.memory_variables) if chain.memory else set()
            missing = set(chain.input_keys) - available_keys - memory_keys
            if missing:
                raise UsageError(
                    f"{chain.get_name()} misses {sorted(missing)}; by then there is only {sorted(available_keys)}"
                )
            duplicates = available_keys & set(chain.output_keys)
            if duplicates:
                raise UsageError(
                    f"{chain.get_name()} returns {sorted(duplicates)} a second time: rename its output"
                )
            available_keys |= set(chain.output_keys)
        if not self.output_variables:
            last_outputs = self.chains[-1].output_keys
            self.output_variables = (
                sorted(available_keys - set(self.input_variables))
                if self.return_all
                else list(last_outputs)
            )
        elif missing := set(self.output_variables) - available_keys:
            raise UsageError(f"no chain of the sequence returns {sorted(missing)}")
        return self

    async def _work(
        self, inputs: Values, run: Run, *, stream: bool
    ) -> AsyncGenerator[Values, None]:
        values = dict(inputs)
        for step, chain in enumerate(self.chains, start=1):
            child = run.child(f"step_{step}").patched(kwargs={"return_only_outputs": True})
            if (
                stream
                and chain is self.chains[-1]
                and set(self.output_variables) <= set(chain.output_keys)
            ):
                async with aclosing(chain._step_stream(values, child)) as pieces:
                    async for piece in pieces:
                        yield {
                            key: item for key, item in piece.items() if key in self.output_variables
                        }
                return
            values.update(await chain._step(values, child))
        yield {key: values[key] for key in self.output_variables}


class SimpleSequentialChain(GeneratorChain):
    """Runs chains in order; each has one input and one output."""

    chains: list[Chain]
    strip_outputs: bool = False
    """Strip white space around every output."""
    input_key: str = "input"
    output_key: str = "output"

    @property
    def _chain_type(self) -> str:
        return "simple_sequential_chain"

    @property
    def input_keys(self) -> list[str]:
        """The only input."""
        return [self.input_key]

    @property
    def output_keys(self) -> list[str]:
        """The only output."""
        return [self.output_key]

    @model_validator(mode="after")
    def _check_single(self) -> Self:
        for chain in self.chains:
            if len(chain.input_keys) != 1 or len(chain.output_keys) != 1:
                raise UsageError(
                    f"{chain.get_name()} has the inputs {chain.input_keys} and the outputs {chain.output_keys}: "
                    "SimpleSequentialChain takes chains with one of each; use SequentialChain"
                )
        return self

    async def _work(
        self, inputs: Values, run: Run, *, stream: bool
    ) -> AsyncGenerator[Values, None]:
        value = inputs[self.input_key]
        for step, chain in enumerate(self.chains, start=1):
            child = run.child(f"step_{step}").patched(kwargs={"return_only_outputs": True})
            if stream and chain is self.chains[-1] and not self.strip_outputs:
                async with aclosing(chain._step_stream(value, child)) as pieces:
                    async for piece in pieces:
                        yield {self.output_key: piece[chain.output_keys[0]]}
                return
            value = (await chain._step(value, child))[chain.output_keys[0]]
            value = value.strip() if self.strip_outputs else value
            if self.verbose:
                await run.dispatch("on_text", str(value), end="\n")
        yield {self.output_key: value}


class TransformChain(GeneratorChain):
    """A function of the inputs as a chain."""

    input_variables: list[str]
    output_variables: list[str]
    transform_cb: Callable[[Values], Values] = Field(alias="transform")
    atransform_cb: Callable[[Values], Awaitable[Values]] | None = Field(
        default=None, alias="atransform"
    )

    @property
    def input_keys(self) -> list[str]:
        """The inputs of the function."""
        return self.input_variables

    @property
    def output_keys(self) -> list[str]:
        """The outputs of the function."""
        return self.output_variables

    async def _work(
        self, inputs: Values, run: Run, *, stream: bool
    ) -> AsyncGenerator[Values, None]:
        function: Callable[..., Any] = self.transform_cb
        if not run.io.blocking and self.atransform_cb is not None:
            function = self.atransform_cb
        with run.current():
            outputs = await run.io.call(function, inputs)
        yield outputs
