"""Names that a package exports lazily exist, and modules are imported only when needed."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import foldline

HOME = Path(foldline.__file__).parent
FRONTS = sorted(
    ".".join(("foldline", *file.relative_to(HOME).parent.parts))
    for file in HOME.rglob("__init__.py")
    if "lazy_exports(" in file.read_text()
)


def said_to_checkers(module: str) -> dict[str, set[str]]:
    """Return the modules that a package's names come from, as imported under `TYPE_CHECKING`."""
    source = Path(sys.modules[module].__file__ or "").read_text()
    names_by_home: dict[str, set[str]] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.If):
            for inner in node.body:
                if (
                    isinstance(inner, ast.ImportFrom)
                    and (inner.module or "").startswith("foldline")
                    and inner.module != "foldline._config"  # of a type that is not shown
                ):
                    names_by_home.setdefault(inner.module or "", set()).update(
                        alias.name for alias in inner.names
                    )
    return names_by_home


@pytest.mark.parametrize("name", FRONTS)
def test_a_front_door_has_what_it_says_it_has(name):
    front = importlib.import_module(name)
    names_by_home = said_to_checkers(name)

    for home, names in names_by_home.items():
        for export in names:
            assert getattr(front, export) is getattr(importlib.import_module(home), export)
    assert set(front.__all__) <= set(dir(front))
    for export in front.__all__:
        assert getattr(front, export) is not None
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        front.nothing  # noqa: B018


def test_there_are_front_doors_to_try():
    packages = [module.name for module in pkgutil.iter_modules(foldline.__path__) if module.ispkg]
    assert len(FRONTS) > len(packages) / 2


def run(program: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return result.stdout.strip()


def test_a_function_that_is_named_as_its_module_is_what_the_package_shows():
    program = """
import foldline.load.load, foldline.load
from foldline.protocol.fold import MessageBuilder
from foldline.protocol import fold
from foldline.load.load import Reviver
print(foldline.load.load.__qualname__, fold.__qualname__, foldline.protocol.fold is fold, Reviver.__name__)
"""
    assert run(program) == "load fold True Reviver"


def test_a_module_of_a_package_can_be_reached_through_it():
    assert (
        run("import foldline.messages; print(foldline.messages.ai.AIMessage.__name__)")
        == "AIMessage"
    )


def test_a_message_is_imported_without_models():
    program = """
import sys
from foldline.messages import HumanMessage
print([name for name in sys.modules if name.startswith("foldline.") and "messages" not in name])
"""
    modules = run(program)
    assert "language_models" not in modules
    assert "grammar" not in modules


@pytest.mark.parametrize(
    "statement",
    [
        "from foldline.messages import HumanMessage",
        "from foldline.providers.openai import ChatOpenAI",
        "from foldline.providers.anthropic import ChatAnthropic",
        "from foldline.tools import tool",
        "from foldline.agents import create_agent",
        "from foldline.graph import StateGraph",
    ],
)
def test_an_import_builds_no_schema(statement):
    # Pydantic's first schema searches all installed packages for plugins: forty milliseconds.
    program = f"""
import gc, sys
from pydantic import BaseModel
{statement}
print("pydantic.plugin._loader" in sys.modules, [
    one.__qualname__ for one in gc.get_objects()
    if isinstance(one, type) and issubclass(one, BaseModel)
    and one.__module__.startswith("foldline") and one.__pydantic_complete__
])
"""
    assert run(program) == "False []"


def test_the_first_call_of_a_process_imports_nothing_under_its_deadline():
    """Imports are over when a model exists: what a call does is loaded with its class, not by the call."""
    program = """
import asyncio, sys
from foldline.language_models import ChatModel, Limits, usage_scope

loaded = set()

class Slow(ChatModel):
    async def process(self, input, options):
        return {"text": "here"}

async def main():
    model = Slow()
    before = set(sys.modules)
    with usage_scope(Limits(timeout=30)):
        answer = await model.ainvoke("x")
    print(answer.text, sorted(name for name in set(sys.modules) - before if name.startswith("foldline")))

asyncio.run(main())
"""
    assert run(program) == "here []"
