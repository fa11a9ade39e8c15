"""The check of a result that a driver reports, before the node stores the report."""

from __future__ import annotations

from headrace.errors import HeadraceError, InvalidResult
from headrace.model.result import Disposition, ResultReport
from headrace.results.arrow_messages import read_stream
from headrace.results.batches import batch_bytes
from headrace.results.layout import build_stored_schema
from headrace.results.schema import parse_schema


def check_report(report: ResultReport) -> ResultReport:
    """Return a report whose schema and inline rows are valid, with the counts of these rows.

    The row count, byte count and chunks of other results remain the claim of the driver: its rows
    are checked when they are read, and `headrace.results.reader.Rows` has their counts.

    Raises InvalidResult.
    """
    try:
        schema = parse_schema(report.spark_schema)
        build_stored_schema(schema)
    except InvalidResult:
        raise
    except HeadraceError as error:
        raise InvalidResult(error.message) from error
    if report.disposition is Disposition.MEMORY and report.chunks > report.row_count:
        raise InvalidResult("The result has more chunks than rows.")
    if report.disposition is not Disposition.INLINE:
        return report
    assert report.data is not None
    row_count = byte_count = 0
    for batch in read_stream(report.data, schema):
        row_count += batch.num_rows
        byte_count += batch_bytes(batch)
    if row_count != report.row_count:
        raise InvalidResult(f"The result has {row_count} rows, not {report.row_count}.")
    return report.model_copy(update={"byte_count": byte_count, "chunks": 1})
