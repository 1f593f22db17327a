"""Small things runnables share: what adds up, what is configurable, what a function asks for and reads."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, aclosing
from contextvars import Context
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeGuard, TypeVar

from weft._io import ASYNC
from weft._waiting import is_async_callable as is_async_callable
from weft.exceptions import UsageError
from weft.runnables._trace import NOTHING

T = TypeVar("T")
Input = TypeVar("Input", contravariant=True)
Output = TypeVar("Output", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)


class SupportsAdd(Protocol[T_contra, T_co]):
    """What has a `+`."""

    def __add__(self, x: T_contra, /) -> T_co:
        """Add another."""


Addable = TypeVar("Addable", bound=SupportsAdd[Any, Any])


# -- what is configurable


class ConfigurableField(NamedTuple):
    """A setting that a config may give any value."""

    id: str
    """Its key in `config["configurable"]`."""
    name: str | None = None
    description: str | None = None
    annotation: Any = None
    """Its type, where it is not that of the setting."""
    is_shared: bool = False
    """Whether alternatives share it, so that its id gets no prefix."""


class ConfigurableFieldSingleOption(NamedTuple):
    """A setting that a config may give one of some values, by name."""

    id: str
    options: Mapping[str, Any]
    """Name -> value."""
    default: str
    """The name of the value where the config says nothing."""
    name: str | None = None
    description: str | None = None
    is_shared: bool = False

    def __hash__(self) -> int:
        return hash((self.id, tuple(self.options), self.default))


class ConfigurableFieldMultiOption(NamedTuple):
    """A setting that a config may give a list of some values, by their names."""

    id: str
    options: Mapping[str, Any]
    """Name -> value."""
    default: Sequence[str]
    """The names of the values where the config says nothing."""
    name: str | None = None
    description: str | None = None
    is_shared: bool = False

    def __hash__(self) -> int:
        return hash((self.id, tuple(self.options), tuple(self.default)))


AnyConfigurableField: TypeAlias = (
    ConfigurableField | ConfigurableFieldSingleOption | ConfigurableFieldMultiOption
)


class ConfigurableFieldSpec(NamedTuple):
    """What a runnable tells of one of its configurable fields."""

    id: str
    annotation: Any
    name: str | None = None
    description: str | None = None
    default: Any = None
    is_shared: bool = False
    dependencies: list[str] | None = None


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


def get_unique_config_specs(specs: Iterable[ConfigurableFieldSpec]) -> list[ConfigurableFieldSpec]:
    """Give each configurable field once; two different ones under one id are an error."""
    by_id: dict[str, ConfigurableFieldSpec] = {}
    for spec in specs:
        known = by_id.setdefault(spec.id, spec)
        if known != spec:
            raise UsageError(
                f"two configurable fields share the id {spec.id!r}: {known!r} and {spec!r}"
            )
    return [by_id[key] for key in sorted(by_id)]


# -- what waits


async def gather_with_concurrency(n: int | None, *coros: Coroutine[Any, Any, Any]) -> list[Any]:
    """Await all, at most `n` at once; results in their order. The first error cancels the others."""
    waiting = list(coros)
    results: list[Any] = [None] * len(waiting)

    async def awaited(coro: Coroutine[Any, Any, Any]) -> Any:
        return await coro

    try:
        async with aclosing(ASYNC.as_completed(awaited, waiting, limit=n)) as outcomes:
            async for place, value, error in outcomes:
                if error is not None:
                    raise error
                results[place] = value
    finally:
        for coro in waiting:
            coro.close()  # those that were never begun; the others are over
    return results


async def gated_coro(
    semaphore: AbstractAsyncContextManager[Any], coro: Coroutine[Any, Any, T]
) -> T:
    """Await a coroutine while holding a semaphore."""
    async with semaphore:
        return await coro


def coro_with_context(
    coro: Coroutine[Any, Any, T], context: Context, *, create_task: bool = False
) -> Awaitable[T]:
    """Run a coroutine beside this one, in a copy of a context."""
    return context.run(ASYNC.start, coro).result()


def asyncio_accepts_context() -> bool:
    """Whether tasks can be given a context: yes, since Python 3.11."""
    return True


# -- what a function asks for


def is_async_generator(func: Any) -> TypeGuard[Callable[..., AsyncIterator[Any]]]:
    """Whether calling this gives an async generator, also for objects with such a `__call__`."""
    return inspect.isasyncgenfunction(func) or inspect.isasyncgenfunction(
        getattr(type(func), "__call__", None)  # noqa: B004
    )


def _accepts(function: Callable[..., Any], name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (ValueError, TypeError):
        return False


def accepts_run_manager(callable: Callable[..., Any]) -> bool:
    """Whether a function takes `run_manager`."""
    return _accepts(callable, "run_manager")


def accepts_config(callable: Callable[..., Any]) -> bool:
    """Whether a function takes `config`."""
    return _accepts(callable, "config")


def accepts_context(callable: Callable[..., Any]) -> bool:
    """Whether a function takes `context`."""
    return _accepts(callable, "context")


def indent_lines_after_first(text: str, prefix: str) -> str:
    """Indent all lines but the first by the width of a prefix."""
    return text.replace("\n", "\n" + " " * len(prefix))


# -- what a function reads, from its source


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
    tree = _tree(func)
    if tree is None:
        return None
    visitor = IsFunctionArgDict()
    visitor.visit(tree)
    return sorted(visitor.keys) or None


class NonLocals(ast.NodeVisitor):
    """Collects the names that code loads, dotted ones as written, and those it stores."""

    def __init__(self) -> None:
        self.loads: set[str] = set()
        self.stores: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        """Look at a name."""
        (self.loads if isinstance(node.ctx, ast.Load) else self.stores).add(node.id)

    def visit_arg(self, node: ast.arg) -> None:
        """Look at a parameter."""
        self.stores.add(node.arg)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Look at `a.b.c`."""
        names = [node.attr]
        inner: ast.expr = node.value
        while isinstance(inner, ast.Attribute):
            names.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            names.append(inner.id)
            whole = names[::-1]
            self.loads |= {".".join(whole[:end]) for end in range(1, len(whole) + 1)}
        else:
            self.visit(inner)


