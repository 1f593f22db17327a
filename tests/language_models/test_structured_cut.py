"""F-Y14: structured output invents nothing: a truncated answer is an error that says so."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from foldline.exceptions import StructuredOutputError
from foldline.messages import AIMessage
from foldline.testing import ScriptedChatModel


class Order(BaseModel):
    item: str = ""
    amount: int = 0


def ordering(text: str, reason: str, **options: Any) -> Any:
    answers = [AIMessage(content=text, finish_reason=reason)] * 5
    model = ScriptedChatModel(script=answers)
    return model.with_structured_output(Order, method="json_mode", max_retries=0, **options)


@pytest.mark.parametrize("reason", ["length", "content_filter", "stop", "unknown"])
@pytest.mark.parametrize(
    "text", ['{"item": "bea', '{"item": "bears", "amount": 12', '{"item": "bears"', '{"item":', "{"]
)
def test_F_Y14_what_is_open_at_the_end_is_never_closed(call, text, reason):
    with pytest.raises(StructuredOutputError, match="cut off"):
        call.invoke(ordering(text, reason), "?")


@pytest.mark.parametrize("reason", ["length", "stop"])
def test_a_whole_object_is_taken_whatever_follows_it(call, reason):
    order = call.invoke(ordering('{"item": "bears", "amount": 12}', reason), "?")
    assert order == Order(item="bears", amount=12)


def test_other_repairs_are_still_made(call):
    order = call.invoke(ordering('```json\n{"item": "bears", "amount": 12,}\n```', "stop"), "?")
    assert order == Order(item="bears", amount=12)
