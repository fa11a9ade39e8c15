"""Results over HTTP: formats, chunks, and results that are not, or no longer, there."""

from __future__ import annotations

import io
import shutil
from decimal import Decimal
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.in_process_node import InProcessNode
from tests.support.made_results import inline_result, stored_result

from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.result import ResultReport
from headrace.store import results

ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"

COLUMNS = [("n", "long"), ("d", "decimal(10,2)"), ("s", "string")]
ROWS = [[2**60, Decimal("1.50"), "a,b"], [None, None, 'say "ä"'], [3, Decimal("-0.01"), ""]]


def ended(node: InProcessNode, result: ResultReport) -> str:
    """The id of a statement that ended with this result."""
    session_id, driver = node.driven_session()
    statement_id: str = node.submit(session=session_id)["id"]
    driver.claim()
    assert driver.succeed(statement_id, result).applied
    return statement_id


def get(
    node: InProcessNode, statement_id: str, accept: str = "*/*", **query: str
) -> httpx.Response:
    return node.http.get(
        f"/api/v1/statements/{statement_id}/result", params=query, headers={"Accept": accept}
    )


def arrow_rows(response: httpx.Response) -> list[dict[str, object]]:
    with pa.ipc.open_stream(response.content) as stream:
        rows: list[dict[str, object]] = stream.read_all().to_pylist()
        return rows


@pytest.fixture(scope="module")
def small(node: InProcessNode) -> str:
    """A statement with a result in the store's row."""
    return ended(node, inline_result(COLUMNS, ROWS))


