"""Splits long texts into chunks: by characters, tokens, headings, or the syntax of a language."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.text_splitters.base import TextSplitter
    from foldline.text_splitters.character import (
        CharacterTextSplitter,
        RecursiveCharacterTextSplitter,
    )
    from foldline.text_splitters.html import (
        ElementType,
        HTMLHeaderTextSplitter,
        HTMLSectionSplitter,
    )
    from foldline.text_splitters.html_semantic import HTMLSemanticPreservingSplitter
    from foldline.text_splitters.json import RecursiveJsonSplitter
    from foldline.text_splitters.jsx import JSFrameworkTextSplitter
    from foldline.text_splitters.languages import Language
    from foldline.text_splitters.markdown import HeaderType, LineType, MarkdownHeaderTextSplitter
    from foldline.text_splitters.sentences import NLTKTextSplitter, SpacyTextSplitter
    from foldline.text_splitters.source import (
        LatexTextSplitter,
        MarkdownTextSplitter,
        PythonCodeTextSplitter,
    )
    from foldline.text_splitters.token import Tokenizer, TokenTextSplitter, split_text_on_tokens

__all__ = [
    "CharacterTextSplitter",
    "ElementType",
    "HTMLHeaderTextSplitter",
    "HTMLSectionSplitter",
    "HTMLSemanticPreservingSplitter",
    "HeaderType",
    "JSFrameworkTextSplitter",
    "Language",
    "LatexTextSplitter",
    "LineType",
    "MarkdownHeaderTextSplitter",
    "MarkdownTextSplitter",
    "NLTKTextSplitter",
    "PythonCodeTextSplitter",
    "RecursiveCharacterTextSplitter",
    "RecursiveJsonSplitter",
    "SpacyTextSplitter",
    "TextSplitter",
    "TokenTextSplitter",
    "Tokenizer",
    "split_text_on_tokens",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".base": "TextSplitter",
        ".character": "CharacterTextSplitter RecursiveCharacterTextSplitter",
        ".languages": "Language",
        ".markdown": "HeaderType LineType MarkdownHeaderTextSplitter",
        ".source": "LatexTextSplitter MarkdownTextSplitter PythonCodeTextSplitter",
        ".token": "TokenTextSplitter Tokenizer split_text_on_tokens",
        ".json": "RecursiveJsonSplitter",
        ".html": "ElementType HTMLHeaderTextSplitter HTMLSectionSplitter",
        ".html_semantic": "HTMLSemanticPreservingSplitter",
        ".jsx": "JSFrameworkTextSplitter",
        ".sentences": "NLTKTextSplitter SpacyTextSplitter",
    },
)
