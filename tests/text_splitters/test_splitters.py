from __future__ import annotations

import sys
import time
from itertools import pairwise
from types import ModuleType

import pytest
from hypothesis import given, strategies as st

from foldline.documents import Document
from foldline.exceptions import MissingExtraError, UsageError
from foldline.language_models import FakeListChatModel
from foldline.text_splitters import (
    CharacterTextSplitter,
    Language,
    LatexTextSplitter,
    MarkdownTextSplitter,
    PythonCodeTextSplitter,
    RecursiveCharacterTextSplitter,
    TextSplitter,
    Tokenizer,
    TokenTextSplitter,
    split_text_on_tokens,
)

pytestmark = pytest.mark.timing

texts = st.text(st.sampled_from("ab \n\t.é😀-"), max_size=120)
sizes = st.integers(1, 20)


@given(texts, sizes, st.sampled_from([True, "start", "end"]))
def test_lossless_pieces_joined_are_the_text(text, size, keep):
    splitter = RecursiveCharacterTextSplitter(
        chunk_size=size, chunk_overlap=0, lossless=True, keep_separator=keep
    )
    pieces = splitter.split_text(text)
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= size for piece in pieces)
    lossless = CharacterTextSplitter(separator=" ", chunk_size=size, chunk_overlap=0, lossless=True)
    assert "".join(lossless.split_text(text)) == text


@given(texts, sizes, st.integers(0, 20), st.sampled_from([True, False, "end"]), st.booleans())
def test_every_character_that_is_no_space_is_in_some_piece_and_starts_are_exact(
    text, size, overlap, keep, strip
):
    splitter = RecursiveCharacterTextSplitter(
        chunk_size=size,
        chunk_overlap=min(size, overlap),
        keep_separator=keep,
        strip_whitespace=strip,
        add_start_index=True,
    )
    covered = set()
    for document in splitter.create_documents([text]):
        start = document.metadata["start_index"]
        assert text[start : start + len(document.page_content)] == document.page_content
        assert len(document.page_content) <= size
        covered.update(range(start, start + len(document.page_content)))
    assert all(text[place].isspace() for place in set(range(len(text))) - covered)


@given(texts, sizes, st.integers(0, 20))
def test_pieces_overlap_by_no_more_than_was_asked(text, size, overlap):
    overlap = min(size, overlap)
    splitter = RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=overlap, lossless=True)
    spans = list(splitter._spans(text))
    for before, after in pairwise(spans):
        assert before.start <= after.start <= before.end
        assert before.end - after.start <= overlap


def test_pieces_are_those_of_langchain():
    splitter = RecursiveCharacterTextSplitter(chunk_size=10, chunk_overlap=3, add_start_index=True)
    documents = splitter.create_documents(
        ["hello world this is a test\n\nmore text here"], [{"a": 1}]
    )
    assert [
        (document.page_content, document.metadata["start_index"]) for document in documents
    ] == [
        ("hello", 0),
        ("world", 6),
        ("this is a", 12),
        ("a test", 20),
        ("more text", 28),
        ("here", 38),
    ]
    assert documents[0].metadata == {"a": 1, "start_index": 0}


def test_a_piece_is_cut_only_at_the_separator(caplog):
    splitter = CharacterTextSplitter(separator=" ", chunk_size=4, chunk_overlap=0)
    assert splitter.split_text("a bb cccccc d e") == ["a bb", "cccccc", "d e"]
    assert "longer than chunk_size" in caplog.text
    assert splitter.split_text("") == []
    assert splitter.split_text("   ") == []


def test_a_separator_may_be_a_regular_expression():
    splitter = CharacterTextSplitter(r"\d+", is_separator_regex=True, chunk_size=3, chunk_overlap=0)
    assert splitter.split_text("abc123def4gh") == ["abc", "def", "gh"]
    with pytest.raises(UsageError, match="not a regular expression"):
        CharacterTextSplitter("(", is_separator_regex=True)


