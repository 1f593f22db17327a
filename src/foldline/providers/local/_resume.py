"""A separate program: find a pinned wheel with pip's internals, and resume its download.

`pip download` cannot resume, but pip knows index, proxy, certificates and credentials. This program asks pip's finder
for the URL and its session for the missing bytes. These are not public APIs of pip: if a version lacks them, the
program exits with `UNSUPPORTED_PIP`, and `pip download` is used instead.

    python -P _resume.py PACKAGE VERSION SHA256 FILE
"""

from __future__ import annotations

import logging
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

UNSUPPORTED_PIP = 86
"""The exit code for a pip without the required internals."""
FAILED = 1
MAX_ATTEMPTS = 4
CHUNK_SIZE = 1 << 14
"""Bytes read at a time; a broken connection loses at most one chunk."""
OPTIONS = [
    *("--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--disable-pip-version-check"),
    *("--no-input", "--retries", "2", "--timeout", "15"),
]


def main(package: str, version: str, sha256: str, target: str) -> int:
    """Download into `target`, printing `Progress DONE of ALL` as pip does."""
    logging.basicConfig(stream=sys.stdout, format="%(levelname)s: %(message)s")
    logging.getLogger("pip._internal.index.collector").setLevel(
        logging.DEBUG
    )  # logs why an index is unreachable
    try:
        command = import_module("pip._internal.commands").create_command("download")
        options, _ = command.parse_args([*OPTIONS, f"{package}=={version}"])
        hashes = import_module("pip._internal.utils.hashes").Hashes({"sha256": [sha256]})
        specifier = import_module("pip._vendor.packaging.specifiers").SpecifierSet(f"=={version}")
        with command.main_context():
            session = command.get_default_session(options)
            finder = command._build_package_finder(options=options, session=session)
            candidate = finder.find_best_candidate(package, specifier, hashes).best_candidate
            url = candidate.link.url_without_fragment if candidate is not None else None
            if url is None:
                _print(f"ERROR: No matching distribution found for {package}=={version}")
                return FAILED
            return _fetch(session, url, Path(target))
    except (ImportError, AttributeError, TypeError) as error:
        _print(f"this pip cannot resume: {error!r}")
        return UNSUPPORTED_PIP


def _fetch(session: object, url: str, target: Path) -> int:
    for attempt in range(MAX_ATTEMPTS):
        previous_size = _size(target)
        try:
            if _read(session, url, target):
                return 0
        except Exception as error:  # noqa: BLE001  any error of pip's requests; the caller reads it
            _print(f"ERROR: {error!r}")
        if _size(target) <= previous_size and attempt:
            break  # no progress
    return FAILED


def _read(session: Any, url: str, target: Path) -> bool:  # noqa: ANN401  a session of pip's own copy of requests
    """Download the missing bytes; return False if the server broke off."""
    start = _size(target)
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={start}-"} if start else {})}
    response = session.get(url, headers=headers, stream=True)
    if response.status_code == 416:  # nothing is missing, or the file has changed
        target.unlink()
        return False
    response.raise_for_status()
    if response.status_code != 206:
        start = 0
    total = start + int(response.headers.get("Content-Length") or 0)
    done, reported_at = start, 0.0
    with target.open("ab" if start else "wb") as file:
        for piece in response.iter_content(CHUNK_SIZE):
            file.write(piece)
            done += len(piece)
            if time.monotonic() - reported_at > 0.1:
                file.flush()
                reported_at = time.monotonic()
                _print(f"Progress {done} of {max(total, done)}")
    return done >= total


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
