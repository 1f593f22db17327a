"""llama.cpp in this process: a model is loaded once and shared by concurrent callers.

`LocalRuntime.of(path, settings)` returns this process's server for a file and its settings. It is the `Server` of the
`xllamacpp` wheel, imported on first use. Requests and answers are the JSON of chat completions; `complete` returns a
`ChunkStream`. The server also listens on loopback, protected by a random key, because counting tokens and saving a
prompt's state are only available over HTTP.

A forked child inherits memory but no threads: it abandons the parent's servers (destroying them would wait for threads
that do not exist) and loads its own.
"""

from __future__ import annotations

import atexit
import ctypes
import http.client
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from foldline.exceptions import (
    ContextOverflowError,
    MissingExtraError,
    ModelError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    UsageError,
    status_error_class,
)
from foldline.providers._endpoint import Body
from foldline.providers._wire import dump_body
from foldline.providers.local._chunk_stream import ChunkStream, Emit, Lock, stop_all
from foldline.providers.local._tools import ArgumentFixer
from foldline.utils._short_repr import short_repr

Request = dict[str, Any]
Chunk = dict[str, Any]

PROVIDER = "local"
BATCH = 64
"""Prompt tokens between two checks for cancellation; 256 are no faster, 32 take 1.5 times as long."""
PROMPT_CACHE_MIB = 256
"""Memory for the prompts of idle slots, so that two conversations on one slot do not evict each other."""
MAX_THREADS = 8


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """How a model is loaded. Callers with equal settings share one server."""

    context: int = 8192
    """The maximum of prompt and answer tokens of each request."""
    slots: int = 2
    """How many requests are answered at the same time; others are queued."""
    threads: int | None = None
    """Threads of the computation; default: depends on the number of processors."""
    gpu_layers: int = 0
    """Layers on the GPU; -1 for all."""
    template: str | None = None
    """A chat template (Jinja) to use instead of the file's."""
    embedding: bool = False
    """Whether to serve embeddings instead of answers."""
    verbose: bool = False
    """Whether llama.cpp writes its log to stderr."""
    state_folder: Path | None = None
    """The folder for the saved state of prompts, if any."""

    def __post_init__(self) -> None:
        """Raise on values that make llama.cpp hang, or fail without a reason."""
        minimums = {
            "context": 1 if self.embedding else 0,
            "slots": 1,
            "threads": 1,
            "gpu_layers": -1,
        }
        for name, minimum in minimums.items():
            value = getattr(self, name)
            if value is not None and value < minimum:
                raise UsageError(f"{name} of a local model is at least {minimum}, not {value}")


