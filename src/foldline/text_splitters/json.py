"""`RecursiveJsonSplitter`: splits JSON into smaller objects, each with the keys that lead to its values."""

from __future__ import annotations

import copy
import json
from typing import Any

from foldline.documents.base import Document
from foldline.utils._short_repr import short_repr

__all__ = ["RecursiveJsonSplitter"]

Object = dict[str, Any]


class RecursiveJsonSplitter:
    """Splits an object into objects whose JSON is at most `max_chunk_size` long; single values are never split.

    ```python
    from foldline.text_splitters import RecursiveJsonSplitter

    splitter = RecursiveJsonSplitter(max_chunk_size=20, min_chunk_size=5)
    print(splitter.split_json({"a": {"b": "some", "c": "words"}}))
    #> [{'a': {'b': 'some'}}, {'a': {'c': 'words'}}]
    ```
    """

    __repr__ = short_repr

    def __init__(self, max_chunk_size: int = 2000, min_chunk_size: int | None = None) -> None:
        self.max_chunk_size = max_chunk_size
        self.min_chunk_size: int = (
            max(max_chunk_size - 200, 50) if min_chunk_size is None else min_chunk_size
        )

    def split_json(
        self,
        json_data: Object,
        convert_lists: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
    ) -> list[Object]:
        """Split an object; `convert_lists` turns lists into objects by index, so that they are split too."""
        pieces: list[Object] = [{}]
        self._split(_without_lists(json_data) if convert_lists else json_data, (), pieces)
        return pieces if pieces[-1] else pieces[:-1]

    def split_text(
        self,
        json_data: Object,
        convert_lists: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
        ensure_ascii: bool = True,  # noqa: FBT001, FBT002
    ) -> list[str]:
        """Split an object; return the chunks as JSON."""
        pieces = self.split_json(json_data, convert_lists)
        return [json.dumps(piece, ensure_ascii=ensure_ascii) for piece in pieces]

    def create_documents(
        self,
        texts: list[Object],
        convert_lists: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
        ensure_ascii: bool = True,  # noqa: FBT001, FBT002
        metadatas: list[dict[Any, Any]] | None = None,
    ) -> list[Document]:
        """Split several objects into documents, each with the metadata of its object."""
        metadatas = metadatas or [{}] * len(texts)
        return [
            Document(piece, metadata=copy.deepcopy(metadata))
            for data, metadata in zip(texts, metadatas, strict=True)
            for piece in self.split_text(data, convert_lists, ensure_ascii)
        ]

    def _split(self, data: Any, path: tuple[str, ...], pieces: list[Object]) -> None:  # noqa: ANN401  JSON
        if not isinstance(data, dict):
            _put(pieces[-1], path, data)
            return
        for key, value in data.items():
            room = self.max_chunk_size - _length(pieces[-1])
            if _length({key: value}) < room:
                _put(pieces[-1], (*path, key), value)
                continue
            if _length(pieces[-1]) >= self.min_chunk_size:
                pieces.append({})
            self._split(value, (*path, key), pieces)


def _length(data: Object) -> int:
    return len(json.dumps(data))


def _put(piece: Object, path: tuple[str, ...], value: Any) -> None:  # noqa: ANN401  JSON
    for key in path[:-1]:
        piece = piece.setdefault(key, {})
    if path:
        piece[path[-1]] = value


def _without_lists(data: Any) -> Any:  # noqa: ANN401  JSON
    if isinstance(data, dict):
        return {key: _without_lists(value) for key, value in data.items()}
    if isinstance(data, list):
        return {str(place): _without_lists(item) for place, item in enumerate(data)}
    return data
