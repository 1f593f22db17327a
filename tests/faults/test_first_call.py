"""F-Y17: the first call of a process: what it imports does not count against its deadline.

A plain call loads nothing any more once its model is made, so there is nothing to count. A call with tools and an
answer of its own class may load more: there the imports are made slow on purpose, by a finder that waits longer than
the deadline, and the call must come through.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.wires import WIRES
from tests.servers import FaultServer

pytestmark = pytest.mark.timing

ROOT = Path(__file__).parents[2]
SLOW = 0.4
"""Seconds for which the first late import waits: longer than the deadline of the call."""
MODELS = {
    "chat": ("openai", "ChatOpenAI", "/v1"),
    "anthropic": ("anthropic", "ChatAnthropic", ""),
}
"""Wire -> where its class is, and what its base URL ends with."""
FIRST_CALL = """
import sys, time
from foldline.providers.FOLDER import CLASS
url, way = sys.argv[1], sys.argv[2]
model = CLASS(model="m", base_url=url, api_key="k", timeout=0.35, max_retries=0)

class Slow:
    waited = 0.0
    def find_spec(self, name, path=None, target=None):
        if Slow.waited < SLOW:
            Slow.waited += SLOW
            time.sleep(SLOW)
        return None

import asyncio, selectors, socket, ssl  # of the library, only what is foldline's own is slow
sys.meta_path.insert(0, Slow())
if sys.argv[3] == "tools":
    def weather(city: str) -> str:
        "Tell the weather."
        return city
    model = model.bind_tools([weather])
answer = asyncio.run(model.ainvoke("Hi")) if way == "async" else model.invoke("Hi")
print(bool(answer.text), Slow.waited)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "tools"])
@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("name", MODELS)
def test_F_Y17_imports_do_not_count_against_the_deadline(
    name: str, way: str, kind: str, fault_server: FaultServer
) -> None:
    wire = WIRES[name]
    for path in wire.paths:
        fault_server.script(path, wire.good())
    folder, cls, end = MODELS[name]
    code = FIRST_CALL.replace("SLOW", str(SLOW)).replace("FOLDER", folder).replace("CLASS", cls)
    result = subprocess.run(
        [sys.executable, "-c", code, fault_server.url + end, way, kind],
        capture_output=True, text=True, timeout=60, check=False, cwd=ROOT,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-2000:]
    is_right, seconds = result.stdout.split()
    assert is_right == "True"
    if kind == "plain":
        assert seconds == "0.0", "a plain call loads a module late"
