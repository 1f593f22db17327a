"""`Chain`: named inputs to named outputs, with memory and callbacks. The order of the steps is fixed here.

    prep_inputs (memory is read) -> on_chain_start -> the chain's work -> on_chain_end or on_chain_error
    -> prep_outputs (memory is written)

A subclass implements `_call` (and `_acall`). foldline's chains are `GeneratorChain`s, which implement their work once,
as `_work`: a generator that yields pieces of the outputs, all at once or, where the caller streams, as they arrive.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from foldline._config import RunnableConfig
from foldline._io.drive import drive
from foldline._run import Run
from foldline.callbacks.base import Callbacks
from foldline.callbacks.manager import (
    AsyncCallbackManagerForChainRun,
    CallbackManagerForChainRun,
)
from foldline.chains._legacy_calls import LegacyCalls, Values
from foldline.chains.saving import save_chain
from foldline.exceptions import UsageError
from foldline.globals import get_verbose
from foldline.load._lazy_dump import LazyDump
from foldline.memory.base import BaseMemory
from foldline.outputs import RunInfo
from foldline.runnables._trace import NOTHING, add_up, plus
from foldline.runnables._types import object_model
from foldline.runnables.utils import AddableDict
from foldline.utils.uuid import uuid7

__all__ = [
    "RUN_KEY",
    "Chain",
]

UNUSED_HOOKS = (
    "_aget_docs",
    "_get_docs",
    "_get_inputs",
    "acombine_docs",
    "aprep_prompts",
    "combine_docs",
    "create_outputs",
    "prep_prompts",
)
"""Methods of LangChain's chains that no chain of foldline calls."""
RUN_KEY = "__run"
"""The output that holds the run's id, where `include_run_info` asks for it."""


