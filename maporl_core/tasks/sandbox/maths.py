"""Symbolic equality by math-verify, without its known traps; runs inside a bounded worker.

In: {"pairs": [[answer, gold], …]}, or {"gold": …, "answer": …}, in LaTeX.  Out: for each pair,
or for the one, whether both are the same mathematical object.
Neighbours: ``child`` limits and kills it, ``maths`` asks it.  Plain numbers never come
here.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib import import_module
from typing import Any


class Maths:
    """Loads the libraries once; a call answers one request."""

    WARM_UP = (
        (r"x^2-1", r"(x-1)(x+1)"),
        (r"\frac{\pi}{2}", r"\sqrt{2}"),
        (r"(1,2)", r"(2,1)"),
        (r"\{1,2\}", r"\{x,2\}"),
        (r"x=\log_2 8", r"x\in[0,1)"),
        (r"\sin^2 x", r"1-\cos^2 x"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"1<x<2"),
        (r"2x+y=3", r"y=3-2x"),
        (r"F_n=\sum_{k=0}^{n-1} F_k G_{n-k-1}", r"1\leq |z|\leq \frac{3}{2}"),
        (r"z\in [-1,1] \cup [2,3]", r"1\leq |z|\leq 3"),
    )

    def __init__(self) -> None:
        logging.disable(logging.CRITICAL)
        math_verify = import_module("math_verify")
        self.sympy = import_module("sympy")
        self.verify = math_verify.verify
        self.parse_text = math_verify.parse
        self.config = [math_verify.LatexExtractionConfig(boxed_match_priority=0)]
        for gold, answer in self.WARM_UP:
            self.same(answer, gold)  # fills caches that forked workers inherit

    def __call__(self, request: Mapping[str, Any]) -> bool | list[bool]:
        if "pairs" not in request:
            return self.same(request["answer"], request["gold"])
        return [self.same(answer, gold) for answer, gold in request["pairs"]]

    def same(self, answer_latex: str, gold_latex: str) -> bool:
        gold, answer = self.parse(gold_latex), self.parse(answer_latex)
        if gold is None or answer is None or self.differ(gold, answer):
            return False
        if isinstance(gold, self.sympy.Basic) and gold.has(self.sympy.Sum) and gold == answer:
            return True  # the library takes a second over two equal sums
        return bool(self.verify(gold, answer, timeout_seconds=None))

    def parse(self, latex: str) -> Any:
        found = self.parse_text(
            "\\boxed{" + latex + "}",
            extraction_config=self.config,
            fallback_mode="no_fallback",
            parsing_timeout=None,
        )
        return self.exact(found[0]) if found else None

    def exact(self, expression: Any) -> Any:
        """Decimals as exact ratios, which the library would round to six places; i as the unit."""
        if isinstance(expression, self.sympy.MatrixBase):
            return expression.applyfunc(self.exact)
        if not isinstance(expression, self.sympy.Basic):
            return expression
        sympy = self.sympy
        new = {decimal: sympy.Rational(str(decimal)) for decimal in expression.atoms(sympy.Float)}
        new |= {x: sympy.I for x in expression.free_symbols if x.name == "i"}
        return expression.subs(new) if new else expression

    def differ(self, gold: Any, answer: Any) -> bool:
        """Two constants whose values differ in relation to their size.

        The library subtracts and drops what is below 1e-15, so that pi·1e-20 equals 2pi·1e-20.
        """
        both = (gold, answer)
        if not all(isinstance(side, self.sympy.Expr) and side.is_number for side in both):
            return False
        first, second = (side.doit().evalf(40) for side in both)
        if not all(side.is_number and side.is_finite for side in (first, second)):
            return False
        size = max(abs(first), abs(second))
        return bool(size != 0 and abs(first - second) > size * self.sympy.Float("1e-25", 40))
