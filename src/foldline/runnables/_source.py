"""What a function reads, from its source: the keys of its argument, and the names from outside."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any


class IsFunctionArgDict(ast.NodeVisitor):
    """Collects the string keys that a function reads from its first argument."""

    def __init__(self) -> None:
        self.keys: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Visit a function."""
        self._visit_function(node, node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """Visit an async function."""
        self._visit_function(node, node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Visit a lambda."""
        self._visit_function(node, [node.body])

    def _visit_function(
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
        """Visit `name[...]`."""
        if self._is_name(node.value) and isinstance(node.ctx, ast.Load):
            self._add_key(node.slice)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Visit `name.get(...)`."""
        function = node.func
        if (
            isinstance(function, ast.Attribute)
            and function.attr == "get"
            and node.args
            and self._is_name(function.value)
        ):
            self._add_key(node.args[0])
        self.generic_visit(node)

    def _is_name(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self.name

    def _add_key(self, node: ast.expr) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            self.keys.add(node.value)


def get_function_first_arg_dict_keys(func: Callable[..., Any]) -> list[str] | None:
    """Return the keys that a function reads from its first argument, according to its source."""
    tree = _tree(func)
    if tree is None:
        return None
    visitor = IsFunctionArgDict()
    visitor.visit(tree)
    return sorted(visitor.keys) or None


class NonLocals(ast.NodeVisitor):
    """Collects the names that code loads, dotted ones in full, and those it stores."""

    def __init__(self) -> None:
        self.loads: set[str] = set()
        self.stores: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        """Visit a name."""
        (self.loads if isinstance(node.ctx, ast.Load) else self.stores).add(node.id)

    def visit_arg(self, node: ast.arg) -> None:
        """Visit a parameter."""
        self.stores.add(node.arg)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Visit `a.b.c`."""
        names = [node.attr]
        inner: ast.expr = node.value
        while isinstance(inner, ast.Attribute):
            names.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            names.append(inner.id)
            dotted_names = names[::-1]
            self.loads |= {".".join(dotted_names[:end]) for end in range(1, len(dotted_names) + 1)}
        else:
            self.visit(inner)


class FunctionNonLocals(ast.NodeVisitor):
    """Collects the names that a function uses from outside."""

    def __init__(self) -> None:
        self.nonlocals: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Visit a function."""
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """Visit an async function."""
        self._visit_function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Visit a lambda."""
        self._visit_function(node)

    def _visit_function(self, node: ast.AST) -> None:
        visitor = NonLocals()
        visitor.visit(node)
        self.nonlocals |= {
            name for name in visitor.loads if name.split(".")[0] not in visitor.stores
        }


class GetLambdaSource(ast.NodeVisitor):
    """Finds the source of the only lambda in some code."""

    def __init__(self) -> None:
        self.source: str | None = None
        self.count: int = 0

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Visit a lambda."""
        self.count += 1
        self.source = ast.unparse(node)


def _tree(func: Callable[..., Any]) -> ast.Module | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(func)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None


def get_lambda_source(func: Callable[..., Any]) -> str | None:
    """Return the source of a lambda, or the name of another function."""
    name = getattr(func, "__name__", None)
    if name != "<lambda>" or (tree := _tree(func)) is None:
        return name
    visitor = GetLambdaSource()
    visitor.visit(tree)
    return visitor.source if visitor.count == 1 else name


def get_function_nonlocals(func: Callable[..., Any]) -> list[Any]:
    """Return the values that a function uses from outside (`chain` in `lambda x: chain.invoke(x)`), each once."""
    tree = _tree(func)
    code = inspect.unwrap(func)
    if tree is None or not hasattr(code, "__code__"):
        return []
    visitor = FunctionNonLocals()
    visitor.visit(tree)
    closure = inspect.getclosurevars(code)
    values_by_name = {**closure.globals, **closure.nonlocals}
    values: list[Any] = []
    for name in sorted(visitor.nonlocals):
        first, *attributes = name.split(".")
        value = values_by_name.get(first)
        for attribute in attributes:
            value = inspect.getattr_static(value, attribute, None) if value is not None else None
        if value is not None and not any(value is other for other in values):
            values.append(value)
    return values
