"""One client of other people, asked by `peers.py`: runs in its own environment, imports nothing of foldline's tests.

Reads an order as JSON from standard input and prints one line of JSON per outcome. A client is a table of ways to
ask; each gives the text of the answer or raises whatever the client raises.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import multiprocessing
import random
import ssl
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

warnings.simplefilter("ignore")
TIMEOUT = 0.5
# No TLS is used here, and reading the certificates is most of the cost of making a client.
ssl.SSLContext.load_verify_locations = lambda *_, **__: None  # type: ignore[method-assign]
LOOP = asyncio.new_event_loop()
"""One for all questions: how a client bears a second loop is a question of its own (`loops`)."""
asyncio.set_event_loop(LOOP)
Ways = dict[str, Callable[[str], Any]]


def text_of(answer: Any) -> str | None:
    """The text of what a client returned; nothing where it returned something else without a word."""
    try:
        text = (
            answer.content[0].text
            if hasattr(answer, "content")
            else answer.choices[0].message.content
        )
    except (AttributeError, IndexError, TypeError):
        return None
    return str(text)


def piece_of(chunk: Any) -> str:
    """The text of a chunk; a chunk that is none was given to us without a word."""
    try:
        return str(chunk.choices[0].delta.content or "")
    except (AttributeError, IndexError, TypeError):
        return ""


def openai_client(base: str, **fields: Any) -> Ways:
    import openai

    settings = {"base_url": f"{base}/v1", "api_key": "k", **fields}
    client, aclient = openai.OpenAI(**settings), openai.AsyncOpenAI(**settings)

    def ask(text: str, **more: Any) -> dict[str, Any]:
        return {"model": "m", "messages": [{"role": "user", "content": text}], **more}

    def stream(text: str) -> str:
        chunks = client.chat.completions.create(**ask(text, stream=True))
        return "".join(piece_of(chunk) for chunk in chunks)

    async def ainvoke(text: str) -> str:
        return text_of(await aclient.chat.completions.create(**ask(text)))

    async def astream(text: str) -> str:
        answer_text = ""
        async for chunk in await aclient.chat.completions.create(**ask(text, stream=True)):
            answer_text += piece_of(chunk)
        return answer_text

    def invoke(text: str) -> Any:
        return text_of(client.chat.completions.create(**ask(text)))

    return {"invoke": invoke, "stream": stream, "ainvoke": ainvoke, "astream": astream}


def anthropic_client(base: str, **fields: Any) -> Ways:
    import anthropic

    settings = {"base_url": base, "api_key": "k", **fields}
    client, aclient = anthropic.Anthropic(**settings), anthropic.AsyncAnthropic(**settings)

    def ask(text: str) -> dict[str, Any]:
        messages = [{"role": "user", "content": text}]
        return {"model": "m", "max_tokens": 99, "messages": messages}

    def invoke(text: str) -> str:
        return text_of(client.messages.create(**ask(text)))

    def stream(text: str) -> str:
        with client.messages.stream(**ask(text)) as events:
            answer_text = "".join(events.text_stream)
            events.get_final_message()
        return answer_text

    async def ainvoke(text: str) -> str:
        return text_of(await aclient.messages.create(**ask(text)))

    async def astream(text: str) -> str:
        async with aclient.messages.stream(**ask(text)) as events:
            answer_text = "".join([piece async for piece in events.text_stream])
            await events.get_final_message()
        return answer_text

    return {"invoke": invoke, "stream": stream, "ainvoke": ainvoke, "astream": astream}


def ways_of(model: Any) -> Ways:
    """LangChain's four, which are foldline's too."""

    async def ainvoke(text: str) -> str:
        return str((await model.ainvoke(text)).text)

    async def astream(text: str) -> str:
        return "".join([str(chunk.text) async for chunk in model.astream(text)])

    return {
        "invoke": lambda text: str(model.invoke(text).text),
        "stream": lambda text: "".join(str(chunk.text) for chunk in model.stream(text)),
        "ainvoke": ainvoke,
        "astream": astream,
    }


def litellm_client(base: str, **fields: Any) -> Ways:
    import litellm

    litellm.suppress_debug_info = True
    settings = {"model": "openai/m", "api_base": f"{base}/v1", "api_key": "k", **fields}

    def ask(text: str) -> dict[str, Any]:
        return {**settings, "messages": [{"role": "user", "content": text}]}

    def stream(text: str) -> str:
        chunks = litellm.completion(**ask(text), stream=True)
        return "".join(piece_of(chunk) for chunk in chunks)

    async def ainvoke(text: str) -> str:
        return text_of(await litellm.acompletion(**ask(text)))

    async def astream(text: str) -> str:
        answer_text = ""
        async for chunk in await litellm.acompletion(**ask(text), stream=True):
            answer_text += piece_of(chunk)
        return answer_text

    def invoke(text: str) -> Any:
        return text_of(litellm.completion(**ask(text)))

    return {"invoke": invoke, "stream": stream, "ainvoke": ainvoke, "astream": astream}


def pydantic_ai_client(base: str, **fields: Any) -> Ways:
    agent = pydantic_ai_agent(base, **fields)

    async def ainvoke(text: str) -> str:
        return str((await agent.run(text)).output)

    async def astream(text: str) -> str:
        async with agent.run_stream(text) as result:
            return str(await result.get_output())

    def stream(text: str) -> str:
        return str(LOOP.run_until_complete(astream(text)))

    def invoke(text: str) -> str:
        return str(agent.run_sync(text).output)

    return {"invoke": invoke, "stream": stream, "ainvoke": ainvoke, "astream": astream}


def pydantic_ai_agent(base: str, **fields: Any) -> Any:
    import openai
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="k", **fields)
    return Agent(OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client)))


def chat_model(name: str, base: str, **fields: Any) -> Any:
    """A chat model of LangChain or of foldline."""
    if name.startswith("foldline") and "timeout" in fields:
        from foldline.transports import Timeouts

        fields["timeout"] = Timeouts(connect=5, first_byte=TIMEOUT, idle=TIMEOUT)
    if name == "langchain-openai":
        from langchain_openai import ChatOpenAI
    elif name == "langchain-anthropic":
        from langchain_anthropic import ChatAnthropic as ChatOpenAI
    elif name == "foldline-anthropic":
        from foldline.providers.anthropic import ChatAnthropic as ChatOpenAI
    else:
        from foldline.providers.openai import ChatOpenAI
    is_chat = "anthropic" not in name
    place = {"base_url": f"{base}/v1" if is_chat else base}
    more = {"use_responses_api": False} if is_chat else {"max_tokens": 99}
    return ChatOpenAI(model="m", api_key="k", **place, **more, **fields)


def make(name: str, base: str, **fields: Any) -> Ways:
    makers: dict[str, Callable[..., Ways]] = {
        "openai": openai_client,
        "anthropic": anthropic_client,
        "litellm": litellm_client,
        "pydantic-ai": pydantic_ai_client,
    }
    if name in makers:
        return makers[name](base, **fields)
    return ways_of(chat_model(name, base, **fields))


def faults(name: str, jobs: list[dict[str, Any]]) -> None:
    retries = {"num_retries": 0} if name == "litellm" else {}
    for job in jobs:
        ways = make(name, job["base"], timeout=TIMEOUT, max_retries=0, **retries)
        for way in job["ways"]:
            outcome = "answer"
            try:
                result = ways[way]("Hi")
                if asyncio.iscoroutine(result):
                    LOOP.run_until_complete(asyncio.wait_for(result, 10))
            except BaseException as error:  # noqa: BLE001  that is the question
                outcome = f"{type(error).__module__}.{type(error).__name__}"
            print(json.dumps({"id": job["id"], "way": way, "outcome": outcome}), flush=True)


def loops(name: str, base: str) -> None:
    ask, right = make(name, base)["ainvoke"], 0

    async def ask_once(text: str) -> Any:
        return await ask(text)

    for turn in range(20):
        try:
            right += asyncio.run(ask_once(f"loop {turn}")) == f"loop {turn}"
        except Exception as error:  # noqa: BLE001  counted as wrong
            print(repr(error)[:200], file=sys.stderr)
    print(json.dumps({"right": right}))


def forks(name: str, base: str) -> None:
    # Without retries, which would hide an answer that another child read.
    retries = {"num_retries": 0} if name == "litellm" else {}
    ask = make(name, base, max_retries=0, **retries)["invoke"]
    assert ask("parent") == "parent"
    context = multiprocessing.get_context("fork")
    right = context.Value("i", 0)

    def work(number: int) -> None:
        pauses = random.Random(number)
        for turn in range(25):
            time.sleep(
                pauses.uniform(0, 0.004)
            )  # requests that cut into one another are seen by any server
            try:
                same = ask(f"{number} {turn}") == f"{number} {turn}"
            except Exception as error:  # noqa: BLE001  counted as wrong
                print(repr(error)[:200], file=sys.stderr)
                continue
            with right.get_lock():
                right.value += same

    children = [context.Process(target=work, args=(number,)) for number in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join(120)
        child.kill()
    print(json.dumps({"wrong": 100 - right.value}))


def calls(name: str, bases: list[str]) -> None:
    paths: list[Any] = []

    def add(path: str, force: bool = False) -> str:
        """Delete a folder."""
        paths.append(path)
        return "done"

    if name in ("openai", "anthropic", "litellm"):
        print(json.dumps({"ran": None}))
        return
    for base in bases:
        before = len(paths)
        try:
            _run_agent(name, base, add)
        except BaseException as error:  # noqa: BLE001  telling is right
            print(repr(error)[:200], file=sys.stderr)
        del paths[before + 1 :]  # an answer that repeats is executed again and again: count it once
    print(json.dumps({"ran": len(paths)}))


def _run_agent(name: str, base: str, add: Any) -> None:
    if name == "pydantic-ai":
        agent = pydantic_ai_agent(base, max_retries=0, timeout=TIMEOUT)
        agent.tool_plain(add)

        async def body() -> None:
            async with agent.run_stream("Hi") as result:
                await result.get_output()

        asyncio.run(asyncio.wait_for(body(), 10))
        return
    model = chat_model(name, base, max_retries=0, timeout=TIMEOUT, streaming=True)
    if name.startswith("foldline"):
        from foldline.agents import create_agent
    else:
        from langchain.agents import create_agent
    config = {"recursion_limit": 4}
    create_agent(model, [add]).invoke({"messages": [("human", "Hi")]}, config)


def main() -> None:
    name, order = sys.argv[1], json.load(sys.stdin)
    task = order.pop("task")
    if task == "version":
        package = {"foldline-anthropic": "foldline", "pydantic-ai": "pydantic-ai-slim"}.get(
            name, name
        )
        print(json.dumps({"version": importlib.metadata.version(package)}))
        return
    {"faults": faults, "loops": loops, "forks": forks, "calls": calls}[task](name, **order)


if __name__ == "__main__":
    main()
