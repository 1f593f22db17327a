"""Document loaders: files, folders and web pages as documents, one at a time, each with its source.

They have the names of `langchain_core.document_loaders` and of LangChain's community package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import lazy_exports

if TYPE_CHECKING:
    from foldline.document_loaders.base import BaseBlobParser, BaseLoader
    from foldline.document_loaders.blob_loaders import Blob, BlobLoader, PathLike
    from foldline.document_loaders.csv import CSVLoader
    from foldline.document_loaders.directory import (
        DirectoryLoader,
        FileSystemBlobLoader,
        LoadFailure,
        PyPDFDirectoryLoader,
    )
    from foldline.document_loaders.email import EmailLoader, UnstructuredEmailLoader
    from foldline.document_loaders.file import FileLoader, UnstructuredFileLoader
    from foldline.document_loaders.html import BSHTMLLoader, HTMLLoader, UnstructuredHTMLLoader
    from foldline.document_loaders.json import JSONLoader
    from foldline.document_loaders.markdown import MarkdownLoader, UnstructuredMarkdownLoader
    from foldline.document_loaders.notebook import NotebookLoader
    from foldline.document_loaders.pdf import PyPDFLoader
    from foldline.document_loaders.text import PythonLoader, TextLoader
    from foldline.document_loaders.web import WebBaseLoader

__all__ = [
    "BSHTMLLoader",
    "BaseBlobParser",
    "BaseLoader",
    "Blob",
    "BlobLoader",
    "CSVLoader",
    "DirectoryLoader",
    "EmailLoader",
    "FileLoader",
    "FileSystemBlobLoader",
    "HTMLLoader",
    "JSONLoader",
    "LoadFailure",
    "MarkdownLoader",
    "NotebookLoader",
    "PathLike",
    "PyPDFDirectoryLoader",
    "PyPDFLoader",
    "PythonLoader",
    "TextLoader",
    "UnstructuredEmailLoader",
    "UnstructuredFileLoader",
    "UnstructuredHTMLLoader",
    "UnstructuredMarkdownLoader",
    "WebBaseLoader",
]

__getattr__ = lazy_exports(
    __name__,
    {
        ".base": "BaseBlobParser BaseLoader",
        ".blob_loaders": "Blob BlobLoader PathLike",
        ".csv": "CSVLoader",
        ".directory": "DirectoryLoader FileSystemBlobLoader LoadFailure PyPDFDirectoryLoader",
        ".email": "EmailLoader UnstructuredEmailLoader",
        ".file": "FileLoader UnstructuredFileLoader",
        ".html": "BSHTMLLoader HTMLLoader UnstructuredHTMLLoader",
        ".json": "JSONLoader",
        ".markdown": "MarkdownLoader UnstructuredMarkdownLoader",
        ".notebook": "NotebookLoader",
        ".pdf": "PyPDFLoader",
        ".text": "PythonLoader TextLoader",
        ".web": "WebBaseLoader",
    },
)
