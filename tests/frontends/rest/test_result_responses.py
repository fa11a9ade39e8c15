"""Results over HTTP: formats, chunks, and results that do not exist yet or any more."""

from __future__ import annotations

import io
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.auto_reply import AutoReplyLauncher
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.made_results import inline_result, stored_result

from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.result import ResultReport
from headrace.store.statements import results

ARROW = "application/vnd.apache.arrow.stream"
ARROW_FILE = "application/vnd.apache.arrow.file"
PARQUET = "application/vnd.apache.parquet"

COLUMNS = [("n", "long"), ("d", "decimal(10,2)"), ("s", "string")]
ROWS = [[2**60, Decimal("1.50"), "a,b"], [None, None, 'say "ä"'], [3, Decimal("-0.01"), ""]]


def complete_statement(node: InProcessNode, result: ResultReport) -> str:
    """Submit a statement, let it succeed with a result, and return its id."""
    session_id, driver = node.start_session()
    statement_id: str = node.submit(session=session_id)["id"]
    driver.claim()
    assert driver.succeed(statement_id, result).applied
    return statement_id


def store_rows(
    node: InProcessNode, parts: list[list[list[int]]], *, chunk_limit: int = 1
) -> tuple[str, Path]:
    """Let a statement succeed with a stored result; return its id and the folder of the files."""
    session_id, driver = node.start_session()
    statement_id: str = node.submit(session=session_id)["id"]
    location = driver.claim().result_location
    assert location is not None
    report = stored_result(Path(location), [("n", "long")], parts, chunk_limit=chunk_limit)
    assert driver.succeed(statement_id, report).applied
    return statement_id, Path(location)


def read_result(
    node: InProcessNode, statement_id: str, accept: str = "*/*", **query: str
) -> httpx.Response:
    return node.http.get(
        f"/api/v1/statements/{statement_id}/result", params=query, headers={"Accept": accept}
    )


def read_arrow_rows(response: httpx.Response) -> list[dict[str, object]]:
    with pa.ipc.open_stream(response.content) as stream:
        rows: list[dict[str, object]] = stream.read_all().to_pylist()
        return rows


@pytest.fixture(scope="module")
def inline(node: InProcessNode) -> str:
    return complete_statement(node, inline_result(COLUMNS, ROWS))


@pytest.fixture(scope="module")
def chunked(node: InProcessNode) -> str:
    """Return a statement with a stored result of three parts, which are three chunks."""
    return store_rows(node, [[[0], [1]], [[2], [3]], [[4]]])[0]


def test_json_is_the_default(node: InProcessNode, inline: str) -> None:
    response = read_result(node, inline)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {
        "schema": [
            {"name": "n", "type": "bigint"},
            {"name": "d", "type": "decimal(10,2)"},
            {"name": "s", "type": "string"},
        ],
        "rows": [[str(2**60), "1.50", "a,b"], [None, None, 'say "ä"'], ["3", "-0.01", ""]],
        "chunk": 0,
        "next_chunk": None,
    }


def test_plain_numbers_are_json_numbers_where_they_are_exact(
    node: InProcessNode, inline: str
) -> None:
    rows = read_result(node, inline, numbers="plain").json()["rows"]
    assert rows == [[str(2**60), 1.5, "a,b"], [None, None, 'say "ä"'], [3, -0.01, ""]]


def test_numbers_can_always_be_json_numbers(node: InProcessNode, inline: str) -> None:
    rows = read_result(node, inline, numbers="always").json()["rows"]
    assert rows == [[2**60, 1.5, "a,b"], [None, None, 'say "ä"'], [3, -0.01, ""]]


def test_a_result_can_be_read_many_times(node: InProcessNode, inline: str) -> None:
    assert read_result(node, inline).content == read_result(node, inline).content


@pytest.mark.parametrize("selection", [{"format": "arrow"}, {"accept": ARROW}])
def test_a_result_can_be_read_as_arrow(
    node: InProcessNode, inline: str, selection: dict[str, str]
) -> None:
    response = read_result(node, inline, **selection)
    assert response.headers["content-type"] == ARROW
    assert [list(row.values()) for row in read_arrow_rows(response)] == ROWS


