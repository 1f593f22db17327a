"""Output parsers: runnables from a model's answer to a value."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.exceptions import OutputParserException as OutputParserException
    from foldline.output_parsers.base import (
        BaseGenerationOutputParser as BaseGenerationOutputParser,
        BaseLLMOutputParser as BaseLLMOutputParser,
        BaseOutputParser as BaseOutputParser,
    )
    from foldline.output_parsers.datetime import DatetimeOutputParser as DatetimeOutputParser
    from foldline.output_parsers.enum import (
        BooleanOutputParser as BooleanOutputParser,
        EnumOutputParser as EnumOutputParser,
    )
    from foldline.output_parsers.fix import OutputFixingParser as OutputFixingParser
    from foldline.output_parsers.json import (
        JsonOutputParser as JsonOutputParser,
        SimpleJsonOutputParser as SimpleJsonOutputParser,
    )
    from foldline.output_parsers.list import (
        CommaSeparatedListOutputParser as CommaSeparatedListOutputParser,
        ListOutputParser as ListOutputParser,
        MarkdownListOutputParser as MarkdownListOutputParser,
        NumberedListOutputParser as NumberedListOutputParser,
    )
    from foldline.output_parsers.openai_tools import (
        JsonOutputKeyToolsParser as JsonOutputKeyToolsParser,
        JsonOutputToolsParser as JsonOutputToolsParser,
        PydanticToolsParser as PydanticToolsParser,
    )
    from foldline.output_parsers.pydantic import PydanticOutputParser as PydanticOutputParser
    from foldline.output_parsers.regex import (
        CombiningOutputParser as CombiningOutputParser,
        RegexDictParser as RegexDictParser,
        RegexParser as RegexParser,
    )
    from foldline.output_parsers.retry import (
        RetryOutputParser as RetryOutputParser,
        RetryWithErrorOutputParser as RetryWithErrorOutputParser,
    )
    from foldline.output_parsers.string import StrOutputParser as StrOutputParser
    from foldline.output_parsers.structured import (
        ResponseSchema as ResponseSchema,
        StructuredOutputParser as StructuredOutputParser,
    )
    from foldline.output_parsers.transform import (
        BaseCumulativeTransformOutputParser as BaseCumulativeTransformOutputParser,
        BaseTransformOutputParser as BaseTransformOutputParser,
    )
    from foldline.output_parsers.xml import XMLOutputParser as XMLOutputParser
    from foldline.output_parsers.yaml import YamlOutputParser as YamlOutputParser
