"""deepagents and langmem, unmodified, on foldline's langchain_core: every conversation is as on LangChain.

They are in the extra `peers`; see test_packages.py for a Python that has them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from foldline.compat._private_names import LangChainBetaWarning

FILE = Path(__file__).parent / "deep_conversations.py"
PEERS = ("deepagents", "langmem", "langchain", "langgraph")


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"import foldline.compat.langchain\n{program}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def conversations(*prefix: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, *prefix, str(FILE)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.slow
@pytest.mark.skipif(not all(map(find_spec, PEERS)), reason="deepagents or langmem is not installed")
def test_AH10_conversations_are_the_same_on_langchain_and_on_foldline():
    expected, found = conversations(), conversations("-m", "foldline.compat")

    assert list(found) == list(expected)
    assert [name for name in expected if found[name] != expected[name]] == []


def test_AH10_a_beta_warning_of_another_package_is_shown():
    program = """
import warnings
from langchain_core._api.beta_decorator import LangChainBetaWarning, warn_beta
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    warn_beta(name="start", obj_type="function", addendum="See the notes.")
    warn_beta(message="Careful.")
print([(str(warning.message), warning.category is LangChainBetaWarning) for warning in caught])
"""

    shown = "the function start is in beta and may change. See the notes."
    assert run(program) == str([(shown, True), ("Careful.", True)])
    assert issubclass(LangChainBetaWarning, DeprecationWarning)


def test_AH10_beta_warnings_can_be_suppressed():
    program = """
import warnings
warnings.simplefilter("error")
from langchain_core._api import suppress_langchain_beta_warning, warn_beta
with suppress_langchain_beta_warning():
    warn_beta(name="start")
print("quiet")
"""

    assert run(program) == "quiet"


def test_AH10_tool_calls_become_those_of_openai():
    program = """
from langchain_core.messages.utils import _convert_to_openai_tool_calls
print(_convert_to_openai_tool_calls([{"name": "f", "args": {"a": "é"}, "id": "1"}]))
"""
    call = {"type": "function", "id": "1", "function": {"name": "f", "arguments": '{"a": "é"}'}}

    assert run(program) == str([call])


def test_AH10_a_prompt_value_is_also_in_the_module_of_the_prompts():
    program = """
from langchain_core.prompts.chat import ChatPromptTemplate, ChatPromptValue
print(isinstance(ChatPromptTemplate.from_template("{x}").invoke({"x": 1}), ChatPromptValue))
"""

    assert run(program) == "True"


def test_AH10_handlers_pass_on_the_output_of_langgraphs_runnables():
    program = """
import asyncio
from uuid import uuid4
from langchain_core.tracers._streaming import _StreamingCallbackHandler
from foldline.tracers.event_stream import EventStreamHandler

events, run_id = [], uuid4()
handler = EventStreamHandler(events.append)
handler.on_chain_start(None, {"a": 1}, run_id=run_id, name="node")

async def pieces():
    yield 3

async def collect():
    return [piece async for piece in handler.tap_output_aiter(run_id, pieces())]

print(isinstance(handler, _StreamingCallbackHandler), list(handler.tap_output_iter(run_id, iter([1, 2]))))
print(asyncio.run(collect()), [event["data"] for event in events[1:]])
"""

    assert run(program) == ("True [1, 2]\n[3] [{'chunk': 1}, {'chunk': 2}, {'chunk': 3}]")
