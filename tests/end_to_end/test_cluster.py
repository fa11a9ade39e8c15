"""Two nodes with one PostgreSQL store: a user does not notice that one of them leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.gates import Gate
from tests.support.node import NodeProcess
from tests.support.processes import processes_of
from tests.support.waiting import wait_until

from headrace.client.http import Client

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


def test_a_statement_continues_while_its_node_drains(tmp_path: Path, postgres_url: str) -> None:
    settings = {
        "STORE__URL": postgres_url,
        "CATALOG__KIND": "memory",
        "RESULTS__LOCATION": str(tmp_path / "results"),
        "LEASE__RENEW": "1s",
        "HTTP__AUTH": "false",
    }
    gate = Gate(tmp_path)
    leaving = NodeProcess(tmp_path / "leaving", **settings)
    session = leaving.session(name="mine")
    leaving.wait_running(session)
    staying = NodeProcess(tmp_path / "staying", **settings)
    try:
        with gate.closed(), Client(f"{leaving.address},{staying.address}") as client:
            text = f"SELECT count(*) FROM {gate.rows}"
            statement = client.submit({"statement": text, "session": "mine"})
            wait_until(
                lambda: client.statement(statement["id"])["state"] == "running",
                what="the statement runs",
            )
            leaving.process.terminate()
            assert leaving.process.wait(120) == 0
            still = client.statement(statement["id"])
            gate.open()
            ended = client.statement(statement["id"], wait=60)

            assert client.address == staying.address
        assert still["state"] == "running"
        assert (ended["state"], ended["attempts"]) == ("success", 1)
        listed = staying.http.get("/api/v1/statements").json()["items"]
        assert [each["id"] for each in listed] == [statement["id"]]
        nodes = staying.http.get("/api/v1/nodes").json()["items"]
        assert sorted(each["state"] for each in nodes) == ["gone", "up"]
    finally:
        leaving.http.close()
        staying.close()
        wait_until(lambda: not processes_of(leaving.home), seconds=60, what="the driver has ended")
