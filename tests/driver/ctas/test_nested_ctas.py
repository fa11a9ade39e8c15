"""Detection of a CTAS inside a script or EXECUTE IMMEDIATE, which Spark runs itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.support.ctas import CtasRun, list_tables
from tests.support.journal import JournalLink

from headrace.errors import AtomicityRequired
from headrace.model.headrace_options import CTAS_ATOMICITY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("database")]

CREATES = "CREATE TABLE t USING parquet AS SELECT 1 AS x"
NESTED = [
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


@pytest.mark.parametrize("text", NESTED)
def test_a_nested_ctas_is_refused_if_the_session_requires_atomicity(
    spark: SparkSession, link: JournalLink, text: str
) -> None:
    with atomicity_required(spark), pytest.raises(AtomicityRequired, match="statement of its own"):
        CtasRun(spark, text, link)
    assert list_tables(spark) == []
    CtasRun(spark, text, link)
    assert (list_tables(spark), link.steps) == (["t"], [])


@pytest.mark.parametrize("text", PLAIN)
def test_a_script_without_a_ctas_runs_if_the_session_requires_atomicity(
    spark: SparkSession, link: JournalLink, text: str
) -> None:
    with atomicity_required(spark):
        assert CtasRun(spark, text, link).rows == [(7,)]


@contextmanager
def atomicity_required(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(CTAS_ATOMICITY.key, "require")
    try:
        yield
    finally:
        spark.conf.unset(CTAS_ATOMICITY.key)
