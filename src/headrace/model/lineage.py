"""Lineage: the tables and files that a statement reads and writes."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from headrace.model.text import SmallCount, check_key, check_text

MAX_TABLES = 200
"""Largest number of tables in the lineage of one statement."""
MAX_STREAM_TABLES = 50
"""Largest number of tables in the lineage of one streaming query."""
MAX_COLUMNS = 500
"""Largest number of columns of one table in a lineage."""
_MAX_PART = 255
_MAX_PARTS = 8
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_JDBC = re.compile(
    r"(?P<kind>jdbc(?::[A-Za-z0-9+-]+)+:)//(?:[^@/]*@)?(?P<place>[A-Za-z0-9._,:\[\]-]+"
    r"(?:/[A-Za-z0-9._$-]*)?)(?![^?;])"
)
_JDBC_KIND = re.compile(r"jdbc:[A-Za-z0-9+-]+")
_AUTHORITY = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^/]*@(?=[^/@]*(?:/|$))")
_CONTAINERS = ("abfs://", "abfss://", "wasb://", "wasbs://")
"""Schemes of Azure, where the text before the @ names a container."""


def hide_credentials(location: str) -> str:
    """Return a location without user, password and parameters.

    Of a URL of JDBC, the host and the database remain. If the URL has another form, in which a
    password could be anywhere, only the kind of the database remains.
    """
    if location[:5].lower() == "jdbc:":
        location = "jdbc:" + location[5:]
        if match := _JDBC.match(location):
            return f"{match['kind']}//{match['place']}"
        kind = _JDBC_KIND.match(location)
        return kind[0] if kind else "jdbc:"
    if "://" not in location:
        return location
    if not location.lower().startswith(_CONTAINERS):
        location = _AUTHORITY.sub(r"\g<scheme>", location)
    return location.partition("?")[0]


class LineageDirection(StrEnum):
    """What a statement does with a table."""

    READ = "read"
    WRITE = "write"


NamePart = Annotated[str, Field(min_length=1, max_length=_MAX_PART), AfterValidator(check_text)]
"""A part of the name of a table, or the name of a column."""
Location = Annotated[
    str,
    BeforeValidator(lambda value: hide_credentials(value) if isinstance(value, str) else value),
    Field(min_length=1, max_length=1024),
    AfterValidator(check_text),
]
"""A path, or a URL, without credentials."""


class TableUse(BaseModel):
    """A table, or files, that a statement reads or writes.

    Either `name` or `location` is set, or both: a table of a database behind JDBC has both.
    """

    model_config = ConfigDict(frozen=True)

    direction: LineageDirection
    catalog: NamePart | None = None
    namespace: Annotated[list[NamePart], Field(max_length=_MAX_PARTS, fail_fast=True)] = []
    name: NamePart | None = None
    location: Location | None = None
    columns: Annotated[list[NamePart], Field(max_length=MAX_COLUMNS, fail_fast=True)] = []
    """Columns that are read, or those of the table that is written, as far as Spark names them."""
    columns_omitted: SmallCount = 0
    """Number of further columns."""

    @model_validator(mode="after")
    def _check_name(self) -> TableUse:
        if self.name is None and self.location is None:
            raise ValueError("a table needs a name or a location")
        check_key(self.key)
        return self

    @property
    def is_written(self) -> bool:
        """Whether the statement writes the table."""
        return self.direction is LineageDirection.WRITE

    @property
    def display_name(self) -> str:
        """The name of the table as SQL writes it, or the location of files."""
        parts = [self.catalog, *self.namespace, self.name]
        name = ".".join(
            part if _PLAIN.fullmatch(part) else f"`{part.replace('`', '``')}`"
            for part in parts
            if part
        )
        if self.location is None:
            return name
        return f"{self.location} {name}" if name else self.location

    @property
    def key(self) -> str:
        """The identity of the table. Spark compares names without regard to case."""
        return self.display_name if self.location else self.display_name.casefold()


Lineage = Annotated[list[TableUse], Field(max_length=MAX_TABLES, fail_fast=True)]
"""The tables of one statement, as a driver reports them."""
StreamLineage = Annotated[list[TableUse], Field(max_length=MAX_STREAM_TABLES, fail_fast=True)]
"""The tables of one streaming query, as a driver reports them."""
