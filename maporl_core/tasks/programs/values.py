"""Values and functions that an evaluated program may use: exact numbers, lists, nothing else.

Neighbours: ``program`` walks the source and calls in here.  Every function that is not listed,
and every value beyond the bounds, raises ``Unusable``.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TypeAlias, Union

from maporl_core.tasks.answers.arithmetic import power

MAX_BITS = 512  # of a numerator or denominator

Value: TypeAlias = Union[Fraction, bool, "list[Value]", None]


class Unusable(ValueError):
    """The program cannot be evaluated; the message is one of the reasons below."""


NOT_PYTHON = "code does not parse"
NOT_ALLOWED = "code does more than arithmetic"
TOO_LONG = "code runs too long"
TOO_LARGE = "numbers grow too large"
FAILS = "code fails"
NO_NUMBER = "code returns no number"

ON_ITEMS = frozenset({"min", "max", "sum", "len", "sorted", "list", "tuple"})
_ONE_ARGUMENT: Mapping[str, Callable[[Fraction], Fraction | int]] = {
    "abs": abs,
    "int": math.trunc,
    "float": lambda value: value,
    "round": round,
    "ceil": math.ceil,
    "floor": math.floor,
    "math.ceil": math.ceil,
    "math.floor": math.floor,
    "math.trunc": math.trunc,
    "math.fabs": abs,
}


def function_name(node: ast.expr) -> str | None:
    """The name called; ``math.ceil`` and its like are names here, nothing is looked up in them."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"math.{node.attr}" if node.value.id == "math" else None
    return None


def call_on_items(name: str, items: list[Value]) -> Value:
    """``name`` of ``ON_ITEMS`` applied to one list."""
    if name == "len":
        return Fraction(len(items))
    if name in ("list", "tuple"):
        return list(items)
    numbers = [number_of(item) for item in items]
    if name == "sum":
        return bounded(sum(numbers, Fraction(0)))
    if name == "sorted":
        return [*sorted(numbers)]
    if not numbers:
        raise Unusable(FAILS)
    return min(numbers) if name == "min" else max(numbers)


def call_on_numbers(name: str, numbers: list[Fraction]) -> Value:
    """A function of numbers by name; powers need whole exponents."""
    if name == "round" and len(numbers) == 2:
        places = whole(numbers[1])
        if abs(places) > 20:
            raise Unusable(TOO_LARGE)
        return bounded(Fraction(round(numbers[0], places)))
    if name in ("pow", "math.pow") and len(numbers) == 2:
        if numbers[1].denominator != 1:
            raise Unusable(NOT_ALLOWED)
        return bounded(power(*numbers))
    if name not in _ONE_ARGUMENT:
        raise Unusable(NOT_ALLOWED)
    if len(numbers) != 1:
        raise Unusable(FAILS)
    return bounded(Fraction(_ONE_ARGUMENT[name](numbers[0])))


def number_of(value: Value) -> Fraction:
    """A number, or a truth value as 0 or 1."""
    if isinstance(value, bool):
        return Fraction(int(value))
    if not isinstance(value, Fraction):
        raise Unusable(FAILS)
    return value


def whole(value: Fraction) -> int:
    """The int that a whole number is."""
    if value.denominator != 1:
        raise Unusable(FAILS)
    return int(value)


def bounded(value: Fraction) -> Fraction:
    """``value`` itself, if its size is within ``MAX_BITS``."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise Unusable(TOO_LARGE)
    return value
