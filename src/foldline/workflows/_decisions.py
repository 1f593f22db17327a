"""Decisions of a person about tool calls: the form of the question, and the check of its answer.

The question is `{"action_requests": […], "review_configs": […]}`, with one entry per call in both lists; the answer is
`{"decisions": […]}`, or the list itself. It is checked before it is stored, so that a malformed one leaves the question
open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from foldline.exceptions import InvalidAnswerError
from foldline.workflows.interrupts import Interrupt

__all__ = ["Decision", "check_reviews", "decisions_of", "is_review"]

Decision = Mapping[str, Any]
FORM = 'resume with Command(resume={"decisions": [{"type": "approve"}, …]}), one per call in their order'


def is_review(question: object) -> bool:
    """Whether a question asks for decisions about tool calls."""
    return isinstance(question, Mapping) and all(
        isinstance(question.get(key), list) for key in ("action_requests", "review_configs")
    )


def decisions_of(question: Mapping[str, Any], answer: object) -> list[Decision]:
    """Return the decisions of an answer; raise `InvalidAnswerError` if they do not fit the question."""
    configs = question["review_configs"]
    decisions = answer.get("decisions") if isinstance(answer, Mapping) else answer
    if not isinstance(decisions, list) or len(decisions) != len(configs):
        count = len(decisions) if isinstance(decisions, list) else "none"
        raise InvalidAnswerError(
            f"{len(configs)} decisions are needed and {count} were passed: {FORM}"
        )
    for decision, config in zip(decisions, configs, strict=True):
        _check(decision, config["action_name"], config["allowed_decisions"])
    return decisions


def check_reviews(
    questions: Iterable[Interrupt],
    answers: Mapping[str, Any],
    check: Callable[[str, Decision], None] | None = None,
) -> None:
    """Raise `InvalidAnswerError` if decisions do not fit; `check` gets the name and the decision of each call."""
    for question in questions:
        if question.id not in answers or not is_review(question.value):
            continue
        decisions = decisions_of(question.value, answers[question.id])
        if check is not None:
            for config, decision in zip(question.value["review_configs"], decisions, strict=True):
                check(config["action_name"], decision)


def _check(decision: object, name: str, allowed: list[str]) -> None:
    kind = decision.get("type") if isinstance(decision, Mapping) else None
    if not isinstance(decision, Mapping) or kind not in allowed:
        raise InvalidAnswerError(
            f"{kind!r} is not allowed for {name}: use one of {', '.join(allowed)}"
        )
    if kind != "edit":
        return
    action = decision.get("edited_action")
    action = action if isinstance(action, Mapping) else {}
    if not isinstance(action.get("name"), str) or not isinstance(action.get("args"), Mapping):
        raise InvalidAnswerError(
            f'the decision "edit" for {name} needs "edited_action": {{"name": …, "args": {{…}}}}'
        )
