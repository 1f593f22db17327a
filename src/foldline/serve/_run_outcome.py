"""What a run leaves: the questions that are open, whether it was refused, and what it used."""

from __future__ import annotations

from collections.abc import Mapping

from foldline.exceptions import is_invalid_resume
from foldline.language_models._call.policies.usage_scope import UsageScope
from foldline.prices import cost_of, find_prices
from foldline.serve._json_object import JsonObject
from foldline.serve._live_runs import LiveRun
from foldline.serve.apps import RunRequest, ServedApp
from foldline.serve.errors import REFUSALS
from foldline.workflows._run_events import jsonable
from foldline.workflows.interrupts import reopened_questions, request_data

__all__ = ["note_refusal", "questions_of", "usage_and_cost"]


def note_refusal(run: LiveRun, request: RunRequest, error: Exception, result: JsonObject) -> None:
    """Record what a failed run leaves open: what a refused run has claimed is free again."""
    if is_invalid_resume(error):  # before it or beside it, other steps may have run
        answers = request.command.resume if request.command is not None else None
        questions = reopened_questions(error)
        open_ids = {question.id for question in questions}
        run.is_refused = not isinstance(answers, Mapping) or open_ids.issuperset(answers)
        if not run.is_refused:  # the other answers are used: the next one continues this run
            result["interrupts"] = [jsonable(request_data(question)) for question in questions]
    else:
        # An app refuses before it does anything.
        run.is_refused = isinstance(error, REFUSALS) and not run.has_begun
    if run.is_refused:
        result["refused"] = True


def questions_of(run: LiveRun) -> list[JsonObject]:
    """Return the questions that a run has asked."""
    return [
        event["params"]["data"]
        for event in run.key_events
        if event["method"] == "input.requested" and not event["params"]["namespace"]
    ]


def usage_and_cost(
    run: LiveRun, scope: UsageScope | None, app: ServedApp
) -> tuple[JsonObject | None, float | None]:
    """Return the tokens and the cost of a run; None where they are not known."""
    if scope is not None and scope.model_calls:
        return dict(scope.usage), scope.cost
    usage: JsonObject | None = None
    model_metadata: JsonObject = {}
    for event in reversed(run.key_events):
        if event["method"] == "messages":
            data = event["params"]["data"]
            if data["event"] == "message-finish":
                usage = data.get("usage")
            elif data["event"] == "message-start":
                model_metadata = data.get("metadata") or {}
                break
    if not usage:
        return None, None
    total = usage.get("total_tokens") or usage.get("input_tokens", 0) + usage.get(
        "output_tokens", 0
    )
    prices = find_prices(model_metadata.get("provider"), model_metadata.get("model")) or app.prices
    return {**usage, "total_tokens": total}, cost_of(usage, prices)
