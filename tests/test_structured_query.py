"""The filter language: trees, visitors, and what a store refuses."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from foldline.load import dumps, loads
from foldline.structured_query import (
    Comparator,
    Comparison,
    Operation,
    Operator,
    StructuredQuery,
    Visitor,
)


class Text(Visitor):
    """Translates a query into a line of text."""

    allowed_comparators = (Comparator.EQ, Comparator.GT)
    allowed_operators = (Operator.AND,)

    def visit_operation(self, operation: Operation) -> str:
        self._validate_func(operation.operator)
        parts = [argument.accept(self) for argument in operation.arguments]
        return f" {operation.operator.value} ".join(parts)

    def visit_comparison(self, comparison: Comparison) -> str:
        self._validate_func(comparison.comparator)
        return f"{comparison.attribute} {comparison.comparator.value} {comparison.value!r}"

    def visit_structured_query(self, structured_query: StructuredQuery) -> str:
        condition = (
            structured_query.filter.accept(self) if structured_query.filter else "everything"
        )
        return f"{structured_query.query}: {condition}"


class AllVisitor(Text):
    allowed_comparators = None
    allowed_operators = None


BOTH = Operation(
    Operator.AND, [Comparison(Comparator.EQ, "author", "ann"), Comparison("gt", "year", 2020)]
)


def test_a_visitor_translates_the_tree():
    query = StructuredQuery("weaving", BOTH, limit=3)
    assert query.accept(Text()) == "weaving: author eq 'ann' and year gt 2020"
    assert StructuredQuery("weaving", None).accept(Text()) == "weaving: everything"


def test_what_the_store_does_not_understand_is_refused():
    with pytest.raises(ValueError, match=r"comparator Comparator\.LIKE is not allowed"):
        Comparison(Comparator.LIKE, "a", "b%").accept(Text())
    either = Operation(Operator.OR, [BOTH])
    with pytest.raises(ValueError, match=r"operator Operator\.OR is not allowed"):
        either.accept(Text())
    assert either.accept(AllVisitor()) == "author eq 'ann' and year gt 2020"


def test_names_are_those_of_langchain():
    assert str(Operator.AND) == "Operator.AND"
    assert [item.value for item in Comparator] == [
        "eq", "ne", "gt", "gte", "lt", "lte", "contain", "like", "in", "nin"
    ]  # fmt: skip


def test_an_unknown_comparator_is_refused():
    with pytest.raises(ValidationError, match="comparator"):
        Comparison("equals", "a", 1)


def test_a_query_is_dumped_whole_and_loads_equal():
    query = StructuredQuery("weaving", BOTH, limit=3)

    loaded_query = loads(dumps(query))

    assert loaded_query == query
    assert isinstance(loaded_query.filter, Operation)
    assert loaded_query.filter.arguments[0].attribute == "author"
    assert query.model_dump()["filter"]["arguments"][0]["value"] == "ann"
