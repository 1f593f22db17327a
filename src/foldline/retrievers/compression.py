"""`ContextualCompressionRetriever`: applies a compressor (a reranker, a filter) to another retriever's documents."""

from __future__ import annotations

from foldline._run import Run
from foldline.documents.base import Document
from foldline.documents.compressor import BaseDocumentCompressor
from foldline.retrievers.base import BaseRetriever, RetrieverLike

__all__ = ["ContextualCompressionRetriever"]


class ContextualCompressionRetriever(BaseRetriever):
    """Finds documents with a retriever and keeps the parts that a compressor finds relevant."""

    base_compressor: BaseDocumentCompressor
    """Makes the documents shorter or fewer."""
    base_retriever: RetrieverLike
    """Finds the documents."""

    async def _invoke_body(self, input: str, run: Run) -> list[Document]:
        documents = await self.base_retriever._step(input, run.child())
        if not documents:
            return []
        compressor = self.base_compressor
        compress = (
            compressor.compress_documents if run.io.blocking else compressor.acompress_documents
        )
        with run.current():
            compressed = await run.io.call(
                compress, documents, input, callbacks=run.child().manager
            )
        return list(compressed)
