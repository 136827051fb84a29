"""Source text of a little program to the statements of its one function; nothing is compiled.

Neighbours: ``program`` evaluates the statements.
"""

from __future__ import annotations

import ast
import warnings

from maporl_core.tasks.programs.values import NOT_ALLOWED, NOT_PYTHON, TOO_LARGE, Unusable

MAX_SOURCE = 20_000  # characters


def function_body(source: str) -> list[ast.stmt]:
    """The statements of the one function in ``source``, parsed only.  Raises Unusable."""
    if len(source) > MAX_SOURCE:
        raise Unusable(TOO_LARGE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\$5" in a text is a warning about style, no more
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unusable(NOT_PYTHON) from error
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    others = [node for node in tree.body if not isinstance(node, ast.FunctionDef)]
    if len(functions) != 1 or not all(map(is_harmless, others)):
        raise Unusable(NOT_ALLOWED)
    (function,) = functions
    arguments = function.args
    takes = arguments.args or arguments.posonlyargs or arguments.kwonlyargs
    if takes or arguments.vararg or arguments.kwarg or function.decorator_list:
        raise Unusable(NOT_ALLOWED)
    return function.body


def is_harmless(node: ast.stmt) -> bool:
    """Texts, ``pass`` and ``import math``, which mean nothing here."""
    if isinstance(node, ast.Import):
        return [(name.name, name.asname) for name in node.names] == [("math", None)]
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return text or isinstance(node, ast.Pass)
