"""`ConversationKGMemory`: facts of a conversation as triples (subject, relation, object), extracted by a model."""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic import BaseModel, Field

from foldline._run import Run
from foldline.memory._field_types import AnyModel, AnyPrompt
from foldline.memory.chat_memory import BaseChatMemory
from foldline.memory.entity import ENTITY_EXTRACTION_PROMPT, _names_in
from foldline.messages import BaseMessage, SystemMessage
from foldline.prompts import PromptTemplate

__all__ = [
    "ConversationKGMemory",
    "KnowledgeTriple",
]

TRIPLES_PROMPT = PromptTemplate.from_template(
    "Below are the last lines of a conversation and a new line. List the facts that the NEW line states, each as "
    "(subject | relation | object), one on a line, without anything else. Answer NONE where it states none.\n\n"
    "Lines before:\n{history}\n\nNew line:\nHuman: {input}\n\nFacts:"
)


class KnowledgeTriple(NamedTuple):
    """One fact."""

    subject: str
    predicate: str
    object_: str


class KnowledgeGraph(BaseModel):
    """A set of facts, looked up by subject."""

    triples: list[KnowledgeTriple] = Field(default_factory=list)

    def add_triple(self, triple: KnowledgeTriple) -> None:
        """Add a fact; one subject has one object per relation, so a new fact replaces the old one."""
        self.triples = [
            other
            for other in self.triples
            if (other.subject, other.predicate) != (triple.subject, triple.predicate)
        ] + [triple]

    def get_entity_knowledge(self, entity: str) -> list[str]:
        """Return the facts about an entity as sentences."""
        return [" ".join(triple) for triple in self.triples if triple.subject == entity]

    def clear(self) -> None:
        """Delete everything."""
        self.triples = []


class ConversationKGMemory(BaseChatMemory):
    """Stores facts, and returns those about the entities in the next input."""

    llm: AnyModel
    """Finds names and facts."""
    k: int = 2
    """How many of the last turns the model sees."""
    kg: KnowledgeGraph = Field(default_factory=KnowledgeGraph)
    entity_extraction_prompt: AnyPrompt = Field(default_factory=lambda: ENTITY_EXTRACTION_PROMPT)
    knowledge_extraction_prompt: AnyPrompt = Field(default_factory=lambda: TRIPLES_PROMPT)
    summary_message_cls: type[BaseMessage] = SystemMessage

    async def _load(self, inputs: dict[str, Any], run: Run) -> dict[str, Any]:
        key = self.input_key or self._only_key(
            "input", [name for name in inputs if name not in [self.memory_key, "stop"]]
        )
        names = _names_in(await self._answer(self.entity_extraction_prompt, inputs[key], run))
        facts_by_name = {name: self.kg.get_entity_knowledge(name) for name in names}
        texts = [
            f"On {name}: {'. '.join(facts)}." for name, facts in facts_by_name.items() if facts
        ]
        if self.return_messages:
            return {self.memory_key: [self.summary_message_cls(content=text) for text in texts]}
        return {self.memory_key: "\n".join(texts)}

    async def _save(self, inputs: dict[str, Any], outputs: dict[str, Any], run: Run) -> None:
        human, _ = self._input_and_output(inputs, outputs)
        answer = await self._answer(self.knowledge_extraction_prompt, human, run)
        await super()._save(inputs, outputs, run)
        for triple in _triples_in(answer):
            self.kg.add_triple(triple)

    async def _clear(self, run: Run) -> None:
        await super()._clear(run)
        self.kg.clear()

    async def _answer(self, prompt: AnyPrompt, user_input: object, run: Run) -> str:
        turns = (await self._messages(run))[-2 * self.k :]
        prompt_values = {"history": self._as_text(turns), "input": user_input}
        answer = await (prompt | self.llm)._step(prompt_values, run.child())
        return str(getattr(answer, "text", answer))


def _triples_in(answer: str) -> list[KnowledgeTriple]:
    triples = []
    for line in answer.splitlines():
        parts = [part.strip() for part in line.strip().strip("()").split("|")]
        if len(parts) == 3 and all(parts):
            triples.append(KnowledgeTriple(*parts))
    return triples
