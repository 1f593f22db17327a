"""What is imported late is there when it is asked for, and says so before."""

from __future__ import annotations

import ast
import gc
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ValidationError

import foldline
from foldline._lazy import TypeLater, late

HOME = Path(foldline.__file__).parent
FRONTS = sorted(
    ".".join(("foldline", *file.relative_to(HOME).parent.parts))
    for file in HOME.rglob("__init__.py")
    if "lazily(" in file.read_text()
)


def said_to_checkers(module: str) -> dict[str, set[str]]:
    """Where a package says, under `TYPE_CHECKING`, that its names come from."""
    source = Path(sys.modules[module].__file__ or "").read_text()
    told: dict[str, set[str]] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.If):
            for inner in node.body:
                if isinstance(inner, ast.ImportFrom) and (inner.module or "").startswith(
                    "foldline"
                ):
                    told.setdefault(inner.module or "", set()).update(
                        alias.name for alias in inner.names
                    )
    return told


@pytest.mark.parametrize("name", FRONTS)
def test_a_front_door_has_what_it_says_it_has(name):
    front = importlib.import_module(name)
    told = said_to_checkers(name)

    for home, names in told.items():
        for one in names:
            assert getattr(front, one) is getattr(importlib.import_module(home), one)
    assert set(front.__all__) <= set(dir(front))
    for one in front.__all__:
        assert getattr(front, one) is not None
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        front.nothing  # noqa: B018


def test_there_are_front_doors_to_try():
    packages = [one.name for one in pkgutil.iter_modules(foldline.__path__) if one.ispkg]
    assert len(FRONTS) > len(packages) / 2


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


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


def test_a_message_is_imported_without_models_and_a_model_without_messages():
    program = """
import sys
from foldline.messages import HumanMessage
print([name for name in sys.modules if name.startswith("foldline.") and "messages" not in name])
from foldline.providers.openai import ChatOpenAI
late = ("foldline.messages.ai", "foldline._io", "foldline.language_models._turn")
print([name for name in sys.modules if name in late])
print(sum(name.startswith("foldline") for name in sys.modules) < 45)
"""
    first, second, third = run(program).splitlines()
    assert "language_models" not in first
    assert "protocol" not in first
    assert (second, third) == ("[]", "True")


@pytest.mark.parametrize("was_on", [True, False])
def test_the_collector_is_as_it_was_after_an_import(was_on, monkeypatch):
    (gc.enable if was_on else gc.disable)()
    try:
        assert late("colorsys").rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)
        assert gc.isenabled() is was_on
        with pytest.raises(ModuleNotFoundError):
            late("foldline.nowhere").anything  # noqa: B018
        assert gc.isenabled() is was_on
    finally:
        gc.enable()


def test_what_a_program_has_frozen_stays_frozen():
    program = """
import gc
gc.freeze()
before = gc.get_freeze_count()
from foldline.messages import HumanMessage
print(0.9 * before < gc.get_freeze_count() <= before, gc.isenabled())
gc.unfreeze()
from foldline.prompts import ChatPromptTemplate
print(gc.get_freeze_count(), gc.isenabled())
"""
    assert run(program).split() == ["True", "True", "0", "True"]


def test_a_field_whose_type_comes_later_is_checked_as_if_it_had_stood_there():
    said: list[str] = []

    def say() -> Any:
        said.append("type")
        return int | None

    class Model(BaseModel, defer_build=True):
        x: Annotated[Any, TypeLater(say)] = None

    assert said == []
    assert Model(x="3").x == 3
    assert Model().x is None
    with pytest.raises(ValidationError, match="valid integer"):
        Model(x="no")
    assert Model.model_json_schema()["properties"]["x"]["anyOf"] == [
        {"type": "integer"},
        {"type": "null"},
    ]


wave = late("colorsys")
same_wave = wave


def test_what_stands_for_a_module_gives_it_its_place():
    import colorsys

    assert wave.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)
    assert wave is same_wave is colorsys
