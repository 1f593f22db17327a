"""Costs of a whole process: importing, memory after it, packages to install, the first word of an answer."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata

Run = Callable[[], float]

ONE_MODEL = """
from pydantic import BaseModel, ConfigDict
class Model(BaseModel):
    model_config = ConfigDict(defer_build=True)
    field: int = 0
"""
"""The least that has a Pydantic model in it, as messages and models are; deferred, as ours: its schema is not built."""

STATEMENTS: dict[str, dict[str, str]] = {
    "messages": {
        "floor": ONE_MODEL,
        "foldline": "from foldline.messages import HumanMessage",
        "langchain": "from langchain_core.messages import HumanMessage",
    },
    "openai": {
        "floor": ONE_MODEL,
        "foldline": "from foldline.providers.openai import ChatOpenAI",
        "langchain": "from langchain_openai import ChatOpenAI",
        "openai": "from openai import OpenAI, AsyncOpenAI",
        "pydantic-ai": "from pydantic_ai import Agent; from pydantic_ai.models.openai import OpenAIChatModel",
        "litellm": "from litellm import completion",
    },
    "anthropic": {
        "floor": ONE_MODEL,
        "foldline": "from foldline.providers.anthropic import ChatAnthropic",
        "langchain": "from langchain_anthropic import ChatAnthropic",
        "anthropic": "from anthropic import Anthropic, AsyncAnthropic",
    },
    "agents": {
        "foldline": "from foldline.agents import create_agent",
        "langchain": "from langchain.agents import create_agent",
        "pydantic-ai": "from pydantic_ai import Agent",
    },
    "chain": {
        "foldline": "from foldline.prompts import ChatPromptTemplate; "
        "from foldline.output_parsers import StrOutputParser",
        "langchain": "from langchain_core.prompts import ChatPromptTemplate; "
        "from langchain_core.output_parsers import StrOutputParser",
    },
}
MEASURED = """
import sys, time
begin = time.process_time()
{statement}
took = (time.process_time() - begin) * 1000
try:
    memory = int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6
except OSError:
    import resource
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
print(took, len(sys.modules), memory)
"""
OF = {"cpu": 0, "modules": 1, "memory": 2}


def importing(side: str, what: str, of: str = "cpu") -> Run:
    """Milliseconds of CPU, modules loaded or megabytes of a fresh process after one import."""
    code = MEASURED.format(statement=STATEMENTS[what][side])

    def run() -> float:
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        return float(result.stdout.split()[OF[of]])

    return run


PEAK = """
import resource
from {root}.language_models import FakeListChatModel
from {root}.output_parsers import StrOutputParser
from {root}.prompts import ChatPromptTemplate
model = FakeListChatModel(responses=["x" * 2000])
chain = ChatPromptTemplate.from_messages([("human", "{{topic}}")]) | model | StrOutputParser()
for _ in range(1000):
    chain.invoke({{"topic": "bears"}})
for _ in chain.stream({{"topic": "bears"}}):
    pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)
"""


def peak(side: str) -> Run:
    """Megabytes that a whole small program ever held."""
    code = PEAK.format(root="foldline" if side == "foldline" else "langchain_core")

    def run() -> float:
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        return float(result.stdout)

    return run


COLD = {
    "foldline": "from foldline.providers.openai import ChatOpenAI\n"
    "chat = ChatOpenAI(model='text-20', api_key='k', base_url='{url}/v1')\n"
    "for chunk in chat.stream('hi'):\n    print(chunk.content, flush=True)",
    "langchain": "from langchain_openai import ChatOpenAI\n"
    "chat = ChatOpenAI(model='text-20', api_key='k', base_url='{url}/v1')\n"
    "for chunk in chat.stream('hi'):\n    print(chunk.content, flush=True)",
    "openai": "from openai import OpenAI\n"
    "client = OpenAI(api_key='k', base_url='{url}/v1')\n"
    "said = [{{'role': 'user', 'content': 'hi'}}]\n"
    "for chunk in client.chat.completions.create(model='text-20', messages=said, stream=True):\n"
    "    print(chunk.choices and chunk.choices[0].delta.content, flush=True)",
    "litellm": "import os; os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'\n"
    "from litellm import completion\n"
    "said = [{{'role': 'user', 'content': 'hi'}}]\n"
    "options = dict(api_key='k', api_base='{url}/v1', stream=True)\n"
    "for chunk in completion(model='openai/text-20', messages=said, **options):\n"
    "    print(chunk.choices[0].delta.content, flush=True)",
}
COLD["floor"] = "print('word', flush=True)"


def cold_start(side: str) -> Run:
    """Milliseconds from starting Python to the first line of an answer."""
    code = COLD[side].format(url=os.environ["FOLDLINE_BENCH_STUB"])

    def run() -> float:
        start = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            while not (line := process.stdout.readline()).strip():
                assert line, f"{side} said nothing"
            elapsed = time.perf_counter() - start
            process.stdout.read()
        return elapsed * 1000

    return run


ROOTS = {
    "foldline": ["foldline"],
    "langchain": ["langchain-core", "langchain-openai", "langchain-anthropic"],
    "pydantic-ai": ["pydantic-ai-slim", "openai"],
    "litellm": ["litellm"],
    "openai": ["openai"],
}


def packages(side: str) -> Run:
    """How many packages must be installed, itself included."""

    for root in ROOTS[side]:
        metadata.version(root)  # a side that is not installed is no side

    def run() -> float:
        names: set[str] = set()
        waiting = list(ROOTS[side])
        while waiting:
            name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
            if name in names:
                continue
            try:
                needs = metadata.requires(name) or []
            except metadata.PackageNotFoundError:
                continue  # not for this platform or Python
            names.add(name)
            waiting += [re.split(r"[^\w.-]", need)[0] for need in needs if "extra ==" not in need]
        return float(len(names))

    return run
