"""`LoopRunnable`: a runnable whose runs are loops that yield events; the base of agents and graphs."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal, TypeVar, cast

from foldline._config import RunnableConfig
from foldline._io.drive import drive
from foldline._run import Run
from foldline._traceback import closing
from foldline.exceptions import ThreadBusyError, UsageError
from foldline.runnables import _trace
from foldline.runnables.base import Runnable
from foldline.utils._options import check_names
from foldline.workflows._inbox import Message, MessageKind, leave
from foldline.workflows._run_events import FlowEvent
from foldline.workflows._run_loop import RunLoop
from foldline.workflows._thread_log import Log, check_durability
from foldline.workflows.interrupts import Command, FlowInterrupt
from foldline.workflows.views import View

__all__ = ["LoopRunnable"]

Input = TypeVar("Input")
Output = TypeVar("Output")


DEBUG_MODES = ("updates", "values")
INVOKE_OPTIONS = ("context", "durability")
STREAM_OPTIONS = (*INVOKE_OPTIONS, "stream_mode", "subgraphs", "channels")
PAUSES = "use HumanInTheLoopMiddleware, or call interrupt() in a tool or a hook"
ADVICE = {
    "checkpoint_during": 'it is named durability: "async" or "exit"',
    "debug": 'stream with stream_mode="debug"',
    "output_keys": "take the keys from the result, or declare an output_schema",
    "print_mode": "stream, and print the pieces",
    "version": "the forms of results and pieces do not differ by version",
}
"""Options of LangGraph's runs -> what to write here."""


