"""Which examples a few-shot prompt shows: a list, or what a selector chooses for the input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from weft._io import IO
from weft.example_selectors.base import BaseExampleSelector
from weft.exceptions import UsageError
from weft.protocol.blocks import Json
from weft.utils.formatting import MissingVariableError

__all__ = ["check_examples", "choose", "values_of"]

Example = dict[str, Any]


def check_examples(values: Json) -> Json:
    """See that there is a list of examples or a selector, and not both."""
    if not isinstance(values, dict):
        return values
    examples, selector = values.get("examples"), values.get("example_selector")
    if examples is not None and selector is not None:
        raise UsageError("give 'examples' or 'example_selector', not both")
    if examples is None and selector is None:
        raise UsageError("a few-shot prompt needs 'examples' or an 'example_selector'")
    return values


async def choose(
    examples: list[Example] | None,
    selector: BaseExampleSelector | None,
    values: Mapping[str, Any],
    io: IO,
) -> list[Example]:
    """Give the examples for an input."""
    if examples is not None:
        return examples
    if selector is None:
        raise UsageError("a few-shot prompt needs 'examples' or an 'example_selector'")
    if io.blocking:
        return selector.select_examples(dict(values))
    return await selector.aselect_examples(dict(values))


def values_of(example: Example, names: Iterable[str]) -> Example:
    """Give what the prompt of an example asks for, and nothing else of it."""
    missing = [name for name in names if name not in example]
    if missing:
        raise MissingVariableError(
            f"an example has no {missing}, which its prompt takes; it has {sorted(map(str, example))}"
        )
    return {name: example[name] for name in names}
