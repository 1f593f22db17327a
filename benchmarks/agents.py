"""An agent of ten turns with a scripted model: CPU per turn, ours and LangChain's, in one run of this script.

    python benchmarks/agents.py                        ours alone
    python benchmarks/agents.py --peer path/to/python  LangChain's too, by an interpreter that has it

Also eight parallel tools that sleep 100 ms each, blocking and async.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time

TURNS = 10
PEER = """
import json, time, sys
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
TURNS = %d
class Scripted(BaseChatModel):
    turn: int = 0
    @property
    def _llm_type(self): return "scripted"
    def bind_tools(self, tools, **kwargs): return self
    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.turn += 1
        if self.turn %% TURNS:
            m = AIMessage("", tool_calls=[{"name": "add", "args": {"a": 1, "b": 2}, "id": f"c{self.turn}"}])
        else:
            m = AIMessage("done")
        return ChatResult(generations=[ChatGeneration(message=m)])
def add(a: int, b: int) -> int:
    "Add."
    return a + b
agent = create_agent(Scripted(), [add])
agent.invoke({"messages": "go"})
times = []
for _ in range(40):
    start = time.process_time()
    agent.invoke({"messages": "go"})
    times.append(time.process_time() - start)
print(json.dumps(min(times) / TURNS * 1e6))
"""


def ours() -> float:
    from weft.agents import create_agent
    from weft.language_models.chat_models import BaseChatModel
    from weft.messages import AIMessage
    from weft.outputs import ChatGeneration, ChatResult

    class Scripted(BaseChatModel):
        turn: int = 0

        @property
        def _llm_type(self) -> str:
            return "scripted"

        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            self.turn += 1
            if self.turn % TURNS:
                call = {"name": "add", "args": {"a": 1, "b": 2}, "id": f"c{self.turn}"}
                message = AIMessage("", tool_calls=[call])
            else:
                message = AIMessage("done")
            return ChatResult(generations=[ChatGeneration(message=message)])

    def add(a: int, b: int) -> int:
        "Add."
        return a + b

    agent = create_agent(Scripted(), [add])
    agent.invoke({"messages": "go"})
    times = []
    for _ in range(40):
        start = time.process_time()
        assert len(agent.invoke({"messages": "go"})["messages"]) == 2 * TURNS
        times.append(time.process_time() - start)
    return min(times) / TURNS * 1e6


def parallel() -> tuple[float, float]:
    from weft.agents import create_agent
    from weft.testing import Call, ScriptedChatModel

    def nap(n: int) -> int:
        "Sleep."
        time.sleep(0.1)
        return n

    def agent():
        calls = [Call("nap", {"n": n}) for n in range(8)]
        return create_agent(ScriptedChatModel(script=[calls, "done"]), [nap])

    agent().invoke({"messages": "go"})
    start = time.perf_counter()
    agent().invoke({"messages": "go"})
    blocking = time.perf_counter() - start
    start = time.perf_counter()
    asyncio.run(agent().ainvoke({"messages": "go"}))
    return blocking * 1000, (time.perf_counter() - start) * 1000


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--peer")
    peer = options.parse_args().peer
    result: dict[str, float] = {"weft_us_per_turn": ours()}
    if peer:
        said = subprocess.run(
            [peer, "-c", PEER % TURNS], capture_output=True, text=True, check=True
        )
        result["langchain_us_per_turn"] = json.loads(said.stdout)
        result["ratio"] = result["weft_us_per_turn"] / result["langchain_us_per_turn"]
    result["parallel_blocking_ms"], result["parallel_async_ms"] = parallel()
    json.dump({key: round(value, 3) for key, value in result.items()}, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
