"""Example data for the studio: two days of traces, conversations, a thread that waits for an answer, a dataset.

`scripts/demo --studio` shows it, and the tests take their screenshots of it.
"""

from __future__ import annotations

import json
import random
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from foldline._config import RunnableConfig
from foldline._storage.database import Connection
from foldline._storage.open_database import open_database
from foldline.agents import create_agent
from foldline.chat_history import SQLiteChatMessageHistory
from foldline.exceptions import FoldlineError, ModelRateLimitError
from foldline.language_models._types import LanguageModelInput
from foldline.messages import AIMessage, HumanMessage, SystemMessage
from foldline.output_parsers import StrOutputParser
from foldline.prompts import ChatPromptTemplate
from foldline.runnables.base import Runnable
from foldline.studio._datasets import SCHEMA, score_answer
from foldline.studio._example_agent import make_booking_agent
from foldline.testing import Call, Fail, Reason, ScriptedChatModel
from foldline.tools import tool
from foldline.tracers.sqlite import SQLiteTracer
from foldline.tracers.store import TraceStore

__all__ = ["fill_example"]

PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAH0lEQVR4nGPgEdPFihhwSfBgl2Bg4MEhgUMHDonhIgEA"
    "Z7IDhTgr3NgAAAAASUVORK5CYII="
)
MODELS = (("openai", "gpt-5-mini"), ("anthropic", "claude-sonnet-4-5"), ("openai", "gpt-4o-mini"))
QUESTIONS = (
    (
        "Why is the sky blue?",
        "Because air scatters **blue** light more than red.\n\n- blue: ~450 nm\n- red: ~700 nm",
    ),
    (
        "Write a haiku about rain.",
        "Soft rain on the roof,\nthe gutter hums an old song,\nnight leans in to hear.",
    ),
    (
        "Sort these numbers in Python: 3, 1, 2",
        "```python\nnumbers = [3, 1, 2]\nprint(sorted(numbers))\n```\n\nPrints `[1, 2, 3]`.",
    ),
    (
        "Compare tea and coffee.",
        "| | tea | coffee |\n|---|---|---|\n| caffeine | 40 mg | 95 mg |\n| origin | China | Ethiopia |",
    ),
    (
        "لماذا السماء زرقاء؟",
        "السماء زرقاء لأن الهواء يشتت الضوء الأزرق أكثر من الأحمر.\n\n"
        "- الأزرق: موجات قصيرة\n- الأحمر: موجات طويلة",
    ),
    (
        "Was heißt »Zeitgeist« auf Englisch?",
        "*Spirit of the time*; English borrowed the word as it is.",
    ),
)
HOSTILE = (
    'Sure: <script>window.hacked = 1</script> <img src=x onerror="window.hacked = 2"> '
    "[click](javascript:window.hacked=3) ![p](https://tracker.example/p.png) \x1b[31mred\x1b[0m \x1b]0;title\x07"
)


@tool
def weather(city: str) -> str:
    """Return the weather of a city."""
    return json.dumps({"city": city, "sky": "clear", "degrees": 21})


@tool
def broken(city: str) -> str:
    """Fail, as tools do."""
    raise ValueError(f"no station in {city}")


