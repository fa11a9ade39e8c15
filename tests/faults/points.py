"""The fault points, read from the code: every store write, link call and launcher call.

The names are public and survive the rename of a method:
- `store link.ended`: the name that the code gives to a write transaction;
- `link lease_renewal:renew`: the module of the driver that calls, and the call of the link;
- `link function:find_streams`: a call that the driver makes through a function that it was given;
- `launcher takeover:kill`: the module of the node that makes the call, and the launcher's method.
A new write or call in the code is a new point. If a name occurs again, `#2` marks the second call.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import headrace

_SOURCE = Path(headrace.__file__).parent
_LINK_MODULE = "headrace.driver.link"
_LAUNCHER_CALLS = {"start", "find", "poll", "kill"}


@dataclass(frozen=True, slots=True)
class Point:
    """A call in the code at which a fault can happen."""

    name: str
    kind: str
    """`store`, `link` or `launcher`."""
    module: str
    first_line: int
    last_line: int

    @property
    def in_driver(self) -> bool:
        return self.module.startswith("headrace.driver")


@cache
def read_points() -> list[Point]:
    """Return all fault points, in the order of the code."""
    link_methods = _read_link_methods()
    link_calls = {name: method.call for name, method in link_methods.items()}
    collected: list[Point] = []
    passed: set[str] = set()
    for file in sorted(_SOURCE.rglob("*.py")):
        module = ".".join(["headrace", *file.relative_to(_SOURCE).with_suffix("").parts])
        visitor = _CallVisitor(module, link_calls)
        visitor.visit(ast.parse(file.read_text()))
        collected += visitor.points
        passed |= visitor.passed
    collected += [link_methods[name].as_point() for name in sorted(passed)]
    return list(_number_points(collected))


class _CallVisitor(ast.NodeVisitor):
    """Collects the calls of one module that are points."""

    def __init__(self, module: str, link_calls: dict[str, str]) -> None:
        self.points: list[Point] = []
        self.passed: set[str] = set()
        """Methods of the link that the module passes on as functions."""
        self._called: set[ast.expr] = set()
        self._module = module
        self._link_calls = link_calls

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            call = item.context_expr
            if isinstance(call, ast.Call) and _method_name(call) == "write" and call.args:
                argument = call.args[0]
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    self._add("store", argument.value, call)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        in_driver = self._module.startswith("headrace.driver.")
        is_link = in_driver and _name_of(node.value) == "link" and node.attr in self._link_calls
        if is_link and node not in self._called:
            self.passed.add(node.attr)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self._called.add(node.func)
        method, owner = _method_name(node), _owner_name(node)
        in_driver = self._module.startswith("headrace.driver.")
        if in_driver and owner == "link" and method in self._link_calls:
            self._add("link", f"{self._module_stem}:{self._link_calls[method]}", node)
        if owner == "launchers" and method in _LAUNCHER_CALLS:
            self._add("launcher", f"{self._module_stem}:{method}", node)
        self.generic_visit(node)

    @property
    def _module_stem(self) -> str:
        return self._module.rpartition(".")[2].strip("_")

    def _add(self, kind: str, name: str, node: ast.Call) -> None:
        last = node.end_lineno or node.lineno
        self.points.append(Point(f"{kind} {name}", kind, self._module, node.lineno, last))


def _method_name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _owner_name(node: ast.Call) -> str:
    """Return `link` for `self._link.poll()` and for `link.poll()`."""
    return _name_of(node.func.value) if isinstance(node.func, ast.Attribute) else ""


def _name_of(node: ast.expr) -> str:
    """Return `link` for `self._link` and for `link`."""
    if isinstance(node, ast.Attribute):
        return node.attr.lstrip("_")
    return node.id.lstrip("_") if isinstance(node, ast.Name) else ""


@dataclass(frozen=True, slots=True)
class _LinkMethod:
    """A method of the driver's NodeLink."""

    call: str
    """The call of the link that it makes."""
    first_line: int
    last_line: int

    def as_point(self) -> Point:
        """Return the point of the calls that are made through a function."""
        name = f"link function:{self.call}"
        return Point(name, "link", _LINK_MODULE, self.first_line, self.last_line)


def _read_link_methods() -> dict[str, _LinkMethod]:
    """Return the methods of the driver's NodeLink that make a call of the link, by name."""
    tree = ast.parse((_SOURCE / "driver" / "link.py").read_text())
    return {
        method.name: _LinkMethod(
            call.args[0].value, method.lineno, method.end_lineno or method.lineno
        )
        for method in ast.walk(tree)
        if isinstance(method, ast.FunctionDef)
        for call in ast.walk(method)
        if isinstance(call, ast.Call) and _method_name(call) == "_call"
        if isinstance(call.args[0], ast.Constant)
    }


def _number_points(collected: list[Point]) -> Iterator[Point]:
    """Yield the points in the order of the code, with `#2` and so on for repeated names."""
    counts: Counter[str] = Counter()
    for point in sorted(collected, key=lambda point: (point.module, point.first_line)):
        counts[point.name] += 1
        number = counts[point.name]
        name = point.name if number == 1 else f"{point.name}#{number}"
        yield Point(name, point.kind, point.module, point.first_line, point.last_line)
