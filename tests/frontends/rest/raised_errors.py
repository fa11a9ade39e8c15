"""The errors that the handler of a route can raise, read from the source code.

The call graph follows functions by their imports, methods of `self` by their class, and any other
method if only one class of the node has a method of this name. A handler that catches an error by
its name is not considered to raise it, and what a function calls that catches all errors is not
followed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import headrace
import headrace.errors
from headrace.errors import HeadraceError

_ROOT = Path(headrace.__file__).parent
_BUILTIN_METHODS = {
    name
    for cls in (dict, list, set, str, bytes, tuple, Path, Exception, Future)
    for name in dir(cls)
}
_PACKAGES = ("frontends", "control", "store", "grammar", "deploy", "results", "model", "files")


@dataclass
class _Function:
    name: str
    raised: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
    caught: set[str] = field(default_factory=set)
    catches_all: bool = False
    """Whether no error of what it calls leaves it."""


class _Source:
    """The functions of the node, by qualified name."""

    def __init__(self) -> None:
        self.functions: dict[str, _Function] = {}
        self.methods: dict[str, set[str]] = {}
        self.attributes: dict[str, set[str]] = {}
        """Classes of the attributes of objects, by the name of the attribute."""
        modules = [
            (_module_name(file), ast.parse(file.read_text()))
            for package in _PACKAGES
            for file in (_ROOT / package).rglob("*.py")
        ]
        for module, tree in modules:
            imports = _imports(tree)
            for owner, node in _functions(tree):
                self.methods.setdefault(node.name, set()).add(_join(module, owner, node.name))
                for attribute, cls in _attributes(node):
                    qualified = imports.get(cls, f"{module}.{cls}")
                    self.attributes.setdefault(attribute, set()).add(qualified)
        for module, tree in modules:
            imports = _imports(tree)
            for owner, node in _functions(tree):
                name = _join(module, owner, node.name)
                self.functions[name] = self._read(name, module, owner, node, imports)

    def _read(
        self,
        name: str,
        module: str,
        owner: str,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        imports: dict[str, str],
    ) -> _Function:
        function = _Function(name)
        # A decorator, such as `router.delete`, runs before there is a request.
        parts = [part for statement in node.body for part in ast.walk(statement)]
        called = {id(each.func) for each in parts if isinstance(each, ast.Call)}
        for each in parts:
            if isinstance(each, ast.Raise) and each.exc is not None:
                function.raised |= _names(each.exc)
            elif isinstance(each, ast.Return) and each.value is not None:
                # A function may return the error that its caller raises.
                if isinstance(each.value, ast.Call):
                    function.raised |= _names(each.value.func)
            elif isinstance(each, ast.ExceptHandler) and each.type is not None:
                function.caught |= _names(each.type)
                function.catches_all |= _ends_all_errors(each)
            elif isinstance(each, ast.Name | ast.Attribute):
                target = self._resolve(each, module, owner, imports, is_call=id(each) in called)
                if target is not None and target != name:
                    function.calls.add(target)
        return function

    def _resolve(
        self,
        node: ast.Name | ast.Attribute,
        module: str,
        owner: str,
        imports: dict[str, str],
        *,
        is_call: bool,
    ) -> str | None:
        if isinstance(node, ast.Name):
            return self._known(imports.get(node.id, f"{module}.{node.id}"))
        base = node.value
        if isinstance(base, ast.Name) and base.id == "self" and owner:
            own = self._known(_join(module, owner, node.attr))
            if own is not None:
                return own
        if isinstance(base, ast.Name) and base.id in imports:
            return self._known(f"{imports[base.id]}.{node.attr}")
        holder = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
        classes = self.attributes.get(holder.removeprefix("_"), set())
        typed = {name for cls in classes if (name := self._known(f"{cls}.{node.attr}")) is not None}
        candidates = {each for each in self.methods.get(node.attr, ()) if _is_method(each)}
        if len(typed) == 1:
            return next(iter(typed))
        if is_call and len(candidates) == 1 and node.attr not in _BUILTIN_METHODS:
            return next(iter(candidates))
        return None

    def _known(self, name: str) -> str | None:
        package, _, last = name.rpartition(".")
        return name if name in self.methods.get(last, ()) and package else None


def errors_of(handler: Callable[..., Any]) -> set[type[HeadraceError]]:
    """Return the classes of the errors that a handler can raise."""
    source = _read_source()
    classes = {cls.__name__: cls for cls in _all_errors(HeadraceError)}
    start = f"{handler.__module__}.{handler.__qualname__}"
    found: set[type[HeadraceError]] = set()
    visited, waiting = set(), [(start, frozenset[str]())]
    while waiting:
        name, caught = waiting.pop()
        function = source.functions.get(name)
        if function is None or name in visited:
            continue
        visited.add(name)
        caught |= function.caught
        found |= {classes[each] for each in function.raised - caught if each in classes}
        if function.catches_all:
            continue
        waiting += [(each, caught) for each in sorted(function.calls)]
    return found


@cache
def _read_source() -> _Source:
    return _Source()


def _all_errors(cls: type[HeadraceError]) -> Iterator[type[HeadraceError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _all_errors(child)


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield "", node
        elif isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield node.name, each


def _imports(tree: ast.Module) -> dict[str, str]:
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }


def _attributes(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the attributes of `self` that are set to a new object of a class, with the class."""
    for each in ast.walk(node):
        if (
            isinstance(each, ast.Assign)
            and isinstance(each.targets[0], ast.Attribute)
            and isinstance(each.value, ast.Call)
            and isinstance(each.value.func, ast.Name)
            and each.value.func.id[:1].isupper()
        ):
            yield each.targets[0].attr.removeprefix("_"), each.value.func.id


def _ends_all_errors(handler: ast.ExceptHandler) -> bool:
    """Return whether an `except HeadraceError` returns another value, and raises nothing."""
    is_general = handler.type is not None and _names(handler.type) == {HeadraceError.__name__}
    returns = isinstance(handler.body[-1], ast.Return)
    return is_general and returns and not any(isinstance(e, ast.Raise) for e in ast.walk(handler))


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _module_name(file: Path) -> str:
    parts = file.relative_to(_ROOT.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def _join(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _is_method(name: str) -> bool:
    return name.rpartition(".")[0].rpartition(".")[2][:1].isupper()
