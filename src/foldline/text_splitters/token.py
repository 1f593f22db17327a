"""Splitters by tokens: by an estimate, a function that counts, your own tokenizer, or `tiktoken`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal

from foldline.exceptions import UsageError
from foldline.text_splitters.base import Span, TextSplitter, encoder, tiktoken_encoding
from foldline.text_splitters.character import RecursiveCharacterTextSplitter

__all__ = ["TokenTextSplitter", "Tokenizer", "split_text_on_tokens"]

CHARACTERS_PER_TOKEN = 4
"""The estimate without a tokenizer, as in `model.get_num_tokens`."""


@dataclass(frozen=True)
class Tokenizer:
    """Encodes and decodes tokens, with the size of a chunk."""

    chunk_overlap: int
    """Tokens that a chunk shares with the previous one."""
    tokens_per_chunk: int
    """The most tokens of a chunk."""
    decode: Callable[[list[int]], str]
    encode: Callable[[str], list[int]]


def split_text_on_tokens(*, text: str, tokenizer: Tokenizer) -> list[str]:
    """Split a text every `tokens_per_chunk` tokens."""
    step = tokenizer.tokens_per_chunk - tokenizer.chunk_overlap
    if step <= 0:
        raise UsageError(
            f"tokens_per_chunk ({tokenizer.tokens_per_chunk}) must be greater than chunk_overlap "
            f"({tokenizer.chunk_overlap})"
        )
    tokens = list(tokenizer.encode(text))
    pieces = []
    for start in range(0, len(tokens), step):
        piece = tokenizer.decode(tokens[start : start + tokenizer.tokens_per_chunk])
        if piece:
            pieces.append(piece)
        if start + tokenizer.tokens_per_chunk >= len(tokens):
            break
    return pieces


class TokenTextSplitter(TextSplitter):
    """Splits texts into chunks of at most `chunk_size` tokens.

    With `encode` and `decode`, or the name of an encoding or model of the `tiktoken` package, the cuts are between
    tokens. Otherwise they are between paragraphs, lines, words, and every character is kept: by a `length_function` (a
    model's `get_num_tokens`, say), or at about four characters for a token.

    ```python
    from foldline.text_splitters import TokenTextSplitter

    print(TokenTextSplitter(chunk_size=4, chunk_overlap=0).split_text("one two three four five"))
    #> ['one two three', ' four five']
    ```
    """

    def __init__(
        self,
        encoding_name: str | None = None,
        model_name: str | None = None,
        allowed_special: Literal["all"] | AbstractSet[str] | None = None,
        disallowed_special: Literal["all"] | Collection[str] = "all",
        *,
        encode: Callable[[str], list[int]] | None = None,
        decode: Callable[[list[int]], str] | None = None,
        **kwargs: Any,
    ) -> None:
        """Take a tokenizer, a function that counts, the name of an encoding of `tiktoken`, or none of these."""
        super().__init__(**kwargs)
        if (encode is None) is not (decode is None):
            raise UsageError("encode and decode belong together: pass both or neither")
        self._counting = None
        self._tokenizer = None
        if encode is None and "length_function" in kwargs:
            self._counting = RecursiveCharacterTextSplitter(**{**kwargs, "lossless": True})
            return
        if encode is None and encoding_name is None and model_name is None:
            sizes = {
                "chunk_size": self._chunk_size * CHARACTERS_PER_TOKEN,
                "chunk_overlap": self._chunk_overlap * CHARACTERS_PER_TOKEN,
            }
            self._counting = RecursiveCharacterTextSplitter(**{**kwargs, **sizes, "lossless": True})
            return
        if encode is None or decode is None:
            encoding = tiktoken_encoding(encoding_name or "gpt2", model_name)
            encode = encoder(encoding, allowed_special, disallowed_special)
            decode = encoding.decode
        self._tokenizer = Tokenizer(self._chunk_overlap, self._chunk_size, decode, encode)

    def split_text(self, text: str) -> list[str]:
        """Split a text into chunks."""
        if self._counting is not None:
            return self._counting.split_text(text)
        if self._tokenizer is None:
            raise UsageError("TokenTextSplitter has no tokenizer: call its __init__")
        return split_text_on_tokens(text=text, tokenizer=self._tokenizer)

    def _spans(self, text: str) -> Iterator[Span] | None:
        return self._counting._spans(text) if self._counting is not None else None
