"""The statements on streams that a driver executes."""

from __future__ import annotations

import shlex
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest
from tests.support.results import Writer
from tests.support.streams import LEASE, NO_SECRETS, find_no_other, make_desired

from headrace.driver.spark_version.collect import compute_constant_rows
from headrace.driver.streams.spark_run import RunStarter
from headrace.driver.streams.statements import describe_rows, run_stream_statement
from headrace.driver.streams.supervisor import Supervisor
from headrace.model.messages import Assignment
from headrace.model.result import ResultRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


QUERY_ID = f"sq_{1:032}"
SAVE = "SAVE STREAM numbers TO noop IDENTIFIED BY quiet"


def assign(save: str, definitions: tuple[str, ...], folder: Path) -> Assignment:
    query = make_desired(save, definitions, folder, {})
    return Assignment(
        statement_id="st_1",
        text=save,
        parameters=[],
        conf={},
        result_request=ResultRequest(),
        is_query=False,
        attempt=1,
        query=query.model_copy(update={"id": QUERY_ID}),
    )


def test_the_row_that_a_new_query_returns_needs_no_job(
    spark: SparkSession, numbers: str, tmp_path: Path, writer: Writer
) -> None:
    supervisor = Supervisor(
        start_run=RunStarter(spark.newSession, LEASE, find_no_other, NO_SECRETS).start,
        read_conf=dict,
        on_change=lambda: None,
    )
    assignment = assign(SAVE, (numbers,), tmp_path)
    try:
        frame = run_stream_statement(
            spark, assignment, supervisor, clone_session=spark.newSession, cancelling=Event()
        )
        _report, rows = writer.write(frame)
        values = [row for batch in rows.batches() for row in batch.to_pylist()]
        plan = frame._jdf.queryExecution().optimizedPlan()
        constant = compute_constant_rows(spark._jvm, plan)
    finally:
        supervisor.stop_all(30)

    assert [list(row.values()) for row in values] == [["quiet", QUERY_ID, f"{tmp_path}/wal-quiet"]]
    assert constant is not None


STATE = "Its state: headrace stream show ticks"
IN_LOG = "The rows of the query are in the log: headrace stream logs ticks. " + STATE


@pytest.mark.parametrize(
    ("sink", "note"),
    [
        ("TO console", IN_LOG),
        ("TO CONSOLE TRIGGER ONCE", IN_LOG),
        ("TO screen", IN_LOG),
        ("TO noop", STATE),
        (
            "TO memory",
            f"The rows of the query are the temporary view `ticks` of its session. {STATE}",
        ),
        ("TO parquet", f"The query writes to {{folder}}/default. {STATE}"),
        ("TO TABLE t", STATE),
    ],
)
def test_the_note_of_a_new_query_says_where_its_rows_are(
    tmp_path: Path, sink: str, note: str
) -> None:
    definitions = ("CREATE STREAM ticks FROM rate", "CREATE SINK screen TO console")
    used = definitions if "screen" in sink else definitions[:1]
    assignment = assign(f"SAVE STREAM ticks {sink}", used, tmp_path)

    assert describe_rows(assignment) == note.format(folder=tmp_path)


def test_the_note_of_a_query_quotes_its_name_for_the_shell(tmp_path: Path) -> None:
    assignment = assign("SAVE STREAM ticks TO console IDENTIFIED BY `a b'c`", (), tmp_path)
    note = describe_rows(assignment)

    assert note is not None
    assert shlex.split(note.partition(". ")[0])[-4:] == ["headrace", "stream", "logs", "a b'c"]


def test_other_statements_have_no_note() -> None:
    other = Assignment(
        statement_id="st_1",
        text="CREATE STREAM ticks FROM rate",
        parameters=[],
        conf={},
        result_request=ResultRequest(),
        is_query=False,
        attempt=1,
    )

    assert describe_rows(other) is None
