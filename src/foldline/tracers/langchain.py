"""`LangChainTracer`: runs go to LangSmith through its own client (extra `langsmith`), as LangChain's do.

The client sends in the background; a service that is slow, down or refuses costs runs in the trace, never the program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any
from uuid import UUID
from weakref import WeakSet

from foldline.callbacks._observers import RunObserver
from foldline.exceptions import MissingExtraError, UsageError
from foldline.load import dumpd
from foldline.outputs import LLMResult
from foldline.tracers._redact import Redactor
from foldline.tracers.base import BaseTracer
from foldline.tracers.core import llm_outputs
from foldline.tracers.schemas import Run
from foldline.utils._options import check_options

if TYPE_CHECKING:
    from langsmith import Client
    from langsmith.schemas import Run as LangSmithRun

__all__ = ["LangChainTracer", "get_client", "wait_for_all_tracers"]


MESSAGES_OF_LANGCHAIN = ["langchain", "schema", "messages"]
"""The path under which LangSmith knows messages and shows them as a conversation."""
RUN_TYPES = frozenset({"tool", "chain", "llm", "retriever", "embedding", "prompt", "parser"})

_tracers: WeakSet[LangChainTracer] = WeakSet()
_clients: list[Client] = []


def _langsmith() -> ModuleType:
    """Import the extra on first use, not when the names of this package are listed."""
    try:
        import langsmith  # noqa: PLC0415
        import langsmith.utils  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(
            'LangSmith is not installed: pip install "foldline[langsmith]"'
        ) from error
    return langsmith


def get_client() -> Client:
    """Return the client of tracers without one of their own, made on first use."""
    if not _clients:
        _clients.append(_langsmith().Client())
    return _clients[0]


def wait_for_all_tracers() -> None:
    """Wait until every tracer's client has sent what it holds."""
    for tracer in list(_tracers):
        tracer.wait_for_futures()


class LangChainTracer(RunObserver, BaseTracer):
    """Sends every run to LangSmith.

    `LANGSMITH_TRACING=true` attaches one to every run; `LANGSMITH_API_KEY`, `LANGSMITH_ENDPOINT` and
    `LANGSMITH_PROJECT` say where to. Secrets are taken out before anything is handed to the client.
    """

    run_inline = True
    keep_tokens = False

    @check_options(skip=("secrets",))
    def __init__(
        self,
        example_id: UUID | str | None = None,
        project_name: str | None = None,
        client: Client | None = None,
        tags: list[str] | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        secrets: Iterable[str] = (),
    ) -> None:
        """Choose the project and the client; `tags` and `metadata` are added to every run, `secrets` are never sent."""
        super().__init__(_schema_format="original+chat")
        if isinstance(secrets, str):
            raise UsageError("secrets of a LangChainTracer is a list of texts")
        if client is not None and not hasattr(client, "create_run"):
            raise UsageError(f"client is a langsmith.Client, not {client!r:.80}")
        self.example_id: UUID | None = (
            UUID(example_id) if isinstance(example_id, str) else example_id
        )
        self.project_name: str | None = project_name or _langsmith().utils.get_tracer_project()
        self.client: Any = client or get_client()
        self.tags: list[str] = tags or []
        self.tracing_metadata: dict[str, str] = dict(metadata or {})
        self.latest_run: Run | None = None
        """The root of the last trace that ended."""
        self._redactor = Redactor(secrets)
        self._threads: dict[UUID, str] = {}
        """Threads that `configurable` names, of runs that are about to start."""
        _tracers.add(self)

    def on_run_config(self, run_id: UUID, configurable: Mapping[str, Any]) -> None:
        """Keep the thread until the run starts: LangSmith groups traces by it, and LangChain sends it as metadata."""
        if configurable.get("thread_id") is not None:
            self._threads[run_id] = str(configurable["thread_id"])

    def _on_run_create(self, run: Run) -> None:
        if self._threads and (thread := self._threads.pop(run.id, None)) is not None:
            run.extra["metadata"] = {"thread_id": thread, **run.extra.get("metadata", {})}
        run.tags = list(dict.fromkeys([*(run.tags or []), *self.tags]))
        if self.tracing_metadata:
            run.extra["metadata"] = {**self.tracing_metadata, **run.extra.get("metadata", {})}
        example: dict[str, Any] = {}
        if self.example_id is not None and run.parent_run_id is None:
            example["reference_example_id"] = self.example_id
        self.client.create_run(
            run.name,
            self._written(run.inputs),
            run.run_type if run.run_type in RUN_TYPES else "chain",
            id=run.id,
            project_name=self.project_name,
            start_time=run.start_time,
            serialized=self._redactor.json(run.serialized),
            extra=self._written(run.extra),
            tags=run.tags,
            parent_run_id=run.parent_run_id,
            trace_id=run.trace_id,
            dotted_order=run.dotted_order,
            **example,
        )

    def _on_run_update(self, run: Run) -> None:
        self.client.update_run(
            run.id,
            name=run.name,
            run_type=run.run_type if run.run_type in RUN_TYPES else "chain",
            start_time=run.start_time,
            end_time=run.end_time,
            error=None if run.error is None else self._redactor.text(run.error),
            inputs=self._written(run.inputs),
            outputs=self._written(run.outputs),
            events=self._written(_events_of(run)),
            extra=self._written(run.extra),
            tags=run.tags,
            parent_run_id=run.parent_run_id,
            trace_id=run.trace_id,
            dotted_order=run.dotted_order,
            session_name=self.project_name,
        )

    def _persist_run(self, run: Run) -> None:
        self.latest_run = run

    def _llm_outputs(self, response: LLMResult) -> dict[str, Any]:
        return llm_outputs(response, dump=False)  # `_written` dumps everything once

    def _written(self, value: object) -> Any:  # noqa: ANN401  JSON
        """Write a value as the JSON that LangSmith reads, without secrets."""
        return self._redactor.json(_as_langchain(dumpd(_open_dataclasses(value))))

    def get_run_url(self) -> str:
        """Return the page of the last trace that ended."""
        if self.latest_run is None:
            raise ValueError("no trace has ended yet: run something with this tracer first")
        sent_run: LangSmithRun = self.client.read_run(self.latest_run.id)
        return str(self.client.get_run_url(run=sent_run, project_name=self.project_name))

    def wait_for_futures(self) -> None:
        """Wait until the client has sent what it holds."""
        self.client.flush()


def _events_of(run: Run) -> list[dict[str, Any]]:
    """Return a run's events with its first token, from which LangSmith counts how long the first took."""
    if run.first_token_time is None or any(event["name"] == "new_token" for event in run.events):
        return run.events
    first = {"name": "new_token", "time": run.first_token_time}
    return [*run.events[:1], first, *run.events[1:]]


def _open_dataclasses(value: object) -> object:
    """Return the fields of dataclasses (questions, commands, results of tools), of which a dump has only the names."""
    if isinstance(value, dict):
        return {key: _open_dataclasses(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_open_dataclasses(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: _open_dataclasses(getattr(value, field.name)) for field in fields}
    return value


def _as_langchain(value: object) -> object:
    """Name messages as LangChain's dumps do."""
    if isinstance(value, list):
        return [_as_langchain(item) for item in value]
    if not isinstance(value, dict):
        return value
    converted = {key: _as_langchain(item) for key, item in value.items()}
    path = value.get("id")
    if value.get("lc") == 1 and isinstance(path, list) and path[:2] == ["foldline", "messages"]:
        converted["id"] = [*MESSAGES_OF_LANGCHAIN, path[-1]]
    return converted
