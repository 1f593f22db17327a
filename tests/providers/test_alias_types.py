"""What type checkers accept as arguments of a chat model: the fields, and the other names of them that it reads."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import pkgutil
from pathlib import Path

import pytest

from foldline import providers
from foldline.providers.http import HttpChatModel


def chat_models() -> list[type[HttpChatModel]]:
    found = {}
    for module in pkgutil.walk_packages(providers.__path__, "foldline.providers."):
        for value in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(value) and issubclass(value, HttpChatModel) and value.aliases:
                found[value.__qualname__] = value
    return [found[name] for name in sorted(found)]


def names_for_checkers() -> dict[str, set[str]]:
    """Return the names that each class of the providers declares for type checkers only."""
    sources = [Path(folder).rglob("*.py") for folder in providers.__path__]
    trees = [ast.parse(source.read_text("utf-8")) for source in itertools.chain(*sources)]
    return {
        cls.name: {
            statement.target.id
            for block in cls.body
            if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
            for statement in block.body
            if isinstance(statement, ast.AnnAssign)
        }
        for tree in trees
        for cls in tree.body
        if isinstance(cls, ast.ClassDef)
    }


DECLARED = names_for_checkers()


@pytest.mark.parametrize("model", chat_models(), ids=lambda cls: cls.__name__)
def test_checkers_see_every_other_name_of_a_field(model):
    declared = set().union(*(DECLARED.get(cls.__name__, ()) for cls in model.__mro__))

    accepted = {alias for alias, field in model.aliases.items() if field in model.model_fields}

    assert accepted == declared
    made = model.model_construct(base_url="http://localhost")
    assert all(hasattr(made, name) for name in declared)
