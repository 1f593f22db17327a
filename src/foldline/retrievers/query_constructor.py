"""From a question to a structured query: what a model is told of the metadata, and how its answer is read.

The answer is JSON with `query`, `filter` and perhaps `limit`; a filter is written as calls:
`and(eq("genre", "war"), gt("year", 1990))`. It is read as a tree, never run.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from foldline.exceptions import OutputParserException
from foldline.output_parsers.base import BaseOutputParser
from foldline.prompts.prompt import PromptTemplate
from foldline.runnables.base import Runnable
from foldline.structured_query import (
    Comparator,
    Comparison,
    FilterDirective,
    Operation,
    Operator,
    StructuredQuery,
)
from foldline.utils.json import JsonError, parse_json_markdown

__all__ = [
    "AttributeInfo",
    "StructuredQueryOutputParser",
    "get_query_constructor_prompt",
    "load_query_constructor_runnable",
]

NO_FILTER = "NO_FILTER"
MOST_ARGUMENTS = 100
OPERATOR_CALL = re.compile(r"\b(and|or|not|in)\s*\(")
TEMPLATE = """\
Turn the question of a user into a search. Answer with JSON in a code fence, and nothing else:

```json
{{"query": "<words to look for in the texts>", "filter": "<condition on the metadata, or NO_FILTER>"{limit_field}}}
```

A condition is a comparison, comparator(attribute, value), or conditions joined: operator(condition, condition, ...).
Comparators: {comparators}. Operators: {operators}. Write dates as "YYYY-MM-DD". Use only attributes that are listed, \
and put into `query` only what the condition does not say.{limit_rule}

The texts: {content}
The attributes of their metadata:
{attributes}

