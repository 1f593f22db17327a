"""Calls an agent many times at once on one saver; run by `test_many_calls`, in a process with few descriptors.

`python -m tests.storage.many_calls PLACE sync|async COUNT DESCRIPTORS` prints how many calls were answered, the most
descriptors that were open, and the seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import threading
import time
from collections import Counter
from typing import Any

from foldline.agents import create_agent
from foldline.checkpoint.postgres import PostgresSaver
from foldline.checkpoint.sqlite import SqliteSaver
from foldline.messages import HumanMessage
from foldline.testing import ScriptedChatModel


def run_threads(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main(place: str, mode: str, count: int, descriptors: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    saver = PostgresSaver(place) if "://" in place else SqliteSaver(place)
    model = ScriptedChatModel(script=["Hello."], is_cyclic=True)
    agent = create_agent(model, [], checkpointer=saver)
    outcomes, most, start = Counter[str](), [0], time.monotonic()

    def note(state: Any) -> None:
        outcomes["answered" if state["messages"][-1].text == "Hello." else "other"] += 1
        most[0] = max(most[0], len(os.listdir("/proc/self/fd")))

    def arguments(number: int) -> tuple[Any, Any]:
        config = {"configurable": {"thread_id": f"t-{number}"}}
        return {"messages": [HumanMessage("Hi")]}, config

    def call(number: int) -> None:
        try:
            note(agent.invoke(*arguments(number)))
        except Exception as error:  # noqa: BLE001  counted
            outcomes[f"{type(error).__name__}: {error}"[:200]] += 1

    async def acall(number: int) -> None:
        try:
            note(await agent.ainvoke(*arguments(number)))
        except Exception as error:  # noqa: BLE001  counted
            outcomes[f"{type(error).__name__}: {error}"[:200]] += 1

    async def gather() -> None:
        await asyncio.gather(*map(acall, range(count)))

    if mode == "async":
        asyncio.run(gather())
    else:
        run_threads([threading.Thread(target=call, args=(number,)) for number in range(count)])
    seconds = round(time.monotonic() - start, 1)
    rows = sum(len(saver.read(f"t-{number}", "")) > 0 for number in range(count))
    print(json.dumps({"outcomes": outcomes, "most": most[0], "seconds": seconds, "stored": rows}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