@pytest.mark.parametrize("selection", [{"format": "arrow_file"}, {"accept": ARROW_FILE}])
def test_a_result_can_be_read_as_an_arrow_file(
    node: InProcessNode, inline: str, selection: dict[str, str]
) -> None:
    response = read_result(node, inline, **selection)
    assert response.headers["content-type"] == ARROW_FILE
    read = pa.ipc.open_file(response.content).read_all()
    assert [list(row.values()) for row in read.to_pylist()] == ROWS


@pytest.mark.parametrize("selection", [{"format": "csv"}, {"accept": "text/csv"}])
def test_a_result_can_be_read_as_csv(
    node: InProcessNode, inline: str, selection: dict[str, str]
) -> None:
    response = read_result(node, inline, **selection)
    assert response.headers["content-type"].partition(";")[0] == "text/csv"
    assert response.text == f'n,d,s\r\n{2**60},1.50,"a,b"\r\n,,"say ""ä"""\r\n3,-0.01,""\r\n'


@pytest.mark.parametrize("selection", [{"format": "parquet"}, {"accept": PARQUET}])
def test_a_result_can_be_read_as_parquet(
    node: InProcessNode, inline: str, selection: dict[str, str]
) -> None:
    response = read_result(node, inline, **selection)
    assert response.headers["content-type"] == PARQUET
    table = pq.read_table(io.BytesIO(response.content))
    assert [list(row.values()) for row in table.to_pylist()] == ROWS


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        ("text/*", "text/csv"),
        ("text/html, application/xhtml+xml, */*;q=0.8", "application/json"),
        (f"{ARROW}, application/json;q=0.5", ARROW),
        ("Application/JSON; charset=utf-8", "application/json"),
        (f"application/json;q=0.1, {PARQUET};q=0.9", PARQUET),
        ("text/csv;q=0, application/json", "application/json"),
    ],
)
def test_the_accept_header_selects_the_format(
    node: InProcessNode, inline: str, accept: str, expected: str
) -> None:
    response = read_result(node, inline, accept)
    assert response.status_code == 200
    assert response.headers["content-type"].partition(";")[0] == expected


def test_the_format_option_takes_precedence_over_the_accept_header(
    node: InProcessNode, inline: str
) -> None:
    response = read_result(node, inline, ARROW, format="json")
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize("accept", ["image/png", "application/json;q=0", "nonsense"])
def test_an_accept_header_without_a_known_format_gets_406(
    node: InProcessNode, inline: str, accept: str
) -> None:
    response = read_result(node, inline, accept)
    assert (response.status_code, response.json()["code"]) == (406, "not_acceptable")
    assert ARROW in response.json()["detail"]


def test_an_unknown_format_is_refused(node: InProcessNode, inline: str) -> None:
    response = read_result(node, inline, format="xml")
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
    assert "'parquet'" in response.json()["detail"]


def test_a_format_that_cannot_represent_a_column_is_refused_with_its_name(
    node: InProcessNode,
) -> None:
    statement_id = complete_statement(
        node, inline_result([("a", "integer"), ("A", "integer")], [[1, 2]])
    )
    response = read_result(node, statement_id, format="parquet")
    assert (response.status_code, response.json()["code"]) == (406, "format_cannot_hold")
    assert "'A'" in response.json()["detail"]
    assert read_result(node, statement_id).json()["rows"] == [[1, 2]]


def test_json_is_returned_one_chunk_at_a_time(node: InProcessNode, chunked: str) -> None:
    assert node.statement(chunked)["result"]["chunks"] == 3
    rows, chunk = [], 0
    while chunk is not None:
        page = read_result(node, chunked, chunk=str(chunk)).json()
        assert page["chunk"] == chunk
        rows += page["rows"]
        chunk = page["next_chunk"]
    assert rows == [["0"], ["1"], ["2"], ["3"], ["4"]]
    assert read_result(node, chunked).json()["next_chunk"] == 1


