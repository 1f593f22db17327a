"""`JsonOutputParser`: JSON out of a model's answer, and while it streams the value so far.

What was read is never read again: a stream of n characters costs n, however it is cut into pieces.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, Generic

from pydantic import BaseModel, SkipValidation
from typing_extensions import TypeVar

from foldline.exceptions import OutputParserException
from foldline.messages import BaseMessage
from foldline.output_parsers._json_stream import JsonStream
from foldline.output_parsers.format_instructions import JSON_FORMAT_INSTRUCTIONS
from foldline.output_parsers.string import text_of
from foldline.output_parsers.transform import (
    BaseCumulativeTransformOutputParser,
    CumulativeReader,
    Reader,
    Results,
)
from foldline.outputs import Generation
from foldline.utils.json import (
    JsonError,
    parse_and_check_json_markdown,
    parse_json_markdown,
    parse_partial_json,
)
from foldline.utils.json_patch import make_patch

__all__ = [
    "JsonOutputParser",
    "SimpleJsonOutputParser",
    "parse_and_check_json_markdown",
    "parse_json_markdown",
    "parse_partial_json",
]

TBaseModel = TypeVar("TBaseModel", bound=BaseModel)
Value = TypeVar("Value", default=Any)
"""What comes out: any JSON value, unless a subclass says more."""
SHOWN = 1000
"""Characters of an answer that an error message shows; `llm_output` has all of it."""


def shown(text: str) -> str:
    """Return an answer for an error message, cut if it is long."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"


def schema_for_prompt(model: type[BaseModel]) -> str:
    """Write a model's JSON schema as short as a prompt wants it."""
    schema = dict(model.model_json_schema())
    schema.pop("title", None)
    schema.pop("type", None)
    return json.dumps(schema, ensure_ascii=False)


class JsonOutputParser(BaseCumulativeTransformOutputParser[Value], Generic[Value]):
    """JSON, also in a code fence or in the middle of a sentence, also cut off.

    ```python
    from foldline.output_parsers import JsonOutputParser

    print(JsonOutputParser().invoke('Sure: {"city": "Paris"}'))
    #> {'city': 'Paris'}
    print(list(JsonOutputParser().transform(iter(['{"city"', ': "Par', 'is"}']))))
    #> [{}, {'city': 'Par'}, {'city': 'Paris'}]
    print(list(JsonOutputParser(diff=True).transform(iter(['{"n": 1', '2}'])))[1])
    #> [{'op': 'replace', 'path': '/n', 'value': 12}]
    ```
    """

    pydantic_object: Annotated[type[BaseModel] | None, SkipValidation()] = None
    """The model whose schema the format instructions show; nothing is checked against it."""

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Say that this parser can be written and read back."""
        return cls is JsonOutputParser

    @property
    def _type(self) -> str:
        return "simple_json_output_parser"

    def _diff(self, prev: object, next: object) -> Any:
        return make_patch(prev, next)

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        """Read the text of the likeliest candidate; with `partial`, None if there is no JSON in it yet."""
        text = result[0].text
        try:
            return parse_json_markdown(text)
        except JsonError as error:
            if partial:
                return None
            raise _no_json(text, error) from error

    def parse(self, text: str) -> Any:
        """Read a text."""
        return self.parse_result([Generation(text=text)])

    def get_format_instructions(self) -> str:
        """Say to the model to write JSON, with the schema if there is one."""
        if self.pydantic_object is None:
            return "Answer with one JSON object and nothing else."
        return JSON_FORMAT_INSTRUCTIONS.format(schema=schema_for_prompt(self.pydantic_object))

    def _reader(self) -> Reader:
        cls = type(self)
        is_plain = (
            cls.parse_result is JsonOutputParser.parse_result
            and cls.parse is JsonOutputParser.parse
        )
        return JsonReader(self) if is_plain else CumulativeReader(self)


class JsonReader:
    """Reads JSON as it arrives."""

    def __init__(self, parser: BaseCumulativeTransformOutputParser[Any]) -> None:
        self._stream = JsonStream()
        self._results = Results(parser)

    def feed(self, piece: str | BaseMessage) -> Iterable[Any]:
        """Read on; give the value so far, if it is new."""
        self._stream.feed(text_of(piece))
        return self._tell(self._stream.value) if self._stream.has_value else ()

    def finish(self) -> Iterable[Any]:
        """Return the end result, if it is new; a text without JSON is an error, an empty one is not."""
        text = self._stream.text
        if not text.strip():
            return ()
        try:
            value = self._stream.finish()
        except JsonError as error:
            raise _no_json(text, error) from error
        return self._end(value)

    def _tell(self, value: object) -> Iterable[Any]:
        return self._results.tell(value)

    def _end(self, value: object) -> Iterable[Any]:
        return self._results.tell(value)


def _no_json(text: str, error: JsonError) -> OutputParserException:
    return OutputParserException(
        f"no JSON in the model's answer ({error.reason}): {shown(text)}", llm_output=text
    )


SimpleJsonOutputParser = JsonOutputParser
