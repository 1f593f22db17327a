"""The filter language of self-querying retrievers: comparisons, joined by operators, with a query text.

The tree is data. A `Visitor` turns it into the filter of one store, and declares which parts that store supports.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Any

from pydantic import BaseModel, SerializeAsAny

__all__ = [
    "Comparator",
    "Comparison",
    "Expr",
    "FilterDirective",
    "Operation",
    "Operator",
    "StructuredQuery",
    "Visitor",
]


def __dir__() -> list[str]:
    return sorted(__all__)


class Operator(str, Enum):  # noqa: UP042  str() must show the member, as LangChain's does
    """How filters are joined."""

    AND = "and"
    OR = "or"
    NOT = "not"


class Comparator(str, Enum):  # noqa: UP042
    """How an attribute is compared with a value."""

    EQ = "eq"
    NE = "ne"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    CONTAIN = "contain"
    LIKE = "like"
    IN = "in"
    NIN = "nin"


class Visitor(ABC):
    """Translates a query for one store; the two lists are what that store supports (None: everything)."""

    allowed_comparators: Sequence[Comparator] | None = None
    allowed_operators: Sequence[Operator] | None = None

    def _validate_func(self, func: Operator | Comparator) -> None:
        """Raise for an operator or comparator that the store does not support."""
        is_operator = isinstance(func, Operator)
        kind = "operator" if is_operator else "comparator"
        allowed: Sequence[Operator | Comparator] | None = (
            self.allowed_operators if is_operator else self.allowed_comparators
        )
        if allowed is not None and func not in allowed:
            # A plain ValueError, because visitors written for LangChain catch it.
            raise ValueError(f"the {kind} {func} is not allowed here; allowed are {list(allowed)}")

    @abstractmethod
    def visit_operation(self, operation: Operation) -> Any:  # noqa: ANN401  the store's filter type
        """Translate filters joined by an operator."""

    @abstractmethod
    def visit_comparison(self, comparison: Comparison) -> Any:  # noqa: ANN401  the store's filter type
        """Translate one comparison."""

    @abstractmethod
    def visit_structured_query(self, structured_query: StructuredQuery) -> Any:  # noqa: ANN401  the store's query type
        """Translate a complete query."""


class Expr(BaseModel):
    """A node of the tree."""

    def accept(self, visitor: Visitor) -> Any:  # noqa: ANN401  the result of the visitor
        """Return the visitor's translation of this node: an `Operation` is passed to `visit_operation`."""
        return getattr(visitor, f"visit_{_snake_case(type(self).__name__)}")(self)


class FilterDirective(Expr):
    """A filter: a comparison or an operation."""


class Comparison(FilterDirective):
    """An attribute compared with a value."""

    comparator: Comparator
    attribute: str
    value: Any

    def __init__(
        self,
        comparator: Comparator,
        attribute: str,
        value: object,
        **kwargs: object,
    ) -> None:
        """Compare `attribute` with `value`."""
        super().__init__(comparator=comparator, attribute=attribute, value=value, **kwargs)


class Operation(FilterDirective):
    """Filters joined by an operator."""

    operator: Operator
    arguments: list[SerializeAsAny[FilterDirective]]

    def __init__(
        self, operator: Operator, arguments: list[FilterDirective], **kwargs: object
    ) -> None:
        """Join `arguments` by `operator`."""
        super().__init__(operator=operator, arguments=arguments, **kwargs)


class StructuredQuery(Expr):
    """A text to search for, a filter of the documents, and the number of results."""

    query: str
    """The text to search for."""
    filter: SerializeAsAny[FilterDirective] | None
    """The filter of the documents."""
    limit: int | None
    """The maximum number of results."""

    def __init__(
        self,
        query: str,
        filter: FilterDirective | None,
        limit: int | None = None,
        **kwargs: object,
    ) -> None:
        """Search for `query` among the documents that match `filter`."""
        super().__init__(query=query, filter=filter, limit=limit, **kwargs)


def _snake_case(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")
