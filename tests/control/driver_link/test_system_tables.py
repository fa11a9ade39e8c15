"""A driver reads the system tables of the owner of its session, and of no other owner."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa
import pytest
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import InProcessNode
from tests.support.lineage import save_lineage
from tests.support.scripted_driver import ScriptedDriver
from tests.support.store import new_session, new_statement

from headrace.control.driver_link import system_tables
from headrace.model.system_tables import MAX_SHOWN_TEXT, SYSTEM_COLUMNS, SystemTable
from headrace.store import system_tables as rows


def post(driver: ScriptedDriver, body: Any) -> tuple[int, Any]:
    response = driver._client.post("/read_system_tables", content=json.dumps(body).encode())
    return response.status_code, response.json()


def read(driver: ScriptedDriver, table: SystemTable) -> list[dict[str, Any]]:
    status, answer = post(driver, {"tables": [table]})
    assert status == 200, answer
    with pa.ipc.open_stream(base64.b64decode(answer["tables"][table])) as stream:
        return list(stream.read_all().to_pylist())


def test_a_driver_reads_the_newest_rows_of_its_owner_first(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    their_session = new_session(node.database, owner="eve")
    theirs = new_statement(node.database, their_session, owner="eve", text="theirs")
    long = f"SELECT '{'x' * 5_000}'"
    first, second = (node.submit(text, session=session_id)["id"] for text in ("SELECT 1", long))
    own = read(driver, SystemTable.STATEMENTS)
    assert [row["id"] for row in own[:2]] == [second, first]
    assert (own[0]["statement"], own[1]["state"]) == (long[:MAX_SHOWN_TEXT], "waiting")
    entities = {row["entity_id"] for row in read(driver, SystemTable.EVENTS)}
    assert entities >= {session_id, first}
    assert entities.isdisjoint({their_session, theirs})


def test_a_driver_reads_the_lineage_of_its_owner(node: InProcessNode) -> None:
    _, driver = node.start_session()
    own = save_lineage(node.database, "raw", "clean", owner=LOCAL_OWNER)
    save_lineage(node.database, "secret", "theirs", owner="eve")
    lineage = read(driver, SystemTable.LINEAGE)
    of_statement = [
        (row["direction"], row["table_name"]) for row in lineage if row["statement_id"] == own
    ]
    assert sorted(of_statement) == [
        ("read", "spark_catalog.default.raw"),
        ("write", "spark_catalog.default.clean"),
    ]
    assert "theirs" not in str(lineage)


@pytest.mark.parametrize("table", SystemTable)
def test_an_empty_table_has_its_columns(node: InProcessNode, table: SystemTable) -> None:
    with node.database.read() as tx:
        found = system_tables.read_table(tx, table, "an owner without objects")
    assert found.num_rows == 0
    assert found.column_names == [column.name for column in SYSTEM_COLUMNS[table]]


def test_a_snapshot_has_a_limit_of_rows_and_of_bytes(
    node: InProcessNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id, driver = node.start_session()
    for number in range(5):
        node.submit(f"SELECT {number}", session=session_id)
    monkeypatch.setattr(system_tables, "_MAX_BYTES", 600)
    short = read(driver, SystemTable.STATEMENTS)
    assert 0 < len(short) < 5
    assert short[0]["statement"] == "SELECT 4"
    with node.database.read() as tx:
        assert len(rows.list_rows(tx, SystemTable.STATEMENTS, LOCAL_OWNER, 2)) == 2


@pytest.mark.parametrize(
    "body",
    [{"tables": []}, {"tables": ["foo"]}, {"tables": "runs"}, {}, {"tables": ["runs"] * 6}],
    ids=json.dumps,
)
def test_a_request_for_other_tables_is_refused(node: InProcessNode, body: Any) -> None:
    _, driver = node.start_session()
    status, problem = post(driver, body)
    assert (status, problem["code"]) == (400, "invalid_request")
