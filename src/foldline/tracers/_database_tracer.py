"""Shared by the tracers that write into databases: the handler, which passes entries to a writer.

The run pays for one entry in a queue that has no lock: what happened, and when. A thread from foldline's pool makes
rows of that, many at a time, writes them in short transactions and leaves when there is nothing more. Where the queue
is full, a run waits before it starts, for a bounded time. A database that is full or gone costs rows, never the run:
they are counted in `dropped`, and the trouble is logged once.
"""

from __future__ import annotations

import time
import traceback
import weakref
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack
from uuid import UUID

from foldline._io import ASYNC
from foldline.callbacks._observers import RunObserver
from foldline.callbacks.base import BaseCallbackHandler
from foldline.callbacks.dispatch import HookWait, inline
from foldline.exceptions import UsageError
from foldline.tracers._config_record import RECORDED_KEYS, record_config
from foldline.tracers._records import INTERRUPT_CLASSES, Action
from foldline.tracers._redact import Redactor
from foldline.tracers._revision import find_revision
from foldline.tracers._rows import RedactHook
from foldline.tracers._streaming import StreamObserver
from foldline.tracers._writer import Overflow, TraceWriter, WriterOptions
from foldline.utils._data_places import TracePlace
from foldline.utils._options import check_names

if TYPE_CHECKING:
    from foldline.outputs import LLMResult
    from foldline.protocol.events import Event

__all__ = ["DatabaseTracer", "TracerOptions"]

LONGEST_MESSAGE = 4_000


class TracerOptions(TypedDict, total=False):
    """Options of the tracers into databases."""

    limit: int
    """Entries that may wait to be written (10,000)."""
    overflow: Overflow
    """Where so many wait: `"wait"` (the default) makes a run wait before it starts; `"drop"` leaves it out at once."""
    trace_wait: float
    """Seconds for which all runs of one trace wait at most (5); after that the store counts as gone."""
    secrets: Iterable[str]
    """Values never to write."""
    redact: RedactHook | None
    """Sees every run as a dict of columns before it is written; returns what to write, or None to leave it out."""
    config_keys: Iterable[str]
    """Keys of `configurable` to record besides `thread_id`, `checkpoint_id` and `checkpoint_ns`."""
    revision: str | None
    """Which code runs; by default `FOLDLINE_REVISION`, or the commit of the Git repository one works in."""


