"""Output parsers: from what a model said to what the program wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazily

if TYPE_CHECKING:
    from foldline.exceptions import OutputParserException
    from foldline.output_parsers.base import (
        BaseGenerationOutputParser,
        BaseLLMOutputParser,
        BaseOutputParser,
    )
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
    from foldline.output_parsers.retry import RetryOutputParser, RetryWithErrorOutputParser
    from foldline.output_parsers.string import StrOutputParser
    from foldline.output_parsers.transform import (
        BaseCumulativeTransformOutputParser,
        BaseTransformOutputParser,
    )
    from foldline.output_parsers.xml import XMLOutputParser

__all__ = [
    "BaseCumulativeTransformOutputParser",
    "BaseGenerationOutputParser",
    "BaseLLMOutputParser",
    "BaseOutputParser",
    "BaseTransformOutputParser",
    "CommaSeparatedListOutputParser",
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
    "RetryOutputParser",
    "RetryWithErrorOutputParser",
    "SimpleJsonOutputParser",
    "StrOutputParser",
    "XMLOutputParser",
]

__getattr__: Loader = lazily(
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
    },
)