def test_other_formats_return_the_whole_result_unless_a_chunk_is_requested(
    node: InProcessNode, chunked: str
) -> None:
    rows = read_arrow_rows(read_result(node, chunked, ARROW))
    assert [row["n"] for row in rows] == [0, 1, 2, 3, 4]
    rows = read_arrow_rows(read_result(node, chunked, ARROW, chunk="1"))
    assert [row["n"] for row in rows] == [2, 3]
    assert read_result(node, chunked, "text/csv").text == "n\r\n0\r\n1\r\n2\r\n3\r\n4\r\n"


@pytest.mark.parametrize("format_", ["json", "arrow", "arrow_file", "csv", "parquet"])
def test_an_unknown_chunk_gets_404(node: InProcessNode, chunked: str, format_: str) -> None:
    response = read_result(node, chunked, format=format_, chunk="3")
    assert (response.status_code, response.json()["code"]) == (404, "chunk_not_found")


@pytest.mark.parametrize("chunk", ["-1", "x", "99999999999999999999"])
def test_an_invalid_chunk_number_is_refused(node: InProcessNode, chunked: str, chunk: str) -> None:
    response = read_result(node, chunked, chunk=chunk)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")


def test_a_large_result_is_streamed_completely(node: InProcessNode) -> None:
    parts = [[[n * 20_000 + m] for m in range(20_000)] for n in range(10)]
    statement_id, _folder = store_rows(node, parts, chunk_limit=64 * 1024)
    with node.http.stream("GET", f"/api/v1/statements/{statement_id}/result?format=csv") as answer:
        assert "content-length" not in answer.headers
        lines = list(answer.iter_lines())
    assert lines == ["n", *map(str, range(200_000))]


def test_a_truncated_result_is_marked(node: InProcessNode, inline: str) -> None:
    truncated = complete_statement(node, inline_result([("n", "integer")], [[1]], truncated=True))
    assert node.statement(truncated)["result"]["truncated"] is True
    assert read_result(node, truncated).headers["x-headrace-truncated"] == "true"
    assert read_result(node, inline).headers["x-headrace-truncated"] == "false"


@pytest.mark.parametrize("format_", ["json", "arrow", "arrow_file", "csv", "parquet"])
def test_the_result_of_a_statement_that_has_not_ended_gets_409(
    node: InProcessNode, format_: str
) -> None:
    statement_id = node.submit()["id"]
    response = read_result(node, statement_id, format=format_)
    assert (response.status_code, response.json()["code"]) == (409, "result_not_ready")
    assert "waiting" in response.json()["detail"]


