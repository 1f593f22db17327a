"""Inputs of a prompt besides its text: piped text, fragments, files and URLs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from foldline._cli.settings import read_settings
from foldline._cli.terminal import is_terminal
from foldline._io import BLOCKING
from foldline._io.drive import drive
from foldline.exceptions import FoldlineError, UsageError
from foldline.language_models import FileResolver
from foldline.utils._media_types import media_type_of_bytes
from foldline.utils.strings import suggestion

__all__ = ["fetch", "fragment_text", "is_address", "read_stdin_bytes"]


def is_address(place: str) -> bool:
    """Whether a text is a web URL."""
    return place.startswith(("http://", "https://"))


def fetch(url: str) -> tuple[bytes, str | None]:
    """Fetch a URL; only public addresses are allowed, checked before the connection."""
    host = urlsplit(url).hostname or ""
    resolver = FileResolver(allow_hosts=[host, f"www.{host}"], schemes=("https", "http"))
    try:
        page = drive(resolver.fetch_page(url, BLOCKING))
    except FoldlineError as error:
        raise UsageError(
            f"{url}: cannot be fetched: {error}; check the address, or save the page and attach the file"
        ) from error
    if page.status != 200:
        raise UsageError(
            f"{url}: the server answered {page.status}: open it in a browser, and attach what you save"
        )
    return page.data, media_type_of_bytes(page.data) or page.media_type or None


def read_stdin_bytes() -> bytes:
    """Read the piped input as bytes."""
    if sys.stdin is None or is_terminal(sys.stdin):
        raise UsageError(
            "-a - reads what is piped in, and nothing is: foldline chat ... -a - < photo.png"
        )
    stream = getattr(sys.stdin, "buffer", None)
    return stream.read() if stream is not None else sys.stdin.read().encode()


def fragment_text(places: Sequence[str]) -> str:
    """Return the texts of fragments: each a file, a URL, or a name of `foldline fragments`."""
    return "\n\n".join(_fragment(place) for place in places)


def _fragment(place: str) -> str:
    fragments: dict[str, str] = read_settings().get("fragments") or {}
    target = fragments.get(place, place)
    if is_address(target):
        data, _ = fetch(target)
    else:
        try:
            data = Path(target).expanduser().read_bytes()
        except OSError as error:
            raise UsageError(
                f"-f {place}: is neither a file ({error.strerror}) nor a fragment{suggestion(place, fragments)}: "
                "foldline fragments lists them"
            ) from error
    try:
        return data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise UsageError(f"-f {place}: is not text; -a attaches a file") from error
