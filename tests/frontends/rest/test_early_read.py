"""The end of an Arrow stream that has begun before its statement ended."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from tests.support.in_process_node import InProcessNode
from tests.support.made_results import inline_result, stored_result
from tests.support.scripted_driver import ScriptedDriver

from headrace.frontends.rest import early_read
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.result import FinishedParts, ResultReport
from headrace.model.session import DriverLease
from headrace.results.early_rows import write_finished_parts
from headrace.results.manifest import read_manifest
from headrace.store.sessions import takeovers

COLUMNS = [("n", "long")]
PARTS = [[[1], [2]], [[3]], [[4]]]


class Query:
    """A statement that a driver runs, with a part that is listed as finished."""

    def __init__(self, node: InProcessNode, *, first_part: int = 0) -> None:
        self.node = node
        self.session_id, self.driver = node.start_session()
        self.statement_id = str(node.submit(session=self.session_id)["id"])
        location = self.driver.claim().result_location
        assert location is not None
        self.report = stored_result(Path(location), COLUMNS, PARTS, chunk_limit=1)
        manifest = read_manifest(location)
        finished = FinishedParts(
            spark_schema=manifest.spark_schema, parts=[manifest.parts[first_part]]
        )
        write_finished_parts(location, 0, finished)
        self.content = b""

    @contextmanager
    def reading(self) -> Iterator[Iterator[bytes]]:
        """Read the result until its first rows have arrived; yield the remaining blocks."""
        path = f"/api/v1/statements/{self.statement_id}/result?format=arrow"
        with self.node.http.stream("GET", path) as response:
            assert response.headers["x-headrace-early"] == "true"
            blocks = response.iter_raw()
            while not self.read()[0]:
                self.content += next(blocks)
            yield blocks

    def read_to_end(self, blocks: Iterator[bytes]) -> None:
        for block in blocks:
            self.content += block

    def read(self) -> tuple[list[int], dict[str, str]]:
        """Return the values that have arrived, and the metadata of the last batch."""
        values: list[int] = []
        metadata: dict[bytes, bytes] = {}
        if not self.content:
            return values, {}
        with pa.ipc.open_stream(io.BytesIO(self.content)) as reader:
            while True:
                try:
                    item = reader.read_next_batch_with_custom_metadata()
                except StopIteration:
                    break
                values += item.batch.column(0).to_pylist()
                metadata = dict(item.custom_metadata or {})
        return values, {key.decode(): value.decode() for key, value in metadata.items()}

    def expect_break(self, blocks: Iterator[bytes]) -> dict[str, str]:
        """Read until the connection breaks, and return what the last batch says."""
        with pytest.raises(httpx.RemoteProtocolError):
            self.read_to_end(blocks)
        return self.read()[1]


def lose_driver(node: InProcessNode, driver: ScriptedDriver) -> None:
    lease = DriverLease(driver.bootstrap.session_id, driver.bootstrap.epoch)
    with node.database.write("test") as tx:
        epoch = takeovers.fence(tx, lease, actor="no_1", reason="it died", seconds=60)
        assert epoch is not None
        assert takeovers.finish_takeover(tx, DriverLease(lease.session_id, epoch))
        failure = Failure(code="driver_lost", message="The driver was lost.")
        takeovers.resolve_lost(tx, lease.session_id, actor="no_1", failure=failure, max_attempts=2)


def test_the_stream_of_a_success_ends_with_its_row_count(node: InProcessNode) -> None:
    query = Query(node)
    with query.reading() as blocks:
        assert query.read()[0] == [1, 2]
        assert query.driver.succeed(query.statement_id, query.report).applied
        query.read_to_end(blocks)
    assert query.read() == (
        [1, 2, 3, 4],
        {"headrace.state": "success", "headrace.row_count": "4"},
    )


def test_the_stream_of_a_failure_names_its_error_and_breaks(node: InProcessNode) -> None:
    query = Query(node)
    with query.reading() as blocks:
        failure = Failure(code="division_by_zero", message="Division by zero.")
        query.driver.report_end(query.statement_id, StatementState.FAILED, failure=failure)
        end = query.expect_break(blocks)
    assert end == {
        "headrace.state": "failed",
        "headrace.code": "division_by_zero",
        "headrace.message": "The statement is failed: Division by zero.",
    }


def test_the_stream_of_a_retried_statement_breaks(node: InProcessNode) -> None:
    query = Query(node)
    with query.reading() as blocks:
        lose_driver(node, query.driver)
        end = query.expect_break(blocks)
    assert node.statement(query.statement_id)["state"] == "waiting"
    assert end["headrace.code"] == "result_incomplete"
    assert "is retried" in end["headrace.message"]


@pytest.mark.parametrize("first_part", [0, 1])
def test_a_stream_whose_rows_are_not_those_of_the_result_breaks(
    node: InProcessNode, first_part: int
) -> None:
    query = Query(node, first_part=first_part)
    report: ResultReport = query.report if first_part else inline_result(COLUMNS, [[1], [2]])
    with query.reading() as blocks:
        assert query.driver.succeed(query.statement_id, report).applied
        end = query.expect_break(blocks)
    assert end["headrace.state"] == "incomplete"
    assert end["headrace.code"] == ("invalid_result" if first_part else "result_incomplete")


def test_empty_batches_keep_a_quiet_stream_open(
    node: InProcessNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(early_read, "QUIET_SECONDS", 0.05)
    query = Query(node)
    with query.reading() as blocks:
        known = len(query.content)
        while len(query.content) == known:
            query.content += next(blocks)
        assert query.read() == ([1, 2], {})
        assert query.driver.succeed(query.statement_id, query.report).applied
        query.read_to_end(blocks)
    assert query.read()[0] == [1, 2, 3, 4]
