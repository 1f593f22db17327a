"""`BlobLoader`: loads raw data, from which a parser makes documents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from foldline.documents.base import Blob, PathLike

__all__ = ["Blob", "BlobLoader", "PathLike"]


class BlobLoader(ABC):
    """Loads raw data from somewhere."""

    @abstractmethod
    def yield_blobs(self) -> Iterator[Blob]:
        """Return the blobs one at a time."""
