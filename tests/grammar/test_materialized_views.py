"""Statements of materialized views: their values, their round trip, and the errors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidStatement
from headrace.grammar.lexer import code_tokens
from headrace.grammar.materialized_views import (
    CreateMaterializedView,
    MaterializedViewStatement,
    ShowMaterializedViews,
    ViewAction,
    ViewConstraint,
    blank_before_condition,
    parse_create_materialized_view,
    parse_materialized_view_statement,
    parse_show_materialized_views,
)
from headrace.grammar.parse import parse as parse_text
from headrace.model.expectation import MAX_EXPECTATIONS, Expectation, OnViolation

_PARSERS = {
    CreateMaterializedView: parse_create_materialized_view,
    MaterializedViewStatement: parse_materialized_view_statement,
    ShowMaterializedViews: parse_show_materialized_views,
}


def parse(parser: Any, text: str) -> Any:
    return parser(text, [token for token in code_tokens(text) if token.word != ";"])


def test_a_view_has_a_format_and_properties() -> None:
    text = (
        "CREATE MATERIALIZED VIEW db.v USING parquet WITH (AUTO_REFRESH = TRUE,"
        " refresh_interval = '5 MINUTES') AS SELECT a, count(*) FROM t GROUP BY a;"
    )
    view = parse(parse_create_materialized_view, text)
    assert view == CreateMaterializedView(
        name=("db", "v"),
        format="parquet",
        properties=(("auto_refresh", "true"), ("refresh_interval", "5 MINUTES")),
        query="SELECT a, count(*) FROM t GROUP BY a",
    )
    assert view.kind == "streaming"


CHECKED = """CREATE MATERIALIZED VIEW v (
  CONSTRAINT positive EXPECT (amount > 0) ON VIOLATION DROP ROW,
  constraint `known.shop` expect (shop IN (1, 2) /* ) */ OR note <> ')') on violation fail update,
  CONSTRAINT paid EXPECT (paid[0]))
