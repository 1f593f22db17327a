"""Splitters at the ends of sentences, which a library finds: `NLTKTextSplitter`, `SpacyTextSplitter`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from foldline.exceptions import MissingExtraError, UsageError
from foldline.text_splitters.base import Span, TextSplitter

__all__ = ["NLTKTextSplitter", "SpacyTextSplitter"]

Cut = Callable[[str], Iterable[str]]
"""A text -> its sentences."""


class _SentenceTextSplitter(TextSplitter):
    """Puts sentences together, with a separator between them."""

    def __init__(self, separator: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._separator = separator
        self._cut: Cut = lambda text: [text]

    def split_text(self, text: str) -> list[str]:
        """Cut a text into pieces of whole sentences."""
        sentences = list(self._cut(text))
        joined = self._separator.join(sentences)
        spans, start = [], 0
        for sentence in sentences:
            spans.append(Span(start, start + len(sentence)))
            start += len(sentence) + len(self._separator)
        return [joined[span.start : span.end] for span in self._merged(joined, spans)]


class NLTKTextSplitter(_SentenceTextSplitter):
    """Cuts at the ends of sentences that NLTK's Punkt finds; its data must be there: `nltk.download("punkt_tab")`."""

    def __init__(
        self,
        separator: str = "\n\n",
        language: str = "english",
        *,
        use_span_tokenize: bool = False,
        **kwargs: Any,
    ) -> None:
        """Choose the language; `use_span_tokenize` keeps what stands between sentences, and `separator` is then ""."""
        super().__init__(separator, **kwargs)
        if use_span_tokenize and separator:
            raise UsageError(
                'use_span_tokenize keeps what stands between sentences: give separator=""'
            )
        tokenize: Any = _library("nltk.tokenize", "nltk")

        def cut(text: str) -> list[str]:
            try:
                return list(tokenize.sent_tokenize(text, language))
            except LookupError as error:
                raise _no_data(language) from error

        def cut_spans(text: str) -> list[str]:
            try:
                tokenizer = tokenize.PunktTokenizer(language)
            except LookupError as error:
                raise _no_data(language) from error
            ends = [end for _, end in tokenizer.span_tokenize(text)]
            return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]

        self._cut = cut_spans if use_span_tokenize else cut


class SpacyTextSplitter(_SentenceTextSplitter):
    """Cuts at the ends of sentences that spaCy finds; `pipeline="sentencizer"` needs no model and is faster."""

    def __init__(
        self,
        separator: str = "\n\n",
        pipeline: str = "en_core_web_sm",
        max_length: int = 1_000_000,
        *,
        strip_whitespace: bool = True,
        **kwargs: Any,
    ) -> None:
        """Choose the pipeline; `max_length` is the longest text that it takes."""
        super().__init__(separator, strip_whitespace=strip_whitespace, **kwargs)
        spacy: Any = _library("spacy", "spacy")
        if pipeline == "sentencizer":
            read = spacy.blank("en")
            read.add_pipe("sentencizer")
        else:
            try:
                read = spacy.load(pipeline, exclude=["ner", "tagger"])
            except OSError as error:
                raise UsageError(
                    f"spaCy has no pipeline {pipeline!r}: python -m spacy download {pipeline}, or "
                    'pipeline="sentencizer", which needs none'
                ) from error
        read.max_length = max_length
        form = "text" if strip_whitespace else "text_with_ws"
        self._cut = lambda text: [str(getattr(sentence, form)) for sentence in read(text).sents]


def _library(module: str, package: str) -> Any:  # noqa: ANN401  a module of theirs
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f'this splitter needs the package "{package}": pip install {package}'
        ) from error


def _no_data(language: str) -> UsageError:
    return UsageError(
        f'NLTK has no data for sentences of {language!r}: nltk.download("punkt_tab"), or set NLTK_DATA to a folder '
        "that has it"
    )
