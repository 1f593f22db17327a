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
    calls: list[Any] = Field(default_factory=list)
    answer: dict[str, Any] = Field(default_factory=dict)

    def process(self, input, options):
        self.calls.append((input, options))
        return {"text": "ok", **self.answer}


def check_name(aigne_name: str, foldline_name: str) -> None:
    module, _, name = foldline_name.rpartition(".")
    assert getattr(importlib.import_module(module), name) is not None


def check_model(aigne_name: str, foldline_name: str) -> None:
    module, _, name = foldline_name.rpartition(".")
    assert issubclass(getattr(importlib.import_module(module), name), ChatModel)


def check_method(aigne_name: str, foldline_name: str) -> None:
    owner, _, name = foldline_name.partition(".")
    assert owner == "ChatModel"
    assert callable(getattr(ChatModel, name))


def check_constructor(aigne_name: str, foldline_name: str) -> None:
    value = VALUES.get(("constructor", foldline_name), "x")
    assert getattr(Look(**{aigne_name: value}), foldline_name) == value
    assert getattr(Look(**{foldline_name: value}), foldline_name) == value


def check_retry(aigne_name: str, foldline_name: str) -> None:
    value = VALUES["retry", foldline_name]
    policy = RetryPolicy.of({aigne_name: value})
    assert getattr(policy, foldline_name) == (
        value / 1000 if aigne_name.endswith("Timeout") else value
    )


def check_model_option(aigne_name: str, foldline_name: str) -> None:
    assert foldline_name in ChatModelInputOptions.__annotations__
    for name in (aigne_name, foldline_name):
        model = Look()
        model.run({"messages": "x", "modelOptions": {name: 5}})
        options = model.calls[0][0].model_options | model.calls[0][1]
        assert options[foldline_name] == 5


def check_input(aigne_name: str, foldline_name: str) -> None:
    value = VALUES["input", foldline_name]
    read = [
        getattr(ChatModelInput(**{"messages": [], name: value}), foldline_name)
        for name in (aigne_name, foldline_name)
    ]
    assert read[0] == read[1] != ChatModelInput.model_fields[foldline_name].default


def check_role(aigne_name: str, foldline_name: str) -> None:
    message = {"role": aigne_name, "content": "x", "toolCallId": "c"}
    if aigne_name != "tool":
        del message["toolCallId"]
    (read,) = ChatModelInput(messages=[message]).messages
    assert type(read) is getattr(messages, foldline_name)


def check_message(aigne_name: str, foldline_name: str) -> None:
    assert foldline_name in ChatModelInputMessage.__annotations__
    value = VALUES.get(("message", foldline_name), "x")
    role = {"tool_call_id": "tool", "tool_calls": "agent"}.get(foldline_name, "user")
    for name in (aigne_name, foldline_name):
        message = {"role": role, "content": "x", name: value}
        (read,) = ChatModelInput(messages=[message]).messages
        if foldline_name == "tool_calls":
            assert read.tool_calls[0]["args"] == {"a": 1}
        elif foldline_name == "cache_control":
            assert read.additional_kwargs[foldline_name] == value
        else:
            assert getattr(read, foldline_name) == value


def check_output(aigne_name: str, foldline_name: str) -> None:
    value = VALUES.get(("output", foldline_name), "x")
    outputs = [
        Look(answer={name: value}).run({"messages": "x"}) for name in (aigne_name, foldline_name)
    ]
    assert getattr(outputs[0], foldline_name) == getattr(outputs[1], foldline_name)
    assert getattr(outputs[0], foldline_name) not in (None, [])
    assert aigne_name in outputs[0].model_dump(by_alias=True)
    assert ChatModelOutput.model_validate({aigne_name: value}) is not None


def check_usage(aigne_name: str, foldline_name: str) -> None:
    output = Look(answer={"usage": {"inputTokens": 1, aigne_name: 4}}).run({"messages": "x"})
    assert getattr(output.usage, foldline_name) == 4
    assert output.model_dump(by_alias=True)["usage"][aigne_name] == 4
    assert getattr(ChatModelOutputUsage(**{aigne_name: 4}), foldline_name) == 4


def check_invoke_option(aigne_name: str, foldline_name: str) -> None:
    model = Look()
    model.run({"messages": "x"})
    options = model.calls[0][1]
    assert isinstance(options, AgentInvokeOptions)
    assert getattr(options, foldline_name) is not None


def check_file(aigne_name: str, foldline_name: str) -> None:
    key = {"file": "data", "url": "url", "local": "path"}[aigne_name]
    message = {
        "role": "user",
        "content": [{"type": aigne_name, key: "aGk=", "mimeType": "image/png"}],
    }
    (read,) = ChatModelInput(messages=[message]).messages
    assert read.content == [{"type": "image", foldline_name: "aGk=", "mime_type": "image/png"}]


CHECKS: dict[str, Callable[[str, str], None]] = {
    name.removeprefix("check_").replace("_", " "): check
    for name, check in list(globals().items())
    if name.startswith("check_")
}


@pytest.mark.parametrize(("aigne_name", "kind", "foldline_name"), ROWS)
def test_a_name_of_aignes_is_ours(aigne_name: str, kind: str, foldline_name: str) -> None:
    CHECKS[kind](aigne_name, foldline_name)


def test_the_table_has_rows_of_every_kind_and_no_line_that_is_not_read() -> None:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:3] == "| `"]

    assert len(lines) == len(ROWS)
    assert {kind for _, kind, _ in ROWS} == CHECKS.keys()
