"""Declared columns of streams, sinks and queries."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame

from headrace.grammar.clauses import DeclaredColumn
from headrace.grammar.quoting import quote_name


def columns_to_ddl(columns: Iterable[DeclaredColumn]) -> str:
    """Return columns as Spark's schema text."""
    return ", ".join(column.to_sql() for column in columns)


def select_columns(frame: DataFrame, columns: Iterable[DeclaredColumn]) -> DataFrame:
    """Return these columns of a frame, cast to their types. Raises AnalysisException."""
    session = frame.sparkSession
    # Spark's parser reads the types: NOT NULL and COMMENT are no part of a cast.
    schema = session.createDataFrame([], columns_to_ddl(columns)).schema
    return frame.selectExpr(
        *(
            f"CAST({quote_name(field.name)} AS {field.dataType.simpleString()})"
            f" AS {quote_name(field.name)}"
            for field in schema.fields
        )
    )
