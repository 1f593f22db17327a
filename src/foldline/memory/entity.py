"""`ConversationEntityMemory`: a model's summaries of each person, place and thing in a conversation.

An entity store holds the summaries: in memory, or in any `BaseStore` with `StoredEntities`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import islice
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from foldline._run import Run
from foldline.memory._field_types import AnyModel, AnyPrompt
from foldline.memory.chat_memory import BaseChatMemory
from foldline.prompts import PromptTemplate
from foldline.stores import BaseStore

__all__ = [
    "ENTITY_EXTRACTION_PROMPT",
    "BaseEntityStore",
    "ConversationEntityMemory",
    "InMemoryEntityStore",
    "StoredEntities",
]

NO_NAMES = "NONE"
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
    """Stores summaries by the name of the entity."""

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    @abstractmethod
    def get(self, key: str, default: str | None = None) -> str | None:
        """Return the summary of an entity."""

    @abstractmethod
    def set(self, key: str, value: str | None) -> None:
        """Store the summary of an entity; None deletes it."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Delete an entity."""

    @abstractmethod
    def exists(self, key: str) -> bool:
        """Whether there is a summary of an entity."""

    @abstractmethod
    def clear(self) -> None:
        """Delete everything."""


class InMemoryEntityStore(BaseEntityStore):
    """Stores summaries in memory."""

    store: dict[str, str | None] = Field(default_factory=dict)

    def get(self, key: str, default: str | None = None) -> str | None:
        """Return the summary of an entity."""
        return self.store.get(key, default)

    def set(self, key: str, value: str | None) -> None:
        """Store the summary of an entity; None deletes it."""
        if value is None:
            self.delete(key)
        else:
            self.store[key] = value

    def delete(self, key: str) -> None:
        """Delete an entity."""
        self.store.pop(key, None)

    def exists(self, key: str) -> bool:
        """Whether there is a summary of an entity."""
        return key in self.store

    def clear(self) -> None:
        """Delete everything."""
        self.store.clear()


class StoredEntities(BaseEntityStore):
    """Stores summaries in a byte store: a file, SQLite, Redis."""

    store: Any
    """A `BaseStore[str, bytes]`."""
    prefix: str = "entity:"
    """The prefix of every key, so that the store can be shared."""

    def get(self, key: str, default: str | None = None) -> str | None:
        """Return the summary of an entity."""
        (summary,) = self._byte_store.mget([self.prefix + key])
        return default if summary is None else summary.decode()

    def set(self, key: str, value: str | None) -> None:
        """Store the summary of an entity; None deletes it."""
        if value is None:
            self.delete(key)
        else:
            self._byte_store.mset([(self.prefix + key, value.encode())])

    def delete(self, key: str) -> None:
        """Delete an entity."""
        self._byte_store.mdelete([self.prefix + key])

    def exists(self, key: str) -> bool:
        """Whether there is a summary of an entity."""
        return self.get(key) is not None

    def clear(self) -> None:
        """Delete everything."""
        self._byte_store.mdelete(list(self._byte_store.yield_keys(prefix=self.prefix)))

    @property
    def _byte_store(self) -> BaseStore[str, bytes]:
        store: BaseStore[str, bytes] = self.store
        return store


class ConversationEntityMemory(BaseChatMemory):
    """Keeps a summary of each entity, and the last turns of the conversation.

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
    """The entities of the last input, whose summaries the next save updates."""
    k: int = 3
    """How many of the last turns are returned."""
    chat_history_key: str = "history"
    entities_key: str = "entities"
    entity_store: BaseEntityStore = Field(default_factory=InMemoryEntityStore)

    @property
    def memory_variables(self) -> list[str]:
        """The names this memory adds to a chain's inputs."""
        return [self.entities_key, self.chat_history_key]

    async def _load(self, inputs: dict[str, Any], run: Run) -> dict[str, Any]:
        turns = (await self._messages(run))[-2 * self.k :]
        key = self.input_key or self._only_key(
            "input", [name for name in inputs if name not in [*self.memory_variables, "stop"]]
        )
        prompt_values = {"history": self._as_text(turns), "input": inputs[key]}
        answer = await self._answer(self.entity_extraction_prompt, prompt_values, run)
        names = _names_in(answer)
        self.entity_cache = names
        summaries = {}
        for name in names:
            summaries[name] = await run.io.call(self.entity_store.get, name, "") or ""
        return {self.chat_history_key: self._format_messages(turns), self.entities_key: summaries}

    async def _save(self, inputs: dict[str, Any], outputs: dict[str, Any], run: Run) -> None:
        await super()._save(inputs, outputs, run)
        turns = (await self._messages(run))[-2 * self.k :]
        human, _ = self._input_and_output(inputs, outputs)
        for name in self.entity_cache:
            old_summary = await run.io.call(self.entity_store.get, name, "") or ""
            prompt_values = {
                "entity": name,
                "summary": old_summary,
                "history": self._as_text(turns),
                "input": human,
            }
            summary = await self._answer(self.entity_summarization_prompt, prompt_values, run)
            await run.io.call(self.entity_store.set, name, summary.strip())

    async def _clear(self, run: Run) -> None:
        await super()._clear(run)
        self.entity_cache = []
        await run.io.call(self.entity_store.clear)

    async def _answer(self, prompt: AnyPrompt, prompt_values: dict[str, Any], run: Run) -> str:
        answer = await (prompt | self.llm)._step(
            {name: prompt_values[name] for name in prompt.input_variables}, run.child()
        )
        return str(getattr(answer, "text", answer))


def _names_in(answer: str) -> list[str]:
    """Return the names in a comma-separated list, each once; none if the model answered NONE."""
    text = answer.strip()
    if text.upper().rstrip(".") == NO_NAMES:
        return []
    names = dict.fromkeys(name.strip() for name in text.split(",") if name.strip())
    return list(islice(names, 100))