class FunctionNonLocals(ast.NodeVisitor):
    """Collects the names that a function takes from outside."""

    def __init__(self) -> None:
        self.nonlocals: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Look into a function."""
        self._look(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """Look into an async function."""
        self._look(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Look into a lambda."""
        self._look(node)

    def _look(self, node: ast.AST) -> None:
        visitor = NonLocals()
        visitor.visit(node)
        self.nonlocals |= {
            name for name in visitor.loads if name.split(".")[0] not in visitor.stores
        }


class GetLambdaSource(ast.NodeVisitor):
    """Finds the source of the one lambda in some code."""

    def __init__(self) -> None:
        self.source: str | None = None
        self.count = 0

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Look at a lambda."""
        self.count += 1
        self.source = ast.unparse(node)


def _tree(func: Callable[..., Any]) -> ast.Module | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(func)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None


def get_lambda_source(func: Callable[..., Any]) -> str | None:
    """Give the source of a lambda, or the name of another function."""
    name = getattr(func, "__name__", None)
    if name != "<lambda>" or (tree := _tree(func)) is None:
        return name
    visitor = GetLambdaSource()
    visitor.visit(tree)
    return visitor.source if visitor.count == 1 else name


def get_function_nonlocals(func: Callable[..., Any]) -> list[Any]:
    """Give the values that a function takes from outside (`chain` in `lambda x: chain.invoke(x)`), each once."""
    tree = _tree(func)
    code = inspect.unwrap(func)
    if tree is None or not hasattr(code, "__code__"):
        return []
    visitor = FunctionNonLocals()
    visitor.visit(tree)
    outside = inspect.getclosurevars(code)
    known = {**outside.globals, **outside.nonlocals}
    values: list[Any] = []
    for name in sorted(visitor.nonlocals):
        first, *attributes = name.split(".")
        value = known.get(first)
        for attribute in attributes:
            value = inspect.getattr_static(value, attribute, None) if value is not None else None
        if value is not None and not any(value is one for one in values):
            values.append(value)
    return values
