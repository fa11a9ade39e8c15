"""The node stores the lineage that a driver reports, within bounds, and without credentials."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.in_process_node import InProcessNode
from tests.support.made_results import inline_result
from tests.support.node_client import Json
from tests.support.scripted_driver import ScriptedDriver

from headrace.model.lineage import TableUse
from headrace.store import lineage

TABLE = {"direction": "read", "catalog": "spark_catalog", "namespace": ["default"], "name": "t"}
WRITTEN = {**TABLE, "direction": "write", "name": "u", "columns": ["a"]}


def start(node: InProcessNode, text: str) -> tuple[str, ScriptedDriver]:
    session_id, driver = node.start_session()
    statement_id: str = node.submit(text, session=session_id)["id"]
    driver.claim()
    return statement_id, driver


def report(driver: ScriptedDriver, statement_id: str, tables: Any) -> tuple[int, Json]:
    result = json.loads(inline_result([], []).model_dump_json())
    body = {"statement_id": statement_id, "state": "success", "result": result, "lineage": tables}
    response = driver._client.post("/ended", content=json.dumps(body).encode())
    return response.status_code, response.json()


def list_tables(node: InProcessNode, statement_id: str) -> list[TableUse]:
    with node.database.read() as tx:
        return lineage.list_of_statement(tx, statement_id)


def test_the_tables_of_a_write_are_stored_with_its_end(node: InProcessNode) -> None:
    statement_id, driver = start(node, "INSERT INTO u SELECT a FROM t")
    for _ in range(2):
        assert report(driver, statement_id, [TABLE, WRITTEN])[0] == 200
    expected = [TableUse.model_validate(table) for table in (TABLE, WRITTEN)]
    assert list_tables(node, statement_id) == expected


def test_a_query_writes_no_table_whatever_its_driver_reports(node: InProcessNode) -> None:
    statement_id, driver = start(node, "SELECT a FROM t")
    assert report(driver, statement_id, [TABLE, WRITTEN])[0] == 200
    assert [use.display_name for use in list_tables(node, statement_id)] == [
        "spark_catalog.default.t"
    ]


def test_a_location_is_stored_without_credentials(node: InProcessNode) -> None:
    url = "jdbc:postgresql://ada:pw-1@db:5432/shop?user=ada&password=pw-2"
    statement_id, driver = start(node, "SELECT 1")
    assert report(driver, statement_id, [{"direction": "read", "location": url}])[0] == 200
    assert [use.location for use in list_tables(node, statement_id)] == [
        "jdbc:postgresql://db:5432/shop"
    ]


HOSTILE = {
    "too many tables": [TABLE] * 201,
    "too many columns": [{**TABLE, "columns": ["c"] * 501}],
    "a long name": [{**TABLE, "name": "t" * 256}],
    "a long column": [{**TABLE, "columns": ["c" * 256]}],
    "a long location": [{"direction": "read", "location": "/" + "p" * 1024}],
    "a long key": [{**TABLE, "namespace": ["n" * 255] * 8}],
    "a deep namespace": [{**TABLE, "namespace": ["n"] * 9}],
    "no name": [{"direction": "read"}],
    "an empty name": [{**TABLE, "name": ""}],
    "NUL": [{**TABLE, "name": "t\0"}],
    "another direction": [{**TABLE, "direction": "own"}],
    "a name that is a list": [{**TABLE, "name": ["t"]}],
    "no list": {"tables": []},
    "a negative number": [{**TABLE, "columns_omitted": -1}],
}


@pytest.mark.parametrize("tables", HOSTILE.values(), ids=HOSTILE.keys())
def test_lineage_out_of_bounds_is_refused(node: InProcessNode, tables: Any) -> None:
    statement_id, driver = start(node, "INSERT INTO u SELECT a FROM t")
    status, problem = report(driver, statement_id, tables)
    assert (status, problem["code"]) == (400, "invalid_request")
    assert node.statement(statement_id)["state"] == "launched"
    assert list_tables(node, statement_id) == []


def test_the_lineage_of_a_statement_of_another_session_is_not_stored(node: InProcessNode) -> None:
    statement_id, _ = start(node, "INSERT INTO u SELECT a FROM t")
    _, stranger = node.start_session(name="other")
    assert report(stranger, statement_id, [WRITTEN]) == (200, {"applied": False})
    assert list_tables(node, statement_id) == []
