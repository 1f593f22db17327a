"""No socket is left to the garbage collector: a dropped transport closes its idle connections."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.servers.script import sse_answer

pytestmark = pytest.mark.timing

PROGRAM = """
import asyncio, gc, sys, warnings

warnings.simplefilter("error", ResourceWarning)
faults = []
sys.unraisablehook = lambda fault: faults.append(fault.exc_value)

from foldline.providers.openai import ChatOpenAI

url, way, http2 = sys.argv[1:]

def run():
    model = ChatOpenAI(model="c", api_key="k", base_url=url, max_retries=0, http={"http2": http2 == "1"})
    if way == "invoke":
        model.invoke("x")
    elif way == "left":
        for _ in model.stream("x"):
            break
    elif way == "dropped":
        stream = model.stream("x")
        next(stream)
        del model
        gc.collect()
        print(len(list(stream)), file=sys.stderr)
    else:
        asyncio.run(model.ainvoke("x"))

run()
gc.collect()
print(faults)
"""


@pytest.mark.slow
@pytest.mark.parametrize("http2", ["0", "1"], ids=["native", "httpx2"])
@pytest.mark.parametrize("way", ["invoke", "left", "dropped", "ainvoke"])
def test_a_model_that_is_dropped_leaves_no_socket(fault_server: Any, way, http2):
    texts = [{"id": "x", "choices": [{"index": 0, "delta": {"content": "a"}}]}] * 20
    end = {"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    fault_server.script("/v1/chat/completions", sse_answer([*texts, end], done="[DONE]"))

    result = subprocess.run(
        [sys.executable, "-X", "dev", "-c", PROGRAM, f"{fault_server.url}/v1", way, http2],
        check=False, capture_output=True, text=True,
    )  # fmt: skip

    assert (result.returncode, result.stdout) == (0, "[]\n"), result.stderr
    if way == "dropped":
        assert int(result.stderr.split()[-1]) >= 19
