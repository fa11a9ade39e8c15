"""Texts that the reference pages share: docstrings of attributes, comments, Markdown tables."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import cache
from itertools import pairwise
from pathlib import Path

NONE = "\N{EN DASH}"


@cache
def attribute_docs(cls: type) -> dict[str, str]:
    """Return the docstrings below the attributes of a class and its bases, by attribute name."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("headrace"):
            docs |= _own_attribute_docs(base)
    return docs


def _own_attribute_docs(cls: type) -> dict[str, str]:
    body = class_definitions(cls.__module__)[cls.__name__].body
    docs = {}
    for statement, following in pairwise(body):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        text = following.value if isinstance(following, ast.Expr) else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            docs[statement.target.id] = inspect.cleandoc(text.value)
    return docs


@cache
def _source(module: str) -> str:
    return Path(str(sys.modules[module].__file__)).read_text()


@cache
def class_definitions(module: str) -> dict[str, ast.ClassDef]:
    # One parse per module: inspect.getsource parses the module again for each class.
    found = ast.walk(ast.parse(_source(module)))
    return {node.name: node for node in found if isinstance(node, ast.ClassDef)}


def member_comments(enum: type[Enum]) -> dict[str, str]:
    """Return the comments behind the members of an enum, by the member's value."""
    definition = class_definitions(enum.__module__)[enum.__name__]
    lines = _source(enum.__module__).splitlines()[definition.lineno : definition.end_lineno]
    found = (re.match(r'\s+[A-Z_]+ = "([^"]+)"\s*# (.+)', line) for line in lines)
    return {match[1]: match[2] for match in found if match}


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(text: object) -> str:
    """Return a text as inline code, or the sign for no value."""
    return f"`{text}`" if text not in {None, ""} else NONE


def sentence(doc: str | None) -> str:
    """Return the first paragraph of a docstring on one line."""
    return " ".join((inspect.cleandoc(doc or "").split("\n\n")[0]).split())
