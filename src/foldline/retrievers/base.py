"""`BaseRetriever`: a runnable from a question to documents, told to listeners as a retriever's run.

An author writes `_get_relevant_documents`, or its `_aget…` twin, or both; or, like the retrievers of foldline, one
`_invoke_body` body for both colours.
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
    """What traces say of a retriever."""

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

    # -- what an author writes

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
            f"{type(self).__name__} has no `_aget_relevant_documents` of its own"
        )

    def _get_ls_params(self, **_kwargs: object) -> LangSmithRetrieverParams:
        name = type(self).__name__
        short = name.removeprefix("Retriever").removesuffix("Retriever")
        return LangSmithRetrieverParams(ls_retriever_name=(short or name).lower())

    # -- the run

    async def _invoke_body(self, input: Any, run: Run) -> object:
        hook, is_async = self._hook(run)
        taken = _parameters(cast("Any", hook).__func__)
        given = dict(run.kwargs) if taken.others else {}
        if taken.run_manager:
            manager: Any = run.run_manager("retriever")
            given["run_manager"] = manager if is_async or run.io.blocking else manager.get_sync()
        with run.current():
            return await run.io.call(hook, input, **given)

    def _hook(self, run: Run) -> tuple[Callable[..., Any], bool]:
        cls = type(self)
        blocking = _place(cls, "_get_relevant_documents")
        awaited = _place(cls, "_aget_relevant_documents")
        # A subclass that writes only the blocking one means it for both colours.
        if not run.io.blocking and awaited <= blocking and awaited < FAR:
            return self._aget_relevant_documents, True
        if run.io.blocking and awaited < blocking == FAR:
            raise BlockingCallError(
                f"{cls.__name__} implements only `_aget_relevant_documents`: use ainvoke or abatch"
            )
        return self._get_relevant_documents, False

    async def _invoke_traced(self, input: Any, run: Run) -> Any:
        if run.manager is None:
            return await self._invoke_body(input, run)
        told = {**self._get_ls_params(**run.kwargs), **(self.metadata or {})}
        own = run.with_local(None, self.tags, told).patched()
        name = run.get("run_name") or self.get_name()
        try:
            await own.begin("retriever", "on_retriever_start", None, input, name=name)
            documents = await self._invoke_body(input, own)
        except BaseException as error:
            await own.dispatch("on_retriever_error", error)
            raise
        await own.dispatch("on_retriever_end", documents)
        return documents

    async def _stream_traced(self, input: Any, run: Run) -> AsyncGenerator[Any, None]:
        yield await self._step(input, run)

    async def _transform_traced(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        whole = await add_up(inputs)
        if whole is not NOTHING:
            yield await self._step(whole, run)


def _config(**given: Any) -> RunnableConfig:
    return cast("RunnableConfig", {key: value for key, value in given.items() if value is not None})


FAR = 1000
"""A place in the ancestry behind everything: the hook was not written."""


@lru_cache(maxsize=1024)
def _place(cls: type[BaseRetriever], name: str) -> int:
    for place, ancestor in enumerate(cls.__mro__):
        if ancestor is BaseRetriever:
            break
        if name in ancestor.__dict__:
            return place
    return FAR


class _Taken(NamedTuple):
    run_manager: bool
    others: bool


@lru_cache(maxsize=1024)
def _parameters(hook: Callable[..., Any]) -> _Taken:
    parameters = inspect.signature(hook).parameters
    anything = any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
    )
    others = list(parameters.keys() - {"run_manager"})
    return _Taken("run_manager" in parameters or anything, anything or len(others) > 2)
