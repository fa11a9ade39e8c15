"""How a statement ended, whoever ran it: its rows with their types, or its error."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from tests.support.node import NodeProcess

SPARK_SCHEMA = b"spark.schema"


@dataclass(frozen=True)
class Outcome:
    """Rows of exact values under Spark's own schema, or Spark's error condition and SQLSTATE."""

    schema: dict[str, Any] | None = None
    rows: tuple[tuple[Any, ...], ...] = ()
    condition: str | None = None
    sqlstate: str | None = None
    message: str = ""

    @property
    def error(self) -> tuple[str | None, str | None] | None:
        """What is alike wherever the statement fails; the message may name places."""
        return None if self.schema is not None else (self.condition, self.sqlstate)

    @property
    def sorted_rows(self) -> list[tuple[Any, ...]]:
        """The rows without their order."""
        return sorted(self.rows, key=repr)


def of_arrow(content: bytes) -> Outcome:
    """Read an Arrow stream that carries Spark's schema as JSON in its metadata."""
    table = pa.ipc.open_stream(content).read_all()
    columns = [column.to_pylist() for column in table.columns]
    rows = tuple(zip(*columns, strict=True)) if columns else ((),) * table.num_rows
    return Outcome(schema=json.loads(table.schema.metadata[SPARK_SCHEMA]), rows=rows)


def of_statement(node: NodeProcess, text: str, session: str) -> Outcome:
    """Run a statement through Headrace and read its result as Arrow."""
    statement = node.run(text, session)
    if statement["state"] != "success":
        error = statement["error"]
        return Outcome(
            condition=error["condition"], sqlstate=error["sqlstate"], message=error["message"]
        )
    place = f"/api/v1/statements/{statement['id']}/result"
    answer = node.http.get(place, params={"format": "arrow"})
    assert answer.status_code == 200, answer.text
    outcome = of_arrow(answer.content)
    assert len(outcome.rows) == statement["result"]["row_count"]
    return outcome
