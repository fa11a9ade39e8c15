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
    parse_create_materialized_view,
    parse_materialized_view_statement,
    parse_show_materialized_views,
)

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
_statements = st.one_of(
    st.builds(
        CreateMaterializedView,
        name=_names,
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
        ("CREATE MATERIALIZED VIEW v SELECT 1", "'SELECT' is not expected here. Expected: USING,"),
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