class LocalRuntime:
    """One loaded model, created by `LocalRuntime.of`; safe to share between threads."""

    __repr__ = short_repr

    def __init__(self, path: Path, settings: RuntimeSettings) -> None:
        self.path = path
        self.settings = settings
        self.name: str = path.stem
        self.version: str = str(load_library().__version__)
        self._key = secrets.token_urlsafe(24)
        self._trained_context: int | None = None
        self._server = _start(path, settings, self._key, self.name)

    @classmethod
    def of(cls, path: str | Path, settings: RuntimeSettings | None = None) -> LocalRuntime:
        """Return this process's runtime of a file, loading it the first time."""
        key = (Path(path).expanduser().absolute(), settings or RuntimeSettings())
        with _table.lock:
            if key not in _table.loaded:
                _table.loaded[key] = cls(*key)
            return _table.loaded[key]

    @property
    def address(self) -> str:
        """The loopback URL of the HTTP server, without a path."""
        return str(self._server.listening_address)

    @property
    def api_key(self) -> str:
        """The bearer token of the HTTP server."""
        return self._key

    def complete(self, request: Request) -> ChunkStream[Chunk]:
        """Start an answer and return the stream of its chunks."""
        return ChunkStream(lambda emit: self.produce(request, emit))

    def produce(self, request: Request, emit: Emit[Chunk], *, is_chat: bool = True) -> None:
        """Answer a chat, or continue a text, in this thread; each chunk is passed to `emit` until it returns True."""
        handle = (
            self._server.handle_chat_completions if is_chat else self._server.handle_completions
        )
        body = {
            "stream_options": {"include_usage": True},
            **request,
            "stream": True,
            "return_progress": True,
        }
        failure: list[ModelError] = []
        fixer = ArgumentFixer()

        def on_chunk(chunk: Chunk) -> bool:
            if "error" in chunk:
                failure.append(decode_error(chunk["error"], self.name))
                return True
            is_answer = "prompt_progress" not in chunk or has_content(chunk)
            return emit(fixer.feed(chunk) if is_answer else None)

        try:
            handle(body, on_chunk)
        except ValueError as error:
            raise ModelInvalidRequestError(
                str(error), provider=PROVIDER, model=self.name, status=400
            ) from error
        except RuntimeError as error:
            raise decode_error({"code": 500, "message": str(error)}, self.name) from error
        if failure:
            raise failure[0]

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Return one normalised vector per text; requires `embedding=True`."""
        if not texts:
            return []
        try:
            answer = self._server.handle_embeddings({"input": [_as_utf8(text) for text in texts]})
        except (RuntimeError, ValueError) as error:
            raise decode_error({"code": 500, "message": str(error)}, self.name) from error
        if "error" in answer:
            raise decode_error(answer["error"], self.name)
        return [row["embedding"] for row in sorted(answer["data"], key=lambda row: row["index"])]

    @property
    def trained_context(self) -> int:
        """The context length that the model was trained with."""
        if self._trained_context is None:
            metadata = self.ask("/v1/models", None, "GET")["data"][0].get("meta") or {}
            self._trained_context = int(metadata.get("n_ctx_train") or self.settings.context)
        return self._trained_context

    def tokenize(self, text: str, *, add_special: bool = False) -> list[int]:
        """Return the tokens of a text."""
        tokens: list[int] = self.ask(
            "/tokenize", {"content": _as_utf8(text), "add_special": add_special}
        )["tokens"]
        return tokens

    def detokenize(self, tokens: list[int]) -> str:
        """Return the text of tokens."""
        return str(self.ask("/detokenize", {"tokens": tokens})["content"])

    def render(self, request: Request) -> str:
        """Return the prompt of a request: its messages and tools, rendered by the template."""
        return str(self.ask("/apply-template", request)["prompt"])

    def count_tokens(self, request: Request) -> int:
        """Return the token count of a request's prompt, template and tools included."""
        return len(self.tokenize(self.render(request)))

    def ask(self, path: str, body: Body | None = None, method: str = "POST") -> Any:  # noqa: ANN401  the server's JSON
        """Send a request to the HTTP server and return the JSON of its answer."""
        connection = http.client.HTTPConnection(self.address.removeprefix("http://"), timeout=60)
        try:
            headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
            connection.request(method, path, None if body is None else dump_body(body), headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ModelError(f"{path}: {error}", provider=PROVIDER, model=self.name) from error
        finally:
            connection.close()
        if response.status >= 400:
            raise decode_error(answer.get("error", {"code": response.status}), self.name)
        return answer

    def leak(self) -> None:
        """Leak the server: its destructor waits for its threads while holding the GIL, which they may need.

        Destroying it was seen to hang the process forever; a forked child does not even have the threads.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._server))


class _Table:
    """The runtimes of this process."""

    def __init__(self) -> None:
        self.loaded: dict[tuple[Path, RuntimeSettings], LocalRuntime] = {}
        self.lock = Lock()
        self.is_forked = False
        """Whether this process was forked from one that had a model loaded: llama.cpp cannot clean up here."""


_table = _Table()


def unload(path: str | Path | None = None) -> None:
    """Unload one model, or all; running answers are stopped. The memory is freed when the process ends."""
    stop_all()
    with _table.lock:
        resolved = None if path is None else Path(path).expanduser().absolute()
        for key in [key for key in _table.loaded if resolved in (None, key[0])]:
            _table.loaded.pop(key).leak()


def _reset_after_fork() -> None:
    for runtime in _table.loaded.values():
        runtime.leak()
    is_forked = _table.is_forked or bool(_table.loaded)
    if is_forked and not _table.is_forked:
        _skip_destructors_at_exit()
    _table.loaded, _table.is_forked = {}, is_forked
    _table.lock = Lock()  # the old one may be held by a thread that does not exist here


def _skip_destructors_at_exit() -> None:
    """End a forked child with `_exit`, after Python's shutdown and with its status.

    The destructor of a static object of llama.cpp waits for a thread that only the parent has. If the C library has no
    `on_exit` (only glibc has), a child forked after loading should end with `os._exit`, as multiprocessing does.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "on_exit"):
        library.on_exit(library._exit, None)


