"""F-Y17: the first call of a process: what it imports does not count against its deadline.

The imports are made slow on purpose: a finder waits before each module of foldline that is loaded late.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.wires import WIRES
from tests.servers import FaultServer

ROOT = Path(__file__).parents[2]
SLOW = 0.4
"""Seconds for which the first late import waits: longer than the deadline of the call."""
FIRST_CALL = """
import asyncio, sys, time
from foldline.transports import NativeTransport
from tests.faults.wires import WIRES
wire, url, way = WIRES[sys.argv[1]], sys.argv[2], sys.argv[3]
model = wire.model(url, timeout=0.35, max_retries=0, transport=NativeTransport())

class Slow:
    waited = 0.0
    def find_spec(self, name, path=None, target=None):
        if Slow.waited < SLOW:
            Slow.waited += SLOW
            time.sleep(SLOW)
        return None

sys.meta_path.insert(0, Slow())
answer = asyncio.run(model.ainvoke("Hi")) if way == "async" else model.invoke("Hi")
print(bool(answer.text), Slow.waited)
"""


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("name", ["chat", "anthropic"])
def test_F_Y17_imports_do_not_count_against_the_deadline(
    name: str, way: str, fault_server: FaultServer
) -> None:
    wire = WIRES[name]
    for path in wire.paths:
        fault_server.script(path, wire.good())
    code = FIRST_CALL.replace("SLOW", str(SLOW))
    done = subprocess.run(
        [sys.executable, "-c", code, name, fault_server.url, way],
        capture_output=True, text=True, timeout=60, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["True", str(SLOW)]
