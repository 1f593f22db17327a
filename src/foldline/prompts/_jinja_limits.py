"""Limits on what a Jinja2 template may do: turns of loops, text and lists it makes, processor time (F-Y13).

`limit_tree` changes a parsed template so that every loop, macro, list and `~` asks the budget of the rendering that is
under way; `limit_filters` wraps the filters, and the sandbox asks for `+`, `*` and `%`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any

from foldline.exceptions import LimitExceededError, SecurityError

if TYPE_CHECKING:
    from jinja2.nodes import Node, Template

__all__ = ["budget", "check_operator", "limit_filters", "limit_tree", "spend_value"]

MOST_STEPS = 1_000_000
"""Turns of loops, calls of macros, and items that filters go through."""
MOST_TEXT = 16_000_000
"""Characters and items that one rendering makes."""
MOST_SECONDS = 5.0
"""Processor time of one rendering."""
LARGEST_PRODUCT = 1_000_000
WIDEST_FIELD = 10_000
TIME_CHECK = 256

SPEND = "foldline_spend"
SPEND_MADE = "foldline_spend_made"
SPEND_ITEMS = "foldline_spend_items"

FIELD = re.compile(r"%(?:\([^)]*\))?([^a-zA-Z%]*)")


class Budget:
    """What one rendering may still do."""

    __slots__ = ("checks", "started", "steps", "text")

    def __init__(self) -> None:
        self.steps = MOST_STEPS
        self.text = MOST_TEXT
        self.checks = 0
        self.started = time.thread_time()

    def spend(self, steps: int, text: int) -> None:
        """Subtract, and raise where a limit is passed."""
        self.steps -= steps
        self.text -= text
        self.checks += 1
        if self.steps < 0:
            raise _passed(f"{MOST_STEPS} turns of loops")
        if self.text < 0:
            raise _passed(f"{MOST_TEXT} characters of text")
        if self.checks % TIME_CHECK == 0 and time.thread_time() - self.started > MOST_SECONDS:
            raise _passed(f"{MOST_SECONDS:g} seconds of processor time")


_BUDGET: ContextVar[Budget] = ContextVar("jinja budget")


def _passed(limit: str) -> LimitExceededError:
    return LimitExceededError(
        f"a jinja2 template passed the limit of {limit}: do this work in Python and pass the result as a variable"
    )


@contextmanager
def budget() -> Iterator[None]:
    """Return what runs inside a budget of its own."""
    token = _BUDGET.set(Budget())
    try:
        yield
    finally:
        _BUDGET.reset(token)


def spend(steps: int, text: int = 0) -> None:
    """Subtract from the budget of the rendering under way."""
    _BUDGET.get().spend(steps, text)


def spend_value(value: object) -> object:
    """Subtract the size of a value with all that it holds; return it."""
    left = _BUDGET.get()
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            left.spend(0, 2 * len(item) + 2)
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set | frozenset):
            left.spend(0, len(item) + 2)
            waiting += item
        else:
            left.spend(0, len(item) if isinstance(item, str | bytes) else 1)
    return value


def _spend_items(value: object) -> object:
    """Subtract a step for each item that will be gone through, where their number is known."""
    spend(len(value) if isinstance(value, Sized) else 1)
    return value


# -- operators


def check_operator(operator: str, left: object, right: object) -> None:
    """Refuse an operator that would make something too large, before it does."""
    if operator == "**":
        raise SecurityError("a jinja2 template may not use **")
    if operator == "*":
        _check_product(left, right)
    elif operator == "%" and isinstance(left, str):
        check_format(left, right)
    elif operator == "+":
        spend(1, _length(left) + _length(right))
    else:
        spend(1)


def _check_product(left: object, right: object) -> None:
    sizes = [
        _length(side) if isinstance(side, str | list | tuple) else side for side in (left, right)
    ]
    numbers = [abs(size) for size in sizes if isinstance(size, int | float)]
    product = numbers[0] * numbers[1] if len(numbers) == 2 else 0
    if product > LARGEST_PRODUCT:
        raise SecurityError("a jinja2 template may not make anything that large with *")
    makes_text = isinstance(left, str | list | tuple) or isinstance(right, str | list | tuple)
    spend(1, int(product) if makes_text else 0)


def check_format(text: str, values: object) -> None:
    """Refuse wide fields of `%`, and subtract what each field may write."""
    fields = FIELD.findall(text)
    for field in fields:
        widths = [int(number) for number in re.findall(r"\d{1,9}", field)]
        if "*" in field or any(width > WIDEST_FIELD for width in widths):
            raise SecurityError(
                f"a jinja2 template may not format fields wider than {WIDEST_FIELD} with %"
            )
        spend(1, sum(widths))
        if isinstance(values, dict):  # one value may be written by several fields
            spend_value(values)
    spend_value([text, values])


def _length(value: object) -> int:
    return len(value) if isinstance(value, str | bytes | list | tuple) else 0


# -- filters


def limit_filters(
    filters: dict[str, Callable[..., Any]], pass_context: Callable[..., Any]
) -> dict[str, Callable[..., Any]]:
    """Return the filters, each of which asks the budget first."""
    limited = {name: _limited(name, work) for name, work in filters.items()}
    limited[SPEND] = pass_context(_spend_turn)  # with a context it is never taken for a constant
    limited[SPEND_MADE] = spend_value
    limited[SPEND_ITEMS] = _spend_items
    return limited


def _spend_turn(_context: object, value: str, text: int) -> str:
    spend(1, text)
    return value


READING = frozenset(
    {
        "attr", "batch", "count", "d", "default", "dictsort", "first", "groupby", "items", "last", "length", "list",
        "map", "max", "min", "random", "reject", "rejectattr", "reverse", "select", "selectattr", "slice", "sort",
        "sum", "unique",
    }
)  # fmt: skip
"""Filters that go through items without writing them out."""


def _limited(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
    place = 1 if getattr(work, "jinja_pass_arg", None) is not None else 0
    grows = GROWTH.get(name)

    @wraps(work)
    def ask_first(*given: object, **options: object) -> object:
        value, others = given[place], given[place + 1 :]
        if name in READING:
            _spend_items(value)
        else:
            if not isinstance(value, str | Sized) and isinstance(value, Iterator):
                value = list(value)
            spend(1)
            spend_value([value, others, options])
        if grows is not None:
            grows(value, *others, **options)
        return work(*given[:place], value, *others, **options)

    return ask_first


def _grow_width(value: object, width: object = 80, *_: object, **__: object) -> None:
    lines = value.count("\n") + 1 if isinstance(value, str) else 1
    size = width if isinstance(width, int) else _length(width)
    spend(1, lines * abs(size))


def _grow_number(_value: object, number: object = 1, *_: object, **options: object) -> None:
    for size in (number, *options.values()):
        if isinstance(size, int):
            spend(1, abs(size))


def _grow_format(value: object, *values: object, **named: object) -> None:
    check_format(str(value), named or values)


def _grow_replace(
    value: object, old: object = "", new: object = "", *_: object, **__: object
) -> None:
    spend(1, (str(value).count(str(old)) + 1) * len(str(new)))


def _grow_join(value: object, d: object = "", *_: object, **__: object) -> None:
    spend(1, (len(value) if isinstance(value, Sized) else 1) * len(str(d)))


def _grow_words(value: object, *others: object, **options: object) -> None:
    added = sum(_length(item) for item in (*others, *options.values()))
    spend(1, len(str(value)) * added)


def _grow_json(value: object, indent: object = 0, *_: object, **__: object) -> None:
    size = indent if isinstance(indent, int) else _length(indent)
    for _level in range(min(abs(size), 1000)):
        spend_value(value)
    spend(1, MOST_TEXT if abs(size) > 1000 else 0)


GROWTH: dict[str, Callable[..., None]] = {
    "batch": _grow_number,
    "center": _grow_number,
    "format": _grow_format,
    "indent": _grow_width,
    "join": _grow_join,
    "replace": _grow_replace,
    "slice": _grow_number,
    "tojson": _grow_json,
    "urlize": _grow_words,
    "wordwrap": _grow_words,
}
"""Filters whose result may be far larger than what they are passed."""


# -- the tree


def limit_tree(tree: Template, nodes: ModuleType) -> Template:
    """Change a parsed template so that it asks the budget wherever it repeats or makes something."""
    for kind in (nodes.For, nodes.Macro, nodes.CallBlock):
        for node in tree.find_all(kind):
            text = sum(len(data.data) for data in _own_data(node, nodes))
            call = nodes.Filter(
                nodes.Const(""), SPEND, [nodes.Const(text)], [], None, None, lineno=node.lineno
            )
            node.body.insert(0, nodes.Output([call], lineno=node.lineno))
            if kind is nodes.For:
                node.iter = _filter(node.iter, SPEND_ITEMS, nodes)
    _wrap_children(tree, nodes)
    return tree


def _own_data(node: Node, nodes: ModuleType) -> Iterator[Any]:
    """The plain text of a body, without that of loops and macros inside it, which ask for themselves."""
    for child in node.iter_child_nodes():
        if isinstance(child, nodes.TemplateData):
            yield child
        elif not isinstance(child, nodes.For | nodes.Macro | nodes.CallBlock):
            yield from _own_data(child, nodes)


def _filter(node: Node, name: str, nodes: ModuleType) -> Node:
    asked: Node = nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
    return asked


def _wrap_children(node: Node, nodes: ModuleType) -> None:
    for field, value in node.iter_fields():
        if isinstance(value, list):
            value[:] = [_wrapped(item, nodes) for item in value]
        elif isinstance(value, nodes.Node):
            setattr(node, field, _wrapped(value, nodes))


def _wrapped(node: object, nodes: ModuleType) -> object:
    if not isinstance(node, nodes.Node):
        return node
    _wrap_children(node, nodes)
    is_made = isinstance(node, nodes.Concat | nodes.List | nodes.Dict) or (
        isinstance(node, nodes.Tuple) and node.ctx == "load"
    )
    return _filter(node, SPEND_MADE, nodes) if is_made else node
