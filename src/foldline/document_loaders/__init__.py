"""Document loaders: files, folders and web pages as documents, one at a time, each with its source.

They have the names of `langchain_core.document_loaders` and of LangChain's community package.
"""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.document_loaders.base import (
        BaseBlobParser as BaseBlobParser,
        BaseLoader as BaseLoader,
    )
    from foldline.document_loaders.blob_loaders import (
        Blob as Blob,
        BlobLoader as BlobLoader,
        PathLike as PathLike,
    )
    from foldline.document_loaders.csv import CSVLoader as CSVLoader
    from foldline.document_loaders.directory import (
        DirectoryLoader as DirectoryLoader,
        FileSystemBlobLoader as FileSystemBlobLoader,
        LoadFailure as LoadFailure,
        PyPDFDirectoryLoader as PyPDFDirectoryLoader,
    )
    from foldline.document_loaders.email import (
        EmailLoader as EmailLoader,
        UnstructuredEmailLoader as UnstructuredEmailLoader,
    )
    from foldline.document_loaders.file import (
        FileLoader as FileLoader,
        UnstructuredFileLoader as UnstructuredFileLoader,
    )
    from foldline.document_loaders.html import (
        BSHTMLLoader as BSHTMLLoader,
        HTMLLoader as HTMLLoader,
        UnstructuredHTMLLoader as UnstructuredHTMLLoader,
    )
    from foldline.document_loaders.json import JSONLoader as JSONLoader
    from foldline.document_loaders.markdown import (
        MarkdownLoader as MarkdownLoader,
        UnstructuredMarkdownLoader as UnstructuredMarkdownLoader,
    )
    from foldline.document_loaders.notebook import NotebookLoader as NotebookLoader
    from foldline.document_loaders.pdf import PyPDFLoader as PyPDFLoader
    from foldline.document_loaders.text import (
        PythonLoader as PythonLoader,
        TextLoader as TextLoader,
    )
    from foldline.document_loaders.web import WebBaseLoader as WebBaseLoader
