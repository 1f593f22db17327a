"""Limits of Jinja2 templates: loop iterations, created text and lists, processor time (F-Y13).

`limit_tree` changes a parsed template so that every loop, macro, list and `~` spends from the budget of the current
rendering; `limit_filters` wraps the filters, and the sandbox checks `+`, `*` and `%`.
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

MAX_STEPS = 1_000_000
"""Loop iterations, macro calls, and items processed by filters."""
MAX_TEXT = 16_000_000
"""Characters and items that one rendering creates."""
MAX_SECONDS = 5.0
"""Processor time of one rendering."""
MAX_PRODUCT = 1_000_000
MAX_FIELD_WIDTH = 10_000
TIME_CHECK = 256

SPEND = "foldline_spend"
SPEND_CREATED = "foldline_spend_made"
SPEND_ITEMS = "foldline_spend_items"

FIELD = re.compile(r"%(?:\([^)]*\))?([^a-zA-Z%]*)")


class RenderBudget:
    """The remaining budget of one rendering."""

    __slots__ = ("checks", "started", "steps", "text")

    def __init__(self) -> None:
        self.steps = MAX_STEPS
        self.text = MAX_TEXT
        self.checks = 0
        self.started = time.thread_time()

    def spend(self, steps: int, text: int) -> None:
        """Subtract from the budget; raise if a limit is exceeded."""
        self.steps -= steps
        self.text -= text
        self.checks += 1
        if self.steps < 0:
            raise _limit_error(f"{MAX_STEPS} turns of loops")
        if self.text < 0:
            raise _limit_error(f"{MAX_TEXT} characters of text")
        if self.checks % TIME_CHECK == 0 and time.thread_time() - self.started > MAX_SECONDS:
            raise _limit_error(f"{MAX_SECONDS:g} seconds of processor time")


_BUDGET: ContextVar[RenderBudget] = ContextVar("jinja budget")


def _limit_error(limit: str) -> LimitExceededError:
    return LimitExceededError(
        f"a jinja2 template passed the limit of {limit}: do this work in Python and pass the result as a variable"
    )


@contextmanager
def budget() -> Iterator[None]:
    """Run a block with a new budget."""
    token = _BUDGET.set(RenderBudget())
    try:
        yield
    finally:
        _BUDGET.reset(token)


def spend(steps: int, text: int = 0) -> None:
    """Subtract from the budget of the current rendering."""
    _BUDGET.get().spend(steps, text)


def spend_value(value: object) -> object:
    """Subtract the size of a value, including nested values; return the value."""
    current_budget = _BUDGET.get()
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            current_budget.spend(0, 2 * len(item) + 2)
            pending += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set | frozenset):
            current_budget.spend(0, len(item) + 2)
            pending += item
        else:
            current_budget.spend(0, len(item) if isinstance(item, str | bytes) else 1)
    return value


def _spend_items(value: object) -> object:
    """Subtract a step for each item of a value, if their number is known."""
    spend(len(value) if isinstance(value, Sized) else 1)
    return value


# -- operators


def check_operator(operator: str, left: object, right: object) -> None:
    """Raise if the result of an operator would be too large, before it is computed."""
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
    if product > MAX_PRODUCT:
        raise SecurityError("a jinja2 template may not make anything that large with *")
    creates_text = isinstance(left, str | list | tuple) or isinstance(right, str | list | tuple)
    spend(1, int(product) if creates_text else 0)


def check_format(text: str, values: object) -> None:
    """Raise on wide fields of `%`, and subtract the size of each field."""
    fields = FIELD.findall(text)
    for field in fields:
        widths = [int(number) for number in re.findall(r"\d{1,9}", field)]
        if "*" in field or any(width > MAX_FIELD_WIDTH for width in widths):
            raise SecurityError(
                f"a jinja2 template may not format fields wider than {MAX_FIELD_WIDTH} with %"
            )
        spend(1, sum(widths))
        if isinstance(values, dict):  # several fields may write one value
            spend_value(values)
    spend_value([text, values])


def _length(value: object) -> int:
    return len(value) if isinstance(value, str | bytes | list | tuple) else 0


# -- filters


def limit_filters(
    filters: dict[str, Callable[..., Any]], pass_context: Callable[..., Any]
) -> dict[str, Callable[..., Any]]:
    """Return the filters, wrapped to spend from the budget first."""
    limited = {name: _limit_filter(name, work) for name, work in filters.items()}
    limited[SPEND] = pass_context(_spend_turn)  # with a context it is never treated as a constant
    limited[SPEND_CREATED] = spend_value
    limited[SPEND_ITEMS] = _spend_items
    return limited


def _spend_turn(_context: object, value: str, text: int) -> str:
    spend(1, text)
    return value


READING_FILTERS = frozenset(
    {
        "attr", "batch", "count", "d", "default", "dictsort", "first", "groupby", "items", "last", "length", "list",
        "map", "max", "min", "random", "reject", "rejectattr", "reverse", "select", "selectattr", "slice", "sort",
        "sum", "unique",
    }
)  # fmt: skip
"""Filters that iterate over items without writing them."""


def _limit_filter(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
    value_index = 1 if getattr(work, "jinja_pass_arg", None) is not None else 0
    spend_growth = GROWTH_RULES.get(name)

    @wraps(work)
    def limited_filter(*args: object, **options: object) -> object:
        value, others = args[value_index], args[value_index + 1 :]
        if name in READING_FILTERS:
            _spend_items(value)
        else:
            if not isinstance(value, str | Sized) and isinstance(value, Iterator):
                value = list(value)
            spend(1)
            spend_value([value, others, options])
        if spend_growth is not None:
            spend_growth(value, *others, **options)
        return work(*args[:value_index], value, *others, **options)

    return limited_filter


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
    added_length = sum(_length(item) for item in (*others, *options.values()))
    spend(1, len(str(value)) * added_length)


def _grow_json(value: object, indent: object = 0, *_: object, **__: object) -> None:
    size = indent if isinstance(indent, int) else _length(indent)
    for _level in range(min(abs(size), 1000)):
        spend_value(value)
    spend(1, MAX_TEXT if abs(size) > 1000 else 0)


GROWTH_RULES: dict[str, Callable[..., None]] = {
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
"""Filters whose result may be much larger than their input -> the function that spends the result's size."""


