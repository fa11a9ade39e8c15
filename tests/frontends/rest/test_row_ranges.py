"""Ranges of rows over HTTP: `offset` and `limit` beside chunks."""

from __future__ import annotations

import io

import pyarrow.parquet as pq
import pytest
from tests.frontends.rest.test_result_responses import (
    COLUMNS,
    ROWS,
    complete_statement,
    read_arrow_rows,
    read_result,
    store_rows,
)
from tests.support.in_process_node import InProcessNode
from tests.support.made_results import inline_result

pytestmark = pytest.mark.finding("U10")


@pytest.fixture(scope="module")
def inline(node: InProcessNode) -> str:
    return complete_statement(node, inline_result(COLUMNS, ROWS))


@pytest.fixture(scope="module")
def chunked(node: InProcessNode) -> str:
    """Return a statement with a stored result of three parts, which are three chunks."""
    return store_rows(node, [[[0], [1]], [[2], [3]], [[4]]])[0]


@pytest.mark.parametrize("kind", ["inline", "chunked"])
def test_a_range_of_rows_is_read_in_every_format(
    node: InProcessNode, request: pytest.FixtureRequest, kind: str
) -> None:
    statement_id: str = request.getfixturevalue(kind)
    everything = read_arrow_rows(read_result(node, statement_id, format="arrow"))
    for offset in range(len(everything) + 2):
        for limit in range(1, len(everything) + 2):
            page = {"offset": str(offset), "limit": str(limit)}
            expected = everything[offset : offset + limit]
            response = read_result(node, statement_id, format="arrow", **page)
            assert read_arrow_rows(response) == expected
            following = offset + limit if offset + limit < len(everything) else None
            header = None if following is None else str(following)
            assert response.headers.get("X-Headrace-Next-Offset") == header
            document = read_result(node, statement_id, **page).json()
            assert set(document) == {"schema", "rows", "offset", "next_offset"}
            assert (document["offset"], document["next_offset"]) == (offset, following)
            assert [row[0] for row in document["rows"]] == [
                None if row["n"] is None else str(row["n"]) for row in expected
            ]
            parquet = read_result(node, statement_id, format="parquet", **page)
            assert pq.read_table(io.BytesIO(parquet.content)).num_rows == len(expected)
            csv = read_result(node, statement_id, format="csv", **page)
            assert csv.text.count("\r\n") == len(expected) + 1


def test_a_range_has_defaults_for_both_of_its_parameters(node: InProcessNode, chunked: str) -> None:
    assert read_result(node, chunked, limit="2").json()["rows"] == [["0"], ["1"]]
    assert read_result(node, chunked, offset="3").json()["rows"] == [["3"], ["4"]]
    many = store_rows(node, [[[number] for number in range(1200)]])[0]
    page = read_result(node, many, offset="0").json()
    assert (len(page["rows"]), page["next_offset"]) == (1000, 1000)


@pytest.mark.parametrize(
    "query",
    [
        {"offset": "-1"},
        {"offset": str(2**63)},
        {"offset": "x"},
        {"offset": "1.5"},
        {"limit": "0"},
        {"limit": "-1"},
        {"limit": "100001"},
        {"offset": "0", "chunk": "0"},
        {"limit": "10", "chunk": "1"},
    ],
)
def test_a_range_that_is_not_valid_is_refused(
    node: InProcessNode, chunked: str, query: dict[str, str]
) -> None:
    response = read_result(node, chunked, **query)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
    assert next(iter(query)) in response.json()["detail"] + response.json().get("hint", "")


def test_a_range_of_a_truncated_result_says_so(node: InProcessNode) -> None:
    statement_id = complete_statement(node, inline_result(COLUMNS, ROWS, truncated=True))
    response = read_result(node, statement_id, offset="1")
    assert response.headers["X-Headrace-Truncated"] == "true"
