"""`Chain`: named inputs to named outputs, with memory and callbacks around. The order is a template method's.

    prep_inputs (memory is read) -> on_chain_start -> the chain's own work -> on_chain_end or on_chain_error
    -> prep_outputs (memory is written)

foldline's chains write their work once, as `_work`: a body that gives pieces of the outputs, all at once or, where the
caller streams, as they come. An author of LangChain's kind writes `_call` (and `_acall`) instead.
"""

from __future__ import annotations

import inspect
from abc import ABC
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
from foldline.chains._older import OlderCalls, Values
from foldline.chains.saving import save_chain
from foldline.exceptions import UsageError
from foldline.globals import get_verbose
from foldline.load.lazy_dump import LazyDump
from foldline.memory.base import BaseMemory
from foldline.outputs import RunInfo
from foldline.runnables._trace import NOTHING, add_up, plus
from foldline.runnables._types import object_model
from foldline.runnables.utils import AddableDict
from foldline.utils.uuid import uuid7

__all__ = ["RUN_KEY", "Chain", "Values"]

RUN_KEY = "__run"
"""The output that holds the run's id, where `include_run_info` asks for it."""


class Chain(OlderCalls, ABC):
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
    """Gives variables before a call and remembers both sides after it."""
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
        """Whether this can be dumped: yes, where its author named its type."""
        return cls._chain_type is not Chain._chain_type

    def save(self, file_path: Path | str) -> None:
        """Write this chain as a JSON file, which `load_chain` reads; not its memory."""
        if self.memory is not None:
            raise UsageError(
                f"{self.get_name()} has a memory, which holds a conversation and is not saved: set memory=None first"
            )
        save_chain(self, file_path)

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the inputs that a caller names, those of the memory aside."""
        known = set(self.memory.memory_variables) if self.memory is not None else set()
        wanted = [key for key in self.input_keys if key not in known]
        return object_model(self.get_name("Input"), dict.fromkeys(wanted, (Any, ...)))

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the outputs."""
        return object_model(self.get_name("Output"), dict.fromkeys(self.output_keys, (Any, ...)))

    # -- the chain's own work: one of these is written

    async def _work(
        self, inputs: Values, run: Run, *, stream: bool
    ) -> AsyncGenerator[Values, None]:
        """Do the work; give pieces of the outputs that add up to them."""
        name = "_acall" if not run.io.blocking and _is_written(type(self), "_acall") else "_call"
        if not _is_written(type(self), name):
            raise NotImplementedError(f"{type(self).__name__} must implement `_call`")
        extra = (
            {"run_manager": run.run_manager("chain")} if _takes_manager(type(self), name) else {}
        )
        with run.current():
            outputs = await run.io.call(getattr(self, name), inputs, **extra)
        yield outputs

    def _call(self, inputs: Values, run_manager: Any = None) -> Values:
        config: RunnableConfig | None = (
            {"callbacks": run_manager.get_child()} if run_manager else None
        )
        return drive(self._whole(inputs, Run.blocking(config)))

    async def _acall(self, inputs: Values, run_manager: Any = None) -> Values:
        config: RunnableConfig | None = (
            {"callbacks": run_manager.get_child()} if run_manager else None
        )
        return await self._whole(inputs, Run.asynchronous(config))

    async def _whole(self, inputs: Values, run: Run) -> Values:
        whole: Any = NOTHING
        async with aclosing(self._work(inputs, run, stream=False)) as pieces:
            async for piece in pieces:
                whole = plus(whole, AddableDict(piece))
        return {} if whole is NOTHING else dict(whole)

    # -- the template

    async def _invoke_traced(self, input: Any, run: Run) -> Any:
        async with aclosing(self._told(input, run, stream=False)) as pieces:
            return await anext(pieces)

    def _stream_traced(self, input: Any, run: Run) -> AsyncGenerator[Any, None]:
        return self._told(input, run, stream=True)

    async def _transform_traced(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        whole = await add_up(inputs)
        if whole is not NOTHING:
            async with aclosing(self._stream_traced(whole, run)) as pieces:
                async for piece in pieces:
                    yield piece

    async def _told(self, input: object, run: Run, *, stream: bool) -> AsyncGenerator[Values, None]:
        """Do the work with memory and callbacks around; without `stream` the one piece is the final outputs."""
        options = dict(run.kwargs)
        only_outputs = options.pop("return_only_outputs", False)
        with_info = options.pop("include_run_info", False)
        run = run.patched(kwargs=options).with_local(
            self.callbacks, self.tags, self.metadata, verbose=self.verbose
        )
        inputs = await self._prepared(input, run)
        name = run.get("run_name") or self.get_name()
        whole: Any = NOTHING
        try:
            await run.begin("chain", "on_chain_start", self._described(run), inputs, name=name)
            self._validate_inputs(inputs)
            work = _worker(type(self), blocking=run.io.blocking)
            async with aclosing(work(self, inputs, run, stream=stream)) as pieces:
                async for piece in pieces:
                    whole = plus(whole, AddableDict(piece))
                    if stream:
                        yield AddableDict(piece)
            outputs = {} if whole is NOTHING else dict(whole)
            self._validate_outputs(outputs)
        except GeneratorExit:
            await run.end_stream({} if whole is NOTHING else dict(whole))
            raise
        except BaseException as error:
            await run.dispatch("on_chain_error", error)
            raise
        await run.dispatch("on_chain_end", outputs)
        final = await self._remembered(inputs, outputs, run, only_outputs=only_outputs)
        info = {RUN_KEY: RunInfo(run_id=run.id or uuid7())} if with_info else {}
        if not stream:
            yield {**final, **info}
        elif info:
            yield AddableDict(info)

    def _described(self, run: Run) -> object:
        return LazyDump(self) if run.manager is not None else None

    async def _prepared(self, input: object, run: Run) -> Values:
        inputs = self._named(input)
        if self.memory is not None:
            known = await self.memory._ask("load_memory_variables", run.child(), inputs)
            inputs = {**inputs, **known}
        return inputs

    async def _remembered(
        self, inputs: Values, outputs: Values, run: Run, *, only_outputs: bool
    ) -> Values:
        if self.memory is not None:
            await self.memory._ask("save_context", run.child(), inputs, outputs)
        return outputs if only_outputs else {**inputs, **outputs}

    def _named(self, input: object) -> Values:
        if isinstance(input, dict):
            return dict(input)
        wanted = set(self.input_keys)
        if self.memory is not None:
            wanted -= set(self.memory.memory_variables)
        if len(wanted) != 1:
            raise UsageError(
                f"{self.get_name()} has the inputs {sorted(wanted)}: pass a dict that names them, not {input!r}"
            )
        return {wanted.pop(): input}

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
                f"{self.get_name()} promised the outputs {sorted(missing)} and gave {sorted(outputs)}"
            )

    # -- the steps of the template, for people who call them

    def prep_inputs(self, inputs: object) -> Values:
        """Name a single input and add what the memory knows."""
        return drive(self._prepared(inputs, Run.blocking()))

    async def aprep_inputs(self, inputs: object) -> Values:
        """Name a single input and add what the memory knows."""
        return await self._prepared(inputs, Run.asynchronous())

    def prep_outputs(
        self,
        inputs: Values,
        outputs: Values,
        return_only_outputs: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
    ) -> Values:
        """Check the outputs, save both sides to memory, and join them."""
        self._validate_outputs(outputs)
        return drive(
            self._remembered(inputs, outputs, Run.blocking(), only_outputs=return_only_outputs)
        )

    async def aprep_outputs(
        self,
        inputs: Values,
        outputs: Values,
        return_only_outputs: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
    ) -> Values:
        """Check the outputs, save both sides to memory, and join them."""
        self._validate_outputs(outputs)
        return await self._remembered(
            inputs, outputs, Run.asynchronous(), only_outputs=return_only_outputs
        )


@cache
def _worker(cls: type[Chain], *, blocking: bool) -> Callable[..., AsyncGenerator[Values, None]]:
    """Return the chain's work: `_work`, or the `_call` that a subclass wrote in its place."""
    names = {"_call"} if blocking else {"_call", "_acall"}
    for ancestor in cls.__mro__:
        if "_work" in ancestor.__dict__:
            return cls._work
        if names & ancestor.__dict__.keys():
            break
    return Chain._work


@cache
def _is_written(cls: type[Chain], name: str) -> bool:
    return getattr(cls, name) is not getattr(Chain, name)


@cache
def _takes_manager(cls: type[Chain], name: str) -> bool:
    return "run_manager" in inspect.signature(getattr(cls, name)).parameters