@pytest.fixture(scope="module")
def chunked(node: InProcessNode, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A statement with a stored result of three chunks, a part each."""
    place = tmp_path_factory.mktemp("results") / "one"
    parts = [[[0], [1]], [[2], [3]], [[4]]]
    return ended(node, stored_result(place, [("n", "long")], parts, chunk_limit=1))


def test_json_is_the_default(node: InProcessNode, small: str) -> None:
    response = get(node, small)
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


def test_numbers_may_be_plain_where_they_are_exact(node: InProcessNode, small: str) -> None:
    rows = get(node, small, numbers="plain").json()["rows"]
    assert rows == [[str(2**60), 1.5, "a,b"], [None, None, 'say "ä"'], [3, -0.01, ""]]


def test_numbers_may_be_numbers_always(node: InProcessNode, small: str) -> None:
    rows = get(node, small, numbers="always").json()["rows"]
    assert rows == [[2**60, 1.5, "a,b"], [None, None, 'say "ä"'], [3, -0.01, ""]]


def test_a_result_is_read_any_number_of_times(node: InProcessNode, small: str) -> None:
    assert get(node, small).content == get(node, small).content


@pytest.mark.parametrize("by", ["format", "accept"])
def test_arrow(node: InProcessNode, small: str, by: str) -> None:
    response = get(node, small, format="arrow") if by == "format" else get(node, small, ARROW)
    assert response.headers["content-type"] == ARROW
    assert [list(row.values()) for row in arrow_rows(response)] == ROWS


@pytest.mark.parametrize("by", ["format", "accept"])
def test_csv(node: InProcessNode, small: str, by: str) -> None:
    response = get(node, small, format="csv") if by == "format" else get(node, small, "text/csv")
    assert response.headers["content-type"].partition(";")[0] == "text/csv"
    assert response.text == f'n,d,s\r\n{2**60},1.50,"a,b"\r\n,,"say ""ä"""\r\n3,-0.01,""\r\n'


@pytest.mark.parametrize("by", ["format", "accept"])
def test_parquet(node: InProcessNode, small: str, by: str) -> None:
    response = get(node, small, format="parquet") if by == "format" else get(node, small, PARQUET)
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
def test_accept_is_negotiated(node: InProcessNode, small: str, accept: str, expected: str) -> None:
    response = get(node, small, accept)
    assert response.status_code == 200
    assert response.headers["content-type"].partition(";")[0] == expected


def test_format_wins_over_accept(node: InProcessNode, small: str) -> None:
    assert get(node, small, ARROW, format="json").headers["content-type"] == "application/json"


@pytest.mark.parametrize("accept", ["image/png", "application/json;q=0", "nonsense"])
def test_what_cannot_be_accepted_is_406(node: InProcessNode, small: str, accept: str) -> None:
    response = get(node, small, accept)
    assert (response.status_code, response.json()["code"]) == (406, "not_acceptable")
    assert ARROW in response.json()["detail"]


def test_an_unknown_format_is_refused(node: InProcessNode, small: str) -> None:
    response = get(node, small, format="xml")
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
    assert "'parquet'" in response.json()["detail"]


def test_a_format_that_cannot_hold_a_column_names_it(node: InProcessNode) -> None:
    statement_id = ended(node, inline_result([("a", "integer"), ("A", "integer")], [[1, 2]]))
    response = get(node, statement_id, format="parquet")
    assert (response.status_code, response.json()["code"]) == (406, "format_cannot_hold")
    assert "'A'" in response.json()["detail"]
    assert get(node, statement_id).json()["rows"] == [[1, 2]]


def test_json_is_paged_by_chunk(node: InProcessNode, chunked: str) -> None:
    assert node.statement(chunked)["result"]["chunks"] == 3
    rows, chunk = [], 0
    while chunk is not None:
        page = get(node, chunked, chunk=str(chunk)).json()
        assert page["chunk"] == chunk
        rows += page["rows"]
        chunk = page["next_chunk"]
    assert rows == [["0"], ["1"], ["2"], ["3"], ["4"]]
    assert get(node, chunked).json()["next_chunk"] == 1


def test_other_formats_are_whole_unless_a_chunk_is_asked_for(
    node: InProcessNode, chunked: str
) -> None:
    assert [row["n"] for row in arrow_rows(get(node, chunked, ARROW))] == [0, 1, 2, 3, 4]
    assert [row["n"] for row in arrow_rows(get(node, chunked, ARROW, chunk="1"))] == [2, 3]
    assert get(node, chunked, "text/csv").text == "n\r\n0\r\n1\r\n2\r\n3\r\n4\r\n"


@pytest.mark.parametrize("format_", ["json", "arrow", "csv", "parquet"])
def test_a_chunk_that_is_not_there_is_404(node: InProcessNode, chunked: str, format_: str) -> None:
    response = get(node, chunked, format=format_, chunk="3")
    assert (response.status_code, response.json()["code"]) == (404, "chunk_not_found")


@pytest.mark.parametrize("chunk", ["-1", "x", "99999999999999999999"])
def test_a_chunk_is_a_number(node: InProcessNode, chunked: str, chunk: str) -> None:
    response = get(node, chunked, chunk=chunk)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")


def test_a_large_result_is_streamed_whole(node: InProcessNode, tmp_path: Path) -> None:
    parts = [[[n * 20_000 + m] for m in range(20_000)] for n in range(10)]
    report = stored_result(tmp_path / "large", [("n", "long")], parts, chunk_limit=64 * 1024)
    statement_id = ended(node, report)
    with node.http.stream("GET", f"/api/v1/statements/{statement_id}/result?format=csv") as answer:
        assert "content-length" not in answer.headers
        lines = list(answer.iter_lines())
    assert lines == ["n", *map(str, range(200_000))]


def test_a_cut_result_says_so(node: InProcessNode, small: str) -> None:
    cut = ended(node, inline_result([("n", "integer")], [[1]], truncated=True))
    assert node.statement(cut)["result"]["truncated"] is True
    assert get(node, cut).headers["x-headrace-truncated"] == "true"
    assert get(node, small).headers["x-headrace-truncated"] == "false"


@pytest.mark.parametrize("format_", ["json", "arrow", "csv", "parquet"])
def test_before_the_end_there_is_no_result_yet(node: InProcessNode, format_: str) -> None:
    statement_id = node.submit()["id"]
    response = get(node, statement_id, format=format_)
    assert (response.status_code, response.json()["code"]) == (409, "result_not_ready")
    assert "waiting" in response.json()["detail"]


@pytest.mark.parametrize("state", [StatementState.FAILED, StatementState.TIMEOUT])
def test_what_failed_has_no_result(node: InProcessNode, state: StatementState) -> None:
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    driver.report_end(statement_id, state, failure=Failure(code="x", message="no"))
    response = get(node, statement_id)
    assert (response.status_code, response.json()["code"]) == (409, "no_result")
    assert state in response.json()["detail"]


def test_a_result_whose_time_is_over_is_gone(node: InProcessNode) -> None:
    statement_id = ended(node, inline_result(COLUMNS, ROWS))
    with node.database.write("test") as tx:
        results.mark_gone(tx, statement_id)
    for format_ in ("json", "arrow", "csv", "parquet"):
        response = get(node, statement_id, format=format_)
        assert (response.status_code, response.json()["code"]) == (410, "result_gone")
    kept = node.statement(statement_id)["result"]
    assert (kept["gone"], kept["row_count"], len(kept["schema"])) == (True, 3, 3)


def test_a_stored_result_whose_files_are_gone_is_gone(node: InProcessNode, tmp_path: Path) -> None:
    place = tmp_path / "lost"
    statement_id = ended(node, stored_result(place, [("n", "long")], [[[1]]], chunk_limit=1))
    shutil.rmtree(place)
    for format_ in ("json", "arrow", "csv", "parquet"):
        response = get(node, statement_id, format=format_)
        assert (response.status_code, response.json()["code"]) == (410, "result_gone")


def test_a_lost_part_is_told_before_anything_is_sent(node: InProcessNode, tmp_path: Path) -> None:
    place = tmp_path / "holed"
    parts = [[[1]], [[2]]]
    statement_id = ended(node, stored_result(place, [("n", "long")], parts, chunk_limit=1))
    (place / "part-00001.arrow").unlink()
    for format_ in ("arrow", "csv", "parquet"):
        response = get(node, statement_id, format=format_)
        assert (response.status_code, response.json()["code"]) == (410, "result_gone")
    assert get(node, statement_id, chunk="0").json()["rows"] == [["1"]]


def test_a_damaged_part_is_no_answer(node: InProcessNode, tmp_path: Path) -> None:
    place = tmp_path / "damaged"
    statement_id = ended(node, stored_result(place, [("n", "long")], [[[1]]], chunk_limit=1))
    (place / "part-00000.arrow").write_bytes(b"nonsense")
    response = get(node, statement_id)
    assert (response.status_code, response.json()["code"]) == (503, "results_unavailable")
    assert "part-00000.arrow" in response.json()["detail"]


def test_rows_without_columns_and_no_rows(node: InProcessNode) -> None:
    empty = ended(node, inline_result([], []))
    assert get(node, empty).json() == {"schema": [], "rows": [], "chunk": 0, "next_chunk": None}
    none = ended(node, inline_result([("a", "string")], []))
    assert get(node, none).json()["rows"] == []
    assert get(node, none, "text/csv").text == "a\r\n"
