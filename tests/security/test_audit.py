"""What foldline touches when it is imported, loads, dumps, formats and counts: nothing (F-D03, F-W01, F-X01,
contract 3 and 7).

Python's audit hook sees it (`watch.py`), in a process of its own. The package on disk is looked at as well.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.security import watch

ROOT = Path(__file__).parent.parent.parent
WATCH = Path(watch.__file__)
KEYS = {
    "OPENAI_API_KEY": "sk-canary",
    "ANTHROPIC_API_KEY": "sk-canary",
    "GOOGLE_API_KEY": "sk-canary",
}


def python(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-PB", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        check=False,
    )


def touched(action: str, *how: str) -> list[str]:
    result = python(str(WATCH), action, *how, **KEYS)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("action", ["import_foldline", "import_everything"])
def test_F_X01_F_W01_importing_opens_starts_connects_and_reads_nothing(action: str):
    assert touched(action) == []


@pytest.mark.slow
@pytest.mark.parametrize("action", ["load_and_dump", "fill_in_templates", "count_tokens"])
def test_F_D03_loading_formatting_and_counting_open_connect_and_read_nothing(action: str):
    switches = ("(_environment.py)", "FOLDLINE_TRACES (_data_places.py)")
    read = [event for event in touched(action) if not event.endswith(switches)]
    assert read == []  # but for the variables that ask for traces, at the first run


EYES = {
    "open": "open('/dev/null').close()",
    "socket.": "import socket; socket.socket().close()",
    "subprocess.": "import subprocess; subprocess.run(['true'])",
    "thread ": "import threading; t = threading.Thread(target=int); t.start(); t.join()",
    "sqlite3.": "import sqlite3; sqlite3.connect(':memory:').close()",
    "os.mkdir": "import os, tempfile; os.rmdir(tempfile.mkdtemp())",
    "environment HOME": "import os; os.environ.get('HOME')",
    "environment A": "import os; 'A' in os.environ",
}


def watched(action: str, before: str = "") -> list[str]:
    """Return the audit events of a line of code that runs as if it stood in a file of foldline's."""
    program = (
        f"import sys, json; sys.path.insert(0, {str(WATCH.parent)!r}); import watch\n{before}\n"
    )
    program += f"code = compile({action!r}, '/foldline/some.py', 'exec')\n"
    program += "print(json.dumps(watch.watch(lambda: exec(code))))"
    result = python("-c", program, **KEYS)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("event", EYES)
def test_the_watch_sees_what_it_is_for(event: str):
    assert [line for line in watched(EYES[event]) if line.startswith(event)]


@pytest.mark.slow
def test_a_model_is_made_without_reading_a_key():
    assert watched("import watch; watch.providers()", before="watch.providers()") == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel as it would be released, built in this process: nothing is fetched."""
    from hatchling.builders.wheel import WheelBuilder

    folder = tmp_path_factory.mktemp("wheel")
    (path,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return zipfile.ZipFile(path)


def test_F_X01_the_wheel_has_no_pth_and_nothing_that_runs_by_itself(wheel: zipfile.ZipFile):
    names = wheel.namelist()
    tops = {name.split("/")[0] for name in names}

    assert {top for top in tops if not top.startswith("foldline-")} == {"foldline"}
    assert [name for name in names if name.endswith((".pth", ".pyc", ".so", ".exe"))] == []
    assert [name for name in names if "sitecustomize" in name or "usercustomize" in name] == []
    assert [name for name in names if ".data/" in name] == []
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert sources <= set(names)


def test_F_X01_the_wheel_asks_for_two_packages(wheel: zipfile.ZipFile):
    (metadata,) = [name for name in wheel.namelist() if name.endswith("METADATA")]
    lines = wheel.read(metadata).decode().splitlines()
    needed = [line for line in lines if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert [line.split()[1].split(">")[0] for line in needed] == ["pydantic", "typing-extensions"]


EXTRAS = {
    "local": (
        "xllamacpp",
        "from foldline.providers.local.runtime import load_library; load_library()",
    ),
    "cli": ("typer", "from foldline._cli.start import _run; _run(['chat'])"),
    "postgres": (
        "psycopg",
        "from foldline.chat_history import PostgresChatMessageHistory as H; H('s', 'host=/nowhere')",
    ),
    "redis": ("redis", "from foldline.caches import RedisCache; RedisCache('redis://127.0.0.1:1')"),
    "mcp": ("mcp", "from foldline.tools.mcp._package import import_extra; import_extra('mcp')"),
    "otel": ("opentelemetry", "import foldline.tracers.otel"),
    "httpx": ("httpcore2", "import foldline.transports.httpx"),
    "jinja": (
        "jinja2",
        "from foldline.prompts import PromptTemplate as P; P.from_template('{{ a }}', template_format='jinja2')",
    ),
    "vectors": ("numpy", "import foldline.vectorstores._vectors"),
}


@pytest.mark.slow
@pytest.mark.parametrize("extra", EXTRAS)
def test_F_X01_F_W01_a_missing_extra_says_what_to_install(extra: str):
    package, program = EXTRAS[extra]
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from foldline.exceptions import MissingExtraError\n"
        f"try:\n    {program}\nexcept MissingExtraError as error:\n    print(error)"
    )
    result = python("-c", program)
    assert f'pip install "foldline[{extra}]"' in result.stdout, result.stderr
