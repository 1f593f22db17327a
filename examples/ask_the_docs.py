"""Ask foldline's own documentation, offline: the pages are cut up, embedded and searched in this process.

    python examples/ask_the_docs.py "How do I stream an answer?"

The index is kept in a SQLite file; a second run embeds only the pages that have changed. What is found by meaning is
fused with what is found by words. The answer comes from SmolLM2, a real model but a very small one: trust the sources
that are printed below it more than what it says. `--sources` prints only those.
"""

import argparse
import tempfile
from pathlib import Path

from foldline.documents import Document
from foldline.indexing import SQLiteRecordManager, index
from foldline.providers.local import ChatLlamaCpp, LocalEmbeddings
from foldline.retrievers import BM25Retriever, EnsembleRetriever
from foldline.runnables import Runnable, RunnableLambda, RunnablePassthrough
from foldline.text_splitters import MarkdownHeaderTextSplitter, MarkdownTextSplitter
from foldline.vectorstores import SQLiteVectorStore

PAGES = Path(__file__).parent.parent / "docs"
FOLDER = Path(tempfile.gettempdir()) / "foldline-ask-the-docs"
HEADINGS = [("#", "page"), ("##", "section"), ("###", "part")]
ASK = """Use only the text below to answer the question, in one or two sentences.

{context}

Question: {question}"""


def read_pages(folder: Path) -> list[Document]:
    """Cut every page at its headings, and long sections further; each piece knows where it is from."""
    by_heading = MarkdownHeaderTextSplitter(HEADINGS)
    smaller = MarkdownTextSplitter(chunk_size=900, chunk_overlap=100)
    pieces = []
    for page in sorted(folder.glob("*.md")):
        for section in by_heading.split_text(page.read_text(encoding="utf-8")):
            heading = " > ".join(section.metadata.values())
            metadata = {"source": page.name, "heading": heading}
            pieces += [
                Document(f"{heading}\n{text}", metadata=metadata)
                for text in smaller.split_text(section.page_content)
            ]
    return pieces


def make_retriever(pages: Path, folder: Path) -> Runnable[str, list[Document]]:
    """Bring the pages into the store, and search it by meaning and by words."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = read_pages(pages)
    store = SQLiteVectorStore(LocalEmbeddings(), folder / "vectors.db")
    records = SQLiteRecordManager("docs", folder / "records.db")
    result = index(pieces, records, store, cleanup="full", source_id_key="source")
    print(f"{len(pieces)} pieces: {result['num_added']} new, {result['num_deleted']} gone\n")
    by_meaning = store.as_retriever(search_kwargs={"k": 6})
    by_words = BM25Retriever.from_documents(pieces, k=6)
    ensemble = EnsembleRetriever(retrievers=[by_meaning, by_words], weights=[0.6, 0.4])
    return ensemble | RunnableLambda(lambda documents: documents[:3], name="best")


def make_prompt(inputs: dict[str, object]) -> str:
    """Put what was found before the question."""
    documents = inputs["documents"]
    assert isinstance(documents, list)
    context = "\n\n".join(document.page_content for document in documents)
    return ASK.replace("{context}", context).replace("{question}", str(inputs["question"]))


def main() -> None:
    """Answer one question."""
    parser = argparse.ArgumentParser(description="Ask foldline's documentation.")
    parser.add_argument("question", nargs="?", default="How do I stream an answer?")
    parser.add_argument("--sources", action="store_true", help="print only where to read")
    parser.add_argument("--pages", type=Path, default=PAGES, help="a folder of Markdown files")
    parser.add_argument("--index", type=Path, default=FOLDER, help="where the index is kept")
    options = parser.parse_args()
    retriever = make_retriever(options.pages, options.index)
    looked_up = {"question": RunnablePassthrough(), "documents": retriever}
    chain = RunnablePassthrough.assign(prompt=RunnableLambda(make_prompt))
    result = (RunnableLambda(lambda question: question) | looked_up | chain).invoke(
        options.question
    )
    if not options.sources:
        model = ChatLlamaCpp(max_tokens=120, temperature=0)
        for chunk in model.stream(result["prompt"]):
            print(chunk.text, end="", flush=True)
        print("\n")
    for document in result["documents"]:
        print(f"- {document.metadata['source']}: {document.metadata['heading']}")


if __name__ == "__main__":
    main()
