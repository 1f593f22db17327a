"""Names that a package exports lazily exist, and modules are imported only when needed."""

from __future__ import annotations

import ast
import builtins
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import foldline
from foldline._lazy import lazy_exports

HOME = Path(foldline.__file__).parent
FRONTS = sorted(
    ".".join(("foldline", *file.relative_to(HOME).parent.parts))
    for file in HOME.rglob("__init__.py")
    if "lazy_exports(" in file.read_text()
)


def exported(module: str) -> dict[str, str]:
    """Return the home of each name in the block of a package, as a checker reads it."""
    source = Path(sys.modules[module].__file__ or "").read_text()
    homes: dict[str, str] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.With):
            for inner in node.body:
                assert isinstance(inner, ast.ImportFrom)
                assert all(alias.asname == alias.name for alias in inner.names), "X as X (PEP 484)"
                assert homes.keys().isdisjoint(alias.name for alias in inner.names)
                homes |= dict.fromkeys((alias.name for alias in inner.names), inner.module or "")
    return homes


@pytest.mark.parametrize("name", FRONTS)
def test_a_package_exports_what_its_block_imports(name):
    front = importlib.import_module(name)
    homes = exported(name)

    assert front.__all__ == sorted(homes)
    assert set(front.__all__) <= set(dir(front))
    for export, home in homes.items():
        value = getattr(importlib.import_module(home), export)
        assert value is not None
        assert getattr(front, export) is value
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


def test_a_star_import_of_a_package_imports_all_its_exports():
    program = """
from foldline.messages import *
print(HumanMessage("x").content, "__getattr__" in globals(), "lazy_exports" in globals())
"""
    assert run(program) == "x False False"


def test_a_package_that_is_loaded_again_exports_its_names_again():
    program = """
import importlib, foldline.messages
first = foldline.messages.HumanMessage
importlib.reload(foldline.messages)
print(foldline.messages.HumanMessage is first, len(foldline.messages.__all__) > 40)
"""
    assert run(program) == "True True"


def test_an_error_in_a_block_leaves_imports_as_they_were():
    real = builtins.__import__
    with pytest.raises(ZeroDivisionError), lazy_exports(__name__):
        raise ZeroDivisionError

    assert builtins.__import__ is real


def test_packages_that_threads_import_at_the_same_time_have_their_names():
    """Each thread's block records its own imports, and the imports of other modules are done meanwhile."""
    count = 8
    program = f"""
import builtins, importlib, sys, threading
sys.setswitchinterval(1e-6)
names = {FRONTS!r}
real, problems, start = builtins.__import__, [], threading.Barrier({count})

def work(names):
    start.wait()
    for name in names:
        package = importlib.import_module(name)
        import json.decoder  # is imported, whatever another thread does
        left = [export for export in package.__all__ if vars(package).get(export, "") is None]
        if left or not package.__all__ or not hasattr(json.decoder, "JSONDecoder"):
            problems.append(name)

threads = [threading.Thread(target=work, args=(names[shift:] + names[:shift],)) for shift in range({count})]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(problems, builtins.__import__ is real)
"""
    assert run(program) == "[] True"


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


def test_the_names_of_daily_use_are_those_that_the_module_and_the_index_list():
    index = (Path(__file__).parent.parent / "docs" / "index.md").read_text(encoding="utf-8")
    table = index.partition("## The names of daily use")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`(\w+)`", table))

    assert listed == set(foldline.__all__)
    assert set(re.findall(r"`(\w+)`", foldline.__doc__ or "")) == set(foldline.__all__)
