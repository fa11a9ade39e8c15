"""CTAS inside other statements, which Spark runs by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.support.ctas import Ran, tables
from tests.support.journal import JournalLink

from headrace.errors import AtomicityRequired
from headrace.model.atomicity import KEY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("database")]

CREATES = "CREATE TABLE t USING parquet AS SELECT 1 AS x"
HIDDEN = [
    f"EXECUTE IMMEDIATE '{CREATES}'",
    "EXECUTE IMMEDIATE 'CREATE TABLE t USING parquet ' || 'AS SELECT 1 AS x'",
    f"BEGIN IF 1 = 1 THEN {CREATES}; END IF; END",
    f"BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN {CREATES}; END; SELECT 1 / 0; END",
    f"BEGIN DECLARE s STRING; SET s = '{CREATES}'; EXECUTE IMMEDIATE s; END",
]
PLAIN = [
    "EXECUTE IMMEDIATE 'SELECT 7 AS x'",
    "BEGIN DECLARE x INT DEFAULT 7; SELECT x; END",
    "BEGIN DECLARE x INT DEFAULT 7; EXECUTE IMMEDIATE 'SELECT 7'; END",
    "BEGIN CREATE TABLE empty (x INT) USING parquet; DROP TABLE empty; SELECT 7; END",
]


@pytest.mark.parametrize("text", HIDDEN)
def test_what_hides_a_ctas_is_refused_where_it_must_be_atomic(
    spark: SparkSession, link: JournalLink, text: str
) -> None:
    with required(spark), pytest.raises(AtomicityRequired, match="statement of its own"):
        Ran(spark, text, link)
    assert tables(spark) == []
    Ran(spark, text, link)
    assert (tables(spark), link.steps) == (["t"], [])


@pytest.mark.parametrize("text", PLAIN)
def test_what_hides_none_is_run_where_it_must_be_atomic(
    spark: SparkSession, link: JournalLink, text: str
) -> None:
    with required(spark):
        assert Ran(spark, text, link).rows == [(7,)]


@contextmanager
def required(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(KEY, "require")
    try:
        yield
    finally:
        spark.conf.unset(KEY)
