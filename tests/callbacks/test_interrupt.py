"""Ctrl-C ends a program though a callback handler hangs."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.timing

PROGRAM = """
import asyncio, sys, time
from foldline.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from foldline.language_models import FakeListChatModel

kind, way, event = sys.argv[1:]

async def hang(self, *args, **kwargs):
    print("hangs", flush=True)
    await asyncio.sleep(600)

def block(self, *args, **kwargs):
    print("hangs", flush=True)
    time.sleep(600)

base, hook = (AsyncCallbackHandler, hang) if kind == "async" else (BaseCallbackHandler, block)
handler = type("Handler", (base,), {event: hook})()
model = FakeListChatModel(responses=["x"])
try:
    if way == "invoke":
        model.invoke("x", {"callbacks": [handler]})
    elif way == "stream":
        list(model.stream("x", {"callbacks": [handler]}))
    else:
        asyncio.run(model.ainvoke("x", {"callbacks": [handler]}))
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT of this kind")
@pytest.mark.parametrize("event", ["on_chat_model_start", "on_llm_end"])
@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke"])
@pytest.mark.parametrize("kind", ["async", "blocking"])
def test_ctrl_c_ends_a_program_whose_handler_hangs(kind, way, event):
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, kind, way, event], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "hangs\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(30) == 130
        finally:
            process.kill()
