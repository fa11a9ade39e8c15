"""The statements of materialized views: CREATE, REFRESH, DROP, SHOW, DESCRIBE.

Each statement is a value. `to_sql` returns a text that parses to the same value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from headrace.grammar.clauses import (
    Options,
    pairs_to_sql,
    qualified_name_to_sql,
    read_options,
)
from headrace.grammar.lexer import Token
from headrace.grammar.quoting import quote_name
from headrace.grammar.token_reader import TokenReader

_VIEW = "the name of a materialized view"
_AUTO_REFRESH = "auto_refresh"
_PROPERTIES = (_AUTO_REFRESH, "refresh_interval", "checkpoint_location")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateMaterializedView:
    """`CREATE MATERIALIZED VIEW v [USING format] [WITH (…)] AS SELECT …`."""

    name: tuple[str, ...]
    format: str | None = None
    properties: Options = ()
    """Of `auto_refresh`, `refresh_interval` and `checkpoint_location`."""
    query: str
    """The query as written."""

    @property
    def is_auto_refreshed(self) -> bool:
        """Whether a supervised query keeps the view fresh."""
        return dict(self.properties).get(_AUTO_REFRESH) == "true"

    @property
    def refresh_interval(self) -> str | None:
        """The property `refresh_interval` as written."""
        return dict(self.properties).get("refresh_interval")

    @property
    def checkpoint_location(self) -> str | None:
        """The property `checkpoint_location` as written."""
        return dict(self.properties).get("checkpoint_location")

    @property
    def kind(self) -> str:
        """Kind of the session that the statement needs."""
        return "streaming" if self.is_auto_refreshed else "interactive"

    def to_sql(self) -> str:
        using = "" if self.format is None else f" USING {quote_name(self.format)}"
        properties = f" WITH {pairs_to_sql(self.properties)}" if self.properties else ""
        name = qualified_name_to_sql(self.name)
        return f"CREATE MATERIALIZED VIEW {name}{using}{properties} AS {self.query}"


class ViewAction(StrEnum):
    """What a statement does to one materialized view."""

    REFRESH = "REFRESH"
    DROP = "DROP"
    DESCRIBE = "DESCRIBE"


@dataclass(frozen=True, slots=True)
class MaterializedViewStatement:
    """`REFRESH MATERIALIZED VIEW v`, `DROP MATERIALIZED VIEW v` or `DESCRIBE …`."""

    action: ViewAction
    name: tuple[str, ...]

    @property
    def kind(self) -> str:
        """Kind of the session that the statement needs."""
        return "batch" if self.action is ViewAction.REFRESH else "local"

    def to_sql(self) -> str:
        return f"{self.action} MATERIALIZED VIEW {qualified_name_to_sql(self.name)}"


@dataclass(frozen=True, slots=True)
class ShowMaterializedViews:
    """`SHOW MATERIALIZED VIEWS`."""

    kind: ClassVar[str] = "local"

    def to_sql(self) -> str:
        return "SHOW MATERIALIZED VIEWS"


MaterializedViewCommand = CreateMaterializedView | MaterializedViewStatement | ShowMaterializedViews


def parse_create_materialized_view(text: str, tokens: Sequence[Token]) -> CreateMaterializedView:
    """Parse a text that begins with `CREATE MATERIALIZED VIEW`. Raise InvalidStatement."""
    reader = TokenReader(text, tokens)
    reader.expect("CREATE", "MATERIALIZED", "VIEW")
    name = reader.read_qualified_name(_VIEW)
    format_ = (
        reader.read_identifier("a format, such as parquet") if reader.accept("USING") else None
    )
    properties = _read_properties(reader) if reader.accept("WITH") else ()
    reader.expect("AS")
    query = reader.read_rest("a query")
    return CreateMaterializedView(name=name, format=format_, properties=properties, query=query)


def parse_materialized_view_statement(
    text: str, tokens: Sequence[Token]
) -> MaterializedViewStatement:
    """Parse `REFRESH`, `DROP` or `DESCRIBE MATERIALIZED VIEW`. Raise InvalidStatement."""
    reader = TokenReader(text, tokens)
    action = ViewAction(reader.read_word("an action", list(ViewAction)))
    reader.expect("MATERIALIZED", "VIEW")
    name = reader.read_qualified_name(_VIEW)
    reader.expect_end()
    return MaterializedViewStatement(action, name)


def parse_show_materialized_views(text: str, tokens: Sequence[Token]) -> ShowMaterializedViews:
    """Parse `SHOW MATERIALIZED VIEWS`. Raise InvalidStatement."""
    reader = TokenReader(text, tokens)
    reader.expect("SHOW", "MATERIALIZED", "VIEWS")
    reader.expect_end()
    return ShowMaterializedViews()


def _read_properties(reader: TokenReader) -> Options:
    begin = reader.offset
    properties = tuple((key.lower(), value) for key, value in read_options(reader))
    for key, value in properties:
        if key == "max_lag":
            raise reader.error(
                "max_lag is not a property of a view. Deploy a job that refreshes the view, with"
                " `schedule: {max-lag: 15min, of: [table]}` and `script: REFRESH MATERIALIZED VIEW"
                " …`.",
                offset=begin,
            )
        if key not in _PROPERTIES:
            allowed = ", ".join(_PROPERTIES)
            raise reader.error(
                f"{key} is not a property of a view. Allowed: {allowed}.", offset=begin
            )
        if key == _AUTO_REFRESH and value.lower() not in ("true", "false"):
            raise reader.error(
                f"{_AUTO_REFRESH} must be true or false, not {value!r}.", offset=begin
            )
    return tuple(
        (key, value.lower() if key == _AUTO_REFRESH else value) for key, value in properties
    )


def blank_before_query(text: str, command: CreateMaterializedView) -> str:
    """Return the query of a CREATE MATERIALIZED VIEW, at its position in the text.

    All that precedes it is blank, so that positions in Spark's errors refer to the user's text.
    """
    begin = text.rindex(command.query)
    blank = "".join(character if character == "\n" else " " for character in text[:begin])
    return blank + command.query
