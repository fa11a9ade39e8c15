"""`LIST SCHEMAS`, `LIST TABLES`, `LIST COLUMNS` and `LIST FUNCTIONS`: what a catalog holds.

Clients of databases ask for it by patterns, of the form that JDBC and ODBC define.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from headrace.grammar.lexer import Token
from headrace.grammar.quoting import quote_name, quote_string
from headrace.grammar.token_reader import TokenReader

POSITION = "headrace.position"
"""Key in the metadata of a column, if a statement has a pattern for columns: its position in the
table, from 1."""


class ListedObjects(StrEnum):
    """What a statement lists."""

    SCHEMAS = "SCHEMAS"
    TABLES = "TABLES"
    COLUMNS = "COLUMNS"
    FUNCTIONS = "FUNCTIONS"


@dataclass(frozen=True, slots=True)
class ListObjects:
    r"""`LIST TABLES IN CATALOG c SCHEMA LIKE 'a%' TABLE LIKE 'b_'`, and the like.

    A pattern matches whole names, whatever their case: `%` any text, `_` any character, and `\`
    makes the next character mean itself. None matches all names. A schema with several parts is a
    name with dots; a part that has a dot or a backquote itself is in backquotes.

    Temporary views and Spark's own functions belong to no schema. In Spark's own catalog, the views
    are listed for every pattern of schemas, and the functions for every pattern that a schema
    matches.
    """

    objects: ListedObjects
    catalog: str | None = None
    """None: the current catalog."""
    schema: str | None = None
    name: str | None = None
    """Pattern of the names of tables or functions."""
    column: str | None = None
    kind: ClassVar[str] = "interactive"

    def to_sql(self) -> str:
        """Return the statement."""
        parts = [f"LIST {self.objects}"]
        if self.catalog is not None:
            parts.append(f"IN CATALOG {quote_name(self.catalog)}")
        word = "FUNCTION" if self.objects is ListedObjects.FUNCTIONS else "TABLE"
        patterns = {"SCHEMA": self.schema, word: self.name, "COLUMN": self.column}
        parts += [
            f"{key} LIKE {quote_string(pattern)}"
            for key, pattern in patterns.items()
            if pattern is not None
        ]
        return " ".join(parts)


def parse_list_objects(text: str, tokens: Sequence[Token]) -> ListObjects:
    """Parse a text that begins with `LIST` and what it lists. Raise InvalidStatement."""
    reader = TokenReader(text, tokens)
    reader.expect("LIST")
    objects = ListedObjects(reader.read_word("what to list", list(ListedObjects)))
    catalog = None
    if reader.accept("IN", "CATALOG"):
        catalog = reader.read_identifier("a catalog")
    schema = _read_pattern(reader, "SCHEMA")
    name = column = None
    if objects in {ListedObjects.TABLES, ListedObjects.COLUMNS}:
        name = _read_pattern(reader, "TABLE")
    if objects is ListedObjects.COLUMNS:
        column = _read_pattern(reader, "COLUMN")
    if objects is ListedObjects.FUNCTIONS:
        name = _read_pattern(reader, "FUNCTION")
    reader.expect_end()
    return ListObjects(objects, catalog, schema, name, column)


def _read_pattern(reader: TokenReader, word: str) -> str | None:
    return reader.read_string("a pattern") if reader.accept(word, "LIKE") else None


def pattern_to_regex(pattern: str | None) -> str:
    """Return the regular expression, of Java and of Python, for the whole names of a pattern.

    Compile it so that it ignores case, and so that a dot matches any character.
    """
    if pattern is None:
        return ".*"
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    return "".join({"%": ".*", "_": "."}.get(part, _escape(part)) for part in parts)


def escape_pattern(name: str) -> str:
    """Return the pattern that matches this name alone, whatever its case."""
    return re.sub(r"([\\%_])", r"\\\1", name)


def matches(pattern: str | None, name: str) -> bool:
    """Return whether a pattern matches a name."""
    return bool(re.fullmatch(pattern_to_regex(pattern), name, re.IGNORECASE | re.DOTALL))


def split_namespace(name: str) -> list[str]:
    """Return the parts of the name of a schema."""
    parts = re.findall(r"(?:`(?:[^`]|``)*`|[^.])+", name)
    return [
        part[1:-1].replace("``", "`") if re.fullmatch(r"`(?:[^`]|``)*`", part) else part
        for part in parts
    ]


def _escape(part: str) -> str:
    return re.escape(part[1:] if len(part) > 1 else part)
