"""The parsers of LangChain's older programs: structured, YAML, dates, enums, patterns."""

from __future__ import annotations

from datetime import datetime
from enum import Enum

import pytest
from pydantic import BaseModel

from foldline.exceptions import OutputParserException
from foldline.language_models import FakeListChatModel
from foldline.output_parsers import (
    BooleanOutputParser,
    CombiningOutputParser,
    DatetimeOutputParser,
    EnumOutputParser,
    RegexDictParser,
    RegexParser,
    ResponseSchema,
    StructuredOutputParser,
    YamlOutputParser,
)


class Joke(BaseModel):
    setup: str
    stars: int = 0


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


STRUCTURED = StructuredOutputParser.from_response_schemas(
    [
        ResponseSchema(name="answer", description="the answer"),
        ResponseSchema(name="pages", description="where it says so", type="list[int]"),
    ]
)
REGEX = RegexParser(regex=r"(.*) \((\d+)\)", output_keys=["answer", "score"])
GOOD = [
    (STRUCTURED, '```json\n{"answer": "a", "pages": [1]}\n```', {"answer": "a", "pages": [1]}),
    (
        STRUCTURED,
        'so: {"answer": "a", "pages": [], "more": 1}',
        {"answer": "a", "pages": [], "more": 1},
    ),
    (
        YamlOutputParser(pydantic_object=Joke),
        "```yaml\nsetup: x\nstars: 2\n```",
        Joke(setup="x", stars=2),
    ),
    (YamlOutputParser(pydantic_object=Joke), "Here:\n```\nsetup: x\n```\nDone.", Joke(setup="x")),
    (YamlOutputParser(pydantic_object=Joke), "setup: x", Joke(setup="x")),
    (
        DatetimeOutputParser(),
        "2024-02-29T13:05:09.250000Z\n",
        datetime(2024, 2, 29, 13, 5, 9, 250000),
    ),
    (DatetimeOutputParser(format="%d.%m.%Y"), "31.12.1999", datetime(1999, 12, 31)),
    (EnumOutputParser(enum=Size), " large\n", Size.LARGE),
    (BooleanOutputParser(), "yes, of course", True),
    (BooleanOutputParser(true_val="ja", false_val="nein"), "Nein!", False),
    (REGEX, "Paris (100)", {"answer": "Paris", "score": "100"}),
    (
        RegexParser(regex="x(y)", output_keys=["a", "b"], default_output_key="b"),
        "no",
        {"a": "", "b": "no"},
    ),
    (
        RegexDictParser(
            output_key_to_format={"do": "Action", "with": "Input"}, no_update_value="N/A"
        ),
        "Action: search\nInput: N/A",
        {"do": "search"},
    ),
    (
        CombiningOutputParser(parsers=[STRUCTURED, REGEX]),
        '{"answer": "a", "pages": []}\n\nParis (1)',
        {"answer": "Paris", "pages": [], "score": "1"},
    ),
]
BAD = [
    (STRUCTURED, "no JSON at all", "not JSON"),
    (STRUCTURED, '{"answer": "a"}', "lacks pages"),
    (STRUCTURED, "[1]", "lacks answer, pages"),
    (YamlOutputParser(pydantic_object=Joke), "- a\n- b", "Failed to parse Joke"),
    (YamlOutputParser(pydantic_object=Joke), "setup: [", "Failed to parse Joke"),
    (DatetimeOutputParser(), "yesterday", "Could not parse datetime string: yesterday"),
    (EnumOutputParser(enum=Size), "huge", "'huge' is not one of the expected values: small, large"),
    (BooleanOutputParser(), "yes and no", "Ambiguous"),
    (BooleanOutputParser(), "nobody knows", "neither"),
    (REGEX, "Paris", "Could not parse output: Paris"),
    (
        RegexDictParser(output_key_to_format={"do": "Action"}),
        "",
        "No match found for output key 'do'",
    ),
    (
        RegexDictParser(output_key_to_format={"do": "Action"}),
        "Action: a\nAction: b",
        "Multiple match found",
    ),
    (
        CombiningOutputParser(parsers=[STRUCTURED, REGEX]),
        "one",
        "2 paragraphs were requested and 1",
    ),
]


@pytest.mark.parametrize(("parser", "text", "value"), GOOD)
def test_an_answer_is_read(call, parser, text, value):
    assert call.invoke(FakeListChatModel(responses=[text]) | parser, "x") == value


@pytest.mark.parametrize(("parser", "text", "problem"), BAD)
def test_an_answer_that_does_not_fit_is_an_error(parser, text, problem):
    with pytest.raises(OutputParserException, match=problem) as excinfo:
        parser.parse(text)

    assert excinfo.value.llm_output == text


def test_instructions_say_what_is_read():
    assert '"pages": list[int]  // where it says so' in STRUCTURED.get_format_instructions()
    assert STRUCTURED.get_format_instructions(only_json=True).startswith("```json")
    assert '"setup"' in YamlOutputParser(pydantic_object=Joke).get_format_instructions()
    assert "29.02.2024" in DatetimeOutputParser(format="%d.%m.%Y").get_format_instructions()
    assert "small, large" in EnumOutputParser(enum=Size).get_format_instructions()
    assert "YES or NO" in BooleanOutputParser().get_format_instructions()
    combined = CombiningOutputParser(parsers=[STRUCTURED, STRUCTURED])
    assert combined.get_format_instructions().count("```json") == 2


def test_parsers_made_wrongly_say_so():
    class Number(Enum):
        ONE = 1

    with pytest.raises(ValueError, match="Enum values must be strings"):
        EnumOutputParser(enum=Number)
    with pytest.raises(ValueError, match="at least two parsers"):
        CombiningOutputParser(parsers=[STRUCTURED])
