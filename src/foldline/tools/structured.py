"""`StructuredTool`: a function as a tool, its arguments by name."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable
from typing import Any, Self

from foldline._config import RunnableConfig
from foldline._traceback import entry_point
from foldline.callbacks.manager import AsyncCallbackManagerForToolRun, CallbackManagerForToolRun
from foldline.exceptions import BlockingCallError, UsageError
from foldline.tools._arguments import Target, is_unbound_method, read_arguments
from foldline.tools._schema import create_schema_from_function, docstring_of, model_of
from foldline.tools.base import ArgsSchema, BaseTool, ResponseFormat
from foldline.utils._options import check_options
from foldline.utils._signature_schema import name_and_doc, own_doc

__all__ = ["StructuredTool"]


class StructuredTool(BaseTool):
    """A function as a tool.

    ```python
    from foldline.tools import StructuredTool

    def multiply(a: int, b: int) -> int:
        "Multiply two numbers."
        return a * b

    print(StructuredTool.from_function(multiply).invoke({"a": 6, "b": 7}))
    #> 42
    ```
    """

    description: str = ""
    func: Callable[..., Any] | None = None
    """The function of sync calls; async calls run it in a thread if there is no `coroutine`."""
    coroutine: Callable[..., Awaitable[Any]] | None = None
    """The async function."""

    def _functions(self) -> tuple[Callable[..., Any] | None, Callable[..., Any] | None]:
        cls = type(self)
        return (
            self.func if cls._run is StructuredTool._run else self._run,
            self.coroutine if cls._arun is StructuredTool._arun else self._arun,
        )

    def _run(
        self,
        *args: Any,
        config: RunnableConfig | None = None,
        run_manager: CallbackManagerForToolRun | None = None,
        **kwargs: Any,
    ) -> Any:  # noqa: ANN401  what the tool's function returns
        if self.func is None:
            raise BlockingCallError(f"{self.name} is async: use ainvoke")
        return self.func(*args, **kwargs, **_injected_arguments(self.func, config, run_manager))

    async def _arun(
        self,
        *args: Any,
        config: RunnableConfig | None = None,
        run_manager: AsyncCallbackManagerForToolRun | None = None,
        **kwargs: Any,
    ) -> object:
        function = self.coroutine or self.func
        if function is None:
            raise UsageError(f"{self.name} has no function")
        result = function(*args, **kwargs, **_injected_arguments(function, config, run_manager))
        return await result if hasattr(type(result), "__await__") else result

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Self:
        """Bind a tool that was made from a method in a class body to an object of that class."""
        functions: tuple[Any, Any] = (self.func, self.coroutine)
        if instance is None or not any(is_unbound_method(function) for function in functions):
            return self
        bound = [
            types.MethodType(function, instance) if is_unbound_method(function) else function
            for function in functions
        ]
        return self.model_copy(update={"func": bound[0], "coroutine": bound[1]})

    @classmethod
    @entry_point
    @check_options(skip=("func", "coroutine", "args_schema"))
    def from_function(
        cls,
        func: Callable[..., Any] | None = None,
        coroutine: Callable[..., Awaitable[Any]] | None = None,
        name: str | None = None,
        description: str | None = None,
        return_direct: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
        args_schema: ArgsSchema | None = None,
        infer_schema: bool = True,  # noqa: FBT001, FBT002
        *,
        response_format: ResponseFormat = "content",
        parse_docstring: bool = False,
        error_on_invalid_docstring: bool = False,
        **kwargs: object,
    ) -> Self:
        """Make a tool from a function, an async function or both, which define name, description and schema."""
        source = func if func is not None else coroutine
        if source is None:
            raise UsageError("a tool needs a function: pass func, coroutine or both")
        name = name or name_and_doc(source)[0]
        docstring = docstring_of(
            source, read_arguments(source), parse=parse_docstring, strict=error_on_invalid_docstring
        )
        if args_schema is None and infer_schema:
            args_schema = create_schema_from_function(
                name,
                source,
                parse_docstring=parse_docstring,
                error_on_invalid_docstring=error_on_invalid_docstring,
            )
            text = docstring.description
        else:
            text = docstring.description or _doc_of(args_schema)
        if description is None and not text and not isinstance(source, type):
            raise UsageError(
                f"{name}: Function must have a docstring if description not provided: the model needs to know what "
                "it does"
            )
        return cls(
            name=name,
            func=func,
            coroutine=coroutine,
            args_schema=args_schema,
            description=(text if description is None else description).strip(),
            return_direct=return_direct,
            response_format=response_format,
            **kwargs,
        )


def _doc_of(schema: object) -> str:
    if isinstance(schema, dict):
        return str(schema.get("description") or "")
    return own_doc(schema) if model_of(schema) is not None else ""


def _injected_arguments(
    function: Callable[..., Any],
    config: RunnableConfig | None,
    run_manager: CallbackManagerForToolRun | AsyncCallbackManagerForToolRun | None,
) -> dict[str, Any]:
    target = Target(function)
    arguments: dict[str, Any] = {}
    if target.config is not None:
        arguments[target.config] = config or {}
    if "run_manager" in target.filled_names:
        arguments["run_manager"] = run_manager
    if "callbacks" in target.filled_names:
        arguments["callbacks"] = None if run_manager is None else run_manager.get_child()
    return arguments