Example: with the attributes title and year, "films about robots after 1990" is
```json
{{"query": "robots", "filter": "gt(\\"year\\", 1990)"}}
```
{examples}"""


class AttributeInfo(BaseModel):
    """One attribute of the metadata."""

    name: str
    description: str
    type: str


class StructuredQueryOutputParser(BaseOutputParser[StructuredQuery]):
    """Reads a structured query."""

    allowed_comparators: Sequence[Comparator] | None = None
    """Comparators that the store has; None allows all."""
    allowed_operators: Sequence[Operator] | None = None
    """Operators that the store has; None allows all."""
    allowed_attributes: Sequence[str] | None = None
    """Attributes that there are; None allows all."""
    fix_invalid: bool = False
    """Whether comparisons that are not allowed are left out, where else they are an error."""

    @property
    def _type(self) -> str:
        return "structured_query"

    def parse(self, text: str) -> StructuredQuery:
        """Read the query."""
        try:
            value = parse_json_markdown(text)
            if not isinstance(value, dict):
                raise ValueError("the answer is no JSON object")
            condition = value.get("filter") or NO_FILTER
            directive = None if condition == NO_FILTER else self._read(str(condition))
            limit = value.get("limit")
            return StructuredQuery(
                query=str(value.get("query") or " "),
                filter=directive,
                limit=None if limit is None else int(str(limit)),
            )
        except (JsonError, ValueError, SyntaxError, RecursionError) as error:
            raise OutputParserException(
                f"Parsing text\n{text:.500}\n raised following error:\n{error}", llm_output=text
            ) from error

    def _read(self, condition: str) -> FilterDirective | None:
        # `and(...)` is a keyword of Python's: the names get an underscore, then the text is an expression.
        source = OPERATOR_CALL.sub(lambda found: f"{found[1]}_(", condition.strip())
        return self._directive(ast.parse(source, mode="eval").body)

    def _directive(self, node: ast.expr) -> FilterDirective | None:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.keywords:
            raise ValueError(
                f'a condition is a call such as eq("name", 1), not {ast.unparse(node):.100}'
            )
        name = node.func.id.rstrip("_").lower()
        if len(node.args) > MOST_ARGUMENTS:
            raise ValueError(f"{name} has {len(node.args)} arguments: at most {MOST_ARGUMENTS}")
        if name in {one.value for one in Operator}:
            return self._operation(Operator(name), node.args)
        if name in {one.value for one in Comparator}:
            return self._comparison(Comparator(name), node.args)
        raise ValueError(
            f"Received unrecognized function {name}: it is no comparator and no operator"
        )

    def _operation(self, operator: Operator, nodes: list[ast.expr]) -> FilterDirective | None:
        if self.allowed_operators is not None and operator not in self.allowed_operators:
            raise ValueError(f"Received disallowed operator {operator.value}")
        found = [self._directive(node) for node in nodes]
        parts = [part for part in found if part is not None]
        if len(parts) == 1 and operator != Operator.NOT:
            return parts[0]
        return Operation(operator=operator, arguments=parts) if parts else None

    def _comparison(self, comparator: Comparator, nodes: list[ast.expr]) -> FilterDirective | None:
        if len(nodes) != 2:
            raise ValueError(f"{comparator.value} takes an attribute and a value")
        attribute = nodes[0].id if isinstance(nodes[0], ast.Name) else ast.literal_eval(nodes[0])
        value = ast.literal_eval(nodes[1])
        is_known = self.allowed_attributes is None or attribute in self.allowed_attributes
        is_allowed = self.allowed_comparators is None or comparator in self.allowed_comparators
        if is_known and is_allowed:
            return Comparison(comparator=comparator, attribute=str(attribute), value=value)
        if self.fix_invalid:
            return None
        what = f"comparator {comparator.value}" if is_known else f"attribute {attribute}"
        raise ValueError(f"Received disallowed {what}")


def get_query_constructor_prompt(
    document_contents: str,
    attribute_info: Sequence[AttributeInfo | dict[str, Any]],
    *,
    examples: Sequence[tuple[str, dict[str, Any]]] | None = None,
    allowed_comparators: Sequence[Comparator] = tuple(Comparator),
    allowed_operators: Sequence[Operator] = tuple(Operator),
    enable_limit: bool = False,
    **kwargs: Any,
) -> PromptTemplate:
    """Make the prompt that asks for a structured query; its variable is `query`."""
    described = [AttributeInfo.model_validate(one) for one in attribute_info]
    lines = [f"- {one.name} ({one.type}): {one.description}" for one in described]
    shown = [
        f'Example: "{asked}" is\n```json\n{json.dumps(answer)}\n```'
        for asked, answer in examples or ()
    ]
    text = TEMPLATE.format(
        limit_field=', "limit": <how many, or null>' if enable_limit else "",
        limit_rule=" Set `limit` only where the user says how many." if enable_limit else "",
        comparators=", ".join(one.value for one in allowed_comparators),
        operators=", ".join(one.value for one in allowed_operators),
        content=document_contents,
        attributes="\n".join(lines),
        examples="\n".join(shown),
    )
    escaped = text.replace("{", "{{").replace("}", "}}")
    return PromptTemplate.from_template(escaped + "\nThe question of the user: {query}\n")


def load_query_constructor_runnable(
    llm: Runnable[Any, Any],
    document_contents: str,
    attribute_info: Sequence[AttributeInfo | dict[str, Any]],
    *,
    allowed_comparators: Sequence[Comparator] = tuple(Comparator),
    allowed_operators: Sequence[Operator] = tuple(Operator),
    enable_limit: bool = False,
    fix_invalid: bool = False,
    **kwargs: Any,
) -> Runnable[Any, StructuredQuery]:
    """Make the runnable from `{"query": question}` to a structured query."""
    prompt = get_query_constructor_prompt(
        document_contents,
        attribute_info,
        allowed_comparators=allowed_comparators,
        allowed_operators=allowed_operators,
        enable_limit=enable_limit,
        **kwargs,
    )
    names = [AttributeInfo.model_validate(one).name for one in attribute_info]
    parser = StructuredQueryOutputParser(
        allowed_comparators=allowed_comparators,
        allowed_operators=allowed_operators,
        allowed_attributes=names,
        fix_invalid=fix_invalid,
    )
    return prompt | llm | parser
