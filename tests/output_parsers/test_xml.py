"""XML out of answers: nested dicts, streaming, and nothing that expands."""

from __future__ import annotations

import functools
import re
import time
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, settings, strategies as st

from foldline.exceptions import OutputParserException
from foldline.messages import AIMessageChunk
from foldline.output_parsers import XMLOutputParser
from foldline.output_parsers.xml import nested_element

pytestmark = pytest.mark.timing


def split(text: str, size: int = 4) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<a>t</a>", {"a": "t"}),
        ("<a><b>1</b><c>2</c></a>", {"a": [{"b": "1"}, {"c": "2"}]}),
        ("```xml\n<a><b>1</b></a>\n```", {"a": [{"b": "1"}]}),
        ("Here a < b: <a>1</a> done", {"a": "1"}),
        ('<?xml version="1.0" encoding="utf-8"?>\n<a>1</a>', {"a": "1"}),
        ("<a x=\"1 > 0\" y='2'>&lt;&amp;&#65;&#x42;</a>", {"a": "<&AB"}),
        ("<a/>", {"a": []}),
        ("<a> </a>", {"a": []}),
        ("<a>\n <b>1</b>\n <c/></a>", {"a": [{"b": "1"}, {"c": None}]}),
        ("<a><![CDATA[<x> & ]]]]></a>", {"a": "<x> & ]]"}),
        ("<a><!-- c -- > <b> -->y</a>", {"a": "y"}),
        ("<a>x<b>1</b>tail</a>", {"a": ["x", {"b": "1"}, "tail"]}),
    ],
)
def test_xml_becomes_dicts_and_loses_no_text(call, text, value):
    parser = XMLOutputParser()

    assert call.invoke(parser, text) == value
    for size in (1, 4, 100):
        pieces = call.transform(parser, split(text, size))
        total = functools.reduce(lambda first, second: first + second, pieces)
        assert total == value or value["a"] == []


def test_leaves_stream_as_soon_as_they_are_closed(call):
    text = "<body><title>T</title><items><i>1</i><i>2</i></items></body>"

    assert call.transform(
        XMLOutputParser(), [AIMessageChunk(piece) for piece in split(text, 5)]
    ) == [
        {"body": [{"title": "T"}]},
        {"body": [{"items": [{"i": "1"}]}]},
        {"body": [{"items": [{"i": "2"}]}]},
    ]


@pytest.mark.parametrize(
    "text",
    [
        "<a>",
        "nope",
        "<a></b>",
        "<a><b></a></b>",
        "</a>",
        "<a>&nbsp;</a>",
        "<a>A & B</a>",
        "<a>&#0;</a>",
        "<a>&#xD800;</a>",
        "<a>< b</a>",
        "<a b=c>x</a>",
        "<r><a" + " x='1'" * 5000 + ">",
        "<!-- x",
        "<a>]]></a>",
        "<a>\x0b</a>",
        "<a>\ud800</a>",
        "<r><a x='" + ">" * 5000,
    ],
)
def test_what_is_no_xml_is_a_typed_error_with_the_answer_kept(call, text):
    with pytest.raises(OutputParserException) as excinfo:
        call.invoke(XMLOutputParser(), text)
    assert excinfo.value.llm_output == text
    with pytest.raises(OutputParserException):
        call.transform(XMLOutputParser(), split(text))


def test_a_second_document_is_refused_where_the_whole_is_read(call):
    for text in ("<a>1</a><b>2</b>", "<a>1</a> 'x' < y </a>", "<a/>\n<!DOCTYPE a>", "<a/>'<b/>"):
        with pytest.raises(OutputParserException, match="another tag"):
            call.invoke(XMLOutputParser(), text)
    assert call.transform(XMLOutputParser(), ["<a>1</a><b>2</b>", "<c>"]) == [{"a": "1"}]
    assert call.transform(XMLOutputParser(), [" ", ""]) == []


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>',
        '<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><l>&b;</l>',
        '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
        '<a><!ENTITY x SYSTEM "http://example.com/"></a>',
        "<a>&x;</a>",
    ],
)
def test_CVE_2024_1455_no_entity_is_expanded_and_no_document_type_read(call, text):
    with pytest.raises(OutputParserException):
        call.invoke(XMLOutputParser(), text)
    with pytest.raises(OutputParserException):
        call.transform(XMLOutputParser(), split(text))


@pytest.mark.parametrize(
    "text",
    [
        "<a>" * 10_000,
        "<a" * 10_000,
        "<" * 20_000,
        "<a>" + "&lt;" * 5_000,
        "<!--" + "-" * 20_000,
        "<a b='" + ">" * 20_000,
        "<a>" + "x" * 20_000,
    ],
)
def test_no_answer_makes_xml_slow_or_too_deep(text):
    for pieces in ([text], split(text, 50)):
        start = time.process_time()
        with pytest.raises(OutputParserException):
            list(XMLOutputParser().transform(iter(pieces)))
        assert time.process_time() - start < 3


TAGS = st.sampled_from(["a", "b", "long-name", "x:y"])
TREES = st.recursive(
    st.tuples(TAGS, st.text("ab<>&'\" ]é", min_size=1, max_size=6)),
    lambda inner: st.tuples(TAGS, st.lists(inner, min_size=1, max_size=3)),
    max_leaves=8,
)


def write(tree) -> str:
    tag, inside = tree
    if isinstance(inside, str):
        inside = inside.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    else:
        inside = "".join(map(write, inside))
    return f"<{tag}>{inside}</{tag}>"


def value(tree):
    tag, inside = tree
    return {tag: inside if isinstance(inside, str) else [value(child) for child in inside]}


@settings(max_examples=80, deadline=None)
@given(TREES, st.data())
def test_what_was_written_is_read_however_it_is_cut(tree, data):
    text = write(tree)
    expected = value(tree)
    if isinstance(tree[1], str) and not tree[1].strip():
        expected = {tree[0]: []}
    assert XMLOutputParser().parse(text) == expected
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    assert list(XMLOutputParser().transform(iter(pieces))) == list(
        XMLOutputParser().transform(iter([text]))
    )


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from([*"<>/ab!-&;'= ", "<a>", "</a>", "<!--", "-->", "<![CDATA[", "]]>", "<?"])
    ),
    st.integers(1, 5),
)
def test_an_answer_reads_the_same_however_it_is_cut(parts, size):
    def read(pieces):
        try:
            return list(XMLOutputParser().transform(iter(pieces)))
        except OutputParserException:
            return None

    text = "".join(parts)
    assert read(split(text, size)) == read([text])


@settings(max_examples=120, deadline=None)
@given(st.text("<>/ab!-[]CDAT&;#x1='\" ?", max_size=40))
def test_any_answer_is_one_document_or_a_typed_error(text):
    try:
        read = XMLOutputParser().parse(text)
    except OutputParserException:
        return
    assert len(read) == 1


def test_tags_are_named_in_the_format_instructions_and_elements_nest():
    assert "film, actor" in XMLOutputParser(tags=["film", "actor"]).get_format_instructions()
    assert nested_element(["a", "b"], "x") == {"a": [{"b": "x"}]}
    element = ElementTree.Element("c")
    element.text = "y"
    assert nested_element(["a"], element) == {"a": [{"c": "y"}]}
    assert XMLOutputParser()._type == "xml"
    matcher = re.compile(r"(skip)(.*)", re.DOTALL)
    assert XMLOutputParser(encoding_matcher=matcher).parse("<b/> skip <a>1</a>") == {"a": "1"}