class LoopRunnable(Runnable[Input, Output, Any]):
    """A runnable whose runs are loops: `invoke` returns the last state, `stream` yields views of the run."""

    @abstractmethod
    def _loop(self, run: Run, wants: frozenset[str]) -> RunLoop[Any]:
        """Make the loop of one run."""

    def stream(
        self, input: Input, config: RunnableConfig | None = None, **kwargs: object
    ) -> Iterator[Any]:
        """Run once; yield views of the run (`stream_mode=`)."""
        return super().stream(input, config, **kwargs)

    def astream(
        self, input: Input, config: RunnableConfig | None = None, **kwargs: object
    ) -> AsyncGenerator[Any, None]:
        """Run once; yield views of the run (`stream_mode=`)."""
        return super().astream(input, config, **kwargs)

    # -- messages to a thread

    @abstractmethod
    def _thread_log(self, run: Run) -> Log:
        """Return the log of the thread of a config; raise `UsageError` without a checkpointer."""

    @abstractmethod
    def _check_message(self, value: object) -> None:
        """Raise if a value cannot be merged into the state."""

    @abstractmethod
    def _check_command(self, command: Command[Any]) -> None:
        """Raise if the update or the targets of a command do not fit, whatever the thread."""

    def send(
        self,
        input: Input,
        config: RunnableConfig,
        *,
        what: Literal["input", "notification"] = "input",
        sender: str | None = None,
        **kwargs: object,
    ) -> Output | None:
        """Send an input to a thread that another run may own, in this process or another.

        The run that owns it takes the input before its next step, and None is returned. A thread that no run owns is
        continued here, and the last state is returned. A notification changes the state of a graph and begins nothing.
        """
        message = drive(self._send(Run.blocking(config), what, input, sender))
        if message is None:
            return None
        try:
            return self.invoke(cast("Input", message), config, **kwargs)
        except ThreadBusyError as error:
            _check_thread(error, config)
            return None

    async def asend(
        self,
        input: Input,
        config: RunnableConfig,
        *,
        what: Literal["input", "notification"] = "input",
        sender: str | None = None,
        **kwargs: object,
    ) -> Output | None:
        """Send an input to a thread that another run may own, in this process or another."""
        message = await self._send(Run.asynchronous(config), what, input, sender)
        if message is None:
            return None
        try:
            return await self.ainvoke(cast("Input", message), config, **kwargs)
        except ThreadBusyError as error:
            _check_thread(error, config)
            return None

    def cancel(self, config: RunnableConfig, *, sender: str | None = None) -> None:
        """Ask the run that owns a thread to stop before its next step; it raises `RunCancelledError`."""
        drive(self._leave(Run.blocking(config), "cancel", None, sender))

    async def acancel(self, config: RunnableConfig, *, sender: str | None = None) -> None:
        """Ask the run that owns a thread to stop before its next step; it raises `RunCancelledError`."""
        await self._leave(Run.asynchronous(config), "cancel", None, sender)

    async def _leave(
        self, run: Run, what: MessageKind, value: object, sender: str | None
    ) -> Message:
        log = self._thread_log(run)
        if what != "cancel":
            self._check_message(value)
        args = (log.saver, log.thread_id, what, value, sender)
        return leave(*args) if log.saver.is_instant else await run.io.call(leave, *args)

    async def _send(
        self, run: Run, what: MessageKind, value: object, sender: str | None
    ) -> Message | None:
        """Write a message; return it if no run owns the thread, which the caller continues then."""
        message = await self._leave(run, what, value, sender)
        try:
            async with self._thread_log(run).owner.owned(run.io):
                return message
        except ThreadBusyError:
            return None

    _pause_options: ClassVar[tuple[str, ...]] = ()
    """Options of a call that stop it before or after nodes."""
    _view_options: ClassVar[tuple[str, ...]] = ()
    """Options of a call about what it returns and prints."""

    def _option_names(self) -> Iterable[str]:
        return (*STREAM_OPTIONS, *self._pause_options, *self._view_options)

    def _check_call(self, options: Mapping[str, Any], names: tuple[str, ...]) -> None:
        """Raise `UsageError` for an option of a call that this runnable does not have, and for wrong values."""
        advice = dict(ADVICE)
        if names is INVOKE_OPTIONS:
            advice["stream_mode"] = "invoke returns the last state. Use stream(…, stream_mode=…)"
        if not self._pause_options:
            advice |= dict.fromkeys(("interrupt_before", "interrupt_after"), PAUSES)
        given_names = options.keys() - {
            "stream_mode" if options.get("stream_mode") == "values" else ""
        }
        all_names = (*names, *self._pause_options, *self._view_options)
        check_names(self.get_name(), sorted(given_names), all_names, advice)
        check_durability(options.get("durability"))
        for name in ("subgraphs", "debug"):
            if not isinstance(options.get(name), bool | None):
                raise UsageError(f"{name}={options[name]!r:.80}: pass True or False")

    def _printer(self, options: Mapping[str, Any]) -> View | None:
        """Return the view of what a call prints: the modes of `print_mode`, or updates and values for `debug`."""
        modes = options.get("print_mode") or ()
        is_debug = options.get("debug")
        if not modes and (is_debug if is_debug is not None else getattr(self, "debug", False)):
            modes = DEBUG_MODES
        if not modes:
            return None
        modes = [modes] if isinstance(modes, str) else modes
        return View(modes, subgraphs=True, option="print_mode")

    async def _invoke_body(self, input: Input, run: Run) -> Output:
        if run.kwargs:
            self._check_call(run.kwargs, INVOKE_OPTIONS)
        printer = self._printer(run.kwargs)
        loop = self._loop(run, frozenset() if printer is None else printer.wants)
        async with closing(loop.events(input)) as events:
            async for event in events:
                _forward_event(event, loop)
                if printer is not None:
                    _print_pieces(printer, event)
        _stop_outer(loop)
        output: Output = loop.result()
        return output

    async def _stream_body(self, input: Input, run: Run) -> AsyncGenerator[Any, None]:
        async with closing(self._view_pieces(input, run, [])) as pieces:
            async for piece in pieces:
                yield piece

    async def _view_pieces(
        self, input: Input, run: Run, loops: list[RunLoop[Any]]
    ) -> AsyncGenerator[Any, None]:
        if run.kwargs:
            self._check_call(run.kwargs, STREAM_OPTIONS)
        view = View(
            run.kwargs.get("stream_mode") or "updates",
            subgraphs=bool(run.kwargs.get("subgraphs")),
            channels=run.kwargs.get("channels"),
        )
        printer = self._printer(run.kwargs)
        loop = self._loop(run, view.wants if printer is None else view.wants | printer.wants)
        loops.append(loop)
        depth = len(loop.namespace)
        async with closing(loop.events(input)) as events:
            async for event in events:
                _forward_event(event, loop)
                # The caller of this run sees namespaces relative to it.
                relative = event._replace(namespace=event.namespace[depth:]) if depth else event
                if printer is not None:
                    _print_pieces(printer, relative)
                for piece in view.pieces(relative):
                    yield piece
        _stop_outer(loop)

    async def _stream_traced(self, input: Input, run: Run) -> AsyncGenerator[Any, None]:
        """Stream as a traced run whose output is the last state, not the sum of the pieces."""
        run = run.patched()
        loops: list[RunLoop[Any]] = []
        observers = _trace.observers(run.handlers)
        try:
            await _trace.begin(self, input, run)
            async with closing(self._view_pieces(input, run, loops)) as pieces:
                async for piece in pieces:
                    for observer in observers:
                        observer.on_chunk(run.id, piece)
                    yield piece
        except GeneratorExit:
            await run.end_stream(loops[0].partial_result() if loops else None)
            raise
        except BaseException as error:
            await run.dispatch("on_chain_error", error)
            raise
        await run.dispatch("on_chain_end", loops[0].result())


def _check_thread(error: ThreadBusyError, config: RunnableConfig) -> None:
    """Raise an error that is not of the config's thread, whose owner takes the message."""
    if error.thread_id != str((config.get("configurable") or {}).get("thread_id")):
        raise error


def _print_pieces(printer: View, event: FlowEvent) -> None:
    for namespace, mode, piece in printer.pieces(event):
        place = f" {'|'.join(namespace)}" if namespace else ""
        sys.stdout.write(f"[{mode}]{place} {piece!r}\n")


def _forward_event(event: FlowEvent, loop: RunLoop[Any]) -> None:
    if loop.outer is not None and loop.outer.emit is not None:
        loop.outer.emit(event)


def _stop_outer(loop: RunLoop[Any]) -> None:
    """Stop the outer run for the questions of this one, or for its breakpoint."""
    stops = bool(loop.interrupts) or loop.is_at_breakpoint
    if stops and (loop.is_inner or (loop.context.log is None and loop.context.can_stop)):
        raise FlowInterrupt(loop.interrupts)
