"""An Arrow client reads the rows of finished tasks while the query runs."""

from __future__ import annotations

import io
from collections.abc import Iterator

import httpx
import pyarrow as pa
import pytest
from tests.support.node import NodeProcess

pytestmark = pytest.mark.spark

_ROWS = 300_000
# The last row, which is in the last of three partitions, takes a while.
_TEXT = (
    f"SELECT id, CASE WHEN id = {_ROWS - 1}"
    " THEN reflect('java.lang.Thread', 'sleep', {millis}L) END AS s"
    f" FROM range(0, {_ROWS}, 1, 3)"
)
_SLOW = _TEXT.format(millis=4_000)
_STUCK = _TEXT.format(millis=60_000)


class EarlyReader:
    """Reads the result of a statement as it arrives."""

    def __init__(self, node: NodeProcess, text: str) -> None:
        self.statement_id = node.submit(text)["id"]
        self._node = node
        self._content = b""

    def blocks(self) -> Iterator[bytes]:
        path = f"/api/v1/statements/{self.statement_id}/result"
        options = {"format": "arrow", "wait_timeout": "60s"}
        with self._node.http.stream("GET", path, params=options, timeout=60) as response:
            assert response.status_code == 200
            assert response.headers["x-headrace-early"] == "true"
            for block in response.iter_raw():
                self._content += block
                yield block

    def read(self) -> tuple[list[int], dict[bytes, bytes]]:
        """Return the ids that have arrived, and the metadata of the last batch."""
        ids, metadata = [], {}
        with pa.ipc.open_stream(io.BytesIO(self._content)) as reader:
            while True:
                try:
                    item = reader.read_next_batch_with_custom_metadata()
                except StopIteration:
                    return ids, metadata
                ids += item.batch.column(0).to_pylist()
                metadata = dict(item.custom_metadata or {})

    @property
    def state(self) -> str:
        state: str = self._node.statement(self.statement_id)["state"]
        return state


def test_the_first_rows_arrive_before_the_query_ends(node: NodeProcess) -> None:
    reader = EarlyReader(node, _SLOW)
    states = [reader.state for block in reader.blocks() if len(block) > 10_000]
    assert states[0] == "running"
    assert states[-1] == "success"
    ids, end = reader.read()
    assert ids == list(range(_ROWS))
    assert end == {b"headrace.state": b"success", b"headrace.row_count": str(_ROWS).encode()}
    # Read again after the end, the result has the same rows.
    path = f"/api/v1/statements/{reader.statement_id}/result"
    content = node.http.get(path, params={"format": "arrow"}).content
    assert pa.ipc.open_stream(content).read_all().column("id").to_pylist() == ids


def test_the_stream_of_a_statement_that_is_cancelled_says_so_and_breaks(
    node: NodeProcess,
) -> None:
    reader = EarlyReader(node, _STUCK)
    blocks = reader.blocks()
    next(blocks)
    assert node.http.post(f"/api/v1/statements/{reader.statement_id}/cancel").status_code == 202
    with pytest.raises(httpx.RemoteProtocolError):
        list(blocks)
    ids, end = reader.read()
    assert ids == list(range(len(ids)))
    assert 0 < len(ids) < _ROWS
    assert end[b"headrace.state"] == b"cancelled"
    assert reader.state == "cancelled"


def test_rows_with_a_limit_are_not_read_early(node: NodeProcess) -> None:
    statement = node.submit(_SLOW, row_limit=_ROWS)
    path = f"/api/v1/statements/{statement['id']}/result"
    early = node.http.get(path, params={"format": "arrow", "wait_timeout": "1s"})
    assert (early.status_code, early.json()["code"]) == (409, "result_not_ready")
    late = node.http.get(path, params={"format": "arrow", "wait_timeout": "60s"}, timeout=90)
    assert "x-headrace-early" not in late.headers
    assert pa.ipc.open_stream(late.content).read_all().num_rows == _ROWS
