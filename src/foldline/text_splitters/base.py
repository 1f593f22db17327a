"""`TextSplitter`: the base of all splitters: settings, methods for documents, and the merging of small parts.

Inside, a chunk is a span of the text (start, end) and not a copy: so `start_index` is exact, nothing is lost between
two merged parts, and the time is proportional to the text.
"""

from __future__ import annotations

import copy
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set as AbstractSet
from importlib import import_module
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from foldline.documents.base import Document
from foldline.documents.transformers import BaseDocumentTransformer
from foldline.exceptions import MissingExtraError, UsageError
from foldline.utils._short_repr import short_repr

__all__ = [
    "TextSplitter",
]

KeepSeparator: TypeAlias = bool | Literal["start", "end"]
Special: TypeAlias = Literal["all"] | AbstractSet[str] | None

logger: logging.Logger = logging.getLogger("foldline.text_splitters")


class Span(NamedTuple):
    """A part of the text, by its start and end."""

    start: int
    end: int


class TextSplitter(BaseDocumentTransformer, ABC):
    """Splits texts into chunks of at most `chunk_size`, where the text allows it."""

    __repr__ = short_repr

    def __init__(
        self,
        chunk_size: int = 4000,
        chunk_overlap: int = 200,
        length_function: Callable[[str], int] = len,
        keep_separator: KeepSeparator = False,  # noqa: FBT002  LangChain's signature
        add_start_index: bool = False,  # noqa: FBT001, FBT002
        strip_whitespace: bool = True,  # noqa: FBT001, FBT002
        *,
        lossless: bool = False,
    ) -> None:
        """Set the sizes, in the unit of `length_function`.

        `lossless` keeps every character: without overlap, the joined chunks are the text.
        """
        if chunk_size <= 0:
            raise UsageError(f"chunk_size must be > 0, got {chunk_size}")
        if chunk_overlap < 0:
            raise UsageError(f"chunk_overlap must be >= 0, got {chunk_overlap}")
        if chunk_overlap > chunk_size:
            raise UsageError(
                f"chunk_overlap ({chunk_overlap}) is larger than chunk_size ({chunk_size}): make it smaller"
            )
        self._chunk_size = chunk_size
        self._chunk_overlap = chunk_overlap
        self._length_function = length_function
        self._keep_separator: KeepSeparator = keep_separator or lossless
        self._add_start_index = add_start_index
        self._strip_whitespace = strip_whitespace and not lossless

    @abstractmethod
    def split_text(self, text: str) -> list[str]:
        """Split a text into chunks."""

    def _spans(self, text: str) -> Iterator[Span] | None:
        """Split a text into spans; None for a splitter that can only return chunks."""
        return None

    # -- documents

    def create_documents(
        self, texts: list[str], metadatas: list[dict[Any, Any]] | None = None
    ) -> list[Document]:
        """Split texts into documents, each with a copy of its text's metadata."""
        if metadatas and len(metadatas) != len(texts):
            raise UsageError(
                f"one metadata per text: {len(texts)} texts, {len(metadatas)} metadatas"
            )
        documents = []
        for place, text in enumerate(texts):
            for piece, start in self._pieces(text):
                metadata = copy.deepcopy(metadatas[place]) if metadatas else {}
                if self._add_start_index:
                    metadata["start_index"] = start
                documents.append(Document(piece, metadata=metadata))
        return documents

    def split_documents(self, documents: Iterable[Document]) -> list[Document]:
        """Split documents into smaller ones with the same metadata."""
        documents = list(documents)
        return self.create_documents(
            [document.page_content for document in documents],
            [document.metadata for document in documents],
        )

    def transform_documents(
        self, documents: Sequence[Document], **kwargs: object
    ) -> Sequence[Document]:
        """Split documents into smaller ones with the same metadata."""
        return self.split_documents(documents)

    def _pieces(self, text: str) -> Iterator[tuple[str, int]]:
        spans = self._spans(text)
        if spans is not None and type(self).split_text is _home_of(type(self)):
            yield from ((text[span.start : span.end], span.start) for span in spans)
            return
        start, length = -1, 0
        for piece in self.split_text(text):
            # The earliest start of the next chunk, as LangChain searches for it.
            start = text.find(piece, max(0, start + length - self._chunk_overlap))
            length = len(piece)
            yield piece, start

    # -- merging

    def _merged(self, text: str, parts: Iterable[Span]) -> Iterator[Span]:
        """Merge neighbouring parts into chunks of the allowed size, each with the end of the previous one."""
        length, current, total = self._length_function, deque[tuple[Span, int]](), 0
        for part in parts:
            size = length(text[part.start : part.end])
            gap = _gap(text, current, part, length)
            if current and total + gap + size > self._chunk_size:
                if total > self._chunk_size:
                    logger.warning(
                        "a piece of %d is longer than chunk_size %d: nothing in it can be cut at",
                        total,
                        self._chunk_size,
                    )
                yield from self._finished(text, current[0][0].start, current[-1][0].end)
                while current and (
                    total > self._chunk_overlap or total + gap + size > self._chunk_size
                ):
                    total -= _drop_first(text, current, length)
                    gap = gap if current else 0
            current.append((part, size))
            total += size + gap
        if current:
            yield from self._finished(text, current[0][0].start, current[-1][0].end)

    def _finished(self, text: str, start: int, end: int) -> Iterator[Span]:
        if self._strip_whitespace:
            piece = text[start:end]
            stripped = piece.lstrip()
            start += len(piece) - len(stripped)
            end = start + len(stripped.rstrip())
        if end > start:
            yield Span(start, end)

    # -- counting tokens

    @classmethod
    def from_huggingface_tokenizer(cls, tokenizer: Any, **kwargs: Any) -> Self:  # noqa: ANN401  an object of theirs
        """Make a splitter that counts with a tokenizer of the `transformers` or `tokenizers` package."""
        count = getattr(tokenizer, "tokenize", None) or (lambda text: tokenizer.encode(text).ids)
        return cls(length_function=lambda text: len(count(text)), **kwargs)

    @classmethod
    def from_tiktoken_encoder(
        cls,
        encoding_name: str = "gpt2",
        model_name: str | None = None,
        allowed_special: Special = None,
        disallowed_special: Literal["all"] | Collection[str] = "all",
        **kwargs: Any,
    ) -> Self:
        """Make a splitter that counts with the `tiktoken` package, which must be installed and have its tables."""
        encoding = tiktoken_encoding(encoding_name, model_name)
        encode = encoder(encoding, allowed_special, disallowed_special)
        return cls(length_function=lambda text: len(encode(text)), **kwargs)


