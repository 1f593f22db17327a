"""Lists out of answers, whole and streaming."""

from __future__ import annotations

import csv
import io
import re
import time

import pytest
from hypothesis import given, settings, strategies as st

from foldline.messages import AIMessageChunk
from foldline.output_parsers import (
    CommaSeparatedListOutputParser,
    ListOutputParser,
    MarkdownListOutputParser,
    NumberedListOutputParser,
)
from foldline.output_parsers.list import MARKDOWN, NUMBERED, droplastn

pytestmark = pytest.mark.timing


def split(text: str, size: int = 2) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def partition(data: st.DataObject, text: str) -> list[str]:
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("a, b,c", ["a", "b", "c"]),
        ("", []),
        ('"a, b", c', ["a, b", "c"]),
        ("a,\nb", ["a", "", "b"]),
        ('a, "b" x', ["a", "b x"]),
        ('"a""b", c', ['a"b', "c"]),
        ('x"y,z', ['x"y', "z"]),
        ("a\r\n\r\nb", ["a", "b"]),
        ('"a\nb",c', ["a\nb", "c"]),
        ('a,"b', ["a", "b"]),
        ("a,", ["a", ""]),
    ],
)
def test_comma_separated(call, text, items):
    parser = CommaSeparatedListOutputParser()

    assert call.invoke(parser, text) == items
    assert call.transform(parser, split(text)) == [[item] for item in items]


def test_items_are_given_when_they_are_whole(call):
    parser = CommaSeparatedListOutputParser()

    assert call.transform(parser, [AIMessageChunk("a, b"), ", c", "d,", '"x, ', 'y"']) == [
        ["a"],
        ["b"],
        ["cd"],
        ["x, y"],
    ]


@settings(max_examples=150, deadline=None)
@given(st.text('ab", \n', max_size=30), st.data())
def test_commas_are_read_as_pythons_csv_reads_them_however_they_are_cut(text, data):
    rows = csv.reader(
        io.StringIO(text, newline=""), quotechar='"', delimiter=",", skipinitialspace=True
    )
    expected = [item for row in rows for item in row]
    parser = CommaSeparatedListOutputParser()

    assert parser.parse(text) == expected
    assert list(parser.transform(iter(partition(data, text)))) == [[item] for item in expected]


@pytest.mark.parametrize(
    ("parser", "text", "items"),
    [
        (NumberedListOutputParser(), "foo\n1. a\n\n10. b c\nbar", ["a", "b c"]),
        (NumberedListOutputParser(), "1.\nfoo", ["foo"]),
        (NumberedListOutputParser(), "x 3. y 4. z", ["y 4. z"]),
        (NumberedListOutputParser(), "1.a", []),
        (MarkdownListOutputParser(), "foo\n  - a\n\n* b - c\nbar", ["a", "b - c"]),
        (MarkdownListOutputParser(), "-\nfoo", ["foo"]),
        (MarkdownListOutputParser(), "-a", []),
        (MarkdownListOutputParser(), "\n\n- x", ["x"]),
    ],
)
def test_numbered_and_markdown(call, parser, text, items):
    assert call.invoke(parser, text) == items
    assert call.transform(parser, split(text)) == [[item] for item in items]


@settings(max_examples=150, deadline=None)
@given(st.text("12.-* a\n\t", max_size=30), st.data())
def test_lists_are_found_as_the_known_patterns_find_them_however_they_are_cut(text, data):
    for parser, pattern in (
        (NumberedListOutputParser(), NUMBERED),
        (MarkdownListOutputParser(), MARKDOWN),
    ):
        expected = re.findall(pattern, text, re.MULTILINE)
        assert parser.parse(text) == expected
        assert list(parser.transform(iter(partition(data, text)))) == [[item] for item in expected]


@pytest.mark.parametrize(
    "text",
    ["\n" * 20_000, "1" * 20_000, "- " * 10_000, '"' + "a," * 10_000, " " * 20_000 + "x"],
)
def test_CVE_2024_58340_no_answer_makes_a_list_slow(text):
    for parser in (
        NumberedListOutputParser(),
        MarkdownListOutputParser(),
        CommaSeparatedListOutputParser(),
    ):
        start = time.process_time()
        parser.parse(text)
        list(parser.transform(iter(split(text, 100))))
        assert time.process_time() - start < 3


def test_a_pattern_may_be_ones_own(call):
    parser = NumberedListOutputParser(pattern=r"\((\w)\)")

    assert call.invoke(parser, "(a) (b)") == ["a", "b"]
    assert call.transform(parser, split("(a) (b) (c)")) == [["a"], ["b"], ["c"]]


def test_an_authors_list_parser_writes_parse(call):
    class Lines(ListOutputParser):
        def parse(self, text: str) -> list[str]:
            return text.split(";")

    assert call.invoke(Lines(), "a;b") == ["a", "b"]
    assert call.transform(Lines(), ["a;b", "c;", "d"]) == [["a"], ["bc"], ["d"]]
    assert Lines()._type == "list"


def test_format_instructions_and_helpers():
    for parser in (
        NumberedListOutputParser(),
        MarkdownListOutputParser(),
        CommaSeparatedListOutputParser(),
    ):
        assert parser.parse(parser.get_format_instructions().split(":", 1)[1])
    assert list(droplastn(iter([1, 2, 3]), 2)) == [1]
    assert CommaSeparatedListOutputParser().OutputType == list[str]
