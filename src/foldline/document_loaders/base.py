"""`BaseLoader` and `BaseBlobParser`: the bases of loaders. An author writes `lazy_load` and inherits the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

from foldline._io import ASYNC
from foldline._traceback import entry_point
from foldline.document_loaders.blob_loaders import Blob
from foldline.documents.base import Document
from foldline.text_splitters import RecursiveCharacterTextSplitter, TextSplitter
from foldline.utils._short_repr import short_repr

__all__ = ["BaseBlobParser", "BaseLoader"]


class BaseLoader(ABC):  # noqa: B024  LangChain's: an author writes `lazy_load`, older ones wrote `load`
    """Loads documents from somewhere.

    ```python
    from foldline.document_loaders import BaseLoader
    from foldline.documents import Document


    class Lines(BaseLoader):
        def lazy_load(self):
            yield from (Document(line) for line in ("one", "two"))


    print([document.page_content for document in Lines().load()])
    #> ['one', 'two']
    ```
    """

    __repr__ = short_repr

    def lazy_load(self) -> Iterator[Document]:
        """Yield the documents; nothing is read before the first is requested."""
        if type(self).load is not BaseLoader.load:
            return iter(self.load())
        raise NotImplementedError(
            f"{type(self).__name__} has no lazy_load: write one that yields documents"
        )

    async def alazy_load(self) -> AsyncGenerator[Document, None]:
        """Yield the documents; a loader without its own async method reads in a thread."""
        async with aclosing(ASYNC.each(self.lazy_load())) as documents:
            async for document in documents:
                yield document

    @entry_point
    def load(self) -> list[Document]:
        """Return all documents."""
        return list(self.lazy_load())

    async def aload(self) -> list[Document]:
        """Return all documents."""
        async with aclosing(self.alazy_load()) as documents:
            return [document async for document in documents]

    def load_and_split(self, text_splitter: TextSplitter | None = None) -> list[Document]:
        """Return all documents, split into chunks."""
        splitter = text_splitter or RecursiveCharacterTextSplitter()
        return splitter.split_documents(self.load())


class BaseBlobParser(ABC):
    """Reads documents from raw data."""

    @abstractmethod
    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        """Return the documents of a blob one at a time."""

    def parse(self, blob: Blob) -> list[Document]:
        """Return all documents of a blob."""
        return list(self.lazy_parse(blob))
