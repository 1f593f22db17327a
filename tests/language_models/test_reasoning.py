from __future__ import annotations

import pytest

from foldline.exceptions import UsageError
from foldline.language_models._call.policies.reasoning import apply_effort, map_effort
from tests.language_models.scripted import Speaking

WORDS = {"form": "level", "levels": {"low": 1000, "medium": 4000, "high": 16000}}
TOKENS = {"form": "budget", "minimum": 1024, "maximum": 10000}


@pytest.mark.parametrize(
    ("effort", "rules", "value"),
    [
        ("low", WORDS, "low"),
        ("minimal", WORDS, "low"),
        ("xhigh", WORDS, "high"),
        (5000, WORDS, "medium"),
        (10, WORDS, "low"),
        ("medium", TOKENS, 4096),
        ("minimal", TOKENS, 1024),
        ("high", TOKENS, 10000),
        (3000, TOKENS, 3000),
        (0, TOKENS, 0),
        ("none", TOKENS, 0),
    ],
)
def test_an_effort_becomes_what_the_provider_takes(effort, rules, value):
    applied = map_effort(effort, rules)

    assert applied.value == value
    assert applied.requested == effort
    assert (applied.budget if isinstance(value, int) else applied.level) == value


def test_langchains_levels_are_read_too():
    assert apply_effort("xhigh", {"reasoning_effort_levels": ["low", "high"]}).value == "high"
    assert apply_effort("high", {"reasoning_output": False}) is None
    assert apply_effort("high", None).value == "high"


@pytest.mark.parametrize("effort", ["very", -1, True, 1.5, None])
def test_an_effort_nobody_knows_is_refused(effort):
    with pytest.raises(UsageError, match="reasoning_effort"):
        map_effort(effort, WORDS)


def test_the_applied_effort_is_sent_and_reported(call):
    model = Speaking(answers=["hi"], profile={"reasoning": WORDS})

    answer = call.invoke(model, "x", reasoning_effort="xhigh")

    assert model.requests[0].options["reasoning_effort"] == "high"
    assert answer.response_metadata["reasoning_effort"] == "high"


def test_a_model_that_does_not_reason_warns(call):
    model = Speaking(answers=["hi"], profile={"reasoning_output": False})

    with pytest.warns(UserWarning, match="does not take reasoning_effort"):
        call.invoke(model, "x", reasoning_effort="high")

    assert model.requests[0].options == {}
