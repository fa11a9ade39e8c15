"""What a plan would break, found in real Spark without a row being read or written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from headrace.model.job import JobRows, ReaderKind
from headrace.model.job_messages import (
    BrokenReader,
    CompareColumns,
    ComparedColumns,
    ReaderToAnalyse,
    TextsToAnalyse,
    WriterToCompare,
)
from headrace.model.stream_query import QuerySpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOAD = "SELECT 1L AS id, CAST(2 AS DECIMAL(20,2)) AS amount, 'x' AS region"
WITHOUT = "SELECT 1L AS id, 'x' AS region"
RETYPED = "SELECT 1L AS id, 'y' AS amount, 'x' AS region"
ADDED = f"{LOAD}, current_date() AS day"


@pytest.fixture
def tables(spark: SparkSession) -> Iterator[None]:
    spark.sql("CREATE DATABASE shop")
    for name in ("orders", "shop.orders"):
        spark.sql(f"CREATE TABLE {name} (id BIGINT, amount DECIMAL(20,2), region STRING)")
    spark.sql("CREATE TABLE totals (region STRING, amount DECIMAL(20,2)) USING parquet")
    yield
    spark.sql("DROP DATABASE shop CASCADE")
    for name in ("orders", "totals"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture
def compare(
    tables: None,
    clone_session: Callable[[], SparkSession],
) -> Callable[..., ComparedColumns]:
    def compare(
        *readers: ReaderToAnalyse, after: str = LOAD, before: str = LOAD, target: str = "orders"
    ) -> ComparedColumns:
        from headrace.driver.jobs.column_changes import compare_columns

        writer = WriterToCompare(
            name="load",
            before=[TextsToAnalyse(statements=[before], target=target.split("."))],
            after=[TextsToAnalyse(statements=[after], target=target.split("."))],
        )
        return compare_columns(
            CompareColumns(writers=[writer], readers=list(readers)), clone_session
        )

    return compare


def _reader(*statements: str, kind: ReaderKind = ReaderKind.JOB, **texts: Any) -> ReaderToAnalyse:
    given = TextsToAnalyse(statements=list(statements), **texts)
    return ReaderToAnalyse(kind=kind, name="daily", texts=[given])


def _stream(rows: JobRows, *definitions: str) -> ReaderToAnalyse:
    spec = QuerySpec(
        text="SAVE STREAM live TO noop", definitions=list(definitions), sink="noop", rows=rows
    )
    return ReaderToAnalyse(kind=ReaderKind.JOB, name="live", texts=[TextsToAnalyse(query=spec)])


def _place(found: BrokenReader) -> tuple[str, str, str, int | None, int | None]:
    return found.cause, found.table, found.column, found.line, found.offset


def test_a_dropped_column_breaks_its_reader_at_the_place_where_it_is_read(
    compare: Callable[..., ComparedColumns],
) -> None:
    sql = (
        "SELECT region,\n  :run_time AS t, sum(amount) AS amount\nFROM orders"
        " WHERE id > :query_version AND array_contains(:input_files, region) GROUP BY region"
    )
    compared = compare(_reader(sql), after=WITHOUT)

    assert compared.notes == []
    assert [_place(each) for each in compared.broken] == [("load", "orders", "amount", 2, 23)]
    [found] = compared.broken
    assert (found.old_type, found.new_type) == ("decimal(20,2)", "")


def test_a_changed_type_breaks_a_reader_and_an_added_column_breaks_none(
    compare: Callable[..., ComparedColumns],
) -> None:
    reader = _reader("SELECT amount FROM orders")

    assert compare(reader, after=ADDED) == ComparedColumns()
    [found] = compare(reader, after=RETYPED).broken
    assert (found.old_type, found.new_type, found.line) == ("decimal(20,2)", "string", 1)


@pytest.mark.parametrize(
    "reader",
    [
        _reader("SELECT id, region FROM orders"),
        _reader("SELECT amount FROM shop.orders"),
        _reader("SELECT region FROM totals WHERE amount > 1"),
    ],
    ids=["other columns", "other database", "other table"],
)
def test_a_reader_that_needs_other_columns_stays(
    compare: Callable[..., ComparedColumns], reader: ReaderToAnalyse
) -> None:
    assert compare(reader, after=WITHOUT) == ComparedColumns()


def test_a_qualified_name_keeps_the_positions_of_the_text(
    compare: Callable[..., ComparedColumns],
) -> None:
    sql = (
        "SELECT o.id FROM spark_catalog.shop.orders AS o JOIN orders USING (id) WHERE o.amount > 1"
    )
    compared = compare(_reader(sql), after=WITHOUT, target="shop.orders")

    assert [each.offset for each in compared.broken] == [sql.index("o.amount") + 1]


def test_a_reader_of_all_columns_passes_the_loss_on_to_the_readers_of_its_table(
    compare: Callable[..., ComparedColumns],
) -> None:
    first = _reader("SELECT * EXCEPT (id) FROM orders", target=["totals"])
    second = _reader("SELECT max(amount) FROM totals").model_copy(update={"name": "last"})
    compared = compare(first, second, after=WITHOUT)

    assert [_place(each) for each in compared.broken] == [
        ("load", "orders", "amount", None, None),
        ("daily", "totals", "amount", 1, 12),
    ]


def test_a_script_is_analysed_with_its_temporary_views_and_runs_nothing(
    compare: Callable[..., ComparedColumns], spark: SparkSession
) -> None:
    compared = compare(
        _reader(
            "CREATE TEMP VIEW o AS SELECT * FROM orders WHERE id > unix_seconds(:run_time)",
            "\nINSERT INTO totals SELECT region, sum(amount) FROM o GROUP BY region",
            "\n\nDROP TABLE totals",
        ),
        after=WITHOUT,
    )

    assert compared.notes == []
    assert [_place(each)[2:] for each in compared.broken] == [("amount", 2, 39)]
    assert spark.table("totals").count() == 0
    assert spark.catalog.tableExists("o") is False


@pytest.mark.parametrize(
    "rows",
    [
        JobRows(sql="SELECT amount FROM STREAM orders"),
        JobRows(sql="SELECT amount FROM paid"),
        JobRows(sql="SELECT t.amount FROM ticks JOIN orders t ON ticks.value = t.id"),
    ],
    ids=["a table as a stream", "a stream over the table", "a join"],
)
def test_a_stream_that_needs_the_column_is_found(
    compare: Callable[..., ComparedColumns], rows: JobRows
) -> None:
    definitions = ["CREATE STREAM ticks FROM rate"]
    if "paid" in (rows.sql or ""):
        definitions = ["CREATE STREAM paid AS SELECT * FROM STREAM(spark_catalog.default.orders)"]
    compared = compare(_stream(rows, *definitions), after=WITHOUT)

    assert [each.column for each in compared.broken] == ["amount"]
    assert compared.notes == []


def test_a_declared_table_and_a_permanent_view_change_with_their_definitions(
    tables: None,
    clone_session: Callable[[], SparkSession],
) -> None:
    from headrace.driver.jobs.column_changes import compare_columns

    def declare(columns: str, query: str) -> list[TextsToAnalyse]:
        setup = [
            f"CREATE TABLE IF NOT EXISTS orders ({columns}) USING parquet",
            f"CREATE OR REPLACE VIEW totals AS {query}",
        ]
        return [TextsToAnalyse(setup=setup)]

    writer = WriterToCompare(
        name="load",
        before=declare("id BIGINT, amount DECIMAL(20,2)", "SELECT 'x' AS region"),
        after=declare("id BIGINT", "SELECT 1 AS region"),
    )
    readers = [_reader("SELECT amount FROM orders"), _reader("SELECT region FROM totals")]
    broken = compare_columns(
        CompareColumns(writers=[writer], readers=readers), clone_session
    ).broken

    assert [(each.table, each.column, each.new_type) for each in broken] == [
        ("orders", "amount", ""),
        ("totals", "region", "int"),
    ]


def test_a_table_that_others_have_changed_already_is_reported(
    compare: Callable[..., ComparedColumns],
) -> None:
    [found] = compare(_reader("SELECT id,\n gone FROM orders")).broken

    assert _place(found) == ("", "", "", 2, 2)
    assert "gone" in found.message


def test_a_text_that_cannot_be_analysed_is_named_with_its_reason(
    compare: Callable[..., ComparedColumns],
) -> None:
    compared = compare(_reader("SELECT * FROM missing"), _reader("SELECT 1 FROM ("), after=WITHOUT)

    assert compared.broken == []
    missing, wrong = compared.notes
    assert missing.startswith("job daily was not analysed: ")
    assert "missing" in missing
    assert "daily" in wrong


def test_the_number_of_analyses_is_bounded(
    compare: Callable[..., ComparedColumns], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.driver.jobs.column_changes._MAX_ANALYSES", 3)
    compared = compare(*[_reader("SELECT amount FROM orders")] * 5, after=WITHOUT)

    assert compared.broken == []
    assert "3 analyses" in compared.notes[-1]
