"""A program of its own, run beside pip: find a pinned wheel with pip's own means, and go on where a download stopped.

`pip download` cannot resume, but pip knows index, proxy, certificates and credentials. This asks its finder for the
address and its session for the bytes that are missing. Nothing here is public of pip: where a version of it has none
of this, the program ends with `NOT_HERE`, and `pip download` does the work from the start.

    python -P _resume.py PACKAGE VERSION SHA256 FILE
"""

from __future__ import annotations

import logging
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

NOT_HERE = 86
"""The exit code that says: this pip is another."""
FAILED = 1
TRIES = 4
PIECE = 1 << 14
"""Bytes read at a time: what a broken connection may lose of what had come."""
OPTIONS = [
    *("--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--disable-pip-version-check"),
    *("--no-input", "--retries", "2", "--timeout", "15"),
]


def main(package: str, version: str, sha256: str, target: str) -> int:
    """Fetch into `target`, printing `Progress DONE of ALL` as pip does."""
    logging.basicConfig(stream=sys.stdout, format="%(levelname)s: %(message)s")
    logging.getLogger("pip._internal.index.collector").setLevel(logging.DEBUG)  # why no index
    try:
        command = import_module("pip._internal.commands").create_command("download")
        options, _ = command.parse_args([*OPTIONS, f"{package}=={version}"])
        hashes = import_module("pip._internal.utils.hashes").Hashes({"sha256": [sha256]})
        wanted = import_module("pip._vendor.packaging.specifiers").SpecifierSet(f"=={version}")
        with command.main_context():
            session = command.get_default_session(options)
            finder = command._build_package_finder(options=options, session=session)
            found = finder.find_best_candidate(package, wanted, hashes).best_candidate
            url = found.link.url_without_fragment if found is not None else None
            if url is None:
                _print(f"ERROR: No matching distribution found for {package}=={version}")
                return FAILED
            return _fetch(session, url, Path(target))
    except (ImportError, AttributeError, TypeError) as error:
        _print(f"this pip cannot resume: {error!r}")
        return NOT_HERE


def _fetch(session: object, url: str, target: Path) -> int:
    for attempt in range(TRIES):
        before = _size(target)
        try:
            if _read(session, url, target):
                return 0
        except Exception as error:  # noqa: BLE001  whatever pip's requests raises; the caller reads it
            _print(f"ERROR: {error!r}")
        if _size(target) <= before and attempt:
            break  # nothing more comes
    return FAILED


def _read(session: Any, url: str, target: Path) -> bool:  # noqa: ANN401  a session of pip's own copy of requests
    """Read what is missing; false where the server broke off."""
    begun = _size(target)
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={begun}-"} if begun else {})}
    response = session.get(url, headers=headers, stream=True)
    if response.status_code == 416:  # nothing is missing, or the file there is another
        target.unlink()
        return False
    response.raise_for_status()
    if response.status_code != 206:
        begun = 0
    whole = begun + int(response.headers.get("Content-Length") or 0)
    done, told = begun, 0.0
    with target.open("ab" if begun else "wb") as file:
        for piece in response.iter_content(PIECE):
            file.write(piece)
            done += len(piece)
            if time.monotonic() - told > 0.1:
                file.flush()
                told = time.monotonic()
                _print(f"Progress {done} of {max(whole, done)}")
    return done >= whole


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
