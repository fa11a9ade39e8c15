"""The statements of materialized views: CREATE, REFRESH, DROP, SHOW, DESCRIBE.

Each statement is a value. `to_sql` returns a text that parses to the same value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from headrace.errors import InvalidStatement
from headrace.grammar.clauses import (
    Options,
    pairs_to_sql,
    qualified_name_to_sql,
    read_options,
)
from headrace.grammar.lexer import Token, code_tokens
from headrace.grammar.quoting import quote_name
from headrace.grammar.text import position_at
from headrace.grammar.token_reader import TokenReader

if TYPE_CHECKING:
    from headrace.model.expectation import Expectation

_VIEW = "the name of a materialized view"
_AUTO_REFRESH = "auto_refresh"
_PROPERTIES = (_AUTO_REFRESH, "refresh_interval", "checkpoint_location")
_ACTIONS = {
    "warn": "",
    "drop": " ON VIOLATION DROP ROW",
    "fail": " ON VIOLATION FAIL UPDATE",
}
_REFUSED = {
    "name": "The name of an expectation has at most 90 letters, digits, dots, `_` and `-`, and"
    " begins with a letter or a digit.",
    "condition": "The condition of an expectation has at most 4,096 characters.",
}


@dataclass(frozen=True, slots=True)
class ViewConstraint:
    """`CONSTRAINT name EXPECT (condition) [ON VIOLATION {DROP ROW | FAIL UPDATE}]`."""

    expectation: Expectation
    condition_at: int = field(default=0, compare=False)
    """Offset of the condition in the text of the statement. Equal constraints may differ in it."""

    def to_sql(self) -> str:
        expected, action = self.expectation, _ACTIONS[self.expectation.on_violation]
        return f"CONSTRAINT {quote_name(expected.name)} EXPECT ({expected.condition}){action}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateMaterializedView:
    """`CREATE MATERIALIZED VIEW v [(CONSTRAINT …)] [USING format] [WITH (…)] AS SELECT …`."""

    name: tuple[str, ...]
    constraints: tuple[ViewConstraint, ...] = ()
    """The expectations on the rows of each refresh."""
    format: str | None = None
    properties: Options = ()
    """Of `auto_refresh`, `refresh_interval` and `checkpoint_location`."""
    query: str
    """The query as written."""

    @property
    def expectations(self) -> list[Expectation]:
        """The expectations on the rows of each refresh, in order."""
        return [each.expectation for each in self.constraints]

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
        listed = ", ".join(each.to_sql() for each in self.constraints)
        constraints = f" ({listed})" if listed else ""
        return f"CREATE MATERIALIZED VIEW {name}{constraints}{using}{properties} AS {self.query}"


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
    constraints = _read_constraints(reader) if reader.comes("(") else ()
    format_ = (
        reader.read_identifier("a format, such as parquet") if reader.accept("USING") else None
    )
    properties = _read_properties(reader) if reader.accept("WITH") else ()
    reader.expect("AS")
    query = reader.read_rest("a query")
    return CreateMaterializedView(
        name=name, constraints=constraints, format=format_, properties=properties, query=query
    )


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


def refuse_expectations_of_plain_view(text: str, tokens: Sequence[Token]) -> None:
    """Raise InvalidStatement if a `CREATE … VIEW` that Spark runs has expectations.

    Args:
        tokens: The tokens of the text, without comments and `;`.
    """
    if tokens[0].word != "CREATE" or not any(token.word == "VIEW" for token in tokens[:6]):
        return
    words = [token.word for token in tokens]
    if "EXPECT" not in words:
        return
    at = words.index("EXPECT")
    if words[at - 2] != "CONSTRAINT" or "AS" in words[:at] or words[at + 1 : at + 2] != ["("]:
        return
    raise InvalidStatement(
        "Only materialized views have expectations: a view stores no rows that could be checked.",
        position=position_at(text, tokens[at - 2].start),
        hint="Write CREATE MATERIALIZED VIEW.",
    )


def _read_constraints(reader: TokenReader) -> tuple[ViewConstraint, ...]:
    constraints = list[ViewConstraint]()

    def read() -> ViewConstraint:
        constraints.append(_read_constraint(reader, constraints))
        return constraints[-1]

    return reader.read_list(read)


def _read_constraint(reader: TokenReader, earlier: Sequence[ViewConstraint]) -> ViewConstraint:
    """Read a constraint of the list, and check it against the earlier ones."""
    # Commands of the shell use the grammar without pydantic, which takes long to import.
    from pydantic import ValidationError  # noqa: PLC0415

    from headrace.model.expectation import (  # noqa: PLC0415
        MAX_EXPECTATIONS,
        Expectation,
        OnViolation,
    )

    if len(earlier) == MAX_EXPECTATIONS:
        raise reader.error(f"A materialized view has at most {MAX_EXPECTATIONS} expectations.")
    reader.expect("CONSTRAINT")
    name_at, name = reader.offset, reader.read_identifier("the name of an expectation")
    if any(each.expectation.name.casefold() == name.casefold() for each in earlier):
        raise reader.error(f"Two expectations have the name {name}.", offset=name_at)
    reader.expect("EXPECT")
    reader.expect("(")
    condition_at, condition = reader.offset, _read_condition(reader, name)
    reader.expect(")")
    action = OnViolation(_read_action(reader))
    try:
        expectation = Expectation(name=name, condition=condition, on_violation=action)
    except ValidationError as error:
        part = str(error.errors()[0]["loc"][0])
        at = name_at if part == "name" else condition_at
        raise reader.error(_REFUSED[part], offset=at) from error
    return ViewConstraint(expectation, condition_at)


def _read_condition(reader: TokenReader, name: str) -> str:
    begin = reader.offset
    # `<` and `>` compare values here.
    condition = reader.read_until(")", meaning="a condition", brackets="()")
    for token in code_tokens(condition):
        if token.word == "SELECT":
            raise reader.error(
                f"The condition of the expectation {name} is not valid: it has a subquery.",
                offset=begin + token.start,
            )
    return condition


def _read_action(reader: TokenReader) -> str:
    if not reader.accept("ON", "VIOLATION"):
        return "warn"
    if reader.accept("DROP", "ROW"):
        return "drop"
    reader.expect("FAIL", "UPDATE")
    return "fail"


def _read_properties(reader: TokenReader) -> Options:
    begin = reader.offset
    properties = tuple((key.lower(), value) for key, value in read_options(reader))
    for key, value in properties:
        if key == "max_lag":
            raise reader.error(
                "max_lag is not a property of a view. Deploy a job that refreshes the view, with"
                " `schedule: {max-lag: 15min}` and `script: REFRESH MATERIALIZED VIEW …`.",
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
    return _blank_before(text, text.rindex(command.query)) + command.query


def blank_before_condition(text: str, constraint: ViewConstraint) -> str:
    """Return the condition of a constraint, at its position in the text.

    All that precedes it is blank, as in `blank_before_query`.
    """
    return _blank_before(text, constraint.condition_at) + constraint.expectation.condition


def _blank_before(text: str, begin: int) -> str:
    return "".join(character if character == "\n" else " " for character in text[:begin])
