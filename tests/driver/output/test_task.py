"""The slices in which a task writes the rows of its partition."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.driver.output.task import PartitionWriter, TaskOptions
from headrace.results.batches import MAX_VALUES


@pytest.mark.finding("S3")
def test_a_task_writes_no_batch_that_a_node_refuses() -> None:
    """Nulls of the type void have no bytes, so the number of values bounds the batch."""
    schema = pa.schema([("_0", pa.null()), ("_1", pa.null())])
    options = TaskOptions(
        schema=schema,
        location="/nowhere",
        local=True,
        buffer_bytes=1 << 40,
        chunk_limit=1 << 40,
        row_limit=None,
        byte_limit=None,
    )
    writer = PartitionWriter(options, "part", buffer_bytes=1 << 40)
    writer.add(pa.record_batch([pa.nulls(MAX_VALUES)] * 2, schema=schema))
    assert writer.rows == [MAX_VALUES // 2] * 2
    assert writer.sizes == [MAX_VALUES] * 2
