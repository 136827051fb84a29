"""Evaluates little arithmetic programs, such as the solutions of TinyGSM, without running them.

In: Python source of one function without arguments.  Out: the exact number it returns.  The source
is parsed and walked, never compiled or executed; only what is listed here exists: numbers, lists,
arithmetic, comparisons, assignments, if, for, while, and a few functions on numbers.  Everything
else, and every program beyond the bounds on steps, depth and size, raises ``Unusable`` with a
reason for counting.  Decimals are exact: 0.1 * 3 is 0.3.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction

from maporl_core.tasks.answers.arithmetic import NotArithmetic, TooLarge, power
from maporl_core.tasks.programs.source import function_body, is_harmless
from maporl_core.tasks.programs.values import (
    FAILS,
    NO_NUMBER,
    NOT_ALLOWED,
    ON_ITEMS,
    TOO_LARGE,
    TOO_LONG,
    Unusable,
    Value,
    bounded,
    call_on_items,
    call_on_numbers,
    function_name,
    number_of,
    whole,
)

MAX_STEPS = 20_000  # nodes visited and items handled
MAX_DEPTH = 60  # nested nodes


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class _Return(Exception):
    def __init__(self, value: Value) -> None:
        self.value = value


_BINARY: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction | int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: power,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Fraction, Fraction], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def result_of(source: str) -> Fraction:
    """The number that the one function in ``source`` returns.  Raises Unusable."""
    body = function_body(source)
    try:
        _Evaluator().block(body, 0)
    except _Return as returned:
        if isinstance(returned.value, Fraction):
            return returned.value
    except TooLarge as error:
        raise Unusable(TOO_LARGE) from error
    except (_Break, _Continue, NotArithmetic, ArithmeticError, IndexError, ValueError) as error:
        if isinstance(error, Unusable):
            raise
        raise Unusable(FAILS) from error
    raise Unusable(NO_NUMBER)


class _Evaluator:
    """Walks statements and expressions; ``names`` are the variables so far."""

    def __init__(self) -> None:
        self.names: dict[str, Value] = {}
        self.steps = 0

    def _step(self, depth: int, count: int = 1) -> None:
        self.steps += count
        if self.steps > MAX_STEPS:
            raise Unusable(TOO_LONG)
        if depth > MAX_DEPTH:
            raise Unusable(TOO_LARGE)

    # --- statements ---

    def block(self, body: list[ast.stmt], depth: int) -> None:
        for node in body:
            self._step(depth)
            self._statement(node, depth + 1)

    def _statement(self, node: ast.stmt, depth: int) -> None:
        if isinstance(node, ast.Return):
            raise _Return(None if node.value is None else self.value(node.value, depth))
        if isinstance(node, ast.Assign):
            value = self.value(node.value, depth)
            for target in node.targets:
                self._assign(target, value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._assign(node.target, self.value(node.value, depth))
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            old = self.number(ast.Name(node.target.id, ast.Load()), depth)
            self._assign(node.target, self._binary(node.op, old, self.number(node.value, depth)))
        elif isinstance(node, ast.If):
            self.block(node.body if self.truth(node.test, depth) else node.orelse, depth)
        elif isinstance(node, ast.For | ast.While):
            self._loop(node, depth)
        elif isinstance(node, ast.Break):
            raise _Break
        elif isinstance(node, ast.Continue):
            raise _Continue
        elif not is_harmless(node):
            raise Unusable(NOT_ALLOWED)

    def _assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, list):
            if len(target.elts) != len(value):
                raise Unusable(FAILS)
            for part, item in zip(target.elts, value, strict=True):
                if not isinstance(part, ast.Name):
                    raise Unusable(NOT_ALLOWED)
                self.names[part.id] = item
        else:
            raise Unusable(NOT_ALLOWED)

    def _loop(self, node: ast.For | ast.While, depth: int) -> None:
        items = iter(self.items(node.iter, depth)) if isinstance(node, ast.For) else None
        while True:
            self._step(depth)
            if isinstance(node, ast.For):
                assert items is not None
                try:
                    self._assign(node.target, next(items))
                except StopIteration:
                    break
            elif not self.truth(node.test, depth):
                break
            try:
                self.block(node.body, depth)
            except _Break:
                return
            except _Continue:
                continue
        self.block(node.orelse, depth)

    # --- expressions ---

    def value(self, node: ast.expr, depth: int) -> Value:
        self._step(depth)
        if isinstance(node, ast.Constant):
            return self._constant(node.value)
        if isinstance(node, ast.Name):
            if node.id not in self.names:
                raise Unusable(FAILS if isinstance(node.ctx, ast.Load) else NOT_ALLOWED)
            return self.names[node.id]
        if isinstance(node, ast.BinOp):
            left, right = self.number(node.left, depth + 1), self.number(node.right, depth + 1)
            return self._binary(node.op, left, right)
        if isinstance(node, ast.UnaryOp):
            return self._unary(node, depth + 1)
        if isinstance(node, ast.Call):
            return self._call(node, depth + 1)
        if isinstance(node, ast.IfExp):
            chosen = node.body if self.truth(node.test, depth + 1) else node.orelse
            return self.value(chosen, depth + 1)
        if isinstance(node, ast.Compare):
            return self._compare(node, depth + 1)
        if isinstance(node, ast.BoolOp):
            return self._logic(node, depth + 1)
        if isinstance(node, ast.List | ast.Tuple):
            return [self.value(item, depth + 1) for item in node.elts]
        if isinstance(node, ast.Subscript):
            items, index = self.items(node.value, depth + 1), self.number(node.slice, depth + 1)
            return items[whole(index)]
        raise Unusable(NOT_ALLOWED)

    def number(self, node: ast.expr, depth: int) -> Fraction:
        value = self.value(node, depth)
        if isinstance(value, bool):
            return Fraction(int(value))
        if not isinstance(value, Fraction):
            raise Unusable(FAILS)
        return value

    def truth(self, node: ast.expr, depth: int) -> bool:
        return bool(self.value(node, depth))

    def items(self, node: ast.expr, depth: int) -> list[Value]:
        value = self.value(node, depth)
        if not isinstance(value, list):
            raise Unusable(FAILS)
        self._step(depth, len(value))
        return value

    @staticmethod
    def _constant(constant: object) -> Value:
        if isinstance(constant, bool) or constant is None:
            return constant
        if isinstance(constant, int):
            return bounded(Fraction(constant))
        if isinstance(constant, float) and math.isfinite(constant):
            # repr gives the shortest decimals that mean this float: what the author wrote.
            return bounded(Fraction(repr(constant)))
        raise Unusable(NOT_ALLOWED)

    @staticmethod
    def _binary(node: ast.operator, left: Fraction, right: Fraction) -> Fraction:
        if type(node) not in _BINARY:
            raise Unusable(NOT_ALLOWED)
        if isinstance(node, ast.Pow) and right.denominator != 1:
            raise Unusable(NOT_ALLOWED)
        if isinstance(node, ast.FloorDiv | ast.Mod | ast.Div) and right == 0:
            raise Unusable(FAILS)
        return bounded(Fraction(_BINARY[type(node)](left, right)))

    def _unary(self, node: ast.UnaryOp, depth: int) -> Value:
        if isinstance(node.op, ast.Not):
            return not self.truth(node.operand, depth)
        value = self.number(node.operand, depth)
        if isinstance(node.op, ast.USub):
            return -value
        if isinstance(node.op, ast.UAdd):
            return value
        raise Unusable(NOT_ALLOWED)

    def _compare(self, node: ast.Compare, depth: int) -> bool:
        left = self.number(node.left, depth)
        for comparison, right_node in zip(node.ops, node.comparators, strict=True):
            if type(comparison) not in _COMPARE:
                raise Unusable(NOT_ALLOWED)
            right = self.number(right_node, depth)
            if not _COMPARE[type(comparison)](left, right):
                return False
            left = right
        return True

    def _logic(self, node: ast.BoolOp, depth: int) -> Value:
        value: Value = None
        for part in node.values:
            value = self.value(part, depth)
            if bool(value) is isinstance(node.op, ast.Or):
                break
        return value

    # --- functions ---

    def _call(self, node: ast.Call, depth: int) -> Value:
        name = function_name(node.func)
        if name is None or node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            raise Unusable(NOT_ALLOWED)
        if name in self.names:  # a variable of that name hides the function
            raise Unusable(FAILS)
        arguments = [self.value(argument, depth) for argument in node.args]
        if name == "range":
            return self._range([number_of(argument) for argument in arguments], depth)
        if name in ON_ITEMS:
            several = name in ("min", "max") and len(arguments) > 1
            items = arguments if several else arguments[0] if len(arguments) == 1 else None
            if not isinstance(items, list):
                raise Unusable(FAILS)
            self._step(depth, len(items))
            return call_on_items(name, items)
        return call_on_numbers(name, [number_of(argument) for argument in arguments])

    def _range(self, numbers: list[Fraction], depth: int) -> Value:
        if not 1 <= len(numbers) <= 3 or (len(numbers) == 3 and numbers[2] == 0):
            raise Unusable(FAILS)
        span = range(*map(whole, numbers))
        if span:  # len() fails on spans beyond 2**63
            self._step(depth, abs(span[-1] - span[0]) // abs(span.step) + 1)
        return [Fraction(item) for item in span]
