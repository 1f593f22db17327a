"""`JSONLoader`: the values that an expression selects from a JSON file, each as a document."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from foldline.document_loaders._paths import select
from foldline.document_loaders._source import OneFileLoader, decode_text, read_blob, source_of
from foldline.document_loaders.blob_loaders import Blob, PathLike
from foldline.documents.base import Document
from foldline.exceptions import DocumentError

__all__ = ["JSONLoader"]

Metadata = dict[str, Any]


class JSONLoader(OneFileLoader):
    """Loads the values that a jq expression selects, each as a document.

    ```python
    import tempfile
    from pathlib import Path
    from foldline.document_loaders import JSONLoader

    file = Path(tempfile.mkdtemp()) / "notes.json"
    file.write_text('{"notes": [{"text": "one", "by": "Ada"}, {"text": "two", "by": "Bo"}]}')
    loader = JSONLoader(file, ".notes[]", content_key="text")
    print([document.page_content for document in loader.load()])
    #> ['one', 'two']
    ```

    Keys, indexes, `[]` and `|` need no package; other jq expressions need `pip install jq`.
    """

    suffixes = (".json", ".jsonl", ".ndjson")

    def __init__(
        self,
        file_path: PathLike,
        jq_schema: str = ".",
        content_key: str | None = None,
        is_content_key_jq_parsable: bool | None = False,  # noqa: FBT001, FBT002  LangChain's signature
        metadata_func: Callable[[Metadata, Metadata], Metadata] | None = None,
        text_content: bool | None = None,  # noqa: FBT001  LangChain's signature
        json_lines: bool | None = None,  # noqa: FBT001  LangChain's signature
    ) -> None:
        """Load `file_path`; `content_key` names the text of each selected object.

        `metadata_func(object, metadata)` returns the metadata. `json_lines` is by default decided by the file's ending.
        With `text_content=True` values other than text are refused; else objects are written as JSON.
        """
        super().__init__(file_path)
        self.jq_schema = jq_schema
        self.content_key = content_key
        self.is_content_key_jq_parsable: bool = bool(is_content_key_jq_parsable)
        self.metadata_func = metadata_func
        self.text_content: bool = bool(text_content)
        self.json_lines = json_lines

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        """Return the documents of a blob one at a time."""
        source = source_of(blob)
        number = 0
        for value in self._values(decode_text(read_blob(blob), source), source):
            try:
                for item in select(self.jq_schema, value):
                    number += 1
                    metadata = {**blob.metadata, "source": source, "seq_num": number}
                    yield self._document(item, metadata)
            except ValueError as error:
                raise DocumentError(f"{source}: {error}", source) from error

    def _values(self, text: str, source: str) -> Iterator[Any]:
        has_lines = self.json_lines
        if has_lines is None:
            has_lines = source.endswith((".jsonl", ".ndjson"))
        if not has_lines:
            yield _parse(text, source)
            return
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield _parse(line, f"{source}: line {number}")

    def _document(self, item: Any, metadata: Metadata) -> Document:  # noqa: ANN401  JSON
        content = self._content(item, metadata["source"])
        if self.metadata_func is not None:
            metadata = self.metadata_func(item, metadata)
        return Document(content, metadata=metadata)

    def _content(self, item: Any, source: str) -> str:  # noqa: ANN401  JSON
        value = item
        if self.content_key is not None:
            if self.is_content_key_jq_parsable:
                value = next(select(self.content_key, item), None)
            elif not isinstance(item, dict) or self.content_key not in item:
                description = (
                    f"it has {', '.join(map(str, item))}"
                    if isinstance(item, dict)
                    else "it is not an object"
                )
                raise DocumentError(
                    f"{source}: what {self.jq_schema!r} selects has no key {self.content_key!r}: {description}",
                    source,
                )
            else:
                value = item[self.content_key]
        if isinstance(value, str):
            return value
        if self.text_content:
            raise DocumentError(
                f"{source}: what is selected is not text but {type(value).__name__}: pass content_key, or leave "
                "text_content out",
                source,
            )
        return "" if value is None else json.dumps(value, ensure_ascii=False)


def _parse(text: str, source: str) -> Any:  # noqa: ANN401  JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = error if isinstance(error, ValueError) else "it is nested too deep"
        raise DocumentError(f"{source}: is not JSON: {reason}", source) from error
