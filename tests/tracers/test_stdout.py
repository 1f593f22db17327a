"""The console tracer prints what happens, and where."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from foldline.prompts import ChatPromptTemplate
from foldline.runnables import RunnableLambda
from foldline.tracers import ConsoleCallbackHandler, Run
from foldline.tracers.stdout import FunctionCallbackHandler, elapsed, try_json_stringify


def test_every_run_is_printed_with_its_way_from_the_root(
    call: Any, capsys: pytest.CaptureFixture[str]
):
    chain = RunnableLambda(lambda x: x + 1).with_config(run_name="inc") | RunnableLambda(
        lambda x: object()
    )

    call.invoke(chain, 1, {"callbacks": [ConsoleCallbackHandler()]})
    output = capsys.readouterr().out

    assert output.startswith(
        "\x1b[32;1m\x1b[1;3m[chain/start]\x1b[0m \x1b[1m[chain:RunnableSequence] Entering Chain run with input:"
        '\x1b[0m\n{\n  "input": 1\n}\n'
    )
    assert "[chain:RunnableSequence > chain:inc]" in output
    assert output.rstrip().endswith("Exiting Chain run with output:\x1b[0m\n[outputs]")


def test_a_prompt_is_marked_as_a_chain_and_called_a_prompt(call: Any):
    lines: list[str] = []
    prompt = ChatPromptTemplate.from_template("hi {x}")

    call.invoke(prompt, {"x": 1}, {"callbacks": [FunctionCallbackHandler(lines.append)]})

    assert ["[chain/start]" in lines[0], "[chain/end]" in lines[1]] == [True, True]
    assert "[prompt:ChatPromptTemplate] Entering Prompt run with input:" in lines[0]


def test_an_error_is_printed(call: Any):
    lines: list[str] = []

    def fail(x: int) -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        call.invoke(RunnableLambda(fail), 1, {"callbacks": [FunctionCallbackHandler(lines.append)]})

    assert "[chain/error]" in lines[1]
    assert "ValueError('no')" in lines[1]


def test_times_are_for_people():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    run = Run(name="x", start_time=start)

    assert elapsed(run) == "still running"
    run.end_time = start + timedelta(milliseconds=12)
    assert elapsed(run) == "12ms"
    run.end_time = start + timedelta(seconds=1.5)
    assert elapsed(run) == "1.50s"


def test_what_is_no_json_has_a_fallback():
    loop: list[Any] = []
    loop.append(loop)

    assert try_json_stringify(loop, "[loop]") == "[loop]"
    assert try_json_stringify({"é": 1}, "") == '{\n  "é": 1\n}'
