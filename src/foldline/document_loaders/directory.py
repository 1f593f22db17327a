"""`DirectoryLoader`: the files of a folder as documents. Failed files are listed, and the others are loaded."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive_each
from foldline.document_loaders.base import BaseLoader
from foldline.document_loaders.blob_loaders import Blob, BlobLoader, PathLike
from foldline.document_loaders.file import FileLoader
from foldline.document_loaders.pdf import PyPDFLoader
from foldline.documents.base import Document
from foldline.exceptions import DocumentError, UsageError
from foldline.utils._short_repr import short_repr
from foldline.utils.progress import ProgressOption, show_progress

__all__ = ["DirectoryLoader", "FileSystemBlobLoader", "LoadFailure", "PyPDFDirectoryLoader"]

logger = logging.getLogger("foldline.document_loaders")


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """A file that could not be loaded, and why."""

    source: str
    error: Exception

    def __str__(self) -> str:
        text = str(self.error) or type(self.error).__name__
        return text if text.startswith(self.source) else f"{self.source}: {text}"


class DirectoryLoader(BaseLoader):
    """Loads the files of a folder, each by the loader of its ending.

    ```python
    import tempfile
    from pathlib import Path
    from foldline.document_loaders import DirectoryLoader

    folder = Path(tempfile.mkdtemp())
    (folder / "a.md").write_text("# Owls")
    (folder / "b.json").write_text("no JSON")
    loader = DirectoryLoader(folder)
    print([document.page_content for document in loader.load()], len(loader.errors))
    #> ['# Owls'] 1
    ```
    """

    errors: list[LoadFailure]
    """The files that the last load could not read, with the reasons."""

    def __init__(
        self,
        path: PathLike,
        glob: str | Sequence[str] = "**/[!.]*",
        *,
        exclude: str | Sequence[str] = (),
        recursive: bool = False,
        load_hidden: bool = False,
        loader_cls: Callable[..., BaseLoader] = FileLoader,
        loader_kwargs: dict[str, Any] | None = None,
        silent_errors: bool = False,
        raise_errors: bool = False,
        show_progress: ProgressOption = False,
        use_multithreading: bool = False,
        max_concurrency: int = 4,
        follow_links: bool = False,
        sample_size: int = 0,
        randomize_sample: bool = False,
        sample_seed: int | None = None,
    ) -> None:
        """Load the files under `path` that match a pattern of `glob` and none of `exclude`.

        A file that fails is in `errors` and logged (not with `silent_errors`); `raise_errors` raises at the first.
        A link out of the folder fails unless `follow_links` is set. `show_progress` is True or a function of (files
        done, total files).
        """
        self.path: str = str(path)
        self.patterns: list[str] = [glob] if isinstance(glob, str) else list(glob)
        self.exclude: list[str] = [exclude] if isinstance(exclude, str) else list(exclude)
        self.recursive = recursive
        self.load_hidden = load_hidden
        self.loader_cls = loader_cls
        self.loader_kwargs: dict[str, Any] = dict(loader_kwargs or {})
        self.silent_errors = silent_errors
        self.raise_errors = raise_errors
        self.show_progress = show_progress
        self.max_concurrency: int = max_concurrency if use_multithreading else 1
        self.follow_links = follow_links
        self.sample_size = sample_size
        self.randomize_sample = randomize_sample
        self.sample_seed = sample_seed
        self.errors = []
        if self.max_concurrency < 1:
            raise UsageError(f"max_concurrency is at least 1, not {max_concurrency}")

    def lazy_load(self) -> Iterator[Document]:
        """Return the documents of all files one at a time."""
        return drive_each(self._documents(BLOCKING))

    def alazy_load(self) -> AsyncGenerator[Document, None]:
        """Return the documents of all files one at a time; files are read in threads."""
        return self._documents(ASYNC)

    def files(self) -> list[Path]:
        """Return the files that will be loaded, in order."""
        folder = Path(self.path).expanduser()
        if not folder.is_dir():
            reason = "is not a folder" if folder.exists() else "there is no such folder"
            raise DocumentError(f"{folder}: {reason}", str(folder))
        files: dict[Path, None] = {}
        for pattern in self.patterns:
            files.update(dict.fromkeys(_glob(folder, pattern, recursive=self.recursive)))
        selection = [file for file in sorted(files) if self._is_wanted(file, folder)]
        if self.sample_size <= 0:
            return selection
        if self.randomize_sample:
            random.Random(self.sample_seed).shuffle(selection)
        return selection[: self.sample_size]

    def _is_wanted(self, file: Path, folder: Path) -> bool:
        inner = file.relative_to(folder)
        is_hidden = any(part.startswith(".") for part in inner.parts)
        if (is_hidden and not self.load_hidden) or any(map(inner.match, self.exclude)):
            return False
        return file.is_file() or file.is_symlink()

    async def _documents(self, io: IO) -> AsyncGenerator[Document, None]:
        self.errors = []
        files = await io.call(self.files)
        with show_progress(self.show_progress, len(files), "loading") as progress:
            if self.max_concurrency == 1:
                stream = self._one_by_one(files, io, progress.advance)
            else:
                stream = self._at_once(files, io, progress.advance)
            async with aclosing(stream):
                async for document in stream:
                    yield document

    async def _one_by_one(
        self, files: list[Path], io: IO, advance: Callable[[], None]
    ) -> AsyncGenerator[Document, None]:
        for file in files:
            try:
                async with aclosing(io.each(self._load(file))) as documents:
                    async for document in documents:
                        yield document
            except Exception as error:  # noqa: BLE001  one bad file must not stop the others
                self._fail(file, error)
            advance()

    async def _at_once(
        self, files: list[Path], io: IO, advance: Callable[[], None]
    ) -> AsyncGenerator[Document, None]:
        async def load(file: Path) -> list[Document]:
            loaded: list[Document] = await io.call(lambda: list(self._load(file)))
            return loaded

        outcomes = io.as_completed(load, files, limit=self.max_concurrency)
        async with aclosing(outcomes):
            async for place, documents, error in outcomes:
                if error is not None:
                    if not isinstance(error, Exception):
                        raise error
                    self._fail(files[place], error)
                for document in documents or ():
                    yield document
                advance()

    def _load(self, file: Path) -> Iterator[Document]:
        if not self.follow_links and not file.resolve().is_relative_to(
            Path(self.path).expanduser().resolve()
        ):
            raise DocumentError(
                f"{file}: is a link out of the folder; follow_links=True loads it",
                str(file),
            )
        yield from self.loader_cls(str(file), **self.loader_kwargs).lazy_load()

    def _fail(self, file: Path, error: Exception) -> None:
        if self.raise_errors or isinstance(error, UsageError | TypeError | GeneratorExit):
            raise error
        failure = LoadFailure(str(file), error)
        self.errors.append(failure)
        if not self.silent_errors:
            logger.warning("left out: %s", failure)


class PyPDFDirectoryLoader(DirectoryLoader):
    """Loads the PDFs of a folder, page by page."""

    def __init__(self, path: PathLike, glob: str = "**/[!.]*.pdf", **options: Any) -> None:
        super().__init__(path, glob, loader_cls=PyPDFLoader, **options)


class FileSystemBlobLoader(BlobLoader):
    """Loads the files of a folder as blobs, without opening them."""

    __repr__ = short_repr

    def __init__(
        self,
        path: PathLike,
        *,
        glob: str = "**/[!.]*",
        exclude: Sequence[str] = (),
        suffixes: Sequence[str] | None = None,
        show_progress: ProgressOption = False,
    ) -> None:
        self._files = DirectoryLoader(path, glob, exclude=exclude)
        self.suffixes = None if suffixes is None else tuple(suffixes)
        self.show_progress = show_progress

    def count_matching_files(self) -> int:
        """Return how many files there are."""
        return len(self._paths())

    def yield_blobs(self) -> Iterator[Blob]:
        """Return the files one at a time."""
        paths = self._paths()
        with show_progress(self.show_progress, len(paths), "reading") as progress:
            for path in paths:
                yield Blob.from_path(path)
                progress.advance()

    def _paths(self) -> list[Path]:
        files = self._files.files()
        return [file for file in files if self.suffixes is None or file.suffix in self.suffixes]


def _glob(folder: Path, pattern: str, *, recursive: bool) -> Iterator[Path]:
    try:
        return iter(list(folder.rglob(pattern) if recursive else folder.glob(pattern)))
    except (ValueError, NotImplementedError) as error:
        raise UsageError(f"{pattern!r} is not a pattern of files: {error}") from error
    except OSError as error:
        raise DocumentError(f"{folder}: cannot be read: {error.strerror}", str(folder)) from error
