"""From a question to a structured query: the prompt that describes the metadata, and the parser of the answer.

The answer is JSON with `query`, `filter` and perhaps `limit`; a filter is written as calls:
`and(eq("genre", "war"), gt("year", 1990))`. It is parsed as a tree and never executed.
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
MAX_ARGUMENTS = 100
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
    """Parses a structured query."""

    allowed_comparators: Sequence[Comparator] | None = None
    """Comparators that the store supports; None allows all."""
    allowed_operators: Sequence[Operator] | None = None
    """Operators that the store supports; None allows all."""
    allowed_attributes: Sequence[str] | None = None
    """Attributes that exist; None allows all."""
    fix_invalid: bool = False
    """Whether to leave out comparisons that are not allowed instead of raising."""

    @property
    def _type(self) -> str:
        return "structured_query"

    def parse(self, text: str) -> StructuredQuery:
        """Parse the query."""
        try:
            value = parse_json_markdown(text)
            if not isinstance(value, dict):
                raise ValueError("the answer is not a JSON object")
            condition = value.get("filter") or NO_FILTER
            directive = None if condition == NO_FILTER else self._parse_condition(str(condition))
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

    def _parse_condition(self, condition: str) -> FilterDirective | None:
        # `and` is a Python keyword: with an underscore after such names, the text parses as an expression.
        source = OPERATOR_CALL.sub(lambda match: f"{match[1]}_(", condition.strip())
        return self._convert(ast.parse(source, mode="eval").body)

    def _convert(self, node: ast.expr) -> FilterDirective | None:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.keywords:
            raise ValueError(
                f'a condition is a call such as eq("name", 1), not {ast.unparse(node):.100}'
            )
        name = node.func.id.rstrip("_").lower()
        if len(node.args) > MAX_ARGUMENTS:
            raise ValueError(f"{name} has {len(node.args)} arguments: at most {MAX_ARGUMENTS}")
        if name in {operator.value for operator in Operator}:
            return self._operation(Operator(name), node.args)
        if name in {comparator.value for comparator in Comparator}:
            return self._comparison(Comparator(name), node.args)
        raise ValueError(
            f"Received unrecognized function {name}: it is neither a comparator nor an operator"
        )

    def _operation(self, operator: Operator, nodes: list[ast.expr]) -> FilterDirective | None:
        if self.allowed_operators is not None and operator not in self.allowed_operators:
            raise ValueError(f"Received disallowed operator {operator.value}")
        directives = [self._convert(node) for node in nodes]
        parts = [directive for directive in directives if directive is not None]
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
        disallowed = f"comparator {comparator.value}" if is_known else f"attribute {attribute}"
        raise ValueError(f"Received disallowed {disallowed}")


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
    attributes = [AttributeInfo.model_validate(info) for info in attribute_info]
    attribute_lines = [f"- {info.name} ({info.type}): {info.description}" for info in attributes]
    example_texts = [
        f'Example: "{question}" is\n```json\n{json.dumps(answer)}\n```'
        for question, answer in examples or ()
    ]
    text = TEMPLATE.format(
        limit_field=', "limit": <how many, or null>' if enable_limit else "",
        limit_rule=" Set `limit` only where the user says how many." if enable_limit else "",
        comparators=", ".join(comparator.value for comparator in allowed_comparators),
        operators=", ".join(operator.value for operator in allowed_operators),
        content=document_contents,
        attributes="\n".join(attribute_lines),
        examples="\n".join(example_texts),
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
    names = [AttributeInfo.model_validate(info).name for info in attribute_info]
    parser = StructuredQueryOutputParser(
        allowed_comparators=allowed_comparators,
        allowed_operators=allowed_operators,
        allowed_attributes=names,
        fix_invalid=fix_invalid,
    )
    return prompt | llm | parser
