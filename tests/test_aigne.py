"""docs/aigne.md: every row of its table of names does what it says."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from foldline import messages
from foldline.language_models import (
    AgentInvokeOptions,
    ChatModel,
    ChatModelInput,
    ChatModelOutput,
    ChatModelOutputUsage,
    ModelHooks,
    RetryPolicy,
)
from foldline.language_models.records.parts import ChatModelInputMessage, ChatModelInputOptions

PAGE = Path(__file__).parent.parent / "docs" / "aigne.md"
ROW = re.compile(r"^\| `([^`]+)`[^|]*\| ([a-z ]+) \| `([^`]+)`[^|]*\|$", re.MULTILINE)
ROWS = ROW.findall(PAGE.read_text(encoding="utf-8"))

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
VALUES: dict[tuple[str, str], Any] = {
    ("constructor", "model_options"): {"seed": 1},
    ("constructor", "retry_on_error"): False,
    ("constructor", "hooks"): ModelHooks(),
    ("retry", "max_retries"): 7,
    ("retry", "initial"): 250,
    ("retry", "max_delay"): 4000,
    ("retry", "factor"): 3.0,
    ("retry", "jitter"): False,
    ("retry", "should_retry"): bool,
    ("input", "messages"): [{"role": "user", "content": "x"}],
    ("input", "response_format"): {"type": "text"},
    ("input", "output_file_type"): "file",
    ("input", "tools"): [TOOL],
    ("input", "tool_choice"): "auto",
    ("input", "model_options"): {"top_p": 0.5},
    ("output", "json"): {"a": 1},
    ("output", "tool_calls"): [CALL],
    ("output", "usage"): {"input_tokens": 1, "output_tokens": 2},
    ("output", "files"): [{"type": "file", "data": "aGk="}],
    ("message", "tool_calls"): [CALL],
    ("message", "cache_control"): {"type": "ephemeral"},
}


class Look(ChatModel):
    seen: list[Any] = Field(default_factory=list)
    answer: dict[str, Any] = Field(default_factory=dict)

    def process(self, input, options):
        self.seen.append((input, options))
        return {"text": "ok", **self.answer}


def check_name(theirs: str, ours: str) -> None:
    module, _, name = ours.rpartition(".")
    assert getattr(importlib.import_module(module), name) is not None


def check_model(theirs: str, ours: str) -> None:
    module, _, name = ours.rpartition(".")
    assert issubclass(getattr(importlib.import_module(module), name), ChatModel)


def check_method(theirs: str, ours: str) -> None:
    owner, _, name = ours.partition(".")
    assert owner == "ChatModel"
    assert callable(getattr(ChatModel, name))


def check_constructor(theirs: str, ours: str) -> None:
    value = VALUES.get(("constructor", ours), "x")
    assert getattr(Look(**{theirs: value}), ours) == value
    assert getattr(Look(**{ours: value}), ours) == value


def check_retry(theirs: str, ours: str) -> None:
    value = VALUES["retry", ours]
    policy = RetryPolicy.of({theirs: value})
    assert getattr(policy, ours) == (value / 1000 if theirs.endswith("Timeout") else value)


def check_model_option(theirs: str, ours: str) -> None:
    assert ours in ChatModelInputOptions.__annotations__
    for name in (theirs, ours):
        model = Look()
        model.run({"messages": "x", "modelOptions": {name: 5}})
        options = model.seen[0][0].model_options | model.seen[0][1]
        assert options[ours] == 5


def check_input(theirs: str, ours: str) -> None:
    value = VALUES["input", ours]
    read = [
        getattr(ChatModelInput(**{"messages": [], name: value}), ours) for name in (theirs, ours)
    ]
    assert read[0] == read[1] != ChatModelInput.model_fields[ours].default


def check_role(theirs: str, ours: str) -> None:
    message = {"role": theirs, "content": "x", "toolCallId": "c"}
    if theirs != "tool":
        del message["toolCallId"]
    (read,) = ChatModelInput(messages=[message]).messages
    assert type(read) is getattr(messages, ours)


def check_message(theirs: str, ours: str) -> None:
    assert ours in ChatModelInputMessage.__annotations__
    value = VALUES.get(("message", ours), "x")
    role = {"tool_call_id": "tool", "tool_calls": "agent"}.get(ours, "user")
    for name in (theirs, ours):
        given = {"role": role, "content": "x", name: value}
        (read,) = ChatModelInput(messages=[given]).messages
        if ours == "tool_calls":
            assert read.tool_calls[0]["args"] == {"a": 1}
        elif ours == "cache_control":
            assert read.additional_kwargs[ours] == value
        else:
            assert getattr(read, ours) == value


def check_output(theirs: str, ours: str) -> None:
    value = VALUES.get(("output", ours), "x")
    outputs = [Look(answer={name: value}).run({"messages": "x"}) for name in (theirs, ours)]
    assert getattr(outputs[0], ours) == getattr(outputs[1], ours)
    assert getattr(outputs[0], ours) not in (None, [])
    assert theirs in outputs[0].model_dump(by_alias=True)
    assert ChatModelOutput.model_validate({theirs: value}) is not None


def check_usage(theirs: str, ours: str) -> None:
    output = Look(answer={"usage": {"inputTokens": 1, theirs: 4}}).run({"messages": "x"})
    assert getattr(output.usage, ours) == 4
    assert output.model_dump(by_alias=True)["usage"][theirs] == 4
    assert getattr(ChatModelOutputUsage(**{theirs: 4}), ours) == 4


def check_invoke_option(theirs: str, ours: str) -> None:
    model = Look()
    model.run({"messages": "x"})
    options = model.seen[0][1]
    assert isinstance(options, AgentInvokeOptions)
    assert getattr(options, ours) is not None


def check_file(theirs: str, ours: str) -> None:
    key = {"file": "data", "url": "url", "local": "path"}[theirs]
    message = {"role": "user", "content": [{"type": theirs, key: "aGk=", "mimeType": "image/png"}]}
    (read,) = ChatModelInput(messages=[message]).messages
    assert read.content == [{"type": "image", ours: "aGk=", "mime_type": "image/png"}]


CHECKS: dict[str, Callable[[str, str], None]] = {
    name.removeprefix("check_").replace("_", " "): check
    for name, check in list(globals().items())
    if name.startswith("check_")
}


@pytest.mark.parametrize(("theirs", "kind", "ours"), ROWS)
def test_a_name_of_aignes_is_ours(theirs: str, kind: str, ours: str) -> None:
    CHECKS[kind](theirs, ours)


def test_the_table_has_rows_of_every_kind_and_no_line_that_is_not_read() -> None:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:3] == "| `"]

    assert len(lines) == len(ROWS)
    assert {kind for _, kind, _ in ROWS} == CHECKS.keys()
