"""`WebBaseLoader`: web pages as documents, fetched with checks of the address.

Only public addresses are allowed; each host is resolved once, and the connection uses the checked address. Redirects
may lead to the named hosts and, within the same site, to its `www.` name or back.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive_each
from foldline.document_loaders._source import decode_text
from foldline.document_loaders.base import BaseLoader
from foldline.document_loaders.blob_loaders import Blob
from foldline.document_loaders.directory import LoadFailure
from foldline.document_loaders.file import LOADERS, FileLoader
from foldline.document_loaders.html import html_charset, html_document
from foldline.documents.base import Document
from foldline.exceptions import DocumentError, FoldlineError, SecurityError, UsageError
from foldline.language_models._call.policies.file_resolver import FileResolver
from foldline.utils.progress import ProgressOption, show_progress

__all__ = ["WebBaseLoader"]

PAGES = frozenset({"text/html", "application/xhtml+xml", ""})
ENDINGS = {
    "application/pdf": ".pdf",
    "application/json": ".json",
    "text/csv": ".csv",
    "text/markdown": ".md",
    "message/rfc822": ".eml",
}
"""Media type -> file ending, which chooses the loader; other text is read as plain text."""


class WebBaseLoader(BaseLoader):
    """Loads web pages; other files (a PDF, JSON, Markdown) are loaded by the loader of their kind.

    ```python {test="skip: it asks a server"}
    from foldline.document_loaders import WebBaseLoader

    page = WebBaseLoader("https://example.com/").load()[0]
    print(page.metadata["title"], page.metadata["source"])
    ```
    """

    errors: list[LoadFailure]
    """The pages that the last load could not read, where `continue_on_failure` is set."""

    def __init__(
        self,
        web_path: str | Sequence[str] = "",
        *,
        web_paths: Sequence[str] = (),
        continue_on_failure: bool = False,
        encoding: str | None = None,
        header_template: dict[str, str] | None = None,
        requests_per_second: int = 2,
        show_progress: ProgressOption = False,
        allow_hosts: Sequence[str] = (),
        allow_private: bool = False,
        resolver: FileResolver | None = None,
    ) -> None:
        """Load the pages of these URLs, at most `requests_per_second` at once, as they arrive.

        `allow_hosts` are further hosts for redirects; `allow_private` allows addresses that are not public, for your
        own servers; `resolver` replaces the limits of size and time, and the transport.
        """
        addresses = [web_path] if isinstance(web_path, str) else list(web_path)
        self.web_paths: list[str] = [url for url in (*addresses, *web_paths) if url]
        if not self.web_paths:
            raise UsageError("WebBaseLoader needs a URL: WebBaseLoader('https://example.com/')")
        for url in self.web_paths:
            _check(url)
        self.continue_on_failure = continue_on_failure
        self.encoding = encoding
        self.headers: dict[str, str] = dict(header_template or {})
        self.max_concurrency: int = max(1, requests_per_second)
        self.show_progress = show_progress
        self.errors = []
        self._resolver = replace(
            resolver or FileResolver(allow_private=allow_private),
            allow_hosts=(
                *(resolver.allow_hosts if resolver else ()),
                *allow_hosts,
                *_hosts(self.web_paths),
            ),
            schemes=("https", "http") if any(map(_is_plain, self.web_paths)) else ("https",),
        )

    @property
    def web_path(self) -> str:
        """The address, where there is one."""
        if len(self.web_paths) != 1:
            raise UsageError("there are several addresses: use web_paths")
        return self.web_paths[0]

    def lazy_load(self) -> Iterator[Document]:
        """Return the pages as they arrive."""
        return drive_each(self._documents(BLOCKING))

    def alazy_load(self) -> AsyncGenerator[Document, None]:
        """Return the pages as they arrive."""
        return self._documents(ASYNC)

    async def _documents(self, io: IO) -> AsyncGenerator[Document, None]:
        self.errors = []

        async def load(url: str) -> list[Document]:
            return await self._load(url, io)

        with show_progress(self.show_progress, len(self.web_paths), "fetching") as progress:
            outcomes = io.as_completed(load, self.web_paths, limit=self.max_concurrency)
            async with aclosing(outcomes):
                async for place, documents, error in outcomes:
                    if error is not None:
                        if not (self.continue_on_failure and isinstance(error, FoldlineError)):
                            raise error
                        self.errors.append(LoadFailure(self.web_paths[place], error))
                    for document in documents or ():
                        yield document
                    progress.advance()

    async def _load(self, url: str, io: IO) -> list[Document]:
        try:
            page = await self._resolver.fetch_page(url, io, headers=self.headers)
        except SecurityError as error:
            raise SecurityError(
                f"{url}: {error} (allow_hosts=[...] and allow_private=True allow more addresses)"
            ) from error
        if page.status != 200:
            raise DocumentError(f"{url}: the server answered {page.status}", url)
        metadata: dict[str, Any] = {"source": url}
        if page.url != url:
            metadata["url"] = page.url
        if page.media_type in PAGES:
            charset = self.encoding or page.charset or html_charset(page.data)
            text = decode_text(page.data, url, charset, autodetect=self.encoding is None)
            return [html_document(text, metadata)]
        ending = ENDINGS.get(page.media_type, "")
        path = urlsplit(page.url).path
        if not ending and not page.media_type.startswith("text/"):
            suffix = f".{path.rpartition('.')[2].lower()}"
            if suffix not in LOADERS:
                raise DocumentError(f"{url}: is {page.media_type}; there is no loader for it", url)
            ending = suffix
        blob = Blob.from_data(page.data, path=f"page{ending or '.txt'}", metadata=metadata)
        return list(FileLoader(url).lazy_parse(blob))


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise UsageError(f"{url!r} is not a URL: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url!r} is not the URL of a web page: write https://...")


def _is_plain(url: str) -> bool:
    return urlsplit(url).scheme == "http"


def _hosts(urls: Sequence[str]) -> list[str]:
    """Return the hosts of addresses, each with its `www.` name or without it."""
    hosts: dict[str, None] = {}
    for url in urls:
        host = (urlsplit(url).hostname or "").lower()
        hosts[host] = None
        hosts[host.removeprefix("www.") if host.startswith("www.") else f"www.{host}"] = None
    return list(hosts)