class _Filler:
    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.chance = random.Random(seed)
        self.tracer = SQLiteTracer(path)
        self.ages: list[tuple[str, float]] = []

    def naming(
        self, provider: str, name: str
    ) -> tuple[dict[str, str], dict[str, Any], dict[str, str]]:
        """Return the metadata, the usage and the response metadata of a call of a real model."""
        input_tokens = self.chance.randint(40, 900)
        output_tokens = self.chance.randint(8, 400)
        usage = {
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens,
            "input_token_details": {"cache_read": input_tokens // 3},
        }
        metadata = {"ls_provider": provider, "ls_model_name": name}
        description = {"model_provider": provider, "model_name": name}
        return metadata, usage, description

    def config(self, **metadata: Any) -> RunnableConfig:
        """Return the config of one trace, which happened some time in the last two days."""
        from foldline.utils.uuid import uuid7  # noqa: PLC0415

        run_id = uuid7()
        self.ages.append((str(run_id), self.chance.uniform(60, 47 * 3600)))
        return {"callbacks": [self.tracer], "run_id": run_id, "metadata": metadata}

    def finish(self) -> None:
        """Spread the traces over two days, with the times, tokens and costs of real calls."""
        self.tracer.close()
        with closing(sqlite3.connect(self.path)) as connection, connection:
            for trace, age in self.ages:
                self._age(connection, trace, age)

    def _age(self, connection: sqlite3.Connection, trace: str, age: float) -> None:
        rows = connection.execute(
            "SELECT id, parent_run_id, run_type, end_time FROM foldline_runs "
            "WHERE trace_id = ? ORDER BY seq",
            (trace,),
        ).fetchall()
        children: dict[str | None, list[tuple[Any, ...]]] = {}
        for row in rows:
            children.setdefault(row[1], []).append(row)

        def place(row: tuple[Any, ...], start: float) -> float:
            """Set the times of a run and of the runs below it; return its end."""
            run_id, _, kind, end = row
            clock = start + 0.003
            for child in children.get(run_id, []):
                clock = place(child, clock)
            duration = (
                self.chance.uniform(0.4, 4.0) if kind == "llm" else self.chance.uniform(0.002, 0.1)
            )
            end_time = clock + 0.003 if run_id in children else start + duration
            first = start + duration * 0.25 if kind == "llm" else None
            connection.execute(
                "UPDATE foldline_runs SET start_time = ?, end_time = ?, first_token_time = ? WHERE id = ?",
                (start, None if end is None else end_time, first, run_id),
            )
            return end_time

        place(rows[0], time.time() - age)


def fill_example(folder: Path, *, count: int = 60, seed: int = 7) -> Path:
    """Make an example trace file, conversations and threads in a folder; return the trace file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "traces.db"
    filler = _Filler(path, seed)
    for number in range(count):
        question, answer = QUESTIONS[number % len(QUESTIONS)]
        provider, name = MODELS[number % len(MODELS)]
        _ask(filler, question, answer, provider, name, number)
    _agent(filler)
    _special(filler)
    filler.finish()
    _sessions(folder)
    _dataset(folder)
    _thread(folder)
    store = TraceStore(path)
    for place, trace in enumerate(store.find(limit=12)):
        if place % 3 == 0:
            store.add_score(trace.id, "helpful", 1.0 if place % 2 else 0.0, author="example")
    return path


def _answer(text: str, usage: dict[str, Any], description: dict[str, Any]) -> AIMessage:
    return AIMessage(text, usage_metadata=usage, response_metadata=description)


def _ask(
    filler: _Filler, question: str, answer: str, provider: str, name: str, number: int
) -> None:
    metadata, usage, description = filler.naming(provider, name)
    model = _fixed(_answer(answer, usage, description), metadata)
    prompt = ChatPromptTemplate(
        [("system", "You are a helpful assistant."), ("human", "{question}")]
    )
    chain = (prompt | model | StrOutputParser()).with_config(run_name="answer")
    users = ("ada", "grace", "alan")
    chain.invoke(
        {"question": question},
        filler.config(user_id=users[number % 3], thread_id=f"thread-{number % 5}"),
    )


def _fixed(message: AIMessage, metadata: dict[str, str]) -> Runnable[LanguageModelInput, AIMessage]:
    from foldline.language_models.fake_chat_models import GenericFakeChatModel  # noqa: PLC0415

    return GenericFakeChatModel(messages=iter([message])).with_config(metadata=metadata)


def _agent(filler: _Filler) -> None:
    for number, city in enumerate(("Paris", "Oslo", "Kyoto", "Lima")):
        script = [
            [Reason(f"I should look up {city}."), Call("weather", {"city": city})],
            f"It is clear in {city}, 21 degrees.",
        ]
        agent = create_agent(ScriptedChatModel(script=script), [weather], name="weather agent")
        agent.invoke(
            {"messages": f"What is the weather in {city}?"},
            filler.config(thread_id="weather", user_id="ada", session_id=f"session-{number % 2}"),
        )
    script = [[Call("broken", {"city": "Atlantis"})], "I could not find out."]
    agent = create_agent(ScriptedChatModel(script=script), [broken], name="weather agent")
    with suppress(FoldlineError, ValueError):
        agent.invoke({"messages": "And in Atlantis?"}, filler.config(thread_id="weather"))


def _special(filler: _Filler) -> None:
    """Add runs that are hard to display: failures, long texts, hostile texts, pictures."""
    slow = ModelRateLimitError("slow down", provider="openai", model="gpt-5-mini")
    failing = ScriptedChatModel(script=[["The beginning of an ", Fail(slow)]], max_retries=0)
    with suppress(FoldlineError):
        list(failing.stream("Tell me a long story.", filler.config(user_id="grace")))
    long = "\n".join(f"{number}. line {number} of a long answer" for number in range(1, 5_001))
    for question, text in (
        ("Count to five thousand.", long),
        ("Write some HTML, please.", HOSTILE),
        ("A" * 400 + " word", "Supercalifragilisticexpialidocious" * 12),
    ):
        _fixed(
            _answer(text, {"input_tokens": 20, "output_tokens": 90, "total_tokens": 110}, {}),
            filler.naming("local", "smollm2")[0],
        ).invoke(question, filler.config())
    picture = HumanMessage(
        [
            {"type": "text", "text": "What is in this picture?"},
            {"type": "image", "base64": PICTURE, "mime_type": "image/png"},
        ]
    )
    _fixed(
        _answer("A chessboard.", {"input_tokens": 99, "output_tokens": 4, "total_tokens": 103}, {}),
        filler.naming("openai", "gpt-5-mini")[0],
    ).invoke([SystemMessage("Describe pictures."), picture], filler.config(user_id="alan"))


def _sessions(folder: Path) -> None:
    history = SQLiteChatMessageHistory("holiday plans", folder / "traces.db")
    history.add_messages(
        [
            HumanMessage("Where should I go in May?"),
            AIMessage("Somewhere **mild**: Lisbon, Kyoto, or the Lake District."),
            HumanMessage("And by train from Paris?"),
            AIMessage("Lisbon takes two days; Genoa one.\n\n1. Paris – Milan\n2. Milan – Genoa"),
        ]
    )
    history.close()


def _dataset(folder: Path) -> None:
    """Add a dataset with the results of two models."""
    database = open_database(folder / "datasets.db", SCHEMA)

    def work(connection: Connection) -> None:
        for number, (question, answer) in enumerate(QUESTIONS[:3]):
            messages = json.dumps([{"role": "user", "content": question}])
            case = (f"case-{number}", "everyday questions", None, messages, answer, time.time())
            connection.run("INSERT INTO foldline_cases VALUES (?, ?, ?, ?, ?, ?)", case)
            for model, text in (
                ("gpt-5-mini", answer),
                ("gpt-4o-mini", answer[: len(answer) // 2]),
            ):
                scores = json.dumps(score_answer(text, answer))
                result = (
                    f"{model}-{number}", f"case-{number}", model, text, None, scores, 0.8 + number, 0.0004, time.time(),
                )  # fmt: skip
                connection.run(
                    "INSERT INTO foldline_results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", result
                )

    database.write(work)
    database.close()


def _thread(folder: Path) -> None:
    """Leave a thread of the booking agent where it asks a person."""
    agent = make_booking_agent(folder, [[Call("book", {"city": "Lisbon"})]])
    with SQLiteTracer(folder / "traces.db") as tracer:
        config = RunnableConfig(callbacks=[tracer], metadata={"user_id": "ada"})
        config["configurable"] = {"thread_id": "trip"}
        agent.invoke({"messages": "Book me a trip to Lisbon."}, config)
