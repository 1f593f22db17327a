"""Splitters over optional libraries, and the one of JavaScript's frameworks. What LangChain gives was seen in 1.1.3."""

from __future__ import annotations

import sys

import pytest

from foldline.documents import Document
from foldline.exceptions import MissingExtraError, UsageError
from foldline.text_splitters import (
    HTMLSemanticPreservingSplitter,
    JSFrameworkTextSplitter,
    NLTKTextSplitter,
    SpacyTextSplitter,
)

TEXT = "One is here. Two is there.  Three is gone."
PAGE = """
<h1>Top</h1><p>Intro with <a href="/x">a link</a> inside.</p>
<div><h2>Table</h2><table><tr><td>alpha beta</td><td>gamma delta</td></tr></table><!-- no -->
<p>After the table comes text that is long enough to be cut.</p></div>
<iframe src="/f"></iframe><img src="i.png"><script>bad()</script>
"""


# -- sentences


@pytest.fixture
def punkt(tmp_path, monkeypatch):
    """The data of NLTK's Punkt, learned from a text: the real ones are fetched over the network."""
    nltk = pytest.importorskip("nltk")
    punkt = pytest.importorskip("nltk.tokenize.punkt")
    folder = tmp_path / "tokenizers" / "punkt_tab" / "english"
    folder.mkdir(parents=True)
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    punkt.save_punkt_params(punkt.PunktTrainer(TEXT * 3).get_params(), dir=str(folder))
    nltk.tokenize._get_punkt_tokenizer.cache_clear()
    yield
    nltk.tokenize._get_punkt_tokenizer.cache_clear()


def test_nltk_finds_sentences_and_puts_them_together(punkt):
    assert NLTKTextSplitter(chunk_size=30, chunk_overlap=0).split_text(TEXT) == [
        "One is here.\n\nTwo is there.",
        "Three is gone.",
    ]
    splitter = NLTKTextSplitter(
        separator="", use_span_tokenize=True, chunk_size=50, chunk_overlap=0
    )
    assert splitter.split_text(TEXT) == [TEXT]


def test_nltk_without_its_data_says_how_to_get_them(tmp_path, monkeypatch):
    nltk = pytest.importorskip("nltk")
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    nltk.tokenize._get_punkt_tokenizer.cache_clear()

    with pytest.raises(UsageError, match="punkt_tab"):
        NLTKTextSplitter().split_text(TEXT)
    with pytest.raises(UsageError, match='separator=""'):
        NLTKTextSplitter(use_span_tokenize=True)


@pytest.mark.filterwarnings("ignore")
def test_spacy_finds_sentences():
    pytest.importorskip("spacy")
    splitter = SpacyTextSplitter(pipeline="sentencizer", chunk_size=30, chunk_overlap=0)

    assert splitter.split_text(TEXT) == ["One is here.\n\nTwo is there.", "Three is gone."]
    with pytest.raises(UsageError, match="spacy download"):
        SpacyTextSplitter(pipeline="en_core_web_sm")


@pytest.mark.parametrize(
    ("module", "package", "make"),
    [
        ("nltk.tokenize", "nltk", NLTKTextSplitter),
        ("spacy", "spacy", SpacyTextSplitter),
        ("bs4", "beautifulsoup4", lambda: HTMLSemanticPreservingSplitter([("h1", "a")])),
    ],
)
def test_a_library_that_is_not_installed_is_named(monkeypatch, module, package, make):
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(MissingExtraError, match=f"pip install {package}"):
        make()


# -- JavaScript


def test_a_component_is_cut_at_statements_and_tags():
    code = (
        "import React from 'react';\nconst A = 1;\n\nfunction App() {\n"
        "  return (<div><Card title='x'><p>text</p></Card></div>);\n}\nexport default App;\n"
    )
    splitter = JSFrameworkTextSplitter(chunk_size=40)
    pieces = splitter.split_text(code)

    assert pieces == [
        "import React from 'react';\nconst A = 1;",
        "function App() {\n  return (",
        "<div>",
        "<Card title='x'>",
        "<p>text</p></Card></div>);\n}",
        "export default App;",
    ]
    assert splitter.split_text(code) == pieces
    assert all(piece in code for piece in pieces)


# -- HTML


HEADERS = [("h1", "Header 1"), ("h2", "Header 2")]


def semantic(**options):
    pytest.importorskip("bs4")
    return HTMLSemanticPreservingSplitter(HEADERS, **options)


def test_a_page_is_cut_at_its_headings():
    documents = semantic(preserve_links=True, denylist_tags=["script"]).split_text(PAGE)

    assert [(document.page_content, document.metadata) for document in documents] == [
        ("Intro with [a link](/x) inside.", {"Header 1": "Top"}),
        (
            "alpha beta gamma delta After the table comes text that is long enough to be cut.",
            {"Header 2": "Table"},
        ),
    ]


def test_what_is_preserved_is_not_cut():
    splitter = semantic(max_chunk_size=15, elements_to_preserve=["table"], denylist_tags=["script"])
    texts = [document.page_content for document in splitter.split_text(PAGE)]

    assert "alpha beta gamma delta" in texts
    assert all(len(text) <= 15 for text in texts if "alpha" not in text)
    words = "Intro with a link inside. alpha beta gamma delta After the table comes text that is long enough"
    assert " ".join(texts) == f"{words} to be cut."


def test_tags_may_be_read_by_a_function():
    handlers = {"iframe": lambda tag: f"[iframe:{tag.get('src')}]"}
    splitter = semantic(
        preserve_images=True,
        custom_handlers=handlers,
        allowlist_tags=["iframe", "img"],
        external_metadata={"page": "1"},
    )

    (document,) = splitter.split_text(PAGE)[-1:]
    assert document.page_content == "[iframe:/f] ![image:i.png](i.png)"
    assert document.metadata == {"Header 1": "Top", "page": "1"}


def test_text_may_be_normalized_and_keep_the_metadata_of_its_document():
    splitter = semantic(normalize_text=True, preserve_parent_metadata=True)
    documents = splitter.transform_documents([Document("<p>Hello, World!</p>", metadata={"a": 1})])

    assert [(document.page_content, document.metadata) for document in documents] == [
        ("hello world", {"a": 1})
    ]
