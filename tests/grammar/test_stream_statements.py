"""Statements of streams and sinks: their values, their round trip, and the errors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidStatement, Position
from headrace.grammar.clauses import (
    DeclaredColumn,
    Interval,
    IntervalUnit,
    parse_qualified_name,
    qualified_name_to_sql,
)
from headrace.grammar.lexer import code_tokens
from headrace.grammar.stream_clauses import OutputMode, StreamTrigger, TriggerKind, parse_trigger
from headrace.grammar.stream_statements import (
    CreateSink,
    CreateStream,
    CreateStreamAs,
    DefinedKind,
    DropDefinition,
    ListedEntity,
    QueryStatement,
    SaveStream,
    ShowDefinitions,
    parse_create_sink,
    parse_create_stream,
    parse_drop_definition,
    parse_query_statement,
    parse_save_stream,
    parse_show_definitions,
)
from headrace.model.lifecycle import StreamAction

_PARSERS = {
    CreateStream: parse_create_stream,
    CreateStreamAs: parse_create_stream,
    CreateSink: parse_create_sink,
    SaveStream: parse_save_stream,
    QueryStatement: parse_query_statement,
    ShowDefinitions: parse_show_definitions,
    DropDefinition: parse_drop_definition,
}


def parse(parser: Any, text: str) -> Any:
    return parser(text, [token for token in code_tokens(text) if token.word != ";"])


def save(text: str) -> SaveStream:
    statement = parse(parse_save_stream, text)
    assert isinstance(statement, SaveStream)
    return statement


SEED_EXAMPLES = {
    "SAVE STREAM foo\nTO CONSOLE;": SaveStream(source=("foo",), target=("CONSOLE",)),
    "SAVE STREAM foo\nTO JSON\nIDENTIFIED BY foo_json;": SaveStream(
        source=("foo",), target=("JSON",), query_name="foo_json"
    ),
    "SAVE STREAM foo(a int, b int, c int)\nTO JSON\nPARTITIONED ON(a, b);": SaveStream(
        source=("foo",),
        columns=tuple(DeclaredColumn(name, "int") for name in "abc"),
        target=("JSON",),
        partitioned_on=("a", "b"),
    ),
    "SAVE STREAM foo\nTO CONSOLE\nTRIGGER 5 MINUTES;": SaveStream(
        source=("foo",),
        target=("CONSOLE",),
        trigger=StreamTrigger(TriggerKind.INTERVAL, Interval(5, IntervalUnit.MINUTE)),
    ),
    "SAVE STREAM foo\nTO JSON\nOPTIONS(\n'checkpointLocation'='/path/to/write-ahead-log'\n);": (
        SaveStream(
            source=("foo",),
            target=("JSON",),
            options=(("checkpointLocation", "/path/to/write-ahead-log"),),
        )
    ),
    "SAVE STREAM foo\nTO CONSOLE\nOPTIONS(\n'pstl.retry.random.factor'='0.2'\n);": SaveStream(
        source=("foo",), target=("CONSOLE",), options=(("pstl.retry.random.factor", "0.2"),)
    ),
}


@pytest.mark.parametrize(("text", "expected"), SEED_EXAMPLES.items())
def test_the_examples_of_the_seed_are_parsed_word_for_word(text: str, expected: SaveStream) -> None:
    assert save(text) == expected


def test_the_clauses_of_a_query_have_any_order() -> None:
    statement = save(
        "save stream db.t to table k.out options (a.b 'x', n 1.5, f true) trigger available now"
        " partitioned on (`p q`) output mode complete identified by q"
    )
    assert statement == SaveStream(
        source=("db", "t"),
        target=("k", "out"),
        to_table=True,
        query_name="q",
        trigger=StreamTrigger(TriggerKind.AVAILABLE_NOW),
        output_mode=OutputMode.COMPLETE,
        partitioned_on=("p q",),
        options=(("a.b", "x"), ("n", "1.5"), ("f", "true")),
    )
    assert statement.name == "q"
    assert save("SAVE STREAM db.t TO noop").name == "t"


def test_types_of_columns_are_kept_as_written() -> None:
    text = "CREATE STREAM s (a DECIMAL(10, 2) NOT NULL, m MAP<STRING, STRUCT<x: INT>>) FROM kafka"
    statement = parse(parse_create_stream, text)
    assert statement.columns == (
        DeclaredColumn("a", "DECIMAL(10, 2) NOT NULL"),
        DeclaredColumn("m", "MAP<STRING, STRUCT<x: INT>>"),
    )


def test_a_stream_can_be_a_query() -> None:
    text = "CREATE OR REPLACE STREAM s AS SELECT a, 'x;y' FROM t /* end */ WHERE a > 1;"
    assert parse(parse_create_stream, text) == CreateStreamAs(
        name="s", replace=True, query="SELECT a, 'x;y' FROM t /* end */ WHERE a > 1"
    )


_names = st.text(min_size=1, max_size=8).filter(lambda name: "\0" not in name and name.strip())
_columns = st.one_of(
    st.none(),
    st.lists(_names, min_size=1, max_size=3, unique_by=str.casefold).map(
        lambda names: tuple(DeclaredColumn(name, "ARRAY<INT>") for name in names)
    ),
)
_unique_names = st.lists(_names, max_size=3, unique_by=str.casefold).map(tuple)
_options = st.lists(
    st.tuples(st.text(min_size=1, max_size=8), st.text(max_size=8)),
    max_size=3,
    unique_by=lambda option: option[0].casefold(),
).map(tuple)
_intervals = st.builds(Interval, st.integers(0, 1000), st.sampled_from(IntervalUnit))
_triggers = st.one_of(
    st.builds(
        StreamTrigger,
        st.sampled_from([TriggerKind.INTERVAL, TriggerKind.CONTINUOUS]),
        _intervals,
    ),
    st.sampled_from([TriggerKind.ONCE, TriggerKind.AVAILABLE_NOW]).map(StreamTrigger),
)
_qualified = st.lists(_names, min_size=1, max_size=3).map(tuple)
_qualifiers = st.lists(_names, max_size=2).map(tuple)
_statements = st.one_of(
    st.builds(
        CreateStream,
        qualifier=_qualifiers,
        name=_names,
        replace=st.booleans(),
        columns=_columns,
        provider=_names,
        options=_options,
    ),
    st.builds(
        CreateStreamAs,
        qualifier=_qualifiers,
        name=_names,
        replace=st.booleans(),
        query=st.just("SELECT 1 AS `;`"),
    ),
    st.builds(
        CreateSink,
        qualifier=_qualifiers,
        name=_names,
        replace=st.booleans(),
        columns=_columns,
        provider=_names,
        partitioned_on=_unique_names,
        options=_options,
    ),
    st.builds(
        SaveStream,
        source=_qualified,
        columns=_columns,
        target=_qualified,
        to_table=st.booleans(),
        query_name=st.one_of(st.none(), _names),
        trigger=st.one_of(st.none(), _triggers),
        output_mode=st.one_of(st.none(), st.sampled_from(OutputMode)),
        partitioned_on=_unique_names,
        options=_options,
    ),
    st.builds(QueryStatement, st.one_of(st.none(), st.sampled_from(StreamAction)), _qualified),
    st.builds(ShowDefinitions, st.sampled_from(ListedEntity)),
    st.builds(DropDefinition, st.sampled_from(DefinedKind), _names),
)


@given(_statements)
def test_the_text_of_a_statement_parses_to_the_same_statement(statement: Any) -> None:
    assert parse(_PARSERS[type(statement)], statement.to_sql()) == statement


def test_the_name_of_a_query_can_have_dots() -> None:
    text = "SAVE STREAM s TO noop IDENTIFIED BY shop.`eu orders`"
    assert save(text).name == "shop.eu orders"


def test_the_name_of_a_stream_or_sink_can_be_qualified() -> None:
    stream = parse(parse_create_stream, "CREATE STREAM `kafka`.`some-topic` FROM rate")
    assert (stream.qualifier, stream.name) == (("kafka",), "some-topic")
    query = parse(parse_create_stream, "CREATE STREAM a.b.c AS SELECT 1")
    assert (query.qualifier, query.name) == (("a", "b"), "c")
    sink = parse(parse_create_sink, "CREATE SINK kafka.out TO noop")
    assert (sink.qualifier, sink.name) == (("kafka",), "out")
    assert sink.to_sql() == "CREATE SINK `kafka`.`out` TO `noop`"


@given(_triggers)
def test_a_trigger_can_be_parsed_alone(trigger: StreamTrigger) -> None:
    assert parse_trigger(trigger.to_sql().removeprefix("TRIGGER ")) == trigger


@pytest.mark.parametrize(
    ("text", "column"), {"": 1, "5": 2, "5 parsecs": 3, "ONCE MORE": 6}.items()
)
def test_an_invalid_trigger_has_a_position(text: str, column: int) -> None:
    with pytest.raises(InvalidStatement) as caught:
        parse_trigger(text)

    assert caught.value.position == Position(1, column)


@given(_qualified)
def test_a_qualified_name_can_be_parsed_alone(parts: tuple[str, ...]) -> None:
    assert parse_qualified_name(qualified_name_to_sql(parts), "a name") == parts


_CLAUSES = (
    "Expected: IDENTIFIED BY, TRIGGER, OUTPUT MODE, PARTITIONED ON, OPTIONS,"
    " the end of the statement."
)
ERRORS = {
    "SAVE STREAM": (1, 12, "ends too early. Expected: the name of a stream or table."),
    "SAVE STREAM foo": (1, 16, "ends too early. Expected: (, TO."),
    "SAVE STREAM 'foo' TO json": (1, 13, "\"'foo'\" is not expected here. Expected: the name of"),
    "SAVE STREAM foo TO json TRIGER 5 SECONDS": (
        1,
        25,
        f"'TRIGER' is not expected here. {_CLAUSES}",
    ),
    "SAVE STREAM foo TO json TRIGGER 5": (1, 34, "Expected: a unit: MILLISECONDS, MILLISECOND,"),
    "SAVE STREAM foo TO json TRIGGER 5 FORTNIGHTS": (1, 35, "'FORTNIGHTS' is not expected here."),
    "SAVE STREAM foo TO json TRIGGER -5 SECONDS": (
        1,
        33,
        "'-' is not expected here. Expected: ONCE",
    ),
    "SAVE STREAM foo TO json OUTPUT MODE all": (1, 37, "an output mode: APPEND, COMPLETE, UPDATE."),
    "SAVE STREAM foo TO json OPTIONS ('a' = 'b', 'A' = 'c')": (
        1,
        33,
        "The option A is given twice.",
    ),
    "SAVE STREAM foo (a INT, A INT) TO json": (1, 17, "The column A is given twice."),
    "SAVE STREAM foo TO json\nOPTIONS ('a' = b)": (2, 16, "Expected: the value of the option a."),
    "SAVE STREAM foo TO json OPTIONS ('a' = 'b') OPTIONS ('c' = 'd')": (1, 45, "'OPTIONS' is not"),
    f"SAVE STREAM foo TO json TRIGGER {10**18} DAYS": (1, 33, "is too long."),
    "SAVE STREAM `` TO json": (1, 13, "The name `` is blank. Expected: the name of a stream or"),
    "SAVE STREAM db.`  ` TO json": (1, 16, "The name `  ` is blank."),
    "SAVE STREAM foo TO json IDENTIFIED BY ` `": (1, 39, "Expected: the name of a query."),
}


@pytest.mark.parametrize(("text", "expected"), ERRORS.items())
def test_a_syntax_error_names_its_place_and_what_is_allowed(
    text: str, expected: tuple[int, int, str]
) -> None:
    line, column, message = expected
    with pytest.raises(InvalidStatement) as caught:
        save(text)
    assert message in caught.value.message
    assert caught.value.position == Position(line=line, column=column)


@pytest.mark.parametrize(
    ("text", "parser", "message"),
    [
        ("CREATE STREAM s", parse_create_stream, "Expected: AS, (, FROM."),
        ("CREATE STREAM s (a) FROM kafka", parse_create_stream, "the type of the column a"),
        ("CREATE STREAM s AS", parse_create_stream, "Expected: a query."),
        ("CREATE OR STREAM s", parse_create_stream, "'OR' is not expected here."),
        ("CREATE SINK k FROM kafka", parse_create_sink, "Expected: (, TO."),
        ("STOP STREAM", parse_query_statement, "Expected: the name of a query."),
        ("STOP STREAM a b", parse_query_statement, "the end of the statement."),
        ("SHOW STREAMS x", parse_show_definitions, "the end of the statement."),
        ("CREATE STREAM `` FROM rate", parse_create_stream, "The name `` is blank."),
        ("CREATE SINK ` ` TO noop", parse_create_sink, "The name ` ` is blank."),
        ("STOP STREAM a.``", parse_query_statement, "The name `` is blank."),
        ("DROP SINK ``", parse_drop_definition, "The name `` is blank."),
        ("DROP STREAM a.b", parse_drop_definition, "the end of the statement."),
    ],
)
def test_errors_of_the_other_statements(text: str, parser: Any, message: str) -> None:
    with pytest.raises(InvalidStatement) as caught:
        parse(parser, text)
    assert message in caught.value.message
