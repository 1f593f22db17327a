"""`ContextualCompressionRetriever`: lets a compressor (a reranker, a filter) work on what another retriever found."""

from __future__ import annotations

from typing import Any

from foldline._run import Run
from foldline.documents.compressor import BaseDocumentCompressor
from foldline.retrievers.base import BaseRetriever, RetrieverLike

__all__ = ["ContextualCompressionRetriever"]


class ContextualCompressionRetriever(BaseRetriever):
    """Finds documents with one retriever and keeps what a compressor finds worth reading."""

    base_compressor: BaseDocumentCompressor
    """Makes the documents shorter or fewer."""
    base_retriever: RetrieverLike
    """Finds them."""

    async def _invoke_body(self, input: Any, run: Run) -> Any:
        found = await self.base_retriever._step(input, run.child())
        if not found:
            return []
        compressor = self.base_compressor
        compress = (
            compressor.compress_documents if run.io.blocking else compressor.acompress_documents
        )
        with run.current():
            kept = await run.io.call(compress, found, input, callbacks=run.child().manager)
        return list(kept)