class DatabaseTracer(RunObserver, StreamObserver, BaseCallbackHandler):
    """Writes every run into a database of traces."""

    run_inline = True

    def __init__(self, place: TracePlace, **options: Unpack[TracerOptions]) -> None:
        """Connect, and make the tables where they are not there."""
        super().__init__()
        check_names("a tracer", options, TracerOptions.__annotations__)
        _check_values(options)
        revision = options.get("revision")
        settings = WriterOptions(
            options.get("limit", 10_000),
            options.get("overflow", "wait"),
            options.get("trace_wait", 5.0),
            find_revision() if revision is None else revision,
        )
        redactor = Redactor(options.get("secrets", ()))
        self._writer = TraceWriter(place, redactor, options.get("redact"), settings)
        self._put = self._writer.put
        self._start = self._writer.start
        self._streaming: set[UUID] = set()
        """Runs whose first piece was seen."""
        self._config_keys = (*RECORDED_KEYS, *options.get("config_keys", ()))
        self._configs: dict[UUID, dict[str, Any]] = {}
        """What is recorded of `configurable` of a run that is about to start."""
        self._finalizer = weakref.finalize(self, self._writer.close)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # a config may be copied; the tracer in it stays the one the user holds

    def __copy__(self) -> Self:
        return self

    @property
    def place(self) -> TracePlace:
        """Where the traces are: a path, or a URL."""
        return self._writer.place

    @property
    def dropped(self) -> int:
        """How many runs were not written: the store failed, or was full with `overflow="drop"`."""
        return self._writer.dropped

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def flush(self) -> None:
        """Write what is still to be written."""
        self._writer.flush()

    async def aflush(self) -> None:
        """Write what is still to be written."""
        await ASYNC.call(self._writer.flush)

    def close(self) -> None:
        """Write what is still to be written, and close the connection; runs that come later are dropped and counted."""
        self._finalizer()

    # -- an entry: a type or an action, the time, and what belongs to it; the writer makes records of them

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[Any]], **kwargs: Any
    ) -> HookWait | None:
        """Queue the start of a chat model run."""
        return self._begin(("llm", time.time(), serialized, {"messages": messages}, kwargs))

    def on_llm_start(
        self, serialized: dict[str, Any], prompts: list[str], **kwargs: Any
    ) -> HookWait | None:
        """Queue the start of a text model run."""
        return self._begin(("llm", time.time(), serialized, {"prompts": prompts}, kwargs))

    def on_chain_start(
        self, serialized: dict[str, Any] | None, inputs: object, **kwargs: Any
    ) -> HookWait | None:
        """Queue the start of a chain."""
        values = inputs if isinstance(inputs, dict) else {"input": inputs}
        run_type = kwargs.pop("run_type", None) or "chain"
        return self._begin((run_type, time.time(), serialized, values, kwargs))

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> HookWait | None:
        """Queue the start of a tool."""
        values = inputs if isinstance(inputs, dict) else {"input": input_str}
        return self._begin(("tool", time.time(), serialized, values, kwargs))

    def on_retriever_start(
        self, serialized: dict[str, Any], query: str, **kwargs: Any
    ) -> HookWait | None:
        """Queue the start of a retriever."""
        return self._begin(("retriever", time.time(), serialized, {"query": query}, kwargs))

    def on_run_config(self, run_id: UUID, configurable: Mapping[str, Any]) -> None:
        """Keep the chosen keys until the run starts."""
        if config := record_config(configurable, self._config_keys):
            self._configs[run_id] = config

    def on_run_event(self, run_id: UUID, name: str, details: dict[str, Any]) -> None:
        """Queue something that happened in a run."""
        event = {"name": name, "kwargs": details}
        self._put((Action.EVENT, time.time(), run_id, event, None))

    def _begin(self, entry: tuple[str, float, Any, Any, dict[str, Any]]) -> HookWait | None:
        if self._configs and (config := self._configs.pop(entry[4]["run_id"], None)) is not None:
            entry[4]["config"] = config
        return self._start(entry)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Queue the end of a model run."""
        self._streaming.discard(run_id)
        self._put((Action.ANSWER, time.time(), run_id, response, None))

    def on_chain_end(
        self, outputs: object, *, run_id: UUID, inputs: object = None, **kwargs: object
    ) -> None:
        """Queue the end of a chain."""
        self._streaming.discard(run_id)
        values = outputs if isinstance(outputs, dict) else {"output": outputs}
        self._put((Action.END, time.time(), run_id, values, inputs))

    def on_tool_end(self, output: object, *, run_id: UUID, **kwargs: object) -> None:
        """Queue the end of a tool."""
        self._put((Action.END, time.time(), run_id, {"output": output}, None))

    def on_retriever_end(self, documents: object, *, run_id: UUID, **kwargs: object) -> None:
        """Queue the end of a retriever."""
        self._put((Action.END, time.time(), run_id, {"documents": documents}, None))

    def on_llm_error(
        self,
        error: BaseException,
        *,
        run_id: UUID,
        **kwargs: Any,
    ) -> None:
        """Queue the error and the partial answer of a model run."""
        self._fail(error, run_id, kwargs.get("response"))

    def on_chain_error(
        self, error: BaseException, *, run_id: UUID, inputs: object = None, **kwargs: object
    ) -> None:
        """Queue the error of a chain."""
        self._fail(error, run_id, None, inputs)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Queue the error of a tool."""
        self._fail(error, run_id, None)

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Queue the error of a retriever."""
        self._fail(error, run_id, None)

    def _fail(
        self, error: BaseException, run_id: UUID, response: LLMResult | None, inputs: object = None
    ) -> None:
        self._streaming.discard(run_id)
        # A run that waits for a person's answer has not failed; its error class is in a layer above this one.
        questions = getattr(error, "interrupts", None)
        failure: tuple[Any, ...]
        if type(error).__name__ in INTERRUPT_CLASSES and isinstance(questions, list | tuple):
            failure = (None, None, None, list(questions), response, inputs)
        else:
            name = type(error).__name__
            failure = (_stacktrace(error), name, _message(error), None, response, inputs)
        self._put((Action.FAIL, time.time(), run_id, failure, None))

    def on_llm_new_token(self, token: object, *, run_id: UUID, **kwargs: object) -> None:
        """Queue the time of the first token."""
        if run_id not in self._streaming:
            self._note_first(run_id)

    @inline
    def on_stream_event(self, event: Event, *, run_id: UUID, **kwargs: object) -> None:
        """Queue the time of the first content."""
        if run_id not in self._streaming and event.get("event") == "content-block-delta":
            self._note_first(run_id)

    def on_chunk(self, run_id: UUID | None, chunk: object) -> None:
        """Queue the time of the first piece of a streamed run."""
        if run_id is not None and run_id not in self._streaming:
            self._note_first(run_id)

    def _note_first(self, run_id: UUID) -> None:
        self._streaming.add(run_id)
        self._put((Action.FIRST, time.time(), run_id, None, None))

    def on_retry(self, retry_state: object, *, run_id: UUID, **kwargs: object) -> None:
        """Queue a retry."""
        self._put((Action.RETRY, time.time(), run_id, retry_state, None))

    def on_model_request(self, request: object, *, run_id: UUID, **kwargs: object) -> None:
        """Queue the HTTP request of a model run."""
        self._put((Action.REQUEST, time.time(), run_id, request, None))


def _check_values(options: Mapping[str, object]) -> None:
    """Raise for a value of a wrong type; one of `secrets` is not shown."""
    for name in ("secrets", "config_keys"):
        values = options.get(name, ())
        if isinstance(values, str) or not isinstance(values, Iterable):
            shown = "" if name == "secrets" else f", not {values!r:.40}"
            raise UsageError(f"{name} is a list of texts{shown}")
    revision, redact = options.get("revision"), options.get("redact")
    if revision is not None and not isinstance(revision, str):
        raise UsageError(f"revision is a text, not {revision!r:.40}")
    if redact is not None and not callable(redact):
        raise UsageError(f"redact is a function of a run's columns, not {redact!r:.40}")


def _message(error: BaseException) -> str:
    try:
        return str(error)[:LONGEST_MESSAGE]
    except Exception:  # noqa: BLE001  an error whose own text cannot be made still has a class
        return ""


def _stacktrace(error: BaseException) -> str:
    try:
        lines = traceback.format_exception(type(error), error, error.__traceback__)
        return f"{error!r}\n\n{''.join(lines)}"
    except Exception:  # noqa: BLE001  an error whose own text cannot be made still has a name
        return repr(type(error))
