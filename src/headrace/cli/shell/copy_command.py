r"""The arguments of `\copy`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.cli.shell.arguments import parse_file
from headrace.cli.table_names import parse_name
from headrace.errors import InvalidRequest
from headrace.grammar.lexer import Token, TokenKind, code_tokens
from headrace.grammar.script import split_script

_USAGE = "write \\copy TABLE to 'FILE', \\copy (QUERY) to 'FILE' or \\copy TABLE from 'FILE'"


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """A copy between a table and a local file."""

    table: str
    """Name of the table; empty if a query is copied."""
    query: str
    is_load: bool
    """Whether the file is read, and not written."""
    file: Path


def parse_copy(arguments: str) -> CopyRequest:
    """Return the parsed arguments. Raises InvalidRequest if they have another form."""
    tokens = list(code_tokens(arguments))
    index = _direction_index(tokens)
    if index is None:
        raise InvalidRequest("\\copy needs `to` or `from`, and a file.", hint=_USAGE)
    direction = tokens[index]
    is_load = direction.word == "FROM"
    subject = arguments[: direction.start].strip()
    file = parse_file("copy", arguments[direction.end :], hint=_USAGE)
    if not subject.startswith("("):
        name = parse_name(subject)
        return CopyRequest(name, f"TABLE {name}", is_load, file)
    if is_load:
        raise InvalidRequest("\\copy … from needs a table, not a query.", hint=_USAGE)
    query = subject[1:-1].strip()
    if not subject.endswith(")") or len(split_script(query)) != 1:
        raise InvalidRequest("\\copy takes one query in brackets.", hint=_USAGE)
    return CopyRequest("", query, is_load, file)


def _direction_index(tokens: Sequence[Token]) -> int | None:
    """Return the index of TO or FROM after the table, or after the query in brackets."""
    depth = 0
    for index, token in enumerate(tokens):
        if token.kind is TokenKind.SYMBOL:
            depth += (token.word == "(") - (token.word == ")")
        elif depth == 0 and token.word in {"TO", "FROM"} and index:
            return index
    return None
