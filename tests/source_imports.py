"""What a Python source imports, read from its text."""

from __future__ import annotations

import ast
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Import:
    """``module`` in full; ``name`` what is taken from it, if anything.

    ``late`` imports stand inside a function and happen when it runs.
    """

    module: str
    name: str | None
    late: bool


def imports(source: str) -> list[Import]:
    """Every import statement and every ``import_module("…")``, in no particular order.

    Raises ValueError for a relative import: they are written in full here.
    """
    tree = ast.parse(source)
    inside = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        late = id(node) in inside
        if isinstance(node, ast.Import):
            found += [Import(alias.name, None, late) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level or node.module is None:
                raise ValueError(f"line {node.lineno}: write imports in full, not relative")
            found += [Import(node.module, alias.name, late) for alias in node.names]
        elif isinstance(node, ast.Call) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
            called = called.id if isinstance(called, ast.Name) else called
            first = node.args[0]
            if called == "import_module" and isinstance(first, ast.Constant):
                found.append(Import(str(first.value), None, late))
    return found
