"""Outcome of a statement, for a comparison of Headrace with plain Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from tests.support.node_client import NodeClient

SPARK_SCHEMA = b"spark.schema"
NO_COLUMNS = {"type": "struct", "fields": list[Any]()}


@dataclass(frozen=True)
class Outcome:
    """Rows of exact values with Spark's schema, or the error condition and SQLSTATE of Spark."""

    schema: dict[str, Any] | None = None
    rows: tuple[tuple[Any, ...], ...] = ()
    condition: str | None = None
    sqlstate: str | None = None
    message: str = ""

    @property
    def error(self) -> tuple[str | None, str | None] | None:
        """Error condition and SQLSTATE. The message is not compared: it may contain paths."""
        return None if self.schema is not None else (self.condition, self.sqlstate)

    @property
    def sorted_rows(self) -> list[tuple[Any, ...]]:
        """Rows in a fixed order, for statements without ORDER BY."""
        return sorted(self.rows, key=repr)


def parse_arrow_outcome(content: bytes) -> Outcome:
    """Return the outcome in an Arrow stream whose metadata contain Spark's schema as JSON."""
    table = pa.ipc.open_stream(content).read_all()
    columns = [column.to_pylist() for column in table.columns]
    rows = tuple(zip(*columns, strict=True)) if columns else ((),) * table.num_rows
    return Outcome(schema=json.loads(table.schema.metadata[SPARK_SCHEMA]), rows=rows)


def run_to_outcome(node: NodeClient, text: str, session: str) -> Outcome:
    """Run a statement through Headrace, and return its outcome, read as Arrow."""
    statement = node.run(text, session)
    if statement["state"] != "success":
        error = statement["error"]
        return Outcome(
            condition=error["condition"], sqlstate=error["sqlstate"], message=error["message"]
        )
    path = f"/api/v1/statements/{statement['id']}/result"
    response = node.http.get(path, params={"format": "arrow"})
    assert response.status_code == 200, response.text
    outcome = parse_arrow_outcome(response.content)
    # The row count of a write is the number of rows written, and its result has no columns.
    assert outcome.schema == NO_COLUMNS or len(outcome.rows) == statement["result"]["row_count"]
    return outcome
