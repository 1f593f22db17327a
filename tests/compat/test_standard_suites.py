"""langchain-tests' standard suites on each provider: run once, in a process of its own, and counted by provider.

langchain-tests is not in the test extra; see `test_packages.py` for the environment that has it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.servers.wires import serve_wires

if find_spec("langchain_tests") is None:
    pytest.skip("langchain-tests is not installed: see test_packages.py", allow_module_level=True)

HERE = Path(__file__).parent
OPTIONS = [
    "-p", "foldline.compat.langchain", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto",
    "--import-mode=importlib", "-q", "-W", "ignore", "--snapshot-update", "--benchmark-disable",
]  # fmt: skip
LEFT_OUT = "not stream_time and not (openai_compatible_Unit and serdes)"
"""One needs recordings; the other loads an address from data, which may not say where keys are sent."""
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "s",
    "AWS_REGION": "us-east-1",
    "GOOGLE_CLOUD_PROJECT": "p",
    "GOOGLE_CLOUD_LOCATION": "us-central1",
    "AZURE_OPENAI_ENDPOINT": "http://127.0.0.1:9",
    "OPENAI_API_VERSION": "2025-01-01",
    "LANGSMITH_TRACING": "false",
}


def run_suites(folder: Path, *options: str) -> dict[str, Counter[str]]:
    """Run the suites; return for each class how many of its tests passed, failed or were skipped."""
    suites, report = folder / "standard_suites.py", folder / "report.xml"
    shutil.copy(HERE / suites.name, suites)  # snapshots are written beside it
    command = [
        sys.executable,
        "-m",
        "pytest",
        str(suites),
        "-c",
        os.devnull,
        "--rootdir",
        str(folder),
    ]
    with serve_wires() as url:
        subprocess.run(
            [*command, *OPTIONS, "-k", LEFT_OUT, f"--junitxml={report}", *options],
            check=False,
            env={
                **os.environ,
                **ENVIRONMENT,
                "WIRES_URL": url,
                "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), *sys.path]),
            },
            stdout=subprocess.DEVNULL,
        )
    counts: dict[str, Counter[str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.attrib["classname"].rpartition(".")[2]
        problem = next(
            (child for child in case if child.tag in ("failure", "error", "skipped")), None
        )
        outcome = "passed" if problem is None else problem.tag
        counts.setdefault(name, Counter())[outcome] += 1
        if outcome in ("failure", "error"):
            counts[name][f"{case.attrib['name']}: {problem.attrib.get('message', '')[:200]}"] += 1
    return counts


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_provider_passes_the_standard_suites(tmp_path):
    counts = run_suites(tmp_path)

    failed = {
        name: dict(count) for name, count in counts.items() if count["failure"] or count["error"]
    }
    assert failed == {}
    assert len(counts) >= 2 * 40
    for name, count in counts.items():
        assert count["passed"] >= (39 if name.endswith("_Integration") else 7), (name, count)