atexit.register(unload)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def decode_error(error: Mapping[str, Any], model: str) -> ModelError:
    """Return the exception for an error of the server."""
    status, message = int(error.get("code", 500)), str(error.get("message", "the model failed"))
    kind = status_error_class(status)
    if error.get("type") == "exceed_context_size_error" or "is too large to process" in message:
        kind, status = ContextOverflowError, 400
    return kind(message, provider=PROVIDER, model=model, status=status, code=error.get("type"))


def has_content(chunk: Chunk) -> bool:
    """Whether a chunk is part of the answer, and not only a progress report about the prompt.

    Progress reports are requested so that an answer can be stopped before its first token. They repeat the first delta;
    with a prefilled tool call, they also contain the name of the tool.
    """
    deltas = [choice.get("delta") or {} for choice in chunk.get("choices") or ()]
    texts = [choice.get("text") for choice in chunk.get("choices") or ()]
    return any(texts) or any(
        value for delta in deltas for key, value in delta.items() if key != "role"
    )


def _as_utf8(text: str) -> str:
    """Return a text that can be encoded as UTF-8: lone surrogates become "?"."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def default_threads() -> int:
    """Return the number of usable processors minus one for the program.

    The threads of a computation busy-wait for each other: with one more thread than free processors, 40 tokens per
    second become 5.
    """
    usable = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    )
    return max(1, min(MAX_THREADS, usable - 1))


def load_library() -> ModuleType:
    """Import xllamacpp; the error explains how to install it."""
    try:
        import xllamacpp  # noqa: PLC0415  an extra, and 50 ms
    except ImportError as error:
        raise MissingExtraError(
            'local models need llama.cpp: pip install "foldline[local]"'
        ) from error
    library: ModuleType = xllamacpp
    return library


def _start(path: Path, settings: RuntimeSettings, key: str, alias: str) -> Any:  # noqa: ANN401  a server of xllamacpp, an extra
    library = load_library()
    _check_file(path)
    params = library.CommonParams()
    params.model.path = str(path)
    params.model_alias = {alias}
    params.n_parallel = settings.slots
    params.n_ctx = settings.context * settings.slots
    params.n_gpu_layers = settings.gpu_layers
    params.embedding = settings.embedding
    # An embedding is computed in one batch, so the batch must hold the entire text.
    params.n_batch = params.n_ubatch = settings.context if settings.embedding else BATCH
    params.cache_ram_mib = 0 if settings.embedding else PROMPT_CACHE_MIB
    params.verbosity = 3 if settings.verbose else -1
    for processors in (params.cpuparams, params.cpuparams_batch):
        # Sentence encoders are too small for several threads: they would mostly wait for each other.
        processors.n_threads = settings.threads or (1 if settings.embedding else default_threads())
        processors.poll = 0  # do not spin: other threads need the processor
    if settings.template is not None:
        params.chat_template = settings.template
    if settings.state_folder is not None:
        params.slot_save_path = f"{settings.state_folder}{os.sep}"
    params.api_keys = [key]
    params.ui = False
    params.cors_origins = ""
    try:
        return library.Server(params)
    except (RuntimeError, ValueError) as error:
        template = "" if settings.template is None else "its `template` may be wrong, "
        raise ModelError(
            f"{path} could not be loaded by llama.cpp ({error}); {template}it may be damaged, of an unknown "
            "architecture, or too large for the memory here (try a smaller `context`, and `verbose=True` to see the "
            "log)",
            provider=PROVIDER,
            model=alias,
        ) from error


def _check_file(path: Path) -> None:
    try:
        if "\0" not in str(path) and path.exists() and not (path.is_file() or path.is_dir()):
            raise UsageError(
                f"{path} is not a file but a pipe, a socket or a device: pass a GGUF file"
            )
        with path.open("rb") as file:
            magic = file.read(4)
    except ValueError as error:  # NUL
        raise UsageError(f"{str(path)!r} cannot be the path of a file: {error}") from error
    except OSError as error:
        raise ModelNotFoundError(
            f"{path}: {error.strerror}; give the path of a GGUF file, or a name foldline can fetch ('smollm2-135m')",
            provider=PROVIDER,
            model=path.stem,
        ) from error
    if magic != b"GGUF":
        raise UsageError(
            f"{path} is not a GGUF file (it begins with {magic!r}); llama.cpp reads GGUF only"
        )
