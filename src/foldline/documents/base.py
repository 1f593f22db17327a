"""Documents and blobs: text with metadata, and raw data with metadata.

A `Blob` opens a file only when its data is read, and only a path that code passed: blobs are not loaded from dumps.
"""

from __future__ import annotations

import contextlib
import mimetypes
from collections.abc import Generator
from io import BufferedReader, BytesIO
from pathlib import Path, PurePath
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import ConfigDict, Field, model_validator

from foldline.load.serializable import Serializable

__all__ = ["BaseMedia", "Blob", "Document", "PathLike"]

PathLike: TypeAlias = str | PurePath


class BaseMedia(Serializable):
    """Base of documents and blobs: an id and metadata."""

    id: Annotated[str | None, Field(coerce_numbers_to_str=True)] = None
    """An optional id, unique in its collection."""
    metadata: dict[Any, Any] = Field(default_factory=dict)
    """The source and other facts about the content."""


class Blob(BaseMedia):
    """Raw data in memory or in a file, which is read on demand.

    ```python
    from foldline.documents import Blob

    blob = Blob.from_data("hello", mime_type="text/plain")
    print(blob.as_bytes())
    #> b'hello'
    ```
    """

    data: bytes | str | None = None
    """The data itself, if it is in memory."""
    mimetype: str | None = None
    """The media type, if it is known; not to be confused with a file extension."""
    encoding: str = "utf-8"
    """The encoding of text."""
    path: PathLike | None = None
    """The file that the data is in, or came from."""

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True, frozen=True)

    @model_validator(mode="after")
    def _check_data(self) -> Self:
        if self.data is None and self.path is None:
            raise ValueError("a blob needs `data` or `path`")
        return self

    @property
    def source(self) -> str | None:
        """Where the data comes from: the metadata's `source`, else the path."""
        if self.metadata and "source" in self.metadata:
            source: str | None = self.metadata["source"]
            return source
        return str(self.path) if self.path else None

    def as_string(self) -> str:
        """Read the data as text."""
        if isinstance(self.data, str):
            return self.data
        return self.as_bytes().decode(self.encoding)

    def as_bytes(self) -> bytes:
        """Read the data as bytes."""
        if isinstance(self.data, bytes):
            return self.data
        if isinstance(self.data, str):
            return self.data.encode(self.encoding)
        return Path(self.path or "").read_bytes()

    @contextlib.contextmanager
    def as_bytes_io(self) -> Generator[BytesIO | BufferedReader, None, None]:
        """Read the data as a stream of bytes, closed at the end of the `with` block."""
        if self.data is not None:
            yield BytesIO(self.as_bytes())
        else:
            with Path(self.path or "").open("rb") as file:
                yield file

    @classmethod
    def from_path(
        cls,
        path: PathLike,
        *,
        encoding: str = "utf-8",
        mime_type: str | None = None,
        guess_type: bool = True,
        metadata: dict[Any, Any] | None = None,
    ) -> Self:
        """Make a blob for a file, without opening it; the media type is guessed from its name."""
        if mime_type is None and guess_type:
            mime_type = mimetypes.guess_type(str(path))[0]
        return cls(mimetype=mime_type, encoding=encoding, path=path, metadata=metadata or {})

    @classmethod
    def from_data(
        cls,
        data: str | bytes,
        *,
        encoding: str = "utf-8",
        mime_type: str | None = None,
        path: str | None = None,
        metadata: dict[Any, Any] | None = None,
    ) -> Self:
        """Make a blob for data in memory; `path` is where it came from."""
        return cls(
            data=data, mimetype=mime_type, encoding=encoding, path=path, metadata=metadata or {}
        )

    def __repr__(self) -> str:
        """Return the blob's id and source, without its data."""
        return f"Blob {id(self)}" + (f" {self.source}" if self.source else "")


class Document(BaseMedia):
    """A text with metadata.

    ```python
    from foldline.documents import Document

    print(Document("hello", metadata={"page": 1}))
    #> page_content='hello' metadata={'page': 1}
    ```
    """

    page_content: str
    """The text."""
    type: Literal["Document"] = "Document"

    def __init__(self, page_content: str, **kwargs: object) -> None:
        """Make a document; the text may be passed by position."""
        super().__init__(page_content=page_content, **kwargs)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return True: documents can be dumped and loaded."""
        return True

    def _repr_html_(self) -> str:
        from foldline._display.messages import document_html  # noqa: PLC0415  for notebooks only

        return document_html(self)

    def __str__(self) -> str:
        """Return the text, and the metadata if there is any; not the id."""
        if self.metadata:
            return f"page_content='{self.page_content}' metadata={self.metadata}"
        return f"page_content='{self.page_content}'"