@pytest.mark.parametrize(
    "options", [{"chunk_size": 0}, {"chunk_overlap": -1}, {"chunk_size": 5, "chunk_overlap": 6}]
)
def test_sizes_that_cannot_be_are_refused(options):
    with pytest.raises(UsageError, match="chunk_"):
        RecursiveCharacterTextSplitter(**options)


def test_documents_are_cut_with_copies_of_their_metadata(call):
    splitter = RecursiveCharacterTextSplitter(chunk_size=5, chunk_overlap=0)
    document = Document("one two", metadata={"tags": ["x"]})
    pieces = call.run(splitter, "transform_documents", [document])
    assert [piece.page_content for piece in pieces] == ["one", "two"]
    pieces[0].metadata["tags"].append("changed")
    assert pieces[1].metadata == document.metadata == {"tags": ["x"]}
    with pytest.raises(UsageError, match="one metadata per text"):
        splitter.create_documents(["a"], [{}, {}])


def test_a_splitter_of_ones_own_needs_only_split_text():
    class Halves(TextSplitter):
        def split_text(self, text):
            return [text[: len(text) // 2], text[len(text) // 2 :]]

    splitter = Halves(add_start_index=True, chunk_overlap=0)
    assert [
        document.metadata["start_index"] for document in splitter.create_documents(["abcd"])
    ] == [0, 2]

    class Upper(RecursiveCharacterTextSplitter):
        def split_text(self, text):
            return [piece.upper() for piece in super().split_text(text)]

    assert Upper(chunk_size=3, chunk_overlap=0).create_documents(["ab cd"])[0].page_content == "AB"


@pytest.mark.parametrize("language", list(Language))
def test_every_language_has_separators_and_loses_nothing(language):
    splitter = RecursiveCharacterTextSplitter.from_language(
        language, chunk_size=16, chunk_overlap=0, lossless=True
    )
    text = "\nclass A {\n  if (x) { return; }\n}\n\ndef f():\n\tpass\n# H\n<div>é</div> $a$\n" * 3
    assert "".join(splitter.split_text(text)) == text


def test_python_is_cut_before_functions_and_markdown_before_headings():
    code = "class A:\n    x = 1\n\ndef f():\n    return 1\n\ndef g():\n    return 2\n"
    for splitter in (
        PythonCodeTextSplitter(chunk_size=30, chunk_overlap=0),
        RecursiveCharacterTextSplitter.from_language("python", chunk_size=30, chunk_overlap=0),
    ):
        assert [piece.split("\n")[0] for piece in splitter.split_text(code)] == [
            "class A:",
            "def f():",
            "def g():",
        ]
    markdown = MarkdownTextSplitter(chunk_size=12, chunk_overlap=0)
    assert markdown.split_text("# One\ntext\n## Two\nmore") == ["# One\ntext", "## Two\nmore"]
    latex = LatexTextSplitter(chunk_size=20, chunk_overlap=0)
    assert latex.split_text("a\n\\section{b} b b b b b") == ["a", "\\section{b} b b b b", "b"]
    with pytest.raises(UsageError, match="'klingon'"):
        RecursiveCharacterTextSplitter.from_language("klingon")


def test_lengths_are_what_the_function_counts():
    splitter = RecursiveCharacterTextSplitter(
        chunk_size=3, chunk_overlap=1, length_function=lambda text: len(text.split())
    )
    assert splitter.split_text("a b c d e") == ["a b c", "c d e"]


def encode(text):
    return [ord(sign) for sign in text]


def decode(tokens):
    return "".join(map(chr, tokens))


def test_tokens_are_cut_with_a_tokenizer_of_ones_own():
    splitter = TokenTextSplitter(encode=encode, decode=decode, chunk_size=4, chunk_overlap=1)
    assert splitter.split_text("abcdefgh") == ["abcd", "defg", "gh"]
    assert splitter.split_text("") == []
    tokenizer = Tokenizer(chunk_overlap=2, tokens_per_chunk=2, decode=decode, encode=encode)
    with pytest.raises(UsageError, match="must be greater"):
        split_text_on_tokens(text="abc", tokenizer=tokenizer)
    with pytest.raises(UsageError, match="belong together"):
        TokenTextSplitter(encode=encode)


@given(texts)
def test_tokens_are_cut_with_nothing_but_a_counter_and_nothing_is_lost(text):
    splitter = TokenTextSplitter(
        length_function=len, chunk_size=7, chunk_overlap=0, add_start_index=True
    )
    documents = splitter.create_documents([text])
    assert "".join(document.page_content for document in documents) == text
    assert all(len(document.page_content) <= 7 for document in documents)


def test_a_missing_tokenizer_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(MissingExtraError, match="length_function"):
        TokenTextSplitter("gpt2")
    with pytest.raises(MissingExtraError, match="pip install tiktoken"):
        CharacterTextSplitter.from_tiktoken_encoder()


@given(texts)
def test_tokens_are_cut_by_a_rough_count_without_any_tokenizer(text):
    splitter = TokenTextSplitter(chunk_size=3, chunk_overlap=0, add_start_index=True)
    documents = splitter.create_documents([text])
    assert "".join(document.page_content for document in documents) == text
    assert all(len(document.page_content) <= 12 for document in documents)
    model = FakeListChatModel(responses=["x"])
    assert all(model.get_num_tokens(document.page_content) <= 3 for document in documents)


class Tiktoken(ModuleType):
    """Stands in for the package, whose tables are on the internet: a token is a character."""

    def get_encoding(self, name):
        if name == "offline":
            raise ConnectionError("no route to host")
        if name != "letters":
            raise ValueError(f"Unknown encoding {name}")
        return self

    def encoding_for_model(self, name):
        raise KeyError(name)

    def encode(self, text, *, allowed_special, disallowed_special):
        self.arguments = (allowed_special, disallowed_special)
        return encode(text)

    decode = staticmethod(decode)


def test_tiktoken_cuts_between_its_tokens(monkeypatch):
    module = Tiktoken("tiktoken")
    monkeypatch.setitem(sys.modules, "tiktoken", module)

    splitter = TokenTextSplitter("letters", allowed_special="all", chunk_size=4, chunk_overlap=1)
    assert splitter.split_text("abcdefgh") == ["abcd", "defg", "gh"]
    assert module.arguments == ("all", "all")
    counting = CharacterTextSplitter.from_tiktoken_encoder(
        "letters", separator=" ", chunk_size=3, chunk_overlap=0
    )
    assert counting.split_text("a b c") == ["a b", "c"]
    with pytest.raises(UsageError, match="does not know 'runes'"):
        TokenTextSplitter("runes")
    with pytest.raises(UsageError, match="does not know 'gpt-99'"):
        TokenTextSplitter(model_name="gpt-99")
    with pytest.raises(UsageError, match="could not: no route to host"):
        TokenTextSplitter("offline")


def test_a_tokenizer_of_hugging_face_counts():
    class LangChainTokenizer:
        def tokenize(self, text):
            return text.split()

    splitter = CharacterTextSplitter.from_huggingface_tokenizer(
        LangChainTokenizer(), separator=" ", chunk_size=2, chunk_overlap=0
    )
    assert splitter.split_text("a b c") == ["a b", "c"]


@pytest.mark.slow
def test_the_time_is_proportional_to_the_text():
    splitter = RecursiveCharacterTextSplitter(
        chunk_size=500, chunk_overlap=50, add_start_index=True
    )

    def seconds(text):
        start = time.process_time()
        splitter.create_documents([text])
        return time.process_time() - start

    for part in ("word " * 20 + "\n\n", "x" * 102):
        small, large = part * 1000, part * 8000
        assert min(seconds(large) for _ in range(2)) < 25 * max(
            0.005, min(seconds(small) for _ in range(2))
        )
