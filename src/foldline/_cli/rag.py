"""`foldline index`, `ask`, `similar` and `embed`: search by meaning, in one SQLite file.

The file holds the vectors and the records of indexed documents; indexing again embeds only what has changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foldline._cli import places
from foldline._cli.chat import open_log, with_piped
from foldline._cli.choose import (
    choose_model,
    own_object,
    prepare,
    prepare_encoder,
    read_options,
)
from foldline._cli.exchange import ChatExchange
from foldline._cli.keys import use_stored_keys
from foldline._cli.logs import is_logging
from foldline._cli.settings import read_settings, write_settings
from foldline._cli.shows import NoShow, TextShow
from foldline._cli.terminal import echo, note, readable, table
from foldline.document_loaders import DirectoryLoader, FileLoader, WebBaseLoader
from foldline.documents import Document, citation_messages, citations
from foldline.exceptions import UsageError
from foldline.indexing import SQLiteRecordManager, index as index_documents
from foldline.text_splitters import RecursiveCharacterTextSplitter
from foldline.utils.progress import Progress
from foldline.utils.strings import count_of, suggestion
from foldline.vectorstores import SQLiteVectorStore

if TYPE_CHECKING:
    from foldline.document_loaders.base import BaseLoader
    from foldline.embeddings.base import Embeddings

__all__ = ["ask", "ask_logged", "embed", "embed_piped", "index", "similar"]

CHUNK, OVERLAP = 1000, 100
"""Characters of a piece, and of its overlap with the next: MiniLM reads no more of a text."""
BATCH = 16
"""Pieces embedded between two updates of the progress bar."""
ENCODERS = {
    "local": "foldline.providers.local:LocalEmbeddings",
    "openai": "foldline.providers.openai:OpenAIEmbeddings",
    "google": "foldline.providers.google:GoogleGenerativeAIEmbeddings",
    "google_genai": "foldline.providers.google:GoogleGenerativeAIEmbeddings",
    "bedrock": "foldline.providers.bedrock:BedrockEmbeddings",
}
"""Provider -> its embeddings."""
LOCAL = "local:minilm-l6"


def _encoder(spec: str) -> Embeddings:
    use_stored_keys()
    provider, colon, model = spec.partition(":")
    if provider == "py":
        encoder: Any = own_object(model, "-m py:")
        is_ready = hasattr(encoder, "embed_query") and not isinstance(encoder, type)
        embeddings: Embeddings = encoder if is_ready else encoder()
        return embeddings
    if provider not in ENCODERS:
        raise UsageError(
            f"there are no embeddings of {provider!r}{suggestion(provider, ENCODERS)}: write local, openai:MODEL, "
            "google:MODEL or bedrock:MODEL"
        )
    if provider == "local":
        prepare_encoder(model or "minilm-l6")
    module, _, name = ENCODERS[provider].partition(":")
    kind: type[Embeddings] = getattr(import_module(module), name)
    return kind(**({"model": model} if colon and model else {}))


def _file() -> Path:
    return places.data_dir() / "index.db"


@contextmanager
def _open_index(name: str, encoder: str | None = None) -> Iterator[tuple[SQLiteVectorStore, str]]:
    """Open an index with its embeddings."""
    indexes = dict(read_settings().get("indexes") or {})
    if name not in indexes and encoder is None:
        names = ", ".join(indexes) or "none yet"
        raise UsageError(
            f"there is no index {name!r}{suggestion(name, indexes)} (there is: {names}): "
            "foldline index FOLDER makes one"
        )
    spec = indexes.get(name) or encoder or LOCAL
    if encoder is not None and encoder != spec:
        raise UsageError(
            f"the index {name!r} was made with {spec}; vectors of two models cannot be compared: choose another --name"
        )
    store = SQLiteVectorStore(_encoder(spec), places.make_folder_of(_file()), collection=name)
    try:
        yield store, spec
    finally:
        store.close()


# -- index


def index(
    paths: Sequence[str],
    *,
    name: str,
    model: str | None,
    glob: Sequence[str],
    exclude: Sequence[str],
    as_json: bool,
) -> int:
    """Add files, folders and web pages to an index, and delete what is no longer there."""
    if not paths:
        return _list(as_json=as_json)
    indexes = dict(read_settings().get("indexes") or {})
    spec = model or indexes.get(name) or LOCAL
    with _open_index(name, spec) as (store, _):
        write_settings(indexes={**indexes, name: spec})
        pieces, failures = _pieces(paths, glob, exclude)
        records = SQLiteRecordManager(f"index:{name}", _file())
        with Progress(len(pieces), "embedding") as progress:
            result = index_documents(
                pieces,
                records,
                store,
                cleanup="scoped_full",
                source_id_key=_root_of(paths),
                batch_size=BATCH,
                progress=lambda done, total: progress.update(done),
            )
    if as_json:
        echo(json.dumps({**result, "index": name, "failed": failures}, ensure_ascii=False))
    else:
        for failure in failures:
            note(f"left out: {failure}", style="red")
        echo(
            f"{name}: {count_of(result['num_added'], 'piece')} added, {result['num_skipped']} unchanged, "
            f"{result['num_deleted']} deleted, {count_of(len(failures), 'file')} left out"
        )
    return 0


def _root_of(paths: Sequence[str]) -> Callable[[Document], str]:
    """Return a function that names the path that a document is under; documents missing there are deleted."""
    roots = [path if "://" in path else str(Path(path).expanduser().resolve()) for path in paths]

    def root(document: Document) -> str:
        source = str(document.metadata["source"])
        return next(
            (
                root_path
                for root_path in roots
                if source == root_path or source.startswith(root_path)
            ),
            source,
        )

    return root


def _pieces(
    paths: Sequence[str], glob: Sequence[str], exclude: Sequence[str]
) -> tuple[list[Document], list[str]]:
    documents: list[Document] = []
    failures: list[str] = []
    for path in paths:
        loader = _loader(path, glob, exclude)
        documents += loader.load()
        failures += [str(failure) for failure in getattr(loader, "errors", ())]
    splitter = RecursiveCharacterTextSplitter(chunk_size=CHUNK, chunk_overlap=OVERLAP)
    pieces = [piece for piece in splitter.split_documents(documents) if piece.page_content.strip()]
    return [_with_json_metadata(piece) for piece in pieces], failures


def _loader(path: str, glob: Sequence[str], exclude: Sequence[str]) -> BaseLoader:
    if "://" in path:
        return WebBaseLoader(path, continue_on_failure=True)
    place = Path(path).expanduser().resolve()
    if place.is_dir():
        return DirectoryLoader(
            place,
            list(glob) or "**/[!.]*",
            exclude=list(exclude),
            show_progress=True,
            silent_errors=True,  # they are listed at the end
        )
    if not place.exists():
        raise UsageError(f"{place}: there is no such file or folder: check the path")
    return FileLoader(place)


def _with_json_metadata(piece: Document) -> Document:
    """Return a piece with metadata that JSON can hold; a user's loader may put in anything."""
    metadata = json.loads(json.dumps(piece.metadata, default=str))
    return Document(piece.page_content, metadata=metadata)


