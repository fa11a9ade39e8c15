"""Results in the memory of a real driver, over HTTP and over Arrow Flight."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from pyarrow import flight
from tests.support.node import NodeProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

_ROWS = 100_000
_TEXT = f"SELECT id, cast(id % 7 AS string) AS name FROM range(0, {_ROWS}, 1, 3)"


def test_rows_in_the_memory_of_the_driver_are_read_until_its_session_ends(
    node: NodeProcess,
) -> None:
    session = node.session(name="holder")
    statement = node.run(_TEXT, session, result="memory")
    assert statement["state"] == "success", statement
    assert statement["result"]["disposition"] == "memory"
    path = f"/api/v1/statements/{statement['id']}/result"
    csv = node.http.get(path, params={"format": "csv"}).text.splitlines()
    assert (len(csv), csv[1], csv[-1]) == (_ROWS + 1, "0,0", f"{_ROWS - 1},{(_ROWS - 1) % 7}")
    arrow = node.http.get(path, params={"format": "arrow"}).content
    over_http = pa.ipc.open_stream(io.BytesIO(arrow)).read_all()

    offer = node.statement(statement["id"])["result"]["flight"]
    headers = [(b"authorization", f"Bearer {offer['token']}".encode())]
    options = flight.FlightCallOptions(headers=headers, timeout=120)
    with flight.FlightClient(offer["location"]) as client:
        direct = client.do_get(flight.Ticket(offer["ticket"]), options).read_all()
        assert direct.equals(over_http)
        assert direct.column("id").to_pylist() == list(range(_ROWS))
        with pytest.raises(flight.FlightUnauthenticatedError):
            client.do_get(flight.Ticket(offer["ticket"])).read_all()

    node.http.delete(f"/api/v1/sessions/{session}")
    wait_until(lambda: node.session_state(session) == "dead", what="the session ends")
    gone = node.http.get(path)
    assert (gone.status_code, gone.json()["code"]) == (410, "result_gone")
    assert "the session was closed" in gone.json()["detail"]


def test_the_statement_of_a_batch_session_is_kept_beyond_its_driver(node: NodeProcess) -> None:
    statement = node.run("SELECT 1 AS x", result="memory", kind="batch")
    assert statement["state"] == "success", statement
    assert statement["result"]["disposition"] == "inline"
    assert node.result(statement["id"])["rows"] == [[1]]
