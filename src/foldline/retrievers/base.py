"""`BaseRetriever`: a runnable from a question to documents, reported to callbacks as a retriever's run.

A subclass implements `_get_relevant_documents`, `_aget_relevant_documents` or both; foldline's retrievers implement
`_invoke_body` instead, one body for sync and async calls.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, cast

from typing_extensions import TypedDict

from foldline._config import RunnableConfig
from foldline._run import Run
from foldline.callbacks.base import Callbacks
from foldline.callbacks.manager import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from foldline.documents.base import Document
from foldline.exceptions import BlockingCallError
from foldline.runnables._trace import NOTHING, add_up
from foldline.runnables.base import Runnable
from foldline.runnables.serializable import RunnableSerializable

__all__ = [
    "BaseRetriever",
    "LangSmithRetrieverParams",
    "RetrieverInput",
    "RetrieverLike",
    "RetrieverOutput",
    "RetrieverOutputLike",
]

RetrieverInput: TypeAlias = str
RetrieverOutput: TypeAlias = list[Document]
RetrieverLike: TypeAlias = Runnable[RetrieverInput, RetrieverOutput]
RetrieverOutputLike: TypeAlias = Runnable[Any, RetrieverOutput]


class LangSmithRetrieverParams(TypedDict, total=False):
    """The fields that describe a retriever in traces."""

    ls_retriever_name: str
    ls_vector_store_provider: str | None
    ls_embedding_provider: str | None
    ls_embedding_model: str | None


class BaseRetriever(RunnableSerializable[RetrieverInput, RetrieverOutput]):
    """Finds documents for a question.

    ```python
    from foldline.documents import Document
    from foldline.retrievers import BaseRetriever


    class Echo(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            return [Document(f"you asked: {query}")]


    print(Echo().invoke("why?")[0].page_content)
    #> you asked: why?
    ```
    """

    tags: list[str] | None = None
    """Tags of this retriever's runs."""
    metadata: dict[str, Any] | None = None
    """Metadata of this retriever's runs."""

    # -- the older names of `invoke`

    def get_relevant_documents(
        self,
        query: str,
        *,
        callbacks: Callbacks = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        run_name: str | None = None,
        **kwargs: object,
    ) -> list[Document]:
        """Find documents: `invoke` under its older name."""
        config = _config(callbacks=callbacks, tags=tags, metadata=metadata, run_name=run_name)
        return self.invoke(query, config, **kwargs)

    async def aget_relevant_documents(
        self,
        query: str,
        *,
        callbacks: Callbacks = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        run_name: str | None = None,
        **kwargs: object,
    ) -> list[Document]:
        """Find documents: `ainvoke` under its older name."""
        config = _config(callbacks=callbacks, tags=tags, metadata=metadata, run_name=run_name)
        return await self.ainvoke(query, config, **kwargs)

    # -- what a subclass implements

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        """Find documents."""
        raise NotImplementedError(
            f"{type(self).__name__} implements neither `_get_relevant_documents` nor `_aget_relevant_documents`: "
            "write one of them"
        )

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        """Find documents."""
        raise NotImplementedError(
            f"{type(self).__name__} does not implement `_aget_relevant_documents`"
        )

    def _get_ls_params(self, **_kwargs: object) -> LangSmithRetrieverParams:
        name = type(self).__name__
        short = name.removeprefix("Retriever").removesuffix("Retriever")
        return LangSmithRetrieverParams(ls_retriever_name=(short or name).lower())

    # -- the run

    async def _invoke_body(self, input: str, run: Run) -> object:
        hook, is_async = self._hook(run)
        parameters = _parameters(cast("Any", hook).__func__)
        arguments = dict(run.kwargs) if parameters.takes_options else {}
        if parameters.takes_run_manager:
            manager: Any = run.run_manager("retriever")
            arguments["run_manager"] = (
                manager if is_async or run.io.blocking else manager.get_sync()
            )
        with run.current():
            return await run.io.call(hook, input, **arguments)

    def _hook(self, run: Run) -> tuple[Callable[..., Any], bool]:
        cls = type(self)
        sync_index = _mro_index(cls, "_get_relevant_documents")
        async_index = _mro_index(cls, "_aget_relevant_documents")
        # A subclass that overrides only the sync method means it for async calls too.
        if not run.io.blocking and async_index <= sync_index and async_index < NOT_DEFINED:
            return self._aget_relevant_documents, True
        if run.io.blocking and async_index < sync_index == NOT_DEFINED:
            raise BlockingCallError(
                f"{cls.__name__} implements only `_aget_relevant_documents`: use ainvoke or abatch"
            )
        return self._get_relevant_documents, False

    async def _invoke_traced(self, input: str, run: Run) -> object:
        if run.manager is None:
            return await self._invoke_body(input, run)
        metadata = {**self._get_ls_params(**run.kwargs), **(self.metadata or {})}
        traced_run = run.with_local(None, self.tags, metadata).patched()
        name = run.get("run_name") or self.get_name()
        try:
            await traced_run.begin("retriever", "on_retriever_start", None, input, name=name)
            documents = await self._invoke_body(input, traced_run)
        except BaseException as error:
            await traced_run.dispatch("on_retriever_error", error)
            raise
        await traced_run.dispatch("on_retriever_end", documents)
        return documents

    async def _stream_traced(self, input: str, run: Run) -> AsyncGenerator[Any, None]:
        yield await self._step(input, run)

    async def _transform_traced(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        question = await add_up(inputs)
        if question is not NOTHING:
            yield await self._step(question, run)


def _config(**settings: Any) -> RunnableConfig:
    return cast(
        "RunnableConfig", {key: value for key, value in settings.items() if value is not None}
    )


NOT_DEFINED = 1000
"""The `_mro_index` of a hook that no subclass overrides."""


@lru_cache(maxsize=1024)
def _mro_index(cls: type[BaseRetriever], name: str) -> int:
    for index, ancestor in enumerate(cls.__mro__):
        if ancestor is BaseRetriever:
            break
        if name in ancestor.__dict__:
            return index
    return NOT_DEFINED


class _HookParameters(NamedTuple):
    takes_run_manager: bool
    takes_options: bool


@lru_cache(maxsize=1024)
def _parameters(hook: Callable[..., Any]) -> _HookParameters:
    parameters = inspect.signature(hook).parameters
    takes_any_keyword = any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
    )
    other_names = list(parameters.keys() - {"run_manager"})
    return _HookParameters(
        "run_manager" in parameters or takes_any_keyword, takes_any_keyword or len(other_names) > 2
    )