# -- the tree


def limit_tree(tree: Template, nodes: ModuleType) -> Template:
    """Change a parsed template so that it spends from the budget wherever it repeats or creates something."""
    for kind in (nodes.For, nodes.Macro, nodes.CallBlock):
        for node in tree.find_all(kind):
            text = sum(len(data.data) for data in _direct_data(node, nodes))
            call = nodes.Filter(
                nodes.Const(""), SPEND, [nodes.Const(text)], [], None, None, lineno=node.lineno
            )
            node.body.insert(0, nodes.Output([call], lineno=node.lineno))
            if kind is nodes.For:
                node.iter = _filter(node.iter, SPEND_ITEMS, nodes)
    _wrap_children(tree, nodes)
    return tree


def _direct_data(node: Node, nodes: ModuleType) -> Iterator[Any]:
    """Yield the plain text of a body, without that of nested loops and macros, which spend themselves."""
    for child in node.iter_child_nodes():
        if isinstance(child, nodes.TemplateData):
            yield child
        elif not isinstance(child, nodes.For | nodes.Macro | nodes.CallBlock):
            yield from _direct_data(child, nodes)


def _filter(node: Node, name: str, nodes: ModuleType) -> Node:
    filtered: Node = nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
    return filtered


def _wrap_children(node: Node, nodes: ModuleType) -> None:
    for field, value in node.iter_fields():
        if isinstance(value, list):
            value[:] = [_wrap_node(item, nodes) for item in value]
        elif isinstance(value, nodes.Node):
            setattr(node, field, _wrap_node(value, nodes))


def _wrap_node(node: object, nodes: ModuleType) -> object:
    if not isinstance(node, nodes.Node):
        return node
    _wrap_children(node, nodes)
    is_created = isinstance(node, nodes.Concat | nodes.List | nodes.Dict) or (
        isinstance(node, nodes.Tuple) and node.ctx == "load"
    )
    return _filter(node, SPEND_CREATED, nodes) if is_created else node