class Chain(LegacyCalls, ABC):
    """Named inputs to named outputs, with memory.

    ```python
    from foldline.chains import Chain

    class Shout(Chain):
        input_keys = ["text"]
        output_keys = ["loud"]

        def _call(self, inputs, run_manager=None):
            return {"loud": inputs["text"].upper()}

    print(Shout().run("hi"))
    #> HI
    ```
    """

    memory: BaseMemory | None = None
    """Adds variables to the inputs before a call; saves inputs and outputs after it."""
    callbacks: Callbacks = Field(default=None, exclude=True)
    """Handlers that observe every run of this chain."""
    verbose: bool = Field(default_factory=get_verbose)
    """Whether to print what happens."""
    tags: list[str] | None = None
    """Tags of every run of this chain."""
    metadata: Values | None = None
    """Metadata of every run of this chain."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        arbitrary_types_allowed=True, ignored_types=(list, property)
    )

    @property
    def _chain_type(self) -> str:
        raise NotImplementedError(f"{type(self).__name__} cannot be saved")

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Whether this can be dumped: yes if the class defines `_chain_type`."""
        return cls._chain_type is not Chain._chain_type

    def save(self, file_path: Path | str) -> None:
        """Write this chain as a JSON file, which `load_chain` reads; not its memory."""
        if self.memory is not None:
            raise UsageError(
                f"{self.get_name()} has a memory, which holds a conversation and is not saved: set memory=None first"
            )
        save_chain(self, file_path)

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the schema of the inputs that a caller passes, without those of the memory."""
        memory_keys = set(self.memory.memory_variables) if self.memory is not None else set()
        caller_keys = [key for key in self.input_keys if key not in memory_keys]
        return object_model(self.get_name("Input"), dict.fromkeys(caller_keys, (Any, ...)))

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the schema of the outputs."""
        return object_model(self.get_name("Output"), dict.fromkeys(self.output_keys, (Any, ...)))

    # -- the chain's work: a subclass implements one of these

    async def _work(
        self, inputs: Values, run: Run, *, stream: bool
    ) -> AsyncGenerator[Values, None]:
        """Do the work; yield pieces of the outputs that add up to them."""
        name = "_acall" if not run.io.blocking and _overrides(type(self), "_acall") else "_call"
        extra = (
            {"run_manager": run.run_manager("chain")}
            if _takes_run_manager(type(self), name)
            else {}
        )
        with run.current():
            outputs = await run.io.call(getattr(self, name), inputs, **extra)
        yield outputs

    @abstractmethod
    def _call(
        self, inputs: Values, run_manager: CallbackManagerForChainRun | None = None
    ) -> Values:
        """Do the work; return the outputs."""

    async def _acall(
        self, inputs: Values, run_manager: AsyncCallbackManagerForChainRun | None = None
    ) -> Values:
        config: RunnableConfig | None = (
            {"callbacks": run_manager.get_child()} if run_manager else None
        )
        return await self._collect_outputs(inputs, Run.asynchronous(config))

    async def _collect_outputs(self, inputs: Values, run: Run) -> Values:
        outputs: Any = NOTHING
        async with aclosing(self._work(inputs, run, stream=False)) as pieces:
            async for piece in pieces:
                outputs = plus(outputs, AddableDict(piece))
        return {} if outputs is NOTHING else dict(outputs)

    # -- the template

    async def _invoke_traced(self, input: object, run: Run) -> Values:
        async with aclosing(self._run_with_memory(input, run, stream=False)) as pieces:
            return await anext(pieces)

    def _stream_traced(self, input: object, run: Run) -> AsyncGenerator[Any, None]:
        return self._run_with_memory(input, run, stream=True)

    async def _transform_traced(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        input = await add_up(inputs)
        if input is not NOTHING:
            async with aclosing(self._stream_traced(input, run)) as pieces:
                async for piece in pieces:
                    yield piece

    async def _run_with_memory(
        self, input: object, run: Run, *, stream: bool
    ) -> AsyncGenerator[Values, None]:
        """Do the work with memory and callbacks; without `stream` the only piece is the final result."""
        options = dict(run.kwargs)
        only_outputs = options.pop("return_only_outputs", False)
        with_info = options.pop("include_run_info", False)
        run = run.patched(kwargs=options).with_local(
            self.callbacks, self.tags, self.metadata, verbose=self.verbose
        )
        inputs = await self._call_prep_inputs(input, run)
        prep_outputs = self._find_prep("prep_outputs", run)
        outputs: Any = NOTHING
        held: Values = {}
        pieces = self._run_work(inputs, run, stream=stream, check_outputs=prep_outputs is None)
        async with aclosing(pieces):
            async for piece in pieces:
                outputs = plus(outputs, AddableDict(piece))
                if prep_outputs is not None and self._saved_outputs(piece):
                    held = piece  # `prep_outputs` may replace it: only its result is shown
                elif stream:
                    yield AddableDict(piece)
        saved_outputs = self._saved_outputs({} if outputs is NOTHING else dict(outputs))
        info = {RUN_KEY: RunInfo(run_id=run.id or uuid7())} if with_info else {}
        if prep_outputs is not None:
            arguments = (inputs, saved_outputs, only_outputs or stream)
            result = await run.io.call(prep_outputs, *arguments)
            extra = {key: held[key] for key in held.keys() - saved_outputs.keys()} if stream else {}
            yield AddableDict({**extra, **result, **info})
            return
        result = await self._save_to_memory(inputs, saved_outputs, run, only_outputs=only_outputs)
        if not stream:
            yield {**result, **info}
        elif info:
            yield AddableDict(info)

    async def _run_work(
        self, inputs: Values, run: Run, *, stream: bool, check_outputs: bool
    ) -> AsyncGenerator[Values, None]:
        """Do the work between its callbacks; yield pieces of the outputs."""
        outputs: Any = NOTHING
        name = run.get("run_name") or self.get_name()
        try:
            await run.begin("chain", "on_chain_start", self._lazy_dump(run), inputs, name=name)
            self._validate_inputs(inputs)
            work = _work_method(type(self), blocking=run.io.blocking)
            async with aclosing(work(self, inputs, run, stream=stream)) as pieces:
                async for piece in pieces:
                    outputs = plus(outputs, AddableDict(piece))
                    yield piece
            final_outputs = {} if outputs is NOTHING else dict(outputs)
            if check_outputs:  # an override of `prep_outputs` may add what is missing
                self._validate_outputs(final_outputs)
        except GeneratorExit:
            await run.end_stream({} if outputs is NOTHING else dict(outputs))
            raise
        except BaseException as error:
            await run.dispatch("on_chain_error", error)
            raise
        await run.dispatch("on_chain_end", final_outputs)

    def _find_prep(self, name: str, run: Run) -> Callable[..., Any] | None:
        """Return a subclass's `prep_inputs` or `prep_outputs`; in an async call its async form, if there is one."""
        for candidate in (name,) if run.io.blocking else (f"a{name}", name):
            if _overrides(type(self), candidate):
                method: Callable[..., Any] = getattr(self, candidate)
                return method
        return None

    async def _call_prep_inputs(self, input: object, run: Run) -> Values:
        prep_inputs = self._find_prep("prep_inputs", run)
        if prep_inputs is None:
            return await self._prepare_inputs(input, run)
        inputs: Values = await run.io.call(prep_inputs, input)
        return inputs

    def _saved_outputs(self, outputs: Values) -> Values:
        """Return the outputs that go to memory and to the caller."""
        return outputs

    def _lazy_dump(self, run: Run) -> object:
        return LazyDump(self) if run.manager is not None else None

    async def _prepare_inputs(self, input: object, run: Run) -> Values:
        inputs = self._name_input(input)
        if self.memory is not None:
            memory_variables = await self.memory._call_method(
                "load_memory_variables", run.child(), inputs
            )
            inputs = {**inputs, **memory_variables}
        return inputs

    async def _save_to_memory(
        self, inputs: Values, outputs: Values, run: Run, *, only_outputs: bool
    ) -> Values:
        if self.memory is not None:
            await self.memory._call_method("save_context", run.child(), inputs, outputs)
        return outputs if only_outputs else {**inputs, **outputs}

    def _name_input(self, input: object) -> Values:
        if isinstance(input, dict):
            return dict(input)
        caller_keys = set(self.input_keys)
        if self.memory is not None:
            caller_keys -= set(self.memory.memory_variables)
        if len(caller_keys) != 1:
            raise UsageError(
                f"{self.get_name()} has the inputs {sorted(caller_keys)}: pass a dict that names them, not {input!r}"
            )
        return {caller_keys.pop(): input}

    def _validate_inputs(self, inputs: Values) -> None:
        missing = set(self.input_keys) - set(inputs)
        if missing:
            raise UsageError(
                f"{self.get_name()} misses the inputs {sorted(missing)}; it was given {sorted(inputs)}"
            )

    def _validate_outputs(self, outputs: Values) -> None:
        missing = set(self.output_keys) - set(outputs)
        if missing:
            raise UsageError(
                f"{self.get_name()} promised the outputs {sorted(missing)} and returned {sorted(outputs)}"
            )

    # -- the steps, for programs that call them directly

    def prep_inputs(self, inputs: object) -> Values:
        """Return the inputs as a dict, with the variables of the memory added."""
        return drive(self._prepare_inputs(inputs, Run.blocking()))

    async def aprep_inputs(self, inputs: object) -> Values:
        """Return the inputs as a dict, with the variables of the memory added."""
        return await self._prepare_inputs(inputs, Run.asynchronous())

    def prep_outputs(
        self,
        inputs: Values,
        outputs: Values,
        return_only_outputs: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
    ) -> Values:
        """Check the outputs, save inputs and outputs to memory, and merge them."""
        self._validate_outputs(outputs)
        return drive(
            self._save_to_memory(inputs, outputs, Run.blocking(), only_outputs=return_only_outputs)
        )

    async def aprep_outputs(
        self,
        inputs: Values,
        outputs: Values,
        return_only_outputs: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
    ) -> Values:
        """Check the outputs, save inputs and outputs to memory, and merge them."""
        self._validate_outputs(outputs)
        return await self._save_to_memory(
            inputs, outputs, Run.asynchronous(), only_outputs=return_only_outputs
        )


class GeneratorChain(Chain, ABC):
    """A chain whose work is the generator `_work`, which `_call` collects."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in UNUSED_HOOKS:
            if name in cls.__dict__:
                raise UsageError(
                    f"{cls.__name__}.{name} would never be called: foldline's chains do not have this step of "
                    "LangChain's. Override `_call`, `prep_inputs` or `prep_outputs` instead"
                )

    @abstractmethod
    def _work(self, inputs: Values, run: Run, *, stream: bool) -> AsyncGenerator[Values, None]:
        """Do the work; yield pieces of the outputs that add up to them."""

    def _call(
        self, inputs: Values, run_manager: CallbackManagerForChainRun | None = None
    ) -> Values:
        config: RunnableConfig | None = (
            {"callbacks": run_manager.get_child()} if run_manager else None
        )
        return drive(self._collect_outputs(inputs, Run.blocking(config)))


@cache
def _work_method(
    cls: type[Chain], *, blocking: bool
) -> Callable[..., AsyncGenerator[Values, None]]:
    """Return the method that does the chain's work: `_work`, or `Chain._work`, which runs a subclass's `_call`."""
    names = {"_call"} if blocking else {"_call", "_acall"}
    for ancestor in cls.__mro__:
        if "_work" in ancestor.__dict__:
            return cls._work
        if names & ancestor.__dict__.keys():
            break
    return Chain._work


@cache
def _overrides(cls: type[Chain], name: str) -> bool:
    return getattr(cls, name) is not getattr(Chain, name)


@cache
def _takes_run_manager(cls: type[Chain], name: str) -> bool:
    return "run_manager" in inspect.signature(getattr(cls, name)).parameters
