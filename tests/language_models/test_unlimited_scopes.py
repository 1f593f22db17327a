"""A usage scope without limits counts and does nothing else; one inside a limited scope is bounded by that."""

from __future__ import annotations

import pytest

from foldline.exceptions import BudgetExceeded
from foldline.language_models._call.policies.usage_scope import Limits, usage_scope
from foldline.language_models.fake_chat_models import GenericFakeChatModel
from foldline.messages import AIMessage

USAGE = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}


def model_of(answers=4):
    return GenericFakeChatModel(messages=iter([AIMessage("hi", usage_metadata=USAGE)] * answers))


def test_calls_are_counted_and_no_tokens_are_estimated(call, monkeypatch):
    estimates = []
    monkeypatch.setattr(
        GenericFakeChatModel, "count_tokens", lambda *args: estimates.append(args), raising=False
    )
    model = model_of()
    with usage_scope() as outer, usage_scope() as inner:
        call.invoke(model, "a")
        call.invoke(model, "b")
    assert estimates == []
    assert (inner.model_calls, inner.total_tokens, inner.cost) == (2, 10, None)
    assert (outer.model_calls, outer.total_tokens) == (2, 10)
    assert not inner.under_way
    assert inner.is_limited is outer.is_limited is False


def test_a_scope_without_limits_inside_a_limited_one_is_bounded_by_that(call):
    model = model_of()
    with usage_scope(Limits(model_calls=1)) as outer, usage_scope() as inner:
        call.invoke(model, "a")
        with pytest.raises(BudgetExceeded):
            call.invoke(model, "b")
    assert inner.is_limited
    assert (inner.model_calls, outer.model_calls) == (1, 1)


def test_a_call_that_fails_is_counted_and_leaves_nothing_reserved(call):
    model = model_of(0)
    with usage_scope() as scope, pytest.raises(Exception):  # noqa: B017, PT011  whatever an empty iterator becomes
        call.invoke(model, "a")
    assert scope.model_calls == 1
    assert not scope.under_way
    assert scope.reserved.cost == 0
