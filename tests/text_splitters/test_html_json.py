from __future__ import annotations

import io
import json

import pytest
from hypothesis import given, strategies as st

from foldline.documents import Document
from foldline.text_splitters import (
    HTMLHeaderTextSplitter,
    HTMLSectionSplitter,
    RecursiveJsonSplitter,
)

HEADERS = [("h1", "title"), ("h2", "part"), ("h3", "detail")]
PAGE = """<html><head><title>T</title><style>p {}</style></head><body><div><h1>Foo</h1><p>About <b>Foo</b>.</p>
<div><h2>Bar</h2><p>About Bar.</p><h3>One</h3><p>first</p><p>second</p><h3>Two</h3><p>third</p></div>
<div><h2>Baz</h2><p>About Baz</p></div><br><p>The end of Foo</p></div><script>no()</script></body></html>"""


def pairs(documents):
    return [(tuple(document.metadata.values()), document.page_content) for document in documents]


def test_a_page_is_cut_at_its_headings():
    assert pairs(HTMLHeaderTextSplitter(HEADERS).split_text(PAGE)) == [
        (("Foo",), "Foo"),
        (("Foo",), "About Foo."),
        (("Foo", "Bar"), "Bar"),
        (("Foo", "Bar"), "About Bar."),
        (("Foo", "Bar", "One"), "One"),
        (("Foo", "Bar", "One"), "first  \nsecond"),
        (("Foo", "Bar", "Two"), "Two"),
        (("Foo", "Bar", "Two"), "third"),
        (("Foo", "Baz"), "Baz"),
        (("Foo", "Baz"), "About Baz"),
        (("Foo",), "The end of Foo"),
    ]


def test_each_element_may_be_a_document(tmp_path):
    (tmp_path / "page.html").write_text(PAGE)
    splitter = HTMLHeaderTextSplitter(HEADERS, return_each_element=True)

    documents = splitter.split_text_from_file(tmp_path / "page.html")

    assert [pair for pair in pairs(documents) if pair[0] == ("Foo", "Bar", "One")] == [
        (("Foo", "Bar", "One"), "One"),
        (("Foo", "Bar", "One"), "first"),
        (("Foo", "Bar", "One"), "second"),
    ]
    assert splitter.split_text_from_file(io.StringIO(PAGE)) == documents


def test_a_page_is_cut_into_sections():
    splitter = HTMLSectionSplitter([("h1", "title"), ("h2", "part")])

    documents = splitter.split_documents([Document("<p>before</p>" + PAGE, metadata={"from": "x"})])

    assert documents[0] == Document("before", metadata={"from": "x", "title": "#TITLE#"})
    assert documents[2].metadata == {"from": "x", "part": "Bar"}
    assert documents[2].page_content == "Bar\nAbout Bar.\nOne\nfirst\nsecond\nTwo\nthird"


@pytest.mark.slow
@pytest.mark.parametrize("page", ["", "<", "</p></div>", "<p>" * 50_000, "<h1>", "<p>a</h1>b"])
def test_odd_pages_do_no_harm(page):
    assert len(HTMLHeaderTextSplitter(HEADERS).split_text(page)) <= 2
    assert len(HTMLSectionSplitter(HEADERS).split_text(page)) <= 2


DATA = {
    "info": {"title": "shop", "version": "0.1"},
    "paths": {f"/{name}": {"get": {"tags": ["a", "b"], "text": "x" * 30}} for name in "abc"},
}


def test_json_is_cut_with_the_path_to_each_value():
    pieces = RecursiveJsonSplitter(max_chunk_size=120).split_json(DATA)

    assert [list(piece.get("paths", {})) for piece in pieces] == [["/a"], ["/b"], ["/c"]]
    assert pieces[0] == {"info": DATA["info"], "paths": {"/a": DATA["paths"]["/a"]}}
    assert pieces[1] == {"paths": {"/b": DATA["paths"]["/b"]}}


def test_lists_are_cut_by_place_where_asked():
    splitter = RecursiveJsonSplitter(max_chunk_size=20, min_chunk_size=10)

    assert splitter.split_json({"a": ["some", "more", "words"]}, convert_lists=True) == [
        {"a": {"0": "some"}},
        {"a": {"1": "more"}},
        {"a": {"2": "words"}},
    ]


def test_documents_of_json_keep_their_metadata():
    splitter = RecursiveJsonSplitter(max_chunk_size=120)

    documents = splitter.create_documents(
        [DATA, {"ä": 1}], metadatas=[{"n": 1}, {"n": 2}], ensure_ascii=False
    )

    assert documents[-1] == Document('{"ä": 1}', metadata={"n": 2})
    assert [document.metadata["n"] for document in documents] == [1, 1, 1, 2]


VALUES = st.recursive(
    st.integers() | st.text(max_size=8),
    lambda inner: st.dictionaries(st.text(min_size=1, max_size=4), inner, min_size=1, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(min_size=1, max_size=4), VALUES, max_size=4), st.integers(20, 80))
def test_nothing_of_the_json_is_lost(data, size):
    def merge(total, piece):
        for key, value in piece.items():
            total[key] = merge(total.get(key, {}), value) if isinstance(value, dict) else value
        return total

    total = {}
    for text in RecursiveJsonSplitter(max_chunk_size=size).split_text(data):
        merge(total, json.loads(text))
    assert total == data
