"""A calculator: evaluates untrusted arithmetic, and nothing else.

It allows only the listed names and functions, and refuses numbers that take long to compute.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import TypeAlias

from foldline.exceptions import UsageError

__all__ = ["evaluate"]

Number: TypeAlias = int | float

LONGEST = 1000
"""Characters of an expression."""
LARGEST_BITS = 4096
"""Bits of an integer in a computation."""
OPERATORS: dict[type[ast.AST], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
SIGNS: dict[type[ast.AST], Callable[[Number], Number]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
CONSTANTS: dict[str, float] = {"pi": math.pi, "e": math.e}
FUNCTIONS: dict[str, Callable[..., Number]] = {
    "abs": abs, "round": round, "min": min, "max": max, "floor": math.floor, "ceil": math.ceil,
    "sqrt": math.sqrt, "exp": math.exp, "expm1": math.expm1, "log": math.log, "log10": math.log10,
    "log1p": math.log1p, "sin": math.sin, "cos": math.cos, "tan": math.tan, "arcsin": math.asin,
    "arccos": math.acos, "arctan": math.atan, "arctan2": math.atan2, "sinh": math.sinh, "cosh": math.cosh,
    "tanh": math.tanh, "asin": math.asin, "acos": math.acos, "atan": math.atan, "degrees": math.degrees,
    "radians": math.radians,
}  # fmt: skip


def evaluate(expression: str) -> Number:
    """Return the value of an arithmetic expression; raise `UsageError` for anything else."""
    text = expression.strip()
    if len(text) > LONGEST:
        raise UsageError(f"the expression has {len(text)} characters: at most {LONGEST}")
    try:
        return _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ArithmeticError, ValueError, TypeError, RecursionError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{text[:200]!r} cannot be computed: {error}") from error


def _value(node: ast.expr) -> Number:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _bounded(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Pow):
            _check_power(left, right)
        return _bounded(OPERATORS[type(node.op)](left, right))
    if isinstance(node, ast.UnaryOp) and type(node.op) in SIGNS:
        return SIGNS[type(node.op)](_value(node.operand))
    if isinstance(node, ast.Name) and node.id in CONSTANTS:
        return CONSTANTS[node.id]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        function = FUNCTIONS.get(node.func.id)
        if function is not None:
            return _bounded(function(*[_value(argument) for argument in node.args]))
    raise UsageError(f"{ast.unparse(node)[:100]!r} is not arithmetic")


def _check_power(base: Number, exponent: Number) -> None:
    if not (isinstance(base, int) and isinstance(exponent, int)):
        return
    if base.bit_length() * abs(exponent) > LARGEST_BITS:
        raise UsageError(f"{base} ** {exponent} is too large")


def _bounded(number: Number) -> Number:
    if isinstance(number, complex):
        raise UsageError("the result is not a real number")
    if isinstance(number, int) and number.bit_length() > LARGEST_BITS:
        raise UsageError("a number in the computation is too large")
    return number
