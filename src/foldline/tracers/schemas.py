"""`Run`: the record of one run. Plain data, the field names of LangChain; children hang below their parent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, ClassVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from foldline.utils._trusted import build_trusted
from foldline.utils.uuid import uuid7

__all__ = ["Run"]


run_key: Callable[[UUID | None], str] = lru_cache(maxsize=4096)(str)
"""The id of a run as text: each is wanted some ten times while it runs, and its children run."""


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


class Run(BaseModel):
    """One run: what went in, what came out, when, and the runs inside it.

    ```python
    from foldline.runnables import RunnableLambda
    from foldline.tracers.run_collector import RunCollectorCallbackHandler

    runs = RunCollectorCallbackHandler()
    RunnableLambda(lambda x: x + 1).with_config(run_name="add").invoke(1, {"callbacks": [runs]})
    run = runs.traced_runs[0]
    print(run.name, run.inputs, run.outputs)
    #> add {'input': 1} {'output': 2}
    ```
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    id: UUID = Field(default_factory=uuid7)
    name: str
    run_type: str = "chain"
    """chain, llm, tool, retriever, prompt or parser."""
    start_time: datetime = Field(default_factory=now)
    end_time: datetime | None = None
    first_token_time: datetime | None = None
    """When the first piece of a streamed answer arrived."""
    inputs: dict[str, Any] = Field(default_factory=dict)
    outputs: dict[str, Any] | None = None
    error: str | None = None
    serialized: dict[str, Any] | None = None
    extra: dict[str, Any] = Field(default_factory=dict)
    tags: list[str] | None = Field(default_factory=list)
    events: list[dict[str, Any]] = Field(default_factory=list)
    parent_run_id: UUID | None = None
    parent_run: Run | None = Field(default=None, exclude=True, repr=False)
    child_runs: list[Run] = Field(default_factory=list)
    trace_id: UUID | None = None
    """The id of the run at the root."""
    dotted_order: str = ""
    """Start times and ids from the root to here: sorts the runs of a trace."""

    @classmethod
    def trusted(cls, **fields: object) -> Run:
        """Return a run from trusted values, without validation; other fields have their defaults."""
        fields = {
            "end_time": None,
            "first_token_time": None,
            "outputs": None,
            "error": None,
            "parent_run": None,
            "child_runs": [],
            "trace_id": None,
            "dotted_order": "",
            **fields,
        }
        return build_trusted(cls, fields, set(fields))

    def note(self, **fields: Any) -> None:
        """Set fields to trusted values, at a quarter of the cost of setting them one by one."""
        self.__dict__.update(fields)
        self.__pydantic_fields_set__.update(fields)

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the call, in `extra` as in LangChain."""
        metadata: dict[str, Any] = self.extra.setdefault("metadata", {})
        return metadata

    def __repr__(self) -> str:
        """Name the run and how it went; what went in and out may be long."""
        ended = "under way" if self.latency is None else f"{self.latency:.3f} s"
        error = f", error={self.error.partition(chr(10))[0]!r:.80}" if self.error else ""
        children = f", {len(self.child_runs)} child runs" if self.child_runs else ""
        return f"Run({self.name!r}, {self.run_type}, {ended}{children}{error})"

    def _repr_html_(self) -> str:
        from foldline._display.runs import run_html  # noqa: PLC0415  for notebooks only

        return run_html(self)

    @property
    def latency(self) -> float | None:
        """Seconds from start to end; None while it runs."""
        return (self.end_time - self.start_time).total_seconds() if self.end_time else None

    @property
    def time_to_first_token(self) -> float | None:
        """Seconds from start to the first streamed piece; None where nothing was streamed."""
        if self.first_token_time is None:
            return None
        return (self.first_token_time - self.start_time).total_seconds()

    @property
    def usage(self) -> dict[str, Any] | None:
        """Tokens of a model run; None if its answers have none."""
        return usage_of(self.outputs)


def usage_of(outputs: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the tokens in the outputs of a model run: those of the first answer to each prompt."""
    total: dict[str, Any] | None = None
    for generations in (outputs or {}).get("generations") or []:
        message = generations[0].get("message") if generations else None
        if isinstance(message, dict):  # written down: {"lc": 1, ..., "kwargs": {...}}
            usage = (message.get("kwargs") or message).get("usage_metadata")
        else:
            usage = getattr(message, "usage_metadata", None)
        if usage:
            total = _sum(total, usage)
    return total


def _sum(total: dict[str, Any] | None, usage: dict[str, Any]) -> dict[str, Any]:
    from foldline.messages.usage import add_usage  # noqa: PLC0415  a tracer of chains needs no messages

    return dict(add_usage(total, usage))  # type: ignore[arg-type]
