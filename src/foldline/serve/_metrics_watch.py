"""`RunWatch`: observes the model calls of one run, and counts them, their tokens and their cost by model."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from uuid import UUID

from foldline.callbacks.base import BaseCallbackHandler
from foldline.prices.cost import message_cost
from foldline.serve._json_object import JsonObject
from foldline.serve._keys import ApiKey
from foldline.serve._metrics import Metrics
from foldline.serve.apps import ServedApp

if TYPE_CHECKING:
    from foldline.outputs import LLMResult

__all__ = ["RunWatch"]

WAYS = {"input": "input_tokens", "output": "output_tokens"}


class RunWatch(BaseCallbackHandler):
    """Counts the model calls of one run.

    Tokens and costs of a run are those of its record: what its answers do not name (a call that was cut off, a price
    of the app's own) is added at its end, to the last model.
    """

    run_inline = True

    def __init__(self, metrics: Metrics, app: ServedApp, wire: str, key: ApiKey | None) -> None:
        """Count for an app, a wire and a key."""
        self._metrics = metrics
        self._app = app.name
        self._wire = wire
        self._key = key.name if key is not None else ""
        self._begin = time.monotonic()
        self._calls: dict[UUID, tuple[str, float]] = {}
        self._last_model = metrics.model(app.label)
        self._tokens = {"input": 0, "output": 0}
        self._cost = 0.0

    def begin(self) -> None:
        """Count the start of the run."""
        self._metrics.add("runs_started_total", self._app, self._wire, key=self._key)

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[Any]], **kwargs: Any
    ) -> None:
        """Note the start of a call."""
        self._start(kwargs)

    def on_llm_start(self, serialized: dict[str, Any], prompts: list[str], **kwargs: Any) -> None:
        """Note the start of a call."""
        self._start(kwargs)

    def _start(self, kwargs: dict[str, Any]) -> None:
        facts = kwargs.get("metadata") or {}
        names = [str(facts[name]) for name in ("ls_provider", "ls_model_name") if facts.get(name)]
        self._last_model = self._metrics.model(":".join(names) or "unknown")
        self._calls[kwargs["run_id"]] = (self._last_model, time.monotonic())

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Count a call, and what it used."""
        model = self._end(run_id, "success")
        for generations in response.generations:
            message = getattr(generations[0], "message", None) if generations else None
            usage = getattr(message, "usage_metadata", None)
            if message is None or not usage:
                continue
            for way, name in WAYS.items():
                self._add_tokens(model, way, int(usage.get(name) or 0))
            cost = message.response_metadata.get("cost")
            self._add_cost(model, cost if cost is not None else message_cost(message))

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Count a call that failed or was cut off."""
        self._end(run_id, "error" if isinstance(error, Exception) else "stopped")

    def _end(self, run_id: UUID, status: str) -> str:
        model, start = self._calls.pop(run_id, (self._last_model, time.monotonic()))
        self._metrics.add("model_calls_total", model, status)
        self._metrics.observe("model_call_seconds", time.monotonic() - start, model)
        return model

    def _add_tokens(self, model: str, way: str, count: int) -> None:
        if count > 0:
            self._tokens[way] += count
            self._metrics.add("tokens_total", self._app, model, way, amount=count, key=self._key)

    def _add_cost(self, model: str, cost: float | None) -> None:
        if cost is not None and cost > 0:
            self._cost += cost
            self._metrics.add("cost_dollars_total", self._app, model, amount=cost, key=self._key)

    def finish(
        self,
        status: str,
        usage: JsonObject | None,
        cost: float | None,
        first_event: float | None,
    ) -> None:
        """Count the end of the run, and what its record has and its answers did not name."""
        self._metrics.add("runs_ended_total", self._app, self._wire, status, key=self._key)
        seconds = time.monotonic() - self._begin
        self._metrics.observe("run_seconds", seconds, self._app, self._wire, status)
        if first_event is not None:
            wait = first_event - self._begin
            self._metrics.observe("first_event_seconds", wait, self._app, self._wire)
        for way, name in WAYS.items():
            known = int((usage or {}).get(name) or 0)
            self._add_tokens(self._last_model, way, known - self._tokens[way])
        if cost is not None:
            self._add_cost(self._last_model, cost - self._cost if cost > self._cost else None)
        elif usage:
            self._metrics.add("unpriced_runs_total", self._app)
