"""Problems of reasoning-gym and its own scoring; runs inside a bounded worker.

In: {"op": "names"}, or {"op": "open" | "problem" | "score"} with "name", "options", "seed",
"size", "index" and "answer".  Out: names, True, [question, answer] or a score.
Neighbours: ``child`` limits and kills it, ``gym`` asks it.

Several scorers evaluate the answer as Python.  In here they can only read literals and build
expressions: what a model wrote is never run.
"""

from __future__ import annotations

import ast
import json
import operator
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


class Gym:
    """Loads the library once; a call answers one request."""

    def __init__(self) -> None:
        sympy_parser = import_module("sympy.parsing.sympy_parser")
        self.create = import_module("reasoning_gym").create_dataset
        self.names = sorted(import_module("reasoning_gym.factory").DATASETS)
        self.datasets: OrderedDict[str, Any] = OrderedDict()
        for name, module in list(sys.modules.items()):
            # Some scorers call eval on the answer; literals are all they are meant to read.
            if name.startswith("reasoning_gym."):
                vars(module)["eval"] = literal_or_arithmetic
        build = sympy_parser.eval_expr

        def build_checked(code: Any, local_dict: Any, global_dict: Any) -> Any:
            check_expression(code, local_dict or {})
            return build(code, local_dict, global_dict)

        vars(sympy_parser)["eval_expr"] = build_checked

    def __call__(self, request: Mapping[str, Any]) -> Any:
        if request["op"] == "names":
            return self.names
        dataset = self.dataset(request)
        if request["op"] == "open":
            return True
        entry = dataset[request["index"]]
        if request["op"] == "score":
            return float(dataset.score_answer(request["answer"], entry))
        answer = entry["answer"]
        return [str(entry["question"]), answer if answer is None else str(answer)]

    def dataset(self, request: Mapping[str, Any]) -> Any:
        key = json.dumps([request["name"], request["options"], request["seed"]], sort_keys=True)
        if key not in self.datasets:
            options = {**request["options"], "seed": request["seed"], "size": request["size"]}
            self.datasets[key] = self.create(request["name"], **options)
            if len(self.datasets) > 8:
                self.datasets.popitem(last=False)
        self.datasets.move_to_end(key)
        return self.datasets[key]


OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}


def literal_or_arithmetic(source: object, *_unused: object) -> Any:
    """The value of a literal or of arithmetic on numbers; ValueError for anything else."""

    def value(node: ast.AST) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.operand))
        return ast.literal_eval(node)

    return value(ast.parse(str(source).strip(), mode="eval").body)


ALLOWED_NAMES = frozenset(
    (
        *("Integer", "Float", "Rational", "Symbol", "Function", "Add", "Mul", "Pow", "Mod", "Abs"),
        *("sqrt", "cbrt", "exp", "log", "ln", "factorial", "pi", "E", "I", "oo", "True", "False"),
        *("sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "acot"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    )
)
ALLOWED_NODES = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Constant),
    *(ast.Compare, ast.cmpop, ast.expr_context, ast.Tuple, ast.keyword),
)


def check_expression(code: str, local_dict: Mapping[str, Any]) -> None:
    """ValueError unless code generated from an answer only builds an expression.

    ``sympy.parse_expr`` evaluates that code with every builtin at hand.
    """
    for node in ast.walk(ast.parse(code.strip(), mode="eval")):
        if isinstance(node, ast.Name):
            if node.id not in ALLOWED_NAMES and node.id not in local_dict:
                raise ValueError(f"name {node.id!r} in an answer")
        elif isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name):
                raise ValueError("call of a call in an answer")
        elif not isinstance(node, ALLOWED_NODES):
            raise ValueError(f"{type(node).__name__} in an answer")
