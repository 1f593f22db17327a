"""State shared by all tracers: the running runs, made and completed from callback events. Nothing here waits.

`_schema_format` says how values are written into a run, as in LangChain: "original" (dicts, messages as text and as
dumps), "original+chat" (the same, messages kept), "streaming_events" (values as they are, under `input`/`output`).
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from foldline.callbacks.stdout import name_of
from foldline.exceptions import TracerException
from foldline.tracers._streaming import StreamObserver
from foldline.tracers.schemas import Run, now, run_key
from foldline.utils._options import check_names, check_options

if TYPE_CHECKING:
    from foldline.documents.base import Document
    from foldline.messages.base import BaseMessage
    from foldline.outputs import Generation, LLMResult
    from foldline.protocol.events import Event

SchemaFormat = Literal["original", "original+chat", "streaming_events"]


class _TracerCore(StreamObserver):
    """Keeps the running runs by id, until they end."""

    log_missing_parent = True
    keep_tokens = True
    """Whether every streamed token is kept in the run's events, or only the time of the first."""

    @check_options()
    def __init__(
        self,
        *,
        _schema_format: SchemaFormat = "original",
        run_map: dict[str, Run] | None = None,
        **kwargs: Any,
    ) -> None:
        if kwargs and super().__init__.__qualname__ == "object.__init__":
            check_names(type(self).__name__, kwargs, ["run_map"])
        super().__init__(**kwargs)
        self._schema_format: SchemaFormat = _schema_format
        self.run_map: dict[str, Run] = {} if run_map is None else run_map
        """Id -> run, while it runs."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _TracerCore:
        return self  # a config may be copied; the tracer in it stays the one the user holds

    def __copy__(self) -> _TracerCore:
        return self

    # -- the runs under way

    def _get_run(self, run_id: UUID, run_type: str | set[str] | None = None) -> Run:
        run = self.run_map.get(run_key(run_id))
        if run is None:
            raise TracerException(
                f"{type(self).__name__} was told of the run {run_id} but never of its start: attach it before the run"
            )
        if run_type is None:
            return run
        run_types = {run_type} if isinstance(run_type, str) else run_type
        if run.run_type not in run_types:
            raise TracerException(f"the run {run_id} is a {run.run_type} run, not {run_type!r}")
        return run

    def _enter(self, run: Run) -> None:
        key = run_key(run.id)
        parent = self.run_map.get(run_key(run.parent_run_id)) if run.parent_run_id else None
        order = f"{_digits(run.start_time)}Z{key}"
        if parent is None:
            run.note(trace_id=run.id, dotted_order=order)
        else:
            order = f"{parent.dotted_order}.{order}"
            run.note(trace_id=parent.trace_id, dotted_order=order, parent_run=parent)
            self._add_child_run(parent, run)
        self.run_map[key] = run

    @staticmethod
    def _add_child_run(parent_run: Run, child_run: Run) -> None:
        parent_run.child_runs.append(child_run)

    def _leave(self, run: Run) -> None:
        outer = run.parent_run
        while outer is not None and outer.id != run.id:
            outer = outer.parent_run
        if outer is None:
            self.run_map.pop(run_key(run.id), None)
        else:  # a run above it has the same id, and goes on
            self.run_map[run_key(run.id)] = outer

    # -- starts

    def _create(
        self,
        run_type: str,
        serialized: dict[str, Any] | None,
        inputs: dict[str, Any],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        name: str | None = None,
        **extra: Any,
    ) -> Run:
        start = now()
        if metadata:
            extra["metadata"] = metadata
        return Run.trusted(
            id=run_id,
            name=name or name_of(serialized, {}),
            run_type=run_type,
            start_time=start,
            inputs=inputs,
            serialized=serialized,
            extra=extra,
            tags=tags or [],
            events=[{"name": "start", "time": start}],
            parent_run_id=parent_run_id,
        )

    def _create_chat_model_run(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], **kwargs: Any
    ) -> Run:
        return self._create("llm", serialized, {"messages": messages}, **kwargs)

    def _create_llm_run(self, serialized: dict[str, Any], prompts: list[str], **kwargs: Any) -> Run:
        return self._create("llm", serialized, {"prompts": prompts}, **kwargs)

    def _create_chain_run(
        self,
        serialized: dict[str, Any] | None,
        inputs: object,
        run_type: str | None = None,
        **kwargs: Any,
    ) -> Run:
        return self._create(
            run_type or "chain", serialized, self._get_chain_inputs(inputs), **kwargs
        )

    def _create_tool_run(
        self,
        serialized: dict[str, Any],
        input_str: str,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Run:
        if self._schema_format == "streaming_events":
            values: dict[str, Any] = {"input": inputs}
        else:
            values = inputs if isinstance(inputs, dict) else {"input": input_str}
        return self._create("tool", serialized, values, **kwargs)

    def _create_retrieval_run(self, serialized: dict[str, Any], query: str, **kwargs: Any) -> Run:
        return self._create("retriever", serialized, {"query": query}, **kwargs)

    def _get_chain_inputs(self, inputs: object) -> dict[str, Any]:
        return inputs if isinstance(inputs, dict) and self._keeps_dicts else {"input": inputs}

    def _get_chain_outputs(self, outputs: object) -> dict[str, Any]:
        return outputs if isinstance(outputs, dict) and self._keeps_dicts else {"output": outputs}

    @property
    def _keeps_dicts(self) -> bool:
        return self._schema_format != "streaming_events"

    # -- in between

    def _llm_run_with_token_event(
        self, token: object, run_id: UUID, chunk: object = None, **_: object
    ) -> Run:
        run = self._get_run(run_id, {"llm", "chat_model"})
        first = run.first_token_time is None
        at = now()
        if first:
            run.first_token_time = at
        if self.keep_tokens or first:
            event_kwargs: dict[str, Any] = {"token": token}
            if chunk is not None and self.keep_tokens:
                event_kwargs["chunk"] = chunk
            run.events.append({"name": "new_token", "time": at, "kwargs": event_kwargs})
        return run

    def _note_stream_event(self, event: Event, run_id: UUID) -> None:
        run = self.run_map.get(run_key(run_id))
        if (
            run is not None
            and run.first_token_time is None
            and event.get("event") == "content-block-delta"
        ):
            run.first_token_time = now()

    def on_chunk(self, run_id: UUID | None, chunk: object) -> None:
        """Note when the first piece of a streamed run passed by."""
        run = self.run_map.get(run_key(run_id))
        if run is not None and run.first_token_time is None:
            run.first_token_time = now()

    def _run_with_retry_event(self, retry_state: object, run_id: UUID, **_: object) -> Run:
        run = self._get_run(run_id)
        run.events.append({"name": "retry", "time": now(), "kwargs": describe_retry(retry_state)})
        return run

    # -- ends

    def _complete(self, run: Run, outputs: dict[str, Any] | None) -> Run:
        end = now()
        run.note(outputs=outputs, end_time=end)
        run.events.append({"name": "end", "time": end})
        return run

    def _errored(self, run: Run, error: BaseException) -> Run:
        run.error = self._get_stacktrace(error)
        run.end_time = now()
        run.events.append({"name": "error", "time": run.end_time})
        return run

    @staticmethod
    def _get_stacktrace(error: BaseException) -> str:
        try:
            lines = traceback.format_exception(type(error), error, error.__traceback__)
        except Exception:  # noqa: BLE001  an error whose own text cannot be made still has a name
            return repr(type(error))
        return f"{error!r}\n\n{''.join(lines)}"

    def _complete_llm_run(self, response: LLMResult, run_id: UUID, **_: object) -> Run:
        return self._complete(
            self._get_run(run_id, {"llm", "chat_model"}), self._llm_outputs(response)
        )

    def _errored_llm_run(
        self, error: BaseException, run_id: UUID, response: LLMResult | None = None, **_: object
    ) -> Run:
        run = self._get_run(run_id, {"llm", "chat_model"})
        if response is not None and getattr(response, "generations", None):
            run.outputs = self._llm_outputs(response)
        return self._errored(run, error)

    def _complete_chain_run(
        self, outputs: object, run_id: UUID, inputs: object = None, **_: object
    ) -> Run:
        run = self._get_run(run_id)
        if inputs is not None:
            run.inputs = self._get_chain_inputs(inputs)
        return self._complete(run, self._get_chain_outputs(outputs))

    def _errored_chain_run(
        self, error: BaseException, run_id: UUID, inputs: object = None, **_: object
    ) -> Run:
        run = self._get_run(run_id)
        if inputs is not None:
            run.inputs = self._get_chain_inputs(inputs)
        return self._errored(run, error)

    def _complete_tool_run(self, output: object, run_id: UUID, **_: object) -> Run:
        return self._complete(self._get_run(run_id, "tool"), {"output": output})

    def _errored_tool_run(self, error: BaseException, run_id: UUID, **_: object) -> Run:
        return self._errored(self._get_run(run_id, "tool"), error)

    def _complete_retrieval_run(
        self, documents: Sequence[Document], run_id: UUID, **_: object
    ) -> Run:
        return self._complete(self._get_run(run_id, "retriever"), {"documents": documents})

    def _errored_retrieval_run(self, error: BaseException, run_id: UUID, **_: object) -> Run:
        return self._errored(self._get_run(run_id, "retriever"), error)

    def _llm_outputs(self, response: LLMResult) -> dict[str, Any]:
        return llm_outputs(response, dump=self._keeps_dicts)


def llm_outputs(response: LLMResult, *, dump: bool) -> dict[str, Any]:
    """Write a model's result as a dict; messages as they are, or dumped."""
    from foldline.load import dumpd  # noqa: PLC0415  a tracer of chains dumps nothing

    def describe(generation: Generation) -> dict[str, Any]:
        as_dict: dict[str, Any] = {
            "text": generation.text,
            "generation_info": generation.generation_info,
            "type": generation.type,
        }
        if (message := getattr(generation, "message", None)) is not None:
            as_dict["message"] = dumpd(message) if dump else message
        return as_dict

    return {
        "generations": [
            [describe(generation) for generation in generations]
            for generations in response.generations
        ],
        "llm_output": response.llm_output,
        "run": None,
        "type": "LLMResult",
    }


def _digits(time: datetime) -> str:
    """Write a time as digits that sort, as `strftime("%Y%m%dT%H%M%S%f")` does at a fifth of its cost."""
    text = time.isoformat(timespec="microseconds")
    return f"{text[:4]}{text[5:7]}{text[8:13]}{text[14:16]}{text[17:19]}{text[20:26]}"


def describe_retry(state: object) -> dict[str, Any]:
    """Return what is known of another try."""
    if isinstance(
        state, dict
    ):  # foldline's own retries: {"attempt": 1, "error": ..., "delay": 0.5}
        return {
            key: repr(value) if isinstance(value, BaseException) else value
            for key, value in state.items()
        }
    outcome = getattr(state, "outcome", None)
    return {
        "attempt": getattr(state, "attempt_number", None),
        "outcome": None if outcome is None else repr(outcome),
    }
