"""An Arrow client reads the rows of finished tasks while the query runs."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from tests.support.gates import Gate
from tests.support.node import NodeProcess

pytestmark = pytest.mark.spark

_ROWS = 300_000
# The last row, which is in the last of three partitions, does not end.
_STUCK = (
    f"SELECT id, CASE WHEN id = {_ROWS - 1}"
    " THEN reflect('java.lang.Thread', 'sleep', 600000L) END AS s"
    f" FROM range(0, {_ROWS}, 1, 3)"
)


def gated_rows(gate: Gate) -> str:
    """Return a query whose last row, in the last of four partitions, waits for the gate."""
    last = f"SELECT id + {_ROWS - 1} FROM {gate.rows}"
    return f"SELECT id FROM range(0, {_ROWS - 1}, 1, 3) UNION ALL {last}"


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


def test_the_first_rows_arrive_before_the_query_ends(node: NodeProcess, tmp_path: Path) -> None:
    gate, states = Gate(tmp_path), list[str]()
    with gate.closed():
        reader = EarlyReader(node, gated_rows(gate))
        for block in reader.blocks():
            if len(block) > 10_000 and not states:
                states.append(reader.state)
                gate.open()
    assert states == ["running"]
    assert reader.state == "success"
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
    # The first block is the schema. The rows of the first task follow it.
    assert any(len(block) > 10_000 for block in blocks)
    assert node.http.post(f"/api/v1/statements/{reader.statement_id}/cancel").status_code == 202
    with pytest.raises(httpx.RemoteProtocolError):
        list(blocks)
    ids, end = reader.read()
    assert ids == list(range(len(ids)))
    assert 0 < len(ids) < _ROWS
    assert end[b"headrace.state"] == b"cancelled"
    assert reader.state == "cancelled"


def test_rows_with_a_limit_are_not_read_early(node: NodeProcess, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    with gate.closed():
        statement = node.submit(gated_rows(gate), row_limit=_ROWS)
        path = f"/api/v1/statements/{statement['id']}/result"
        early = node.http.get(path, params={"format": "arrow", "wait_timeout": "1s"})
    assert (early.status_code, early.json()["code"]) == (409, "result_not_ready")
    node.wait_ended(statement["id"])
    late = node.http.get(path, params={"format": "arrow", "wait_timeout": "60s"})
    assert "x-headrace-early" not in late.headers
    assert pa.ipc.open_stream(late.content).read_all().num_rows == _ROWS
