"""`JsonOutputParser`: the JSON in a model's answer; while it streams, the value so far.

Parsing is incremental: a stream of n characters costs O(n), however it is cut into pieces.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Generic, cast

from pydantic import BaseModel, SkipValidation
from typing_extensions import TypeVar

from foldline._traceback import entry_point
from foldline.exceptions import OutputParserException
from foldline.messages import BaseMessage
from foldline.output_parsers._json_stream import JsonStream
from foldline.output_parsers._refusals import RefusalReader, check_refusal
from foldline.output_parsers.format_instructions import JSON_FORMAT_INSTRUCTIONS
from foldline.output_parsers.string import text_of
from foldline.output_parsers.transform import (
    BaseCumulativeTransformOutputParser,
    CumulativeReader,
    PieceReader,
    Results,
)
from foldline.outputs import Generation
from foldline.utils._json_patch import make_patch
from foldline.utils.json import (
    JsonError,
    parse_and_check_json_markdown,
    parse_json_markdown,
    parse_partial_json,
)

__all__ = [
    "JsonOutputParser",
    "SimpleJsonOutputParser",
    "parse_and_check_json_markdown",
    "parse_json_markdown",
    "parse_partial_json",
]

TBaseModel = TypeVar("TBaseModel", bound=BaseModel)
Value = TypeVar("Value", default=Any)
"""The type of the result: any JSON value, unless a subclass narrows it."""
MAX_ERROR_CHARACTERS = 1000
"""Characters of an answer that an error message shows; `llm_output` has all of it."""


def shorten(text: str) -> str:
    """Return an answer for an error message, cut off if it is long."""
    return (
        text
        if len(text) <= MAX_ERROR_CHARACTERS
        else f"{text[:MAX_ERROR_CHARACTERS]}… ({len(text)} characters)"
    )


def schema_for_prompt(model: type[BaseModel]) -> str:
    """Return a model's JSON schema as compact text for a prompt."""
    schema = dict(model.model_json_schema())
    schema.pop("title", None)
    schema.pop("type", None)
    return json.dumps(schema, ensure_ascii=False)


class JsonOutputParser(BaseCumulativeTransformOutputParser[Value], Generic[Value]):
    """Parses JSON, also inside a code fence or a sentence, and JSON that is cut off.

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

    _rejects_refusals: ClassVar[bool] = True
    pydantic_object: Annotated[type[BaseModel] | None, SkipValidation()] = None
    """The model whose schema the format instructions contain; the result is not validated against it."""

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return True: this parser can be dumped and loaded."""
        return cls is JsonOutputParser

    @property
    def _type(self) -> str:
        return "simple_json_output_parser"

    def _diff(self, prev: object, next: object) -> Value:
        return cast("Value", make_patch(prev, next))

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Value:
        """Parse the text of the first candidate; with `partial`, None if there is no JSON in it yet."""
        check_refusal(result, partial=partial)
        text = result[0].text
        try:
            return cast("Value", parse_json_markdown(text))
        except JsonError as error:
            if partial:
                return cast("Value", None)
            raise _no_json_error(text, error) from error

    @entry_point
    def parse(self, text: str) -> Value:
        """Parse a text."""
        return self.parse_result([Generation(text=text)])

    def get_format_instructions(self) -> str:
        """Return instructions for the model to write JSON, with the schema if there is one."""
        if self.pydantic_object is None:
            return "Answer with one JSON object and nothing else."
        return JSON_FORMAT_INSTRUCTIONS.format(schema=schema_for_prompt(self.pydantic_object))

    def _reader(self) -> PieceReader:
        cls = type(self)
        is_plain = (
            cls.parse_result is JsonOutputParser.parse_result
            and cls.parse is JsonOutputParser.parse
        )
        return JsonReader(self) if is_plain else CumulativeReader(self)


class JsonReader:
    """Parses JSON while it arrives."""

    def __init__(self, parser: BaseCumulativeTransformOutputParser[Any]) -> None:
        self._json_stream = JsonStream()
        self._results = Results(parser)
        self._refusal = RefusalReader()

    def feed(self, piece: str | BaseMessage) -> Iterable[Any]:
        """Add a piece; return the value so far, if it is new."""
        self._refusal.feed(piece)
        self._json_stream.feed(text_of(piece))
        return self._emit(self._json_stream.value) if self._json_stream.has_value else ()

    def finish(self) -> Iterable[Any]:
        """Return the final result, if it is new; raise if the text is not empty and has no JSON, or for a refusal."""
        self._refusal.finish()
        text = self._json_stream.text
        if not text.strip():
            return ()
        try:
            value = self._json_stream.finish()
        except JsonError as error:
            raise _no_json_error(text, error) from error
        return self._emit_last(value)

    def _emit(self, value: object) -> Iterable[Any]:
        return self._results.emit(value)

    def _emit_last(self, value: object) -> Iterable[Any]:
        return self._results.emit(value)


def _no_json_error(text: str, error: JsonError) -> OutputParserException:
    return OutputParserException(
        f"no JSON in the model's answer ({error.reason}): {shorten(text)}", llm_output=text
    )


SimpleJsonOutputParser = JsonOutputParser