def test_the_result_of_a_failed_statement_gets_409(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    failure = Failure(code="x", message="no")
    driver.report_end(statement_id, StatementState.FAILED, failure=failure)
    response = read_result(node, statement_id)
    assert (response.status_code, response.json()["code"]) == (409, "no_result")
    assert "failed" in response.json()["detail"]


def test_an_expired_result_gets_410_but_keeps_its_metadata(node: InProcessNode) -> None:
    statement_id = complete_statement(node, inline_result(COLUMNS, ROWS))
    with node.database.write("test") as tx:
        results.mark_gone(tx, statement_id)
    for format_ in ("json", "arrow", "arrow_file", "csv", "parquet"):
        response = read_result(node, statement_id, format=format_)
        assert (response.status_code, response.json()["code"]) == (410, "result_gone")
        assert "kept until 20" in response.json()["detail"]
        assert "results.retention" in response.json()["hint"]
    metadata = node.statement(statement_id)["result"]
    assert (metadata["gone"], metadata["row_count"], len(metadata["schema"])) == (True, 3, 3)


def test_a_stored_result_without_its_files_gets_410(node: InProcessNode) -> None:
    statement_id, folder = store_rows(node, [[[1]]])
    shutil.rmtree(folder)
    for format_ in ("json", "arrow", "arrow_file", "csv", "parquet"):
        response = read_result(node, statement_id, format=format_)
        assert (response.status_code, response.json()["code"]) == (410, "result_gone")


def test_a_lost_part_is_reported_before_the_first_byte(node: InProcessNode) -> None:
    statement_id, folder = store_rows(node, [[[1]], [[2]]])
    (folder / "part-00001.arrow").unlink()
    for format_ in ("arrow", "arrow_file", "csv", "parquet"):
        response = read_result(node, statement_id, format=format_)
        assert (response.status_code, response.json()["code"]) == (410, "result_gone")
    assert read_result(node, statement_id, chunk="0").json()["rows"] == [["1"]]


def test_a_damaged_part_gets_502_with_its_name(node: InProcessNode) -> None:
    statement_id, folder = store_rows(node, [[[1]]])
    (folder / "part-00000.arrow").write_bytes(b"nonsense")
    response = read_result(node, statement_id)
    assert (response.status_code, response.json()["code"]) == (502, "invalid_result")
    assert "part-00000.arrow" in response.json()["detail"]


def test_results_without_columns_or_without_rows_are_empty(node: InProcessNode) -> None:
    no_columns = complete_statement(node, inline_result([], []))
    assert read_result(node, no_columns).json() == {
        "schema": [],
        "rows": [],
        "chunk": 0,
        "next_chunk": None,
    }
    no_rows = complete_statement(node, inline_result([("a", "string")], []))
    assert read_result(node, no_rows).json()["rows"] == []
    assert read_result(node, no_rows, "text/csv").text == "a\r\n"


def make_forged_interval() -> ResultReport:
    """Return the report of an interval that has no months."""
    return inline_result([("i", "interval")], [[{"_0": None, "_1": 1, "_2": None}]])


@pytest.mark.finding("S3")
def test_a_value_without_one_of_its_parts_fails_its_statement(node: InProcessNode) -> None:
    statement_id = complete_statement(node, make_forged_interval())
    statement = node.statement(statement_id)
    assert (statement["state"], statement["error"]["code"]) == ("failed", "invalid_result")
    assert "has a null" in statement["error"]["message"]


def make_reply(result: ResultReport) -> dict[str, Any]:
    return {"state": StatementState.SUCCESS, "result": result}


def make_variant(value: bytes) -> ResultReport:
    return inline_result([("v", "variant")], [[{"_0": value, "_1": b"\x01\x00\x00"}]])


FORGED_VARIANT = make_variant(b"\x03\x02\x00\x00\x02\x0c\x01")
"""Two values of an array are at the same position."""


@pytest.mark.finding("S3")
def test_a_forged_variant_gets_502(node: InProcessNode) -> None:
    response = read_result(node, complete_statement(node, FORGED_VARIANT))
    assert (response.status_code, response.json()["code"]) == (502, "invalid_result")
    assert "Retry-After" not in response.headers


@pytest.mark.finding("S3")
def test_a_deeply_nested_variant_is_read(node: InProcessNode) -> None:
    value = b"\x00"
    for _ in range(900):
        value = bytes([3 | 3 << 2, 1]) + bytes(4) + len(value).to_bytes(4, "little") + value
    response = read_result(node, complete_statement(node, make_variant(value)))
    assert response.status_code == 200
    assert f"[[{'[' * 900}null{']' * 900}]]" in response.text


@pytest.mark.finding("S3")
def test_a_submit_returns_its_statement_even_if_the_result_cannot_be_read(
    start_node: StartNode, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that saw an error instead would submit the statement again."""
    node = start_node(AutoReplyLauncher(lambda _: make_reply(FORGED_VARIANT)))
    response = node.http.post(
        "/api/v1/statements", json={"statement": "SELECT 1", "wait_timeout": "30s"}
    )
    statement = response.json()
    assert (response.status_code, statement["state"]) == (201, "success")
    assert (statement.get("rows"), statement["next_chunk"]) == (None, 0)
    assert read_result(node, statement["id"], chunk="0").json()["code"] == "invalid_result"
    assert f"Cannot read the result of statement {statement['id']}" in caplog.text
