"""Small things runnables share: dicts that add up, piece by piece."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any, TypeVar

from weft.exceptions import UsageError
from weft.runnables._trace import NOTHING

T = TypeVar("T")


class AddableDict(dict[str, Any]):
    """A dict that adds up with others: new keys join, values of the same key add.

    ```python
    from weft.runnables import AddableDict

    print(AddableDict(text="a") + AddableDict(text="b", done=True))
    #> {'text': 'ab', 'done': True}
    ```
    """

    def __add__(self, other: dict[str, Any]) -> AddableDict:
        """Add another dict's values to this one's."""
        return _joined(self, other)

    def __radd__(self, other: dict[str, Any]) -> AddableDict:
        """Add this dict's values to another one's."""
        return _joined(other, self)


def _joined(first: dict[str, Any], second: dict[str, Any]) -> AddableDict:
    total = AddableDict(first)
    for key, value in second.items():
        if total.get(key) is None:
            total[key] = value
        elif value is not None:
            try:
                total[key] = total[key] + value
            except TypeError:
                total[key] = value
    return total


def add(addables: Iterable[T]) -> T | None:
    """Add up the items; None where there are none."""
    total: Any = NOTHING
    for item in addables:
        total = item if total is NOTHING else total + item
    return None if total is NOTHING else total


async def aadd(addables: AsyncIterable[T]) -> T | None:
    """Add up the items of an async iterable; None where there are none."""
    total: Any = NOTHING
    async for item in addables:
        total = item if total is NOTHING else total + item
    return None if total is NOTHING else total


def get_unique_config_specs(specs: Iterable[Any]) -> list[Any]:
    """Give each configurable field once; two different ones under one id are an error."""
    by_id: dict[str, Any] = {}
    for spec in specs:
        known = by_id.setdefault(spec.id, spec)
        if known != spec:
            raise UsageError(
                f"two configurable fields share the id {spec.id!r}: {known!r} and {spec!r}"
            )
    return [by_id[key] for key in sorted(by_id)]


class IsFunctionArgDict(ast.NodeVisitor):
    """Collects the string keys that a function reads from its first argument."""

    def __init__(self) -> None:
        self.keys: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Look into a function."""
        self._look(node, node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """Look into an async function."""
        self._look(node, node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Look into a lambda."""
        self._look(node, [node.body])

    def _look(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, body: list[Any]
    ) -> None:
        if not node.args.args:
            return
        finder = IsLocalDict(node.args.args[0].arg, self.keys)
        for part in body:
            finder.visit(part)


class IsLocalDict(ast.NodeVisitor):
    """Collects the string keys that are read from one local name: `name["key"]`, `name.get("key")`."""

    def __init__(self, name: str, keys: set[str]) -> None:
        self.name = name
        self.keys = keys

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """Look at `name[...]`."""
        if self._is_name(node.value) and isinstance(node.ctx, ast.Load):
            self._note(node.slice)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Look at `name.get(...)`."""
        function = node.func
        if (
            isinstance(function, ast.Attribute)
            and function.attr == "get"
            and node.args
            and self._is_name(function.value)
        ):
            self._note(node.args[0])
        self.generic_visit(node)

    def _is_name(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self.name

    def _note(self, node: ast.expr) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            self.keys.add(node.value)


def get_function_first_arg_dict_keys(func: Callable[..., Any]) -> list[str] | None:
    """Give the keys that a function is seen to read from its first argument, from its source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(func)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    visitor = IsFunctionArgDict()
    visitor.visit(tree)
    return sorted(visitor.keys) or None