def _home_of(cls: type[TextSplitter]) -> object:
    """Return the `split_text` that belongs to the nearest `_spans`; a subclass may have overridden it."""
    home = next(ancestor for ancestor in cls.__mro__ if "_spans" in ancestor.__dict__)
    return home.__dict__.get("split_text")


def _gap(
    text: str,
    current: deque[tuple[Span, int]],
    part: Span,
    length: Callable[[str], int],
) -> int:
    """Return the length between the last part and the next: a separator that is in neither part."""
    if not current or current[-1][0].end == part.start:
        return 0
    return length(text[current[-1][0].end : part.start])


def _drop_first(text: str, current: deque[tuple[Span, int]], length: Callable[[str], int]) -> int:
    """Remove the first part; return by how much the chunk is shorter."""
    first, size = current.popleft()
    if current and first.end != current[0][0].start:
        size += length(text[first.end : current[0][0].start])
    return size


def tiktoken_encoding(encoding_name: str, model_name: str | None) -> Any:  # noqa: ANN401  an object of theirs
    """Return an encoding of the `tiktoken` package."""
    try:
        tiktoken: Any = import_module("tiktoken")  # not a dependency of ours
    except ImportError as error:
        raise MissingExtraError(
            'counting like OpenAI\'s models needs the package "tiktoken": pip install tiktoken, '
            "or pass a function that counts: length_function=model.get_num_tokens"
        ) from error
    try:
        if model_name is not None:
            return tiktoken.encoding_for_model(model_name)
        return tiktoken.get_encoding(encoding_name)
    except (KeyError, ValueError) as error:
        raise UsageError(
            f"tiktoken does not know {model_name or encoding_name!r}: {error}"
        ) from error
    except OSError as error:
        raise UsageError(
            f"tiktoken fetches the table of {model_name or encoding_name!r} once, and could not: {error} "
            "(set TIKTOKEN_CACHE_DIR to a folder that has it)"
        ) from error


def encoder(
    encoding: Any,  # noqa: ANN401  an object of theirs
    allowed_special: Special,
    disallowed_special: Literal["all"] | Collection[str],
) -> Callable[[str], list[int]]:
    """Return the `encode` of a tiktoken encoding, with its rules for special tokens."""

    def encode(text: str) -> list[int]:
        tokens: list[int] = encoding.encode(
            text, allowed_special=allowed_special or set(), disallowed_special=disallowed_special
        )
        return tokens

    return encode
