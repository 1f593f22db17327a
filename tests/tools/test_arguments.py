from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated, Any

import pytest

from foldline._config import RunnableConfig
from foldline.exceptions import UsageError
from foldline.tools import InjectedToolArg, InjectedToolCallId, _get_runnable_config_param, tool
from foldline.tools._arguments import Target, is_injected, is_unbound_method, read_arguments

if TYPE_CHECKING:
    from decimal import Decimal


class State(InjectedToolArg):
    pass


@pytest.mark.parametrize(
    ("annotation", "injected"),
    [
        (int, False),
        (Annotated[int, "words"], False),
        (Annotated[int, InjectedToolArg], True),
        (Annotated[int, InjectedToolArg()], True),
        (Annotated[int, State], True),
        (Annotated[int, InjectedToolCallId], True),
        (State, True),
        (State | None, True),
        (Annotated[int, State] | None, True),
        (list[int], False),
        (Any, False),
    ],
    ids=lambda value: str(value).partition(" object at ")[0],
)
def test_marks_are_seen_wherever_they_stand(annotation, injected):
    assert is_injected(annotation) is injected


def test_the_config_is_known_by_its_type():
    def one(a: int, config: RunnableConfig) -> None: ...
    def two(settings: RunnableConfig | None = None) -> None: ...
    def none(config: dict[str, Any]) -> None: ...

    assert [_get_runnable_config_param(f) for f in (one, two, none)] == ["config", "settings", None]


def test_a_name_that_is_imported_for_checkers_only_spoils_nothing_else():
    def fine(a: int, run_manager: Decimal | None = None) -> Decimal: ...

    assert next(argument.annotation for argument in read_arguments(fine)) is int
    assert list(tool(description="d")(fine).args) == ["a"]

    def unknown(a: Decimal) -> int: ...

    with pytest.raises(UsageError, match="annotation 'Decimal' of 'a' cannot be found"):
        tool(description="d")(unknown)


def test_types_of_the_enclosing_function_are_found():
    class Local:
        pass

    def uses(a: Local) -> type:
        return Local

    assert read_arguments(uses)[0].annotation is Local


def everything(a: int, /, b: int, *args: int, c: int = 3, **kwargs: int) -> Any:
    """Take everything."""
    return a, b, args, c, kwargs


def test_every_kind_of_parameter_is_passed_as_it_must_be(call):
    every_tool = tool(everything)

    assert call.invoke(every_tool, {"a": 1, "b": 2}) == (1, 2, (), 3, {})
    assert call.invoke(
        every_tool, {"a": 1, "b": 2, "args": [7, 8], "c": 4, "kwargs": {"x": 5}}
    ) == (
        1,
        2,
        (7, 8),
        4,
        {"x": 5},
    )
    assert call.invoke(every_tool, {"a": 1, "b": 2, "z": 9}) == (1, 2, (), 3, {"z": 9})


def test_partials_builtins_and_classes_are_read():
    assert (
        next(argument.name for argument in read_arguments(functools.partial(everything, 1))) == "b"
    )
    assert [argument.name for argument in read_arguments(print)]
    assert [argument.name for argument in read_arguments(UsageError)]
    assert Target(len).bind({"obj": [1]}) == (([1],), {})


def test_names_that_pydantic_keeps_are_arguments_all_the_same(call):
    @tool
    def odd(schema: str, _hidden: int = 1, copy: bool = False, model_config: str = "m") -> Any:
        """Odd."""
        return schema, _hidden, copy, model_config

    assert list(odd.args) == ["schema", "_hidden", "copy", "model_config"]
    assert call.invoke(odd, {"schema": "s", "_hidden": "2", "copy": True}) == ("s", 2, True, "m")


class Class:
    def method(self) -> None: ...

    @staticmethod
    def static(a: int) -> None: ...


def test_an_unbound_method_is_one_that_waits_for_self():
    def local(self: int) -> None: ...

    assert is_unbound_method(Class.method)
    assert not any(
        is_unbound_method(function) for function in (Class().method, Class.static, local, len)
    )
