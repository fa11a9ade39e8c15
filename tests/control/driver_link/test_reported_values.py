"""Values in a driver's report are bounded, and a wrong one changes nothing but its statement."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pyarrow as pa
import pytest
from tests.support.in_process_node import InProcessNode
from tests.support.made_results import inline_result, spark_schema
from tests.support.node_client import Json
from tests.support.scripted_driver import ScriptedDriver

from headrace.model.messages import LINK_PREFIX
from headrace.model.session import EntryForm, Snapshot, SnapshotEntry
from headrace.results.layout import build_stored_schema
from headrace.results.schema import parse_schema

COLUMNS = [("n", "long"), ("s", "string")]
ROWS = [[1, "a"], [2, "bc"]]


def start(node: InProcessNode) -> tuple[str, ScriptedDriver]:
    session_id, driver = node.start_session()
    statement_id: str = node.submit(session=session_id)["id"]
    driver.claim()
    return statement_id, driver


def make_report(statement_id: str, **changes: Any) -> Json:
    result = json.loads(inline_result(COLUMNS, ROWS).model_dump_json())
    return {"statement_id": statement_id, "state": "success", "result": {**result, **changes}}


def post(driver: ScriptedDriver, call: str, body: Any) -> tuple[int, Json]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = driver._client.post(f"/{call}", content=content)
    return response.status_code, response.json()


def make_stream(schema: pa.Schema, batch: pa.RecordBatch, **options: Any) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(**options)) as stream:
        stream.write_batch(batch)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode()


def patch_offsets(*offsets: int) -> str:
    """Return rows with other string offsets."""
    report = inline_result(COLUMNS, ROWS)
    assert report.data is not None
    original = struct.pack("<iii", 0, 1, 3)
    assert report.data.count(original) == 1
    forged = report.data.replace(original, struct.pack("<iii", *offsets))
    return base64.b64encode(forged).decode()


def make_voids(count: int) -> Json:
    """Return the report of one array of nulls, which need no bytes."""
    kind = {"type": "array", "elementType": "void", "containsNull": True}
    columns = spark_schema([("v", kind)])
    voids = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), pa.nulls(count))
    batch = pa.record_batch([voids], schema=build_stored_schema(parse_schema(columns)))
    return {
        "spark_schema": columns,
        "data": make_stream(batch.schema, batch),
        "row_count": 1,
    }


_OTHER = pa.record_batch([pa.array([1, 2], pa.int32()), pa.array(["a", "b"])], names=["_0", "_1"])
_SAME = pa.record_batch([pa.array([1, 2], pa.int64()), pa.array(["a", "b"])], names=["_0", "_1"])
_UNSIGNED = pa.record_batch([pa.array([1, 2], pa.uint64()), pa.array(["a", "b"])], ["_0", "_1"])
_CODED = pa.record_batch(
    [pa.array([1, 2], pa.int64()), pa.array(["a", "b"]).dictionary_encode()], names=["_0", "_1"]
)

MALFORMED = {
    "offsets beyond the values": {"data": patch_offsets(0, 1, 2**30)},
    "offsets that fall": {"data": patch_offsets(3, 1, 3)},
    "values without bytes": make_voids(2**25),
    "part of an interval": json.loads(
        inline_result([("i", "interval")], [[{"_0": None, "_1": 1, "_2": 2}]]).model_dump_json()
    ),
    "another type of the same layout": {"data": make_stream(_UNSIGNED.schema, _UNSIGNED)},
    "no Arrow": {"data": base64.b64encode(b"no Arrow").decode()},
    "empty": {"data": ""},
    "another type": {"data": make_stream(_OTHER.schema, _OTHER)},
    "compressed": {"data": make_stream(_SAME.schema, _SAME, compression="zstd")},
    "dictionary": {"data": make_stream(_CODED.schema, _CODED)},
    "row count": {"row_count": 3},
    "no schema": {"spark_schema": {}},
    "no fields": {"spark_schema": {"type": "struct", "fields": None}},
    "name is a number": {"spark_schema": spark_schema([(1, "long"), ("s", "string")])},  # type: ignore[list-item]
    "unknown type": {"spark_schema": spark_schema([("n", "fruit"), ("s", "string")])},
    "huge decimal": {"spark_schema": spark_schema([("n", "decimal(99,0)"), ("s", "string")])},
}


@pytest.mark.finding("S3")
@pytest.mark.parametrize("changes", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_result_fails_its_statement_only(
    node: InProcessNode, changes: dict[str, Any]
) -> None:
    statement_id, driver = start(node)
    assert post(driver, "ended", make_report(statement_id, **changes)) == (200, {"applied": True})
    statement = node.statement(statement_id)
    assert (statement["state"], statement["error"]["code"]) == ("failed", "invalid_result")
    assert node.http.get("/api/v1/statements").status_code == 200
    assert driver.renew().applied


@pytest.mark.finding("S9")
@pytest.mark.parametrize(
    "changes",
    [
        {"row_count": 2**63},
        {"row_count": -1},
        {"row_count": 1.5},
        {"byte_count": 2**63},
        {"chunks": 2**31},
        {"chunks": -1},
        {"disposition": "auto"},
        {"data": None},
        {"disposition": "stored"},
    ],
    ids=json.dumps,
)
def test_numbers_out_of_bounds_are_refused(node: InProcessNode, changes: dict[str, Any]) -> None:
    statement_id, driver = start(node)
    status, problem = post(driver, "ended", make_report(statement_id, **changes))
    assert (status, problem["code"]) == (400, "invalid_request")
    assert node.statement(statement_id)["state"] == "launched"
    assert driver.succeed(statement_id).applied


@pytest.mark.finding("S9")
def test_a_bad_row_in_the_store_never_fails_a_page(node: InProcessNode) -> None:
    statement_id, driver = start(node)
    driver.succeed(statement_id)
    with node.database.write("test") as tx:
        for change in (
            "UPDATE results SET spark_schema = '{}', row_count = -1",
            """UPDATE statements SET failure = '{"code": 7}', progress = '[]'""",
        ):
            key = "statement_id" if "results" in change else "id"
            tx.connection.exec_driver_sql(f"{change} WHERE {key} = '{statement_id}'")
    page = node.http.get("/api/v1/statements", params={"limit": 1})
    assert page.status_code == 200
    assert page.json()["items"][0]["id"] == statement_id
    assert node.statement(statement_id)["result"]["schema"] == []


@pytest.mark.finding("S15")
@pytest.mark.parametrize(
    "path",
    [
        "se_%00/1/poll",
        "{session}%00/1/poll",
        "{session}/1%00/poll",
        "{session}/-1/poll",
        f"{{session}}/{'9' * 5000}/poll",
        "{session}/9999999999/poll",
        "{session}/1/%00",
        "%ff/1/poll",
    ],
)
def test_a_forged_path_is_not_found(node: InProcessNode, path: str) -> None:
    session_id, driver = node.start_session()
    for headers in ({}, {"Authorization": f"Bearer {driver.bootstrap.token}"}):
        response = node.http.post(
            f"{LINK_PREFIX}/{path.format(session=session_id)}", content=b"{}", headers=headers
        )
        assert response.status_code == 404


@pytest.mark.finding("S15")
@pytest.mark.parametrize(
    ("call", "body"),
    [
        ("started", {"statement_id": "st_\0"}),
        ("poll", {"wait_seconds": 0, "in_flight": ["\0"]}),
        ("renew", b'{"streams": ' + b"9" * 5000 + b"}"),
        ("renew", {"streams": 2**31}),
        ("recover", {"identities": ["\0"]}),
        ("hello", b'{"pid": 1, "x": ' + b"[" * 100_000 + b"}"),
        ("advanced", {"progress": {"\0": {}}}),
        ("ended", b'{"ran_seconds": 1e308}'),
        ("ended", b"\xff\0"),
        ("goodbye", {"failure": {"code": "\0", "message": "x"}}),
    ],
)
def test_forged_text_and_numbers_are_refused(node: InProcessNode, call: str, body: Any) -> None:
    _session_id, driver = node.start_session()
    status, problem = post(driver, call, body)
    assert (status, problem["code"]) == (400, "invalid_request")
    assert driver.renew().applied


@pytest.mark.finding("S15")
def test_a_message_with_nul_is_kept_readable(node: InProcessNode) -> None:
    statement_id, driver = start(node)
    failure = {"code": "execution_error", "message": "a\0b"}
    body = {"statement_id": statement_id, "state": "failed", "failure": failure, "note": "\0"}
    assert post(driver, "ended", body) == (200, {"applied": True})
    assert node.statement(statement_id)["error"]["message"] == "a\N{REPLACEMENT CHARACTER}b"


@pytest.mark.finding("S8")
def test_a_long_message_is_cut(node: InProcessNode) -> None:
    statement_id, driver = start(node)
    failure = {"code": "execution_error", "message": "m" * 2_000_000, "trace": "t" * 2_000_000}
    body = {"statement_id": statement_id, "state": "failed", "failure": failure}
    assert post(driver, "ended", body) == (200, {"applied": True})
    message = node.statement(statement_id)["error"]["message"]
    assert len(message) == 64 * 1024
    assert message.endswith("[cut]")


@pytest.mark.finding("S8")
@pytest.mark.parametrize(
    ("call", "body"),
    [
        ("transact", b'"' + b"x" * (16 * 1024 * 1024) + b'"'),
        ("ended", b'"' + b"x" * (16 * 1024 * 1024) + b'"'),
        ("renew", b'"' + b"x" * (1024 * 1024) + b'"'),
        ("ended", b"[" + b"0," * 600_000 + b"0]"),
    ],
)
def test_a_report_above_the_limit_is_refused_and_nothing_ends(
    node: InProcessNode, call: str, body: bytes
) -> None:
    statement_id, driver = start(node)
    status, problem = post(driver, call, body)
    assert (status, problem["code"]) == (413, "report_too_large")
    assert node.statement(statement_id)["state"] == "launched"
    assert driver.renew().applied
    assert driver.succeed(statement_id).applied


@pytest.mark.finding("S8")
def test_a_list_has_the_start_of_a_long_failure(node: InProcessNode) -> None:
    statement_id, driver = start(node)
    failure = {"code": "execution_error", "message": "m" * 64 * 1024}
    post(driver, "ended", {"statement_id": statement_id, "state": "failed", "failure": failure})
    assert len(node.statement(statement_id)["error"]["message"]) == 64 * 1024
    query: dict[str, Any] = {"session": driver.bootstrap.session_id}
    [item] = node.http.get("/api/v1/statements", params=query).json()["items"]
    assert len(item["error"]["message"]) == 1000
    assert item["error"]["message"].endswith("[cut]")


@pytest.mark.finding("S8")
def test_a_page_of_long_statements_stays_bounded(node: InProcessNode) -> None:
    session_id = node.session()
    text = f"SELECT '{'x' * 900_000}'"
    ids = [node.submit(text, session=session_id)["id"] for _ in range(12)]
    pages, query = [], {"limit": 1000, "session": session_id}
    while not pages or query["before"] is not None:
        page = node.http.get("/api/v1/statements", params=query)
        assert len(page.content) < 5 * 1024 * 1024
        pages.append([item["id"] for item in page.json()["items"]])
        query["before"] = page.json()["next"]
    assert [each for page in pages for each in page] == ids[::-1]
    assert len(pages) == 3


@pytest.mark.finding("B13")
def test_a_node_ignores_fields_that_it_does_not_know(node: InProcessNode) -> None:
    statement_id, driver = start(node)
    status, renewed = post(driver, "renew", {"streams": 0, "later": [1]})
    assert (status, renewed["applied"], renewed["nodes"]) == (200, True, [node.address])
    report = make_report(statement_id, later={"a": 1}) | {"later": 1}
    assert post(driver, "ended", report) == (200, {"applied": True})
    assert node.statement(statement_id)["state"] == "success"


@pytest.mark.finding("B13")
def test_a_driver_ignores_fields_that_it_does_not_know() -> None:
    from headrace.model.messages import Assignment, Restored

    text = """{"statement_id": "st_1", "text": "SELECT 1", "parameters": [{"value": 1, "later": 2}],
               "conf": {}, "result_request": {"later": 1}, "is_query": true, "attempt": 1,
               "later": {}}"""
    assert Assignment.model_validate_json(text).attempt == 1
    snapshot = """{"snapshot": {"catalog": "c", "namespace": [], "later": 1,
                   "views": [{"name": "v", "form": "sql", "body": "x", "later": 1}]}}"""
    assert Restored.model_validate_json(snapshot).snapshot is not None


@pytest.mark.finding("B13")
@pytest.mark.parametrize(("version", "status"), [(4, 200), (3, 200), (2, 200), (1, 400)])
def test_a_node_accepts_drivers_one_version_older(
    node: InProcessNode, monkeypatch: pytest.MonkeyPatch, version: int, status: int
) -> None:
    monkeypatch.setattr("headrace.control.driver_link.service.LINK_VERSION", 3)
    driver = node.launcher.connect_driver(node.session())
    hello = {"pid": 1, "spark_version": "4", "application_id": "a", "ui_url": None}
    body = {**hello, "keeps_tables": True, "link_version": version}
    answer, problem = post(driver, "hello", body)
    assert answer == status
    if status == 400:
        assert problem["code"] == "link_version_unsupported"


@pytest.mark.finding("S8")
def test_commas_in_the_text_of_views_are_not_values(node: InProcessNode) -> None:
    statement_id, driver = start(node)
    body = f"CREATE TEMPORARY VIEW v AS SELECT x IN ({', '.join(['1'] * 200_000)}) FROM t"
    entries = [SnapshotEntry(name=name, form=EntryForm.SQL, body=body) for name in "uvw"]
    snapshot = Snapshot(catalog="spark_catalog", namespace=["default"], views=entries)
    assert driver.succeed(statement_id, snapshot=snapshot).applied
    assert driver.restore().snapshot == snapshot


@pytest.mark.finding("U9")
@pytest.mark.parametrize(
    ("reported", "zone"),
    [
        ("Europe/Paris", "Europe/Paris"),
        ("+02:00", "+02:00"),
        ("-18:00", "-18:00"),
        ("GMT+2", "GMT+2"),
        ("../../etc/passwd", None),
        ("/etc/localtime", None),
        ("Europe/Paris\x1b[2J", None),
        ("x" * 65, None),
        ("", None),
        (7, None),
        (None, None),
        ({"zone": ["UTC"] * 1000}, None),
    ],
    ids=str,
)
def test_a_time_zone_that_cannot_be_one_is_ignored(
    node: InProcessNode, reported: Any, zone: str | None
) -> None:
    statement_id, driver = start(node)
    status, _ = post(driver, "ended", make_report(statement_id, time_zone=reported))
    assert status == 200
    ended = node.statement(statement_id)
    assert (ended["state"], ended["result"]["time_zone"]) == ("success", zone)
    assert [column["name"] for column in ended["result"]["schema"]] == ["n", "s"]
