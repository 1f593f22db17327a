"""The rows with one handler again, by pyperf and without this package's harness: a check of the harness itself.

    .venv/bin/python -m pip install pyperf
    .venv/bin/python benchmarks/independent.py foldline
    .venv-peers/bin/python -m pip install pyperf
    .venv-peers/bin/python benchmarks/independent.py langchain_core

Each prints a mean in wall time for every row, and its spread; on a quiet machine the ratio of the two is to agree with
the one in docs/benchmarks.md within 20 %. Options after the name go to pyperf (`--fast`, `--rigorous`, `-o
results.json`). With `--cpu` in front of them the processor's time is taken by hand, the best of many rounds: for a
machine that is not quiet, where pyperf's wall time says nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

Row = tuple[str, Callable[[], Any], int]
ROUNDS = 25
CALLS = 200


def rows(package: str) -> list[Row]:
    """Make the rows: a name, what is done, and how many units that is."""
    models = import_module(f"{package}.language_models")
    handlers = import_module(f"{package}.callbacks")
    prompts = import_module(f"{package}.prompts")
    parsers = import_module(f"{package}.output_parsers")

    class Silent(handlers.BaseCallbackHandler):  # type: ignore[misc,name-defined]
        def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None: ...
        def on_llm_new_token(self, *args: Any, **kwargs: Any) -> None: ...
        def on_llm_end(self, *args: Any, **kwargs: Any) -> None: ...
        def on_chain_start(self, *args: Any, **kwargs: Any) -> None: ...
        def on_chain_end(self, *args: Any, **kwargs: Any) -> None: ...

    model = models.FakeListChatModel(responses=["hello"])
    speaker = models.FakeListChatModel(responses=["x" * 1000])
    messages = [("system", "Be brief."), ("human", "Tell me about {topic}.")]
    chain = prompts.ChatPromptTemplate.from_messages(messages) | model | parsers.StrOutputParser()
    topic, watched = {"topic": "bears"}, {"callbacks": [Silent()]}

    def read(config: Any) -> None:
        for _ in speaker.stream("hi", config):
            pass

    return [
        ("fake invoke", lambda: model.invoke("hi"), 1),
        ("fake invoke, one handler", lambda: model.invoke("hi", watched), 1),
        ("prompt | model | parser, invoke", lambda: chain.invoke(topic), 1),
        ("prompt | model | parser, invoke, one handler", lambda: chain.invoke(topic, watched), 1),
        ("v1 stream, per text chunk", lambda: read(None), 1000),
        ("v1 stream, per text chunk, one handler", lambda: read(watched), 1000),
    ]


def by_hand(package: str) -> None:
    """Print the least processor time of each row."""
    for name, work, units in rows(package):
        calls = max(1, CALLS // units)
        shortest = float("inf")
        for _ in range(ROUNDS):
            start = time.process_time()
            for _ in range(calls):
                work()
            shortest = min(shortest, (time.process_time() - start) / calls / units)
        print(f"{package}: {name}: {shortest * 1e6:.2f} us")


def by_pyperf(package: str) -> None:
    """Let pyperf measure each row, in processes of its own."""
    pyperf = import_module("pyperf")
    # pyperf starts this file again in its processes, and does not pass on what it does not know.
    runner = pyperf.Runner(program_args=(__file__, package))
    for name, work, units in rows(package):
        runner.bench_func(f"{package}: {name}", work, inner_loops=units)


if __name__ == "__main__":
    side = sys.argv.pop(1) if len(sys.argv) > 1 else "foldline"
    if "--cpu" in sys.argv:
        by_hand(side)
    else:
        by_pyperf(side)
