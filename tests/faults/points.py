"""The fault points, enumerated from the code: every store write, link call and launcher call.

A point is named after its kind and place, e.g. `store headrace.control.driver_link.service.Link.ended` or
`link headrace.driver.loop.Loop._renew:renew`. A new write in the code is a new point by itself.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import headrace

_SOURCE = Path(headrace.__file__).parent
_LAUNCHER_CALLS = {"start", "find", "poll", "kill"}


@dataclass(frozen=True, slots=True)
class Point:
    """One place in the code."""

    name: str
    kind: str
    """`store`, `link` or `launcher`."""
    module: str
    first_line: int
    last_line: int

    @property
    def in_driver(self) -> bool:
        return self.module.startswith("headrace.driver")


def points() -> list[Point]:
    """All of them, in the order of the code."""
    link_calls = _link_calls()
    found: list[Point] = []
    for file in sorted(_SOURCE.rglob("*.py")):
        module = ".".join(["headrace", *file.relative_to(_SOURCE).with_suffix("").parts])
        calls = _Calls(module, link_calls)
        calls.visit(ast.parse(file.read_text()))
        found += calls.found
    return list(_numbered(found))


class _Calls(ast.NodeVisitor):
    """The calls in one module that are points."""

    def __init__(self, module: str, link_calls: set[str]) -> None:
        self.found: list[Point] = []
        self._module = module
        self._link_calls = link_calls
        self._scope: list[str] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._within(node.name, node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._within(node.name, node)

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            if isinstance(item.context_expr, ast.Call) and _called(item.context_expr) == "write":
                self._add("store", item.context_expr, "")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called, owner = _called(node), _owner(node)
        in_driver = self._module.startswith("headrace.driver.")
        if in_driver and owner == "link" and called in self._link_calls:
            self._add("link", node, f":{called}")
        if owner == "backends" and called in _LAUNCHER_CALLS:
            self._add("launcher", node, f":{called}")
        self.generic_visit(node)

    def _within(self, name: str, node: ast.AST) -> None:
        self._scope.append(name)
        self.generic_visit(node)
        self._scope.pop()

    def _add(self, kind: str, node: ast.Call, suffix: str) -> None:
        name = f"{kind} {'.'.join([self._module, *self._scope])}{suffix}"
        last = node.end_lineno or node.lineno
        self.found.append(Point(name, kind, self._module, node.lineno, last))


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _owner(node: ast.Call) -> str:
    """`link` of `self._link.poll()`, and of `link.poll()`."""
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    if isinstance(owner, ast.Attribute):
        return owner.attr.lstrip("_")
    return owner.id.lstrip("_") if isinstance(owner, ast.Name) else ""


def _link_calls() -> set[str]:
    """The methods of NodeLink that send a message to a node."""
    tree = ast.parse((_SOURCE / "driver" / "link.py").read_text())
    methods = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
    return {
        method.name
        for method in methods
        if any(isinstance(one, ast.Call) and _called(one) == "_call" for one in ast.walk(method))
    }


def _numbered(found: list[Point]) -> Iterator[Point]:
    """Two of one name in a function are told apart by their order: `…#2` is the second."""
    seen: Counter[str] = Counter()
    for point in sorted(found, key=lambda one: (one.module, one.first_line)):
        seen[point.name] += 1
        number = seen[point.name]
        name = point.name if number == 1 else f"{point.name}#{number}"
        yield Point(name, point.kind, point.module, point.first_line, point.last_line)
