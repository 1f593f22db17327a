"""`foldline serve log`: the upkeep of the run log."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from foldline._cli.serve import log_place
from foldline._cli.start import Code

__all__ = ["backup", "migrate", "status", "vacuum", "verify"]


def _print(sentence: str) -> None:
    sys.stdout.write(f"{sentence}\n")


def status(*, log: str | None, as_json: bool) -> int:
    """Print what is in the log; change nothing."""
    from foldline.serve._log.upkeep import read_status

    found = read_status(log_place(log))
    if as_json:
        _print(json.dumps({**asdict(found), "is_current": found.is_current}, indent=2))
        return 0
    _print(found.where)
    for kind, (stored, newest) in found.versions.items():
        note = "" if stored == newest else f" (this foldline: {newest})"
        _print(f"  tables of {kind}: version {stored}{note}")
    if found.runs is None:
        _print("  `foldline serve log migrate` brings the tables to this version")
        return 0
    _print(f"  {(found.size or 0) / 1e6:.1f} MB")
    for name, count in found.runs.items():
        _print(f"  {name}: {count:,} runs")
    if found.first is not None and found.last is not None:
        _print(f"  from {_time(found.first)} to {_time(found.last)}")
    return 0


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def migrate(*, log: str | None) -> int:
    """Bring the tables to this version."""
    from foldline._storage.open_database import open_database
    from foldline.serve._log.schema import SCHEMA
    from foldline.serve._log.upkeep import stored_versions

    place = log_place(log)
    before = stored_versions(place) if "://" in place or Path(place).exists() else {}
    open_database(place, SCHEMA).close()
    for kind, (version, _) in stored_versions(place).items():
        old = before.get(kind, (0, 0))[0]
        _print(
            f"tables of {kind}: "
            + (f"version {version}" if old == version else f"{old} -> {version}")
        )
    return 0


def backup(file: Path, *, log: str | None) -> int:
    """Copy a SQLite log while it is in use."""
    from foldline.serve._log.upkeep import back_up

    size = back_up(log_place(log), file)
    _print(f"{file}: {size / 1e6:.1f} MB")
    return 0


def verify(*, log: str | None) -> int:
    """Check the log."""
    from foldline.serve._log.upkeep import check_log

    problems = check_log(log_place(log))
    for problem in problems:
        _print(problem)
    _print("the log has no faults" if not problems else "restore the log from a backup")
    return Code.FAILED if problems else 0


def vacuum(*, log: str | None) -> int:
    """Give unused space back."""
    from foldline.serve._log.upkeep import read_status, vacuum as shrink

    place = log_place(log)
    before = read_status(place).size or 0
    shrink(place)
    after = read_status(place).size or 0
    _print(f"{before / 1e6:.1f} MB -> {after / 1e6:.1f} MB")
    return 0