USING delta AS SELECT * FROM sales"""


def test_a_view_has_expectations() -> None:
    view = parse(parse_create_materialized_view, CHECKED)
    assert view.expectations == [
        Expectation(name="positive", condition="amount > 0", on_violation=OnViolation.DROP),
        Expectation(
            name="known.shop",
            condition="shop IN (1, 2) /* ) */ OR note <> ')'",
            on_violation=OnViolation.FAIL,
        ),
        Expectation(name="paid", condition="paid[0]"),
    ]
    assert (view.format, view.query) == ("delta", "SELECT * FROM sales")


def test_a_condition_stands_at_its_position_in_the_text() -> None:
    constraint = parse(parse_create_materialized_view, CHECKED).constraints[2]
    placed = blank_before_condition(CHECKED, constraint)
    assert placed.splitlines()[:-1] == [" " * len(line) for line in CHECKED.splitlines()[:3]]
    assert placed.strip() == "paid[0]"
    assert CHECKED.startswith("paid[0]", len(placed) - len("paid[0]"))


@pytest.mark.parametrize(
    ("constraints", "line_and_column", "message"),
    [
        ("", (1, 29), "Expected: CONSTRAINT."),
        ("a INT, CONSTRAINT b EXPECT (a > 0)", (1, 29), "Expected: CONSTRAINT."),
        ("CONSTRAINT EXPECT (a > 0)", (1, 47), "Expected: EXPECT."),
        ("CONSTRAINT a CHECK (a > 0)", (1, 42), "Expected: EXPECT."),
        ("CONSTRAINT a EXPECT a > 0", (1, 49), "Expected: (."),
        ("CONSTRAINT a EXPECT ()", (1, 50), "Expected: a condition."),
        ("CONSTRAINT a EXPECT (b > 0", (1, 57), "Expected: ON VIOLATION, ), ,."),
        ("CONSTRAINT a EXPECT (b > '0)", (1, 75), "The statement ends too early."),
        (
            "CONSTRAINT a EXPECT (b > 0) ON VIOLATION IGNORE",
            (1, 70),
            "'IGNORE' is not expected here. Expected: DROP ROW, FAIL UPDATE.",
        ),
        ("CONSTRAINT a EXPECT (b > 0) ON FAILURE", (1, 57), "Expected: ON VIOLATION, ), ,."),
        (
            "CONSTRAINT a EXPECT (b > 0),\nCONSTRAINT A EXPECT (c > 0)",
            (2, 12),
            "Two expectations have the name A.",
        ),
        (
            "CONSTRAINT `a b` EXPECT (b > 0)",
            (1, 40),
            "The name of an expectation has at most 90 letters, digits, dots, `_` and `-`",
        ),
        (
            "CONSTRAINT a EXPECT (b > 0 AND\n b IN (SELECT 1))",
            (2, 8),
            "The condition of the expectation a is not valid: it has a subquery.",
        ),
        (
            f"CONSTRAINT a EXPECT (b > {'0' * 4096})",
            (1, 50),
            "The condition of an expectation has at most 4,096 characters.",
        ),
        (
            ", ".join(f"CONSTRAINT c{n} EXPECT (b)" for n in range(MAX_EXPECTATIONS + 1)),
            None,
            "A materialized view has at most 50 expectations.",
        ),
    ],
    ids=[
        *("none", "column", "no-name", "no-expect", "no-bracket", "empty", "unclosed", "quote"),
        *("action", "on", "duplicate", "name", "subquery", "long", "many"),
    ],
)
def test_an_expectation_that_is_not_valid_is_refused_at_its_position(
    constraints: str, line_and_column: tuple[int, int] | None, message: str
) -> None:
    text = f"CREATE MATERIALIZED VIEW v ({constraints}) AS SELECT 1 AS b"
    with pytest.raises(InvalidStatement) as caught:
        parse(parse_create_materialized_view, text)
    assert message in caught.value.message
    assert caught.value.position is not None
    if line_and_column is not None:
        position = caught.value.position
        assert (position.line, position.column) == line_and_column


@pytest.mark.parametrize(
    "create",
    ["CREATE VIEW", "CREATE OR REPLACE VIEW", "CREATE OR REPLACE GLOBAL TEMPORARY VIEW"],
)
def test_a_view_without_rows_of_its_own_has_no_expectations(create: str) -> None:
    text = f"{create} v (a, CONSTRAINT b EXPECT (a > 0)) AS SELECT 1 AS a"
    with pytest.raises(InvalidStatement, match="Only materialized views have expectations") as info:
        parse_text(text)
    assert info.value.position is not None
    assert info.value.position.column == len(create) + 8


@pytest.mark.parametrize(
    "text",
    [
        "CREATE VIEW v AS SELECT constraint AS expect, EXPECT (1) FROM t",
        "CREATE VIEW expect (a COMMENT 'CONSTRAINT b EXPECT (c)') AS SELECT 1",
        "CREATE TABLE t (a INT, CONSTRAINT b CHECK (a > 0))",
    ],
)
def test_other_statements_with_these_words_are_sparks(text: str) -> None:
    assert parse_text(text).command is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("REFRESH MATERIALIZED VIEW v", "batch"),
        ("DROP MATERIALIZED VIEW v", "local"),
        ("DESCRIBE MATERIALIZED VIEW v", "local"),
    ],
)
def test_a_refresh_is_work_of_a_driver(text: str, kind: str) -> None:
    assert parse(parse_materialized_view_statement, text).kind == kind


_names = st.lists(
    st.text(min_size=1, max_size=8).filter(lambda name: "\0" not in name and name.strip()),
    min_size=1,
    max_size=3,
).map(tuple)
_properties = st.fixed_dictionaries(
    {},
    optional={
        "auto_refresh": st.sampled_from(["true", "false"]),
        "refresh_interval": st.text(max_size=8),
        "checkpoint_location": st.text(max_size=8),
    },
).map(lambda properties: tuple(properties.items()))
_constraints = st.lists(
    st.builds(
        ViewConstraint,
        st.builds(
            Expectation,
            name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True),
            condition=st.sampled_from(["a > 0", "(a < b[1]) AND `)` <> ')'"]),
            on_violation=st.sampled_from(OnViolation),
        ),
    ),
    max_size=3,
    unique_by=lambda each: each.expectation.name.casefold(),
).map(tuple)
_statements = st.one_of(
    st.builds(
        CreateMaterializedView,
        name=_names,
        constraints=_constraints,
        format=st.sampled_from([None, "parquet", "delta"]),
        properties=_properties,
        query=st.just("SELECT 1 AS `;`"),
    ),
    st.builds(MaterializedViewStatement, st.sampled_from(ViewAction), _names),
    st.just(ShowMaterializedViews()),
)


@given(_statements)
def test_the_text_of_a_statement_parses_to_the_same_statement(statement: Any) -> None:
    assert parse(_PARSERS[type(statement)], statement.to_sql()) == statement


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE MATERIALIZED VIEW", "Expected: the name of a materialized view."),
        (
            "CREATE MATERIALIZED VIEW v SELECT 1",
            "'SELECT' is not expected here. Expected: (, USING,",
        ),
        ("CREATE MATERIALIZED VIEW v AS", "Expected: a query."),
        (
            "CREATE MATERIALIZED VIEW v WITH (auto = true) AS SELECT 1",
            "auto is not a property of a view. Allowed: auto_refresh, refresh_interval,",
        ),
        (
            "CREATE MATERIALIZED VIEW v WITH (max_lag = '15 MINUTES') AS SELECT 1",
            "max_lag is not a property of a view. Deploy a job that refreshes the view",
        ),
        (
            "CREATE MATERIALIZED VIEW v WITH (auto_refresh = 'yes') AS SELECT 1",
            "auto_refresh must be true or false, not 'yes'.",
        ),
    ],
)
def test_a_syntax_error_names_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(InvalidStatement) as caught:
        parse(parse_create_materialized_view, text)
    assert message in caught.value.message
    assert caught.value.position is not None
