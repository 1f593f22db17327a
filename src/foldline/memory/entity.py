"""`ConversationEntityMemory`: what was said about each person, place and thing, summed up by a model.

Summaries are kept in an entity store: in memory, or in any `BaseStore` by `StoredEntities`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import islice
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from foldline._run import Run
from foldline.memory._kinds import AnyModel, AnyPrompt
from foldline.memory.chat_memory import BaseChatMemory
from foldline.prompts import PromptTemplate
from foldline.stores import BaseStore

__all__ = [
    "ENTITY_EXTRACTION_PROMPT",
    "ENTITY_SUMMARY_PROMPT",
    "BaseEntityStore",
    "ConversationEntityMemory",
    "InMemoryEntityStore",
    "StoredEntities",
]

NOTHING_NAMED = "NONE"
ENTITY_EXTRACTION_PROMPT = PromptTemplate.from_template(
    "Below are the last lines of a conversation and a new line. List the proper names (people, places, organisations, "
    "things) in the NEW line, also those that it means by a word such as 'he' or 'there', as the lines before say. "
    "Answer with the names alone, separated by commas, or with NONE.\n\n"
    "Lines before:\n{history}\n\nNew line:\nHuman: {input}\n\nNames:"
)
ENTITY_SUMMARY_PROMPT = PromptTemplate.from_template(
    "Below are what is known of {entity}, and the last lines of a conversation. Write what is now known of {entity} in "
    "one short paragraph. Use only facts from the lines; where they say nothing new, repeat what is known.\n\n"
    "Known of {entity}:\n{summary}\n\nLines:\n{history}\nHuman: {input}\n\nNow known of {entity}:"
)


class BaseEntityStore(BaseModel, ABC):
    """Where summaries are kept, by the entity's name."""

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    @abstractmethod
    def get(self, key: str, default: str | None = None) -> str | None:
        """Return what is known of an entity."""

    @abstractmethod
    def set(self, key: str, value: str | None) -> None:
        """Keep what is known of an entity; None forgets it."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Forget an entity."""

    @abstractmethod
    def exists(self, key: str) -> bool:
        """Return whether anything is known of an entity."""

    @abstractmethod
    def clear(self) -> None:
        """Forget everything."""


class InMemoryEntityStore(BaseEntityStore):
    """Keeps summaries in this process."""

    store: dict[str, str | None] = Field(default_factory=dict)

    def get(self, key: str, default: str | None = None) -> str | None:
        """Return what is known of an entity."""
        return self.store.get(key, default)

    def set(self, key: str, value: str | None) -> None:
        """Keep what is known of an entity; None forgets it."""
        if value is None:
            self.delete(key)
        else:
            self.store[key] = value

    def delete(self, key: str) -> None:
        """Forget an entity."""
        self.store.pop(key, None)

    def exists(self, key: str) -> bool:
        """Return whether anything is known of an entity."""
        return key in self.store

    def clear(self) -> None:
        """Forget everything."""
        self.store.clear()


class StoredEntities(BaseEntityStore):
    """Keeps summaries in a store of bytes: a file, SQLite, Redis."""

    store: Any
    """A `BaseStore[str, bytes]`."""
    prefix: str = "entity:"
    """Stands before every name, so that one store may serve others too."""

    def get(self, key: str, default: str | None = None) -> str | None:
        """Return what is known of an entity."""
        (found,) = self._bytes.mget([self.prefix + key])
        return default if found is None else found.decode()

    def set(self, key: str, value: str | None) -> None:
        """Keep what is known of an entity; None forgets it."""
        if value is None:
            self.delete(key)
        else:
            self._bytes.mset([(self.prefix + key, value.encode())])

    def delete(self, key: str) -> None:
        """Forget an entity."""
        self._bytes.mdelete([self.prefix + key])

    def exists(self, key: str) -> bool:
        """Return whether anything is known of an entity."""
        return self.get(key) is not None

    def clear(self) -> None:
        """Forget everything."""
        self._bytes.mdelete(list(self._bytes.yield_keys(prefix=self.prefix)))

    @property
    def _bytes(self) -> BaseStore[str, bytes]:
        store: BaseStore[str, bytes] = self.store
        return store


class ConversationEntityMemory(BaseChatMemory):
    """Remembers what was said about each entity, and the last turns of the conversation.

    ```python
    from foldline.language_models import FakeListChatModel
    from foldline.memory import ConversationEntityMemory

    model = FakeListChatModel(responses=["Ann", "Ann paints.", "Ann"])
    memory = ConversationEntityMemory(llm=model)
    memory.load_memory_variables({"input": "Ann paints"})
    memory.save_context({"input": "Ann paints"}, {"output": "Nice!"})
    print(memory.load_memory_variables({"input": "Who is Ann?"})["entities"])
    #> {'Ann': 'Ann paints.'}
    ```
    """

    llm: AnyModel
    """Finds names and writes summaries."""
    entity_extraction_prompt: AnyPrompt = Field(default_factory=lambda: ENTITY_EXTRACTION_PROMPT)
    entity_summarization_prompt: AnyPrompt = Field(default_factory=lambda: ENTITY_SUMMARY_PROMPT)
    entity_cache: list[str] = Field(default_factory=list)
    """The entities of the last input: those that the next turn says something about."""
    k: int = 3
    """How many of the last turns are given."""
    chat_history_key: str = "history"
    entities_key: str = "entities"
    entity_store: BaseEntityStore = Field(default_factory=InMemoryEntityStore)

    @property
    def memory_variables(self) -> list[str]:
        """The names this memory adds to a chain's inputs."""
        return [self.entities_key, self.chat_history_key]

    async def _load(self, inputs: dict[str, Any], run: Run) -> dict[str, Any]:
        turns = (await self._messages(run))[-2 * self.k :]
        key = self.input_key or self._only(
            "input", [name for name in inputs if name not in [*self.memory_variables, "stop"]]
        )
        asked = {"history": self._as_text(turns), "input": inputs[key]}
        answer = await self._answer(self.entity_extraction_prompt, asked, run)
        names = _names_in(answer)
        self.entity_cache = names
        known = {}
        for name in names:
            known[name] = await run.io.call(self.entity_store.get, name, "") or ""
        return {self.chat_history_key: self._format_messages(turns), self.entities_key: known}

    async def _save(self, inputs: dict[str, Any], outputs: dict[str, Any], run: Run) -> None:
        await super()._save(inputs, outputs, run)
        turns = (await self._messages(run))[-2 * self.k :]
        human, _ = self._sides(inputs, outputs)
        for name in self.entity_cache:
            known = await run.io.call(self.entity_store.get, name, "") or ""
            asked = {
                "entity": name,
                "summary": known,
                "history": self._as_text(turns),
                "input": human,
            }
            summary = await self._answer(self.entity_summarization_prompt, asked, run)
            await run.io.call(self.entity_store.set, name, summary.strip())

    async def _clear(self, run: Run) -> None:
        await super()._clear(run)
        self.entity_cache = []
        await run.io.call(self.entity_store.clear)

    async def _answer(self, prompt: AnyPrompt, asked: dict[str, Any], run: Run) -> str:
        answer = await (prompt | self.llm)._step(
            {name: asked[name] for name in prompt.input_variables}, run.child()
        )
        return str(getattr(answer, "text", answer))


def _names_in(answer: str) -> list[str]:
    """Return the names of a list with commas, each once; a model that found none says so."""
    text = answer.strip()
    if text.upper().rstrip(".") == NOTHING_NAMED:
        return []
    names = dict.fromkeys(name.strip() for name in text.split(",") if name.strip())
    return list(islice(names, 100))
