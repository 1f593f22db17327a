"""Splits long texts into chunks: by characters, tokens, headings, or the syntax of a language."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.text_splitters.base import TextSplitter as TextSplitter
    from foldline.text_splitters.character import (
        CharacterTextSplitter as CharacterTextSplitter,
        RecursiveCharacterTextSplitter as RecursiveCharacterTextSplitter,
    )
    from foldline.text_splitters.html import (
        ElementType as ElementType,
        HTMLHeaderTextSplitter as HTMLHeaderTextSplitter,
        HTMLSectionSplitter as HTMLSectionSplitter,
    )
    from foldline.text_splitters.html_semantic import (
        HTMLSemanticPreservingSplitter as HTMLSemanticPreservingSplitter,
    )
    from foldline.text_splitters.json import RecursiveJsonSplitter as RecursiveJsonSplitter
    from foldline.text_splitters.jsx import JSFrameworkTextSplitter as JSFrameworkTextSplitter
    from foldline.text_splitters.languages import Language as Language
    from foldline.text_splitters.markdown import (
        HeaderType as HeaderType,
        LineType as LineType,
        MarkdownHeaderTextSplitter as MarkdownHeaderTextSplitter,
    )
    from foldline.text_splitters.sentences import (
        NLTKTextSplitter as NLTKTextSplitter,
        SpacyTextSplitter as SpacyTextSplitter,
    )
    from foldline.text_splitters.source import (
        LatexTextSplitter as LatexTextSplitter,
        MarkdownTextSplitter as MarkdownTextSplitter,
        PythonCodeTextSplitter as PythonCodeTextSplitter,
    )
    from foldline.text_splitters.token import (
        Tokenizer as Tokenizer,
        TokenTextSplitter as TokenTextSplitter,
        split_text_on_tokens as split_text_on_tokens,
    )
