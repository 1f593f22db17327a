"""`PydanticOutputParser`: the JSON in a model's answer as an object of a Pydantic model."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Generic

from pydantic import BaseModel, SkipValidation, ValidationError

from foldline._traceback import entry_point
from foldline.exceptions import OutputParserException
from foldline.output_parsers.format_instructions import PYDANTIC_FORMAT_INSTRUCTIONS
from foldline.output_parsers.json import (
    JsonOutputParser,
    JsonReader,
    TBaseModel,
    schema_for_prompt,
    shorten,
)
from foldline.output_parsers.transform import CumulativeReader, PieceReader
from foldline.outputs import Generation

__all__ = ["PydanticBaseModel", "PydanticOutputParser", "TBaseModel"]

PydanticBaseModel = BaseModel
"""LangChain's name for the models of both versions of Pydantic; foldline supports version 2."""


class PydanticOutputParser(JsonOutputParser[TBaseModel], Generic[TBaseModel]):
    """Parses JSON as an object of a model; while it streams, the object so far once it is valid.

    ```python
    from pydantic import BaseModel

    from foldline.output_parsers import PydanticOutputParser


    class Joke(BaseModel):
        setup: str
        punchline: str


    parser = PydanticOutputParser(pydantic_object=Joke)
    print(parser.invoke('{"setup": "Why?", "punchline": "Because."}'))
    #> setup='Why?' punchline='Because.'
    ```
    """

    pydantic_object: Annotated[type[TBaseModel], SkipValidation()]
    """The model."""

    if TYPE_CHECKING:  # checkers infer the parser's result type from the argument

        def __init__(self, *, pydantic_object: type[TBaseModel], **kwargs: Any) -> None: ...

    @property
    def _type(self) -> str:
        return "pydantic"

    @property
    def OutputType(self) -> type[TBaseModel]:
        """The model."""
        return self.pydantic_object

    def _parse_obj(self, obj: object) -> TBaseModel:
        try:
            return self.pydantic_object.model_validate(obj)
        except ValidationError as error:
            text = json.dumps(obj, ensure_ascii=False)
            raise OutputParserException(
                f"Failed to parse {self.pydantic_object.__name__} from completion {shorten(text)}. Got: {error}",
                llm_output=text,
            ) from error

    def parse_result(  # type: ignore[override]
        self, result: list[Generation], *, partial: bool = False
    ) -> TBaseModel | None:
        """Parse the text of the first candidate; with `partial`, None if it is not valid yet."""
        value = super().parse_result(result, partial=partial)
        if partial and value is None:
            return None
        try:
            return self._parse_obj(value)
        except OutputParserException:
            if partial:
                return None
            raise

    @entry_point
    def parse(self, text: str) -> TBaseModel:
        """Parse a text."""
        return self._parse_obj(super().parse_result([Generation(text=text)]))

    def get_format_instructions(self) -> str:
        """Return instructions for the model to write JSON of this schema."""
        return PYDANTIC_FORMAT_INSTRUCTIONS.format(schema=schema_for_prompt(self.pydantic_object))

    def _diff(self, prev: object, next: object) -> TBaseModel:
        return super()._diff(_json_fields(prev), _json_fields(next))

    def _reader(self) -> PieceReader:
        cls = type(self)
        is_plain = (
            cls.parse_result is PydanticOutputParser.parse_result
            and cls.parse is PydanticOutputParser.parse
        )
        return _ObjectReader(self) if is_plain else CumulativeReader(self)


def _json_fields(value: object) -> object:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


class _ObjectReader(JsonReader):
    """Parses JSON while it arrives; emits objects that are valid, and raises if the last one is not."""

    def __init__(self, parser: PydanticOutputParser[Any]) -> None:
        super().__init__(parser)
        self._parser = parser
        self._last: Any = None

    def _emit(self, value: object) -> Iterable[Any]:
        if value is None or value == self._last:
            return ()
        self._last = value
        try:
            return self._results.emit(self._parser._parse_obj(value))
        except OutputParserException:
            return ()

    def _emit_last(self, value: object) -> Iterable[Any]:
        return self._results.emit(self._parser._parse_obj(value))


PydanticOutputParser.model_rebuild()
