"""Output parsers: runnables from a model's answer to a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.exceptions import OutputParserException
    from foldline.output_parsers.base import (
        BaseGenerationOutputParser,
        BaseLLMOutputParser,
        BaseOutputParser,
    )
    from foldline.output_parsers.datetime import DatetimeOutputParser
    from foldline.output_parsers.enum import BooleanOutputParser, EnumOutputParser
    from foldline.output_parsers.fix import OutputFixingParser
    from foldline.output_parsers.json import JsonOutputParser, SimpleJsonOutputParser
    from foldline.output_parsers.list import (
        CommaSeparatedListOutputParser,
        ListOutputParser,
        MarkdownListOutputParser,
        NumberedListOutputParser,
    )
    from foldline.output_parsers.openai_tools import (
        JsonOutputKeyToolsParser,
        JsonOutputToolsParser,
        PydanticToolsParser,
    )
    from foldline.output_parsers.pydantic import PydanticOutputParser
    from foldline.output_parsers.regex import CombiningOutputParser, RegexDictParser, RegexParser
    from foldline.output_parsers.retry import RetryOutputParser, RetryWithErrorOutputParser
    from foldline.output_parsers.string import StrOutputParser
    from foldline.output_parsers.structured import ResponseSchema, StructuredOutputParser
    from foldline.output_parsers.transform import (
        BaseCumulativeTransformOutputParser,
        BaseTransformOutputParser,
    )
    from foldline.output_parsers.xml import XMLOutputParser
    from foldline.output_parsers.yaml import YamlOutputParser

__all__ = [
    "BaseCumulativeTransformOutputParser",
    "BaseGenerationOutputParser",
    "BaseLLMOutputParser",
    "BaseOutputParser",
    "BaseTransformOutputParser",
    "BooleanOutputParser",
    "CombiningOutputParser",
    "CommaSeparatedListOutputParser",
    "DatetimeOutputParser",
    "EnumOutputParser",
    "JsonOutputKeyToolsParser",
    "JsonOutputParser",
    "JsonOutputToolsParser",
    "ListOutputParser",
    "MarkdownListOutputParser",
    "NumberedListOutputParser",
    "OutputFixingParser",
    "OutputParserException",
    "PydanticOutputParser",
    "PydanticToolsParser",
    "RegexDictParser",
    "RegexParser",
    "ResponseSchema",
    "RetryOutputParser",
    "RetryWithErrorOutputParser",
    "SimpleJsonOutputParser",
    "StrOutputParser",
    "StructuredOutputParser",
    "XMLOutputParser",
    "YamlOutputParser",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        "foldline.exceptions": "OutputParserException",
        ".base": "BaseGenerationOutputParser BaseLLMOutputParser BaseOutputParser",
        ".fix": "OutputFixingParser",
        ".json": "JsonOutputParser SimpleJsonOutputParser",
        ".list": "CommaSeparatedListOutputParser ListOutputParser MarkdownListOutputParser "
        "NumberedListOutputParser",
        ".openai_tools": "JsonOutputKeyToolsParser JsonOutputToolsParser PydanticToolsParser",
        ".pydantic": "PydanticOutputParser",
        ".retry": "RetryOutputParser RetryWithErrorOutputParser",
        ".string": "StrOutputParser",
        ".transform": "BaseCumulativeTransformOutputParser BaseTransformOutputParser",
        ".xml": "XMLOutputParser",
        ".structured": "ResponseSchema StructuredOutputParser",
        ".yaml": "YamlOutputParser",
        ".datetime": "DatetimeOutputParser",
        ".enum": "BooleanOutputParser EnumOutputParser",
        ".regex": "CombiningOutputParser RegexDictParser RegexParser",
    },
)
