"""`StructuredOutputParser`: a JSON object whose fields are described one by one."""

from __future__ import annotations

from typing import Any, Self, cast

from pydantic import BaseModel

from foldline.exceptions import OutputParserException
from foldline.output_parsers.base import BaseOutputParser
from foldline.utils.json import JsonError, parse_json_markdown

__all__ = ["ResponseSchema", "StructuredOutputParser"]


class ResponseSchema(BaseModel):
    """One field of the answer."""

    name: str
    description: str
    type: str = "string"


class StructuredOutputParser(BaseOutputParser[dict[str, Any]]):
    """Parses a JSON object that has all described fields.

    ```python
    from foldline.output_parsers import ResponseSchema, StructuredOutputParser

    parser = StructuredOutputParser.from_response_schemas(
        [ResponseSchema(name="city", description="the capital"), ResponseSchema(name="people", description="how many")]
    )
    print(parser.parse('```json\\n{"city": "Paris", "people": 2}\\n```'))
    #> {'city': 'Paris', 'people': 2}
    ```
    """

    response_schemas: list[ResponseSchema]
    """The fields."""

    @classmethod
    def from_response_schemas(cls, response_schemas: list[ResponseSchema]) -> Self:
        """Make a parser of fields."""
        return cls(response_schemas=response_schemas)

    @property
    def _type(self) -> str:
        return "structured"

    @property
    def OutputType(self) -> type[dict[str, Any]]:
        """A dict."""
        return dict[str, Any]

    def get_format_instructions(self, *, only_json: bool = False) -> str:
        """Return the instructions for the model; with `only_json` the fields only, without a sentence."""
        fields = "\n".join(
            f'  "{schema.name}": {schema.type}  // {schema.description}'
            for schema in self.response_schemas
        )
        block = f"```json\n{{\n{fields}\n}}\n```"
        if only_json:
            return block
        return (
            "Answer with one JSON object in a code fence, with these fields and no comments:\n\n"
            + block
        )

    def parse(self, text: str) -> dict[str, Any]:
        """Parse the object; raise if it is not JSON, or if a field is missing."""
        try:
            value = parse_json_markdown(text)
        except JsonError as error:
            raise OutputParserException(
                f"the answer is not JSON: {error}", llm_output=text
            ) from error
        names = [schema.name for schema in self.response_schemas]
        missing = [name for name in names if not isinstance(value, dict) or name not in value]
        if missing:
            raise OutputParserException(
                f"Got invalid return object: it lacks {', '.join(missing)}", llm_output=text
            )
        return cast("dict[str, Any]", value)