def _list(*, as_json: bool) -> int:
    indexes = read_settings().get("indexes") or {}
    if as_json:
        echo(json.dumps(indexes, ensure_ascii=False))
    elif indexes:
        table(("index", "embeddings"), sorted(indexes.items()))
    else:
        note("no indexes; foldline index FOLDER makes one")
    return 0


# -- what is in it


def similar(text: str, *, name: str, count: int, as_json: bool) -> int:
    """Show the pieces nearest to a text."""
    with _open_index(name) as (store, _):
        matches = store.similarity_search_with_score(text, k=count)
    if as_json:
        rows = [
            {"score": score, "text": piece.page_content, **piece.metadata}
            for piece, score in matches
        ]
        echo(json.dumps(rows, ensure_ascii=False))
        return 0
    for document, score in matches:
        echo(f"{score:.3f}  {document.metadata.get('source', '')}", style="bold")
        echo(f"{' '.join(document.page_content.split())[:300]}\n")
    if not matches:
        note(f"the index {name!r} is empty")
    return 0


def ask(
    question: str,
    *,
    model: str | None,
    name: str,
    count: int,
    options: Sequence[str],
    only_sources: bool,
    as_json: bool,
    callbacks: Sequence[Any],
) -> int:
    """Answer a question from an index, with its sources."""
    if not question.strip():
        raise UsageError('there is nothing to ask: foldline ask "a question"')
    with _open_index(name) as (store, _):
        documents = store.similarity_search(question, k=count)
    if not documents:
        raise UsageError(f"the index {name!r} is empty: foldline index FOLDER fills it")
    if only_sources:
        return similar(question, name=name, count=count, as_json=as_json)
    chat_model = choose_model(model, read_options(options))
    prepare(chat_model)
    exchange = ChatExchange(
        chat_model,
        [],
        NoShow() if as_json else TextShow(),
        run_name="foldline ask",
        metadata={"question": question},
    )
    answer = citations(exchange.run(citation_messages(question, documents), callbacks), documents)
    if as_json:
        sources = [
            {"number": source.number, "title": source.title, "url": source.url}
            for source in answer.sources
        ]
        blocks = [
            {"text": block.text, "sources": [source.number for source in block.sources]}
            for block in answer.blocks
        ]
        echo(
            json.dumps(
                {"answer": answer.text, "blocks": blocks, "sources": sources}, ensure_ascii=False
            )
        )
        return 0
    sources_named = answer.sources
    echo()
    for number, document in enumerate(documents, 1):
        mark = "*" if any(source.number == number for source in sources_named) else " "
        echo(f"{mark}[{number}] {_source_label(document)}", style=None if mark == "*" else "dim")
    if not sources_named:
        note("(the answer names no source; the model got those above)")
    return 0


def _source_label(document: Document) -> str:
    source = str(document.metadata.get("source", ""))
    if "page_label" in document.metadata:
        source += f", page {document.metadata['page_label']}"
    return source


def embed(text: str, *, model: str | None) -> int:
    """Print the vector of a text as JSON."""
    if not text:
        raise UsageError('there is nothing to embed: foldline embed "a text", or pipe one in')
    echo(json.dumps(_encoder(model or LOCAL).embed_query(text)))
    return 0


# -- as commands


def ask_logged(question: str, *, no_log: bool, **options: Any) -> int:
    """Answer a question from an index, logged."""
    with ExitStack() as stack:
        callbacks = open_log(stack, is_wanted=not no_log and is_logging())
        return ask(readable(question), callbacks=callbacks, **options)


def embed_piped(text: str, *, model: str | None) -> int:
    """Print the vector of a text, or of the piped input."""
    return embed(readable(text) if text else with_piped(""), model=model)
