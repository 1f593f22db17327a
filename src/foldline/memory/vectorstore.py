"""`VectorStoreRetrieverMemory`: stores every turn as a document and returns those that match the new input."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from pydantic import ConfigDict

from foldline._run import Run
from foldline.documents.base import Document
from foldline.exceptions import UsageError
from foldline.memory.base import BaseMemory
from foldline.runnables.base import Runnable

__all__ = ["VectorStoreRetrieverMemory"]


class _Store(Protocol):
    def add_documents(self, documents: list[Document], **kwargs: object) -> object: ...


class VectorStoreRetrieverMemory(BaseMemory):
    """Stores turns in a vector store."""

    retriever: Runnable[Any, Any]
    """A retriever on a vector store (`store.as_retriever()`)."""
    memory_key: str = "history"
    input_key: str | None = None
    """The input to search with."""
    return_docs: bool = False
    """Return documents instead of one text."""
    exclude_input_keys: tuple[str, ...] = ()
    """Inputs that are not stored."""

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    @property
    def memory_variables(self) -> list[str]:
        """The names this memory adds to a chain's inputs."""
        return [self.memory_key]

    def _query(self, inputs: dict[str, Any]) -> object:
        keys = [key for key in inputs if key not in (*self.memory_variables, "stop")]
        if self.input_key is None and len(keys) != 1:
            raise UsageError(
                f"VectorStoreRetrieverMemory does not know which input to search with of {keys}: set input_key"
            )
        return inputs[self.input_key or keys[0]]

    async def _load(self, inputs: dict[str, Any], run: Run) -> dict[str, Any]:
        documents = await self.retriever._step(self._query(inputs), run.child())
        if self.return_docs:
            return {self.memory_key: documents}
        return {self.memory_key: "\n".join(document.page_content for document in documents)}

    async def _save(self, inputs: dict[str, Any], outputs: dict[str, Any], run: Run) -> None:
        excluded_keys = {*self.memory_variables, *self.exclude_input_keys, "stop"}
        lines = [f"{key}: {value}" for key, value in inputs.items() if key not in excluded_keys]
        lines += [f"{key}: {value}" for key, value in outputs.items()]
        store: _Store = getattr(self.retriever, "vectorstore", self.retriever)  # type: ignore[arg-type]
        await run.io.call(store.add_documents, [Document(page_content="\n".join(lines))])

    async def _clear(self, run: Run) -> None:
        raise UsageError("a vector store is not cleared from here: delete its documents yourself")
