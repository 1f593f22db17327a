"""Cut long texts into pieces that fit: by characters, tokens, headings, or a language's rules."""

from weft.text_splitters.base import TextSplitter
from weft.text_splitters.character import CharacterTextSplitter, RecursiveCharacterTextSplitter
from weft.text_splitters.languages import Language
from weft.text_splitters.markdown import HeaderType, LineType, MarkdownHeaderTextSplitter
from weft.text_splitters.source import (
    LatexTextSplitter,
    MarkdownTextSplitter,
    PythonCodeTextSplitter,
)
from weft.text_splitters.token import Tokenizer, TokenTextSplitter, split_text_on_tokens

__all__ = [
    "CharacterTextSplitter",
    "HeaderType",
    "Language",
    "LatexTextSplitter",
    "LineType",
    "MarkdownHeaderTextSplitter",
    "MarkdownTextSplitter",
    "PythonCodeTextSplitter",
    "RecursiveCharacterTextSplitter",
    "TextSplitter",
    "TokenTextSplitter",
    "Tokenizer",
    "split_text_on_tokens",
]
